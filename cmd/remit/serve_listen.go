package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"remit/nexus/server"
)

// drainTime is how long requests may take after the signal to stop. What they
// commit counts; what they do not get answered is repeated with its key.
const drainTime = 10 * time.Second

// endpoint says where to listen and with which certificate. Other machines are
// not served without one.
func (f serveFlags) endpoint(ctx context.Context) (address string, config *tls.Config, err error) {
	config, err = f.tls()
	if err != nil {
		return "", nil, err
	}
	address, local, err := resolve(ctx, f.listen)
	if err != nil {
		return "", nil, usageError{fmt.Errorf("--listen %q: %w; want HOST:PORT, such as 127.0.0.1:7340", f.listen, err)}
	}
	if config == nil && !local && !f.plaintext {
		return "", nil, usagef("%s can be reached by other machines: give --tls-cert and --tls-key, or --plaintext behind a proxy that has TLS", f.listen)
	}
	return address, config, nil
}

// resolve finds the address of a HOST:PORT, and whether only this machine
// reaches it. A name is looked up here and not once more by who listens.
func resolve(ctx context.Context, listen string) (address string, local bool, err error) {
	host, service, err := net.SplitHostPort(listen)
	if err != nil {
		var wrong *net.AddrError
		if errors.As(err, &wrong) {
			err = errors.New(wrong.Err)
		}
		return "", false, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil || service == "" {
		return "", false, fmt.Errorf("%q is no port", service)
	}
	if host != "" && net.ParseIP(host) == nil {
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return "", false, fmt.Errorf("%q is no address of this machine: %w", host, err)
		}
		host = found[0]
		for _, text := range found {
			if ip := net.ParseIP(text); ip != nil && ip.To4() != nil {
				host = text // as net.Listen prefers it
				break
			}
		}
	}
	ip := net.ParseIP(host)
	return net.JoinHostPort(host, fmt.Sprint(port)), ip != nil && ip.IsLoopback(), nil
}

// tls reads the certificate, if there is one.
func (f serveFlags) tls() (*tls.Config, error) {
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return nil, usagef("--tls-cert and --tls-key go together")
	}
	if f.tlsCert == "" {
		if f.caFile != "" {
			return nil, usagef("--tls-client-ca needs --tls-cert and --tls-key")
		}
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("load the certificate: %w", err)
	}
	// HTTP/2 has no upgrade to WebSocket in the standard library; clients of
	// lanes ask for HTTP/1.1 by themselves.
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if f.caFile != "" {
		pem, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, fmt.Errorf("load the client authorities: %w", err)
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("%s holds no certificate in PEM", f.caFile)
		}
	}
	return config, nil
}

// run serves until the context ends, then drains.
func (f serveFlags) run(ctx context.Context, s *server.Server, listener net.Listener, log *slog.Logger) error {
	stopDebug, err := f.serveDebug(ctx, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer stopDebug()
	h := s.HTTPServer()
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("draining", "cause", context.Cause(ctx))
	s.Drain()
	return drain(context.WithoutCancel(ctx), h, s.InFlight, drainTime)
}

// drain waits for the requests that are running, and cuts them off after a time.
func drain(ctx context.Context, h *http.Server, inFlight func() int64, most time.Duration) error {
	quiet, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := h.Shutdown(quiet)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	cut := fmt.Errorf("drain: %d requests had not ended after %s and were cut off; what they have committed counts, and repeating them with their keys tells",
		inFlight(), most)
	return errors.Join(cut, h.Close())
}
