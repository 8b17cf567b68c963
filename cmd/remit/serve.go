package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/nexus/blob"
	"remit/nexus/bridge"
	"remit/nexus/nip01"
	"remit/nexus/server"
	"remit/nexus/store"
	"remit/proof/reason"
)

type serveFlags struct {
	listen, data, store     string
	tlsCert, tlsKey, caFile string
	plaintext               bool
	debug, metrics          string
	origins, relays         []string
	bridgeKey               string
	newAdmin                bool
	showHome                bool
	adminFile               string
	logs                    logFlags
	limits                  limits
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the nexus: the authority over runs, providers and budgets", Args: cobra.NoArgs,
		Long: `Run the nexus: HTTP API under /v1, live lanes over WebSocket, and the panel: pages
for a browser at / (docs/panel.md). Log in there with a token. Where only this
machine reaches --listen, they show the sessions of this home too.

It prints its URL when it takes requests and, the first time that it runs on a
store, an administrator's token. The token is printed once and only its digest is
kept: put it where you keep secrets, and use it as $REMIT_TOKEN. With
--admin-token-file it goes to a new file of mode 0600 instead. If it is lost, remit
serve --new-admin-token makes another one and exits; the nexus must not run then,
unless it is on PostgreSQL. On a new store that is the first one.

On one machine the store is a SQLite file in the data directory. With --store
postgres://… any number of replicas may run behind a load balancer; the data
directory then holds artifacts and has to be shared. An address that others can
reach needs TLS, or --plaintext when a proxy in front has it.

With --relay the nexus mirrors provider ads and pointers to the receipts of
settled jobs to Nostr relays, and nothing else (see remit help bridge). It signs
with one key, bridge.key in the data directory or --bridge-key, which is made at
first use; replicas of one store need the same key. A relay that is down holds up
nothing: what it has not taken waits.

SIGTERM drains: /readyz says 503 and the listener stays open for --drain-delay, so
that a load balancer sees it; then the replica sends its lanes away with their
cursors, ends the requests that are running, and exits. SIGHUP reads the
certificates and --log-level-file again; what cannot be read stays as it was.

docs/nexus.md lists every limit with its default.`,
		Example: `  remit serve
  remit serve --listen 0.0.0.0:7443 --tls-cert nexus.crt --tls-key nexus.key
  remit serve --store postgres://remit@db/remit --data /srv/remit
  remit serve --new-admin-token --admin-token-file admin.token
  remit serve --log-format json --log-requests
  remit serve --relay wss://relay.example.org --relay ws://10.0.0.5:7777`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", cmp.Or(os.Getenv(envListen), defaultListen),
		"address to listen on; port 0 takes a free one (default $"+envListen+", else "+defaultListen+")")
	flags.Lookup("listen").DefValue = "" // the text says it, wherever the manual is written
	flags.StringVar(&f.data, "data", "", "directory for the database and artifacts (default the home of remit, nexus/)")
	flags.StringVar(&f.store, "store", "", "postgres://… or sqlite:PATH (default nexus.db in the data directory)")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "certificate chain in PEM")
	flags.StringVar(&f.tlsKey, "tls-key", "", "private key in PEM")
	flags.StringVar(&f.caFile, "tls-client-ca", "", "demand client certificates of these authorities (PEM)")
	flags.BoolVar(&f.plaintext, "plaintext", false, "serve other machines without TLS, because a proxy in front has it")
	flags.StringVar(&f.debug, "debug", "", "serve profiles on this loopback address, such as 127.0.0.1:6060")
	flags.StringVar(&f.metrics, "metrics-listen", "",
		"serve /metrics on this address without a token, such as 127.0.0.1:9464; let only the monitoring reach it")
	flags.StringArrayVar(&f.origins, "origin", nil, "host[:port] of web pages that may log in and open lanes, besides this server's own (repeatable)")
	flags.StringArrayVar(&f.relays, "relay", nil, "ws:// or wss:// URL of a Nostr relay to mirror to (repeatable)")
	flags.StringVar(&f.bridgeKey, "bridge-key", "", "file with the key that signs for relays (default bridge.key in the data directory)")
	flags.BoolVar(&f.newAdmin, "new-admin-token", false, "print a new administrator's token and exit; the old ones stay good")
	flags.BoolVar(&f.showHome, "show-home", false, "show the sessions of this home in the panel also where other machines reach --listen, to the scope home:read")
	flags.StringVar(&f.adminFile, "admin-token-file", "",
		"write an administrator's token that is made to this new file, mode 0600, instead of printing it")
	f.logs.add(flags)
	f.limits.add(flags)
	cmd.AddCommand(a.serveBackupCommand(), a.serveRestoreCommand(), a.serveCheckCommand(), a.serveSmokeCommand())
	return cmd
}

