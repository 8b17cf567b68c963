package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"remit/nexus/server"
)

const (
	// drainTimeout is how long requests may take after the signal to stop. What they
	// commit counts; what they do not get answered is repeated with its key.
	drainTimeout = 10 * time.Second
	// drainDelay is longer than the usual pause between two looks of a load balancer.
	drainDelay = 5 * time.Second
	// maxDrain bounds both. Supervisors kill what takes longer, if not told otherwise.
	maxDrain = time.Hour
)

// completeDrain has nobody wait for a load balancer that cannot be there.
func (f *serveFlags) completeDrain(local bool) {
	if f.drainDelay >= 0 {
		return
	}
	if f.drainDelay = drainDelay; local {
		f.drainDelay = 0
	}
}

// endpoint says where to listen, and whether only this machine reaches it. Other
// machines are not served without a certificate.
func (f serveFlags) endpoint(ctx context.Context) (address string, local bool, err error) {
	address, local, err = resolve(ctx, f.listen)
	switch {
	case err != nil:
		return "", false, usageError{fmt.Errorf("--listen %q: %w; want HOST:PORT, such as 127.0.0.1:7340", f.listen, err)}
	case f.tlsCert == "" && f.tlsKey == "" && !local && !f.plaintext:
		return "", false, usagef("%s can be reached by other machines: give --tls-cert and --tls-key, or --plaintext behind a proxy that has TLS", f.listen)
	case f.drainTimeout <= 0 || f.drainTimeout > maxDrain || f.drainDelay > maxDrain:
		return "", false, usagef("--drain-delay and --drain-timeout are at most %s, and a timeout is more than 0s", maxDrain)
	}
	return address, local, nil
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

// run serves until the context ends, then drains.
func (f serveFlags) run(ctx context.Context, s *server.Server, listener net.Listener, log *slog.Logger) error {
	stop, err := f.asides(ctx, s, log)
	defer stop()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	h := s.HTTPServer()
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("draining", "cause", context.Cause(ctx), "delay", f.drainDelay.String())
	s.Unready()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-time.After(f.drainDelay): // who asks /readyz sees that this replica goes away
	}
	s.Drain()
	return drain(context.WithoutCancel(ctx), h, s.InFlight, f.drainTimeout)
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
