package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"remit/nexus/blob"
	"remit/nexus/bridge"
	"remit/nexus/identity"
	"remit/nexus/lanes"
	"remit/nexus/server"
	"remit/nexus/store"
)

// drainTime is how long requests may take after the signal to stop. What they
// commit counts; what they do not get answered is repeated with its key.
const drainTime = 10 * time.Second

type serveFlags struct {
	listen, data, store     string
	tlsCert, tlsKey, caFile string
	plaintext, verbose      bool
	debug                   string
	origins, relays         []string
	bridgeKey               string
	rate                    float64
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the nexus: the authority over runs, providers and budgets", Args: cobra.NoArgs,
		Long: `Run the nexus: HTTP API under /v1 and live lanes over WebSocket.

It prints its URL when it takes requests and, the first time that it runs on a
store, an administrator's token. The token is printed once and only its digest is
kept: put it where you keep secrets, and use it as $REMIT_TOKEN.

On one machine the store is a SQLite file in the data directory. With --store
postgres://… any number of replicas may run behind a load balancer; the data
directory then holds artifacts and has to be shared. An address that others can
reach needs TLS, or --plaintext when a proxy in front has it.

With --relay the nexus mirrors provider ads and pointers to the receipts of
settled jobs to Nostr relays, and nothing else (see remit help bridge). It signs
with one key, bridge.key in the data directory or --bridge-key, which is made at
first use; replicas of one store need the same key. A relay that is down holds up
nothing: what it has not taken waits.

SIGTERM drains: the replica becomes unready, sends its lanes away with their
cursors, ends the requests that are running, and exits.`,
		Example: `  remit serve
  remit serve --listen 0.0.0.0:7443 --tls-cert nexus.crt --tls-key nexus.key
  remit serve --store postgres://remit@db/remit --data /srv/remit
  remit serve --relay wss://relay.example.org --relay ws://10.0.0.5:7777`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7340", "address to listen on; port 0 takes a free one")
	flags.StringVar(&f.data, "data", "", "directory for the database and artifacts (default the home of remit, nexus/)")
	flags.StringVar(&f.store, "store", "", "postgres://… or sqlite:PATH (default nexus.db in the data directory)")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "certificate chain in PEM")
	flags.StringVar(&f.tlsKey, "tls-key", "", "private key in PEM")
	flags.StringVar(&f.caFile, "tls-client-ca", "", "demand client certificates of these authorities (PEM)")
	flags.BoolVar(&f.plaintext, "plaintext", false, "serve other machines without TLS, because a proxy in front has it")
	flags.StringVar(&f.debug, "debug", "", "serve profiles on this loopback address, such as 127.0.0.1:6060")
	flags.StringArrayVar(&f.origins, "origin", nil, "host[:port] of web pages that may log in and open lanes, besides this server's own (repeatable)")
	flags.StringArrayVar(&f.relays, "relay", nil, "ws:// or wss:// URL of a Nostr relay to mirror to (repeatable)")
	flags.StringVar(&f.bridgeKey, "bridge-key", "", "file with the key that signs for relays (default bridge.key in the data directory)")
	flags.Float64Var(&f.rate, "rate", server.DefaultRate.PerSecond, "requests a second that one principal may make")
	flags.BoolVar(&f.verbose, "verbose", false, "log every request")
	return cmd
}

func (a *app) serve(cmd *cobra.Command, f serveFlags) (err error) {
	tlsConfig, err := f.tls()
	if err != nil {
		return err
	}
	if f.data == "" {
		f.data = filepath.Join(a.home.Dir, "nexus")
	}
	ctx := cmd.Context()
	st, blobs, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(), blobs.Close()) }()

	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	mirror, err := f.mirror(ctx, st, log)
	if err != nil {
		return err
	}
	s := server.New(server.Options{
		Store: st, Blobs: blobs, Log: log, Version: version,
		Rate: server.Rate{PerSecond: f.rate, Burst: int(2*f.rate) + 1}, Lanes: lanes.Options{Origins: f.origins}, Mirror: mirror,
	})
	defer s.Close()
	token, err := firstToken(ctx, st)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", f.listen, err)
	}
	scheme := "http"
	if tlsConfig != nil {
		scheme, listener = "https", tls.NewListener(listener, tlsConfig)
	}
	if err := a.announce(cmd, scheme+"://"+listener.Addr().String(), token); err != nil {
		return errors.Join(err, listener.Close())
	}
	return f.run(ctx, s, listener, log)
}

