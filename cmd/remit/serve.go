package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/nexus/blob"
	"remit/nexus/bridge"
	"remit/nexus/jobs"
	"remit/nexus/lanes"
	"remit/nexus/server"
	"remit/nexus/store"
	"remit/proof/reason"
)

type serveFlags struct {
	listen, data, store     string
	tlsCert, tlsKey, caFile string
	plaintext, verbose      bool
	debug                   string
	origins, relays         []string
	bridgeKey               string
	rate                    float64
	newAdmin                bool
	runSilence, keepRuns    time.Duration
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the nexus: the authority over runs, providers and budgets", Args: cobra.NoArgs,
		Long: `Run the nexus: HTTP API under /v1 and live lanes over WebSocket.

It prints its URL when it takes requests and, the first time that it runs on a
store, an administrator's token. The token is printed once and only its digest is
kept: put it where you keep secrets, and use it as $REMIT_TOKEN. If it is lost,
remit serve --new-admin-token makes another one and exits; the nexus must not run
then, unless it is on PostgreSQL.

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
  remit serve --new-admin-token
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
	flags.DurationVar(&f.runSilence, "run-silence", jobs.DefaultSilence, "end a run without open jobs that has said nothing for so long, unless its owner set another time; 0 never")
	flags.DurationVar(&f.keepRuns, "keep-runs", 0, "remove log, jobs and artifacts of a run so long after its end, never its bundle or the books; 0 keeps all")
	flags.BoolVar(&f.newAdmin, "new-admin-token", false, "print a new administrator's token and exit; the old ones stay good")
	flags.BoolVar(&f.verbose, "verbose", false, "log every request")
	cmd.AddCommand(a.serveBackupCommand(), a.serveRestoreCommand(), a.serveCheckCommand())
	return cmd
}

func (a *app) serve(cmd *cobra.Command, f serveFlags) (err error) {
	if f.data == "" {
		f.data = filepath.Join(a.home.Dir, "nexus")
	}
	if f.newAdmin {
		return a.newAdmin(cmd, f)
	}
	if !(f.rate > 0 && f.rate <= maxRate) { // NaN is neither
		return usagef("--rate %v: want more than 0 and at most %d requests a second", f.rate, maxRate)
	}
	if f.keepRuns < 0 {
		return usagef("--keep-runs %s: must not be negative", f.keepRuns)
	}
	address, tlsConfig, err := f.endpoint(cmd.Context())
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	st, blobs, err := f.open(ctx)
	if err != nil {
		return f.local(err)
	}
	defer func() { err = errors.Join(err, st.Close(), blobs.Close()) }()

	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	mirror, err := f.mirror(ctx, st, log)
	if err != nil {
		return f.local(err)
	}
	// Before anything is made that is told once: a port that is taken is a
	// common slip.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", f.listen, err)
	}
	s := server.New(server.Options{
		Store: st, Blobs: blobs, Log: log, Version: version,
		Rate: server.Rate{PerSecond: f.rate, Burst: int(2*f.rate) + 1}, Lanes: lanes.Options{Origins: f.origins}, Mirror: mirror,
		Sweep: server.Sweep{RunSilence: cmp.Or(f.runSilence, -1), KeepRuns: f.keepRuns},
	})
	defer s.Close()
	scheme := "http"
	if tlsConfig != nil {
		scheme, listener = "https", tls.NewListener(listener, tlsConfig)
	}
	if err := a.announceFirst(cmd, st, scheme+"://"+listener.Addr().String()); err != nil {
		return errors.Join(f.local(err), listener.Close())
	}
	return f.run(ctx, s, listener, log)
}

// maxRate is more than any replica answers, in requests a second.
const maxRate = 1_000_000

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