func (a *app) serve(cmd *cobra.Command, f serveFlags) (err error) {
	if f.data == "" {
		f.data = filepath.Join(a.home.Dir, "nexus")
	}
	if f.newAdmin {
		return a.newAdmin(cmd, f)
	}
	hangup := onHangup(cmd.Context()) // from here on SIGHUP ends nothing
	if err := errors.Join(f.limits.check(), f.logs.check()); err != nil {
		return err
	}
	address, local, err := f.endpoint(cmd.Context())
	if err != nil {
		return err
	}
	f.limits.completeDrain(local)
	certificate, err := f.tls()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	log, level, err := f.logs.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	st, blobs, err := f.open(ctx)
	if err != nil {
		return f.local(err)
	}
	defer func() { err = errors.Join(err, st.Close(), blobs.Close()) }()

	mirror, err := f.mirror(ctx, st, log)
	if err != nil {
		return f.local(err)
	}
	// Before a token is made that is shown once: a port that is taken is a
	// common slip.
	listener, err := listenOn(ctx, address, "--listen")
	if err != nil {
		return err
	}
	opt := f.limits.options()
	opt.Store, opt.Blobs, opt.Log, opt.Version, opt.Mirror, opt.Requests = st, blobs, log, version, mirror, f.logs.requestLevel()
	opt.Lanes.Origins = f.origins
	if local {
		a.ofMachine(&opt)
	}
	s := server.New(opt)
	defer s.Close()
	scheme := "http"
	if certificate != nil {
		scheme, listener = "https", tls.NewListener(listener, certificate.config())
	}
	stopReloads := reloadOn(ctx, hangup, log, certificate, level)
	defer stopReloads()
	if err := a.announceFirst(cmd, st, scheme+"://"+listener.Addr().String(), f.adminFile); err != nil {
		return errors.Join(f.local(err), listener.Close())
	}
	handler, stopPanel, err := a.panel(ctx, f, s.Handler(), local, log)
	defer stopPanel()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return f.run(ctx, s, handler, listener, log)
}

// Where remit serve listens by default.
const (
	envListen     = "REMIT_LISTEN"
	defaultListen = "127.0.0.1:7340"
)

// local gives an error of the store a hint for who starts the nexus. The usual
// one is for its callers, who can only try again.
func (f serveFlags) local(err error) error {
	coded, ok := errors.AsType[*reason.Error](err)
	if !ok || coded.Code != reason.StoreUnavailable || coded.Hint != "" {
		return err
	}
	hint := "is the disk of " + f.data + " full, or may it not be written? A file that is damaged is repaired by restoring a backup, see remit serve restore"
	if strings.HasPrefix(f.store, "postgres") {
		hint = "check that the database of --store runs, and lets this user in"
	}
	return fmt.Errorf("start the nexus: %w", &reason.Error{Code: coded.Code, Message: coded.Message, Field: coded.Field, Hint: hint, Err: err})
}

// dsn names the store.
func (f serveFlags) dsn() (string, error) {
	scheme, _, named := strings.Cut(f.store, ":")
	switch {
	case f.store == "" || f.store == "sqlite":
		return "sqlite:" + filepath.Join(f.data, "nexus.db"), nil
	case !named:
		return "", usagef("--store %q: want postgres://… or sqlite:PATH", f.store)
	case scheme != "sqlite" && !strings.HasPrefix(scheme, "postgres"):
		return "", usagef("--store: no store for %q, want postgres://… or sqlite:PATH", scheme+":…")
	}
	return f.store, nil
}

func (f serveFlags) open(ctx context.Context) (*store.Store, *blob.Dir, error) {
	dsn, err := f.dsn()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(f.data, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the data directory: %w", err)
	}
	st, err := store.Open(ctx, dsn, f.limits.storeOptions())
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
		if err := nip01.CheckURL(relay); err != nil {
			return nil, usagef("--relay: %w", err)
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

// asides starts the listeners beside that of the API: profiles, and figures.
func (f serveFlags) asides(ctx context.Context, s *server.Server, log *slog.Logger) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, one := range stops {
			one()
		}
	}
	if f.debug != "" {
		if err := server.CheckLoopback(f.debug); err != nil {
			return stop, err
		}
		one, err := aside(ctx, f.debug, "--debug", server.DebugHandler(), log, "profiles", "/debug/pprof/")
		if err != nil {
			return stop, err
		}
		stops = append(stops, one)
	}
	if f.metrics != "" {
		address, local, err := resolve(ctx, f.metrics)
		if err != nil {
			return stop, wrongAddress("--metrics-listen", f.metrics, err)
		}
		one, err := aside(ctx, address, "--metrics-listen", s.MetricsHandler(local), log, "metrics", "/metrics")
		if err != nil {
			return stop, err
		}
		stops = append(stops, one)
	}
	return stop, nil
}

// aside serves a handler on a listener of its own.
func aside(ctx context.Context, address, flag string, handler http.Handler, log *slog.Logger, name, path string) (stop func(), err error) {
	listener, err := listenOn(ctx, address, flag)
	if err != nil {
		return nil, err
	}
	h := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error(name, "error", err)
		}
	}()
	log.Info(name, "url", "http://"+listener.Addr().String()+path)
	return func() { _ = h.Close(); <-done }, nil
}