// tls reads the certificate, and refuses to serve others without one.
func (f serveFlags) tls() (*tls.Config, error) {
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return nil, usagef("--tls-cert and --tls-key go together")
	}
	if f.tlsCert == "" {
		if f.caFile != "" {
			return nil, usagef("--tls-client-ca needs --tls-cert and --tls-key")
		}
		if err := server.CheckLoopback(f.listen); err != nil && !f.plaintext {
			return nil, usagef("%s can be reached by other machines: give --tls-cert and --tls-key, or --plaintext behind a proxy that has TLS", f.listen)
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

func (f serveFlags) open(ctx context.Context) (*store.Store, *blob.Dir, error) {
	if err := os.MkdirAll(f.data, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the data directory: %w", err)
	}
	dsn := f.store
	switch dsn {
	case "", "sqlite":
		dsn = "sqlite:" + filepath.Join(f.data, "nexus.db")
	}
	st, err := store.Open(ctx, dsn, store.Options{})
	if err != nil {
		return nil, nil, err
	}
	blobs, err := blob.OpenDir(filepath.Join(f.data, "artifacts"))
	if err != nil {
		return nil, nil, errors.Join(err, st.Close())
	}
	return st, blobs, nil
}

// mirror opens what publishes to relays; nil when there are none.
func (f serveFlags) mirror(ctx context.Context, st *store.Store, log *slog.Logger) (*bridge.Publisher, error) {
	if len(f.relays) == 0 {
		if f.bridgeKey != "" {
			return nil, usagef("--bridge-key needs --relay")
		}
		return nil, nil
	}
	for _, relay := range f.relays {
		if err := bridge.CheckURL(relay); err != nil {
			return nil, fmt.Errorf("--relay: %w", err)
		}
	}
	path := f.bridgeKey
	if path == "" {
		path = filepath.Join(f.data, bridge.KeyFile)
	}
	key, err := bridge.OpenKey(ctx, st, path)
	if err != nil {
		return nil, err
	}
	log.Info("mirroring", "pubkey", key.PubKey(), "relays", len(f.relays))
	return bridge.NewPublisher(st, key, f.relays, log)
}

// firstToken makes the administrator's token of a store that never had one. Of
// replicas that start together, one does.
func firstToken(ctx context.Context, st *store.Store) (text string, err error) {
	const stream, key = "nexus:setup", "admin-token"
	err = st.Update(ctx, func(tx *store.Tx) error {
		text = ""
		if _, err := tx.EventByKey(stream, key); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		secret, token, err := identity.Mint(tx, server.AdminGrant())
		if err != nil {
			return err
		}
		payload, err := json.Marshal(map[string]string{"token_id": token.ID})
		if err != nil {
			return err
		}
		text = secret
		_, err = tx.Append(store.Event{Stream: stream, Type: "admin.token_made", IdempotencyKey: key, Payload: payload, Principal: "service:setup"})
		return err
	})
	if errors.Is(err, store.ErrConflict) {
		return "", nil // another replica was faster
	}
	return text, err
}

// announce says where the nexus is, and the token of a new one.
func (a *app) announce(cmd *cobra.Command, url, token string) error {
	out := cmd.OutOrStdout()
	if a.json {
		doc := map[string]string{"url": url}
		if token != "" {
			doc["admin_token"] = token
		}
		return printJSON(out, doc)
	}
	if token != "" {
		fmt.Fprintf(out, "admin token (shown once): %s\n", token)
	}
	_, err := fmt.Fprintf(out, "nexus at %s\n", url)
	return err
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
	quiet, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := h.Shutdown(quiet); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}

// serveDebug serves profiles on a loopback address, if asked to.
func (f serveFlags) serveDebug(ctx context.Context, log *slog.Logger) (stop func(), err error) {
	if f.debug == "" {
		return func() {}, nil
	}
	if err := server.CheckLoopback(f.debug); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.debug)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", f.debug, err)
	}
	h := &http.Server{Handler: server.DebugHandler(), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("profiles", "error", err)
		}
	}()
	log.Info("profiles", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	return func() { _ = h.Close(); <-done }, nil
}
