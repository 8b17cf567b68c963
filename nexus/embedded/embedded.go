// Package embedded is the authority of one machine, as a part of the process
// that asks it: the same server, on a SQLite file of its own, reached over a
// pipe in memory instead of a socket. A run without a server has the same journal,
// ledger and receipts as one with a server, and nothing to set up.
//
// A [Machine] enrols itself as the provider of its only owner, "local", sets
// caps, switches itself on and fills the budget account, all of that once. The
// books move one millisatoshi of that account per proved run: they have no
// rail, and the figure says that a proof was settled, not that it cost something.
//
// What runs has no credential to decide about approvals. The person at the
// terminal has one, made for the command that decides and gone with it; nothing
// in a sandbox reaches the file or the process.
//
// The file is held for as long as a connection is open, and several runs of one
// user go on at the same time: a connection lasts for one call, and waits for
// its turn.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/blob"
	"remit/nexus/identity"
	"remit/nexus/registry"
	"remit/nexus/requester"
	"remit/nexus/server"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Owner is who everything belongs to.
const Owner = "local"

// The machine's provider and account.
const (
	providerName = "this-machine"
	jobPrice     = 1                 // msats
	budget       = 1_000_000_000_000 // msats, for as many proofs
	tokenTTL     = time.Hour
	// turn is how long to wait for other processes that have the file open. They
	// keep it for some milliseconds.
	turn = 30 * time.Second
	// beatEvery is how often the provider says that it lives: well within the time
	// after which an authority takes it for gone.
	beatEvery = 20 * time.Second
)

// url is what requests are addressed to; nothing listens there.
const url = "http://localhost"

// Machine is the authority of this machine, closed between calls.
type Machine struct {
	Dir     string // of the database and the artifacts
	Version string // of this build
	// Operator is the person at this terminal, who decides about approvals with a
	// credential that nothing else has; "" for no such person.
	Operator string

	owner, worker, operator, provider string    // credentials of this process and its provider, once they are there
	minted                            time.Time // when the credentials were made
	beat                              time.Time // when the provider last said that it lives
}

// Connect opens the authority for one call of a requester.
func (a *Machine) Connect(ctx context.Context) (*requester.Connection, error) {
	m, err := a.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening the authority of this machine: %w", err)
	}
	conn, err := a.connect(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("opening the authority of this machine: %w", errors.Join(err, m.close()))
	}
	return conn, nil
}

// opened is an open authority.
type opened struct {
	store  *store.Store
	blobs  *blob.Dir
	server *server.Server
	http   *http.Server
	pipe   *pipe
}

func (a *Machine) open(ctx context.Context) (*opened, error) {
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make its directory: %w", err)
	}
	st, err := openWhenFree(ctx, filepath.Join(a.Dir, "nexus.db"))
	if err != nil {
		return nil, err
	}
	blobs, err := blob.OpenDir(filepath.Join(a.Dir, "artifacts"))
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	m := &opened{store: st, blobs: blobs, pipe: newPipe()}
	// Without sweeps in the background: this authority lives for milliseconds.
	m.server = server.New(server.Options{Store: st, Blobs: blobs, Log: slog.New(slog.DiscardHandler), Version: a.Version,
		Rate: server.Rate{PerSecond: 1e6, Burst: 1e6}, Sweep: server.Sweep{Every: -1}, Candid: true})
	m.http = m.server.HTTPServer()
	go func() { _ = m.http.Serve(m.pipe) }() // ends when it is closed
	return m, nil
}

// openWhenFree opens the file when no other process has it open.
func openWhenFree(ctx context.Context, file string) (*store.Store, error) {
	waiting, cancel := context.WithTimeoutCause(ctx, turn, errors.New("other runs kept it open for too long"))
	defer cancel()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		st, err := store.Open(ctx, "sqlite:"+file, store.Options{Connections: 1})
		if !errors.Is(err, store.ErrInUse) { // nothing else gets better by waiting, a full disk least of all
			return st, err
		}
		if cause := api.Pause(waiting, pause); cause != nil {
			return nil, errors.Join(cause, err)
		}
	}
}

func (m *opened) close() error {
	_ = m.http.Close() // its requests have been answered
	m.server.Close()
	return errors.Join(m.store.Close(), m.blobs.Close())
}

// ownerScopes are what the owner's credential is good for.
var ownerScopes = []string{authority.ScopeRuns, authority.ScopeJobs, authority.ScopeProviders, authority.ScopeTreasury, authority.ScopeRead}

// connect makes clients for the owner and for the machine's provider.
func (a *Machine) connect(ctx context.Context, m *opened) (conn *requester.Connection, err error) {
	if a.provider == "" {
		if a.provider, err = enrolled(ctx, m, a.Version); err != nil {
			return nil, err
		}
	}
	if time.Since(a.minted) > tokenTTL/2 {
		a.owner, a.worker, a.operator, a.minted = "", "", "", time.Now()
	}
	credentials := []credential{
		{&a.owner, identity.Grant{Kind: authority.User, Principal: "user:" + Owner, Owner: Owner, TTL: tokenTTL, Scopes: ownerScopes}},
		{&a.worker, identity.Grant{Kind: authority.Provider, Principal: authority.ProviderPrincipal(a.provider), Owner: Owner, TTL: tokenTTL,
			Scopes: []string{authority.ScopeWork, authority.ScopeRead}}},
	}
	if a.Operator != "" {
		credentials = append(credentials, credential{&a.operator,
			identity.Grant{Kind: authority.User, Principal: a.Operator, Owner: Owner, TTL: tokenTTL,
				Scopes: []string{authority.ScopeApprove, authority.ScopeRead}}})
	}
	clients, err := m.clients(ctx, credentials...)
	if err != nil {
		return nil, err
	}
	conn = &requester.Connection{Close: m.close, Client: clients[0], Worker: clients[1],
		Provider: job.ProviderInfo{ID: a.provider, Version: a.Version, OS: runtime.GOOS, Arch: runtime.GOARCH}}
	if a.Operator != "" {
		conn.Operator = clients[2]
	}
	if time.Since(a.beat) < beatEvery {
		return conn, nil
	}
	if _, err = api.Heartbeat.Do(ctx, conn.Worker, api.NewKey(), a.provider, api.HeartbeatRequest{Version: a.Version}); err == nil {
		a.beat = time.Now()
	}
	return conn, err
}

// credential is a token of this process, "" before it is made.
type credential struct {
	token *string
	grant identity.Grant
}

// clients makes a client for each credential. It asks once: what this authority
// lacks, such as room on the disk, does not come back by waiting. Those that are not there yet are
// made in one transaction; they never leave the process, and only their digests
// are kept.
func (m *opened) clients(ctx context.Context, credentials ...credential) ([]*api.Client, error) {
	missing := slices.DeleteFunc(slices.Clone(credentials), func(c credential) bool { return *c.token != "" })
	if len(missing) > 0 {
		if err := m.store.Update(ctx, func(tx *store.Tx) (err error) {
			for _, c := range missing {
				if *c.token, _, err = identity.Mint(tx, c.grant); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			for _, c := range missing {
				*c.token = ""
			}
			return nil, err
		}
	}
	out := make([]*api.Client, len(credentials))
	for i, c := range credentials {
		var err error
		if out[i], err = api.Connect(url, *c.token, api.Options{Retry: api.Retry{Attempts: 1},
			HTTP: &http.Client{Transport: &http.Transport{DisableCompression: true,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return m.pipe.dial(ctx) }}}}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// caps let a verification run as its contract says: what confines it is the
// sandbox, by the contract's own limits.
var caps = api.Caps{CPUMillis: 1 << 20, MemoryMb: 1 << 24, DiskMb: job.MaxDiskMB, Pids: 1 << 20, TimeoutSecs: 7 * 24 * 3600,
	Concurrency: 20, Network: "none"}

// enrolled returns the machine's provider. The first time it makes it, with the
// rights of an administrator, which last no longer than that.
func enrolled(ctx context.Context, m *opened, version string) (string, error) {
	var list []store.ProviderRow
	if err := m.store.View(ctx, func(tx *store.Tx) (err error) {
		list, err = tx.ProvidersOf(Owner, "", registry.MaxCandidates)
		return err
	}); err != nil {
		return "", err
	}
	for _, p := range list {
		if p.Name == providerName && p.Enabled {
			return p.ID, nil
		}
	}
	token := ""
	grant := server.AdminGrant()
	grant.Owner, grant.TTL = Owner, time.Minute
	admin, err := m.clients(ctx, credential{&token, grant})
	if err != nil {
		return "", err
	}
	return enrol(ctx, admin[0], version)
}

// enrol makes the provider and the account. It may be cut off at any point and
// is then done again; the provider is switched on last.
func enrol(ctx context.Context, admin *api.Client, version string) (string, error) {
	account, err := api.OpenAccount.Do(ctx, admin, "account", api.None{}, api.AccountRequest{Limit: budget})
	if err != nil {
		return "", err
	}
	if !account.Created {
		return "", reason.Errorf(reason.StoreUnavailable, "the account of this machine was not opened")
	}
	if _, err := api.FundAccount.Do(ctx, admin, "fund", api.None{},
		api.FundRequest{AccountID: account.Value.AccountID, Amount: budget}); err != nil {
		return "", err
	}
	made, err := api.RegisterProvider.Do(ctx, admin, api.NewKey(), api.None{}, api.ProviderRequest{
		Name: providerName, Version: version, Capabilities: []string{job.SandboxRun}, PriceMsats: jobPrice})
	if err != nil {
		return "", err
	}
	id := made.Provider.ProviderID
	if _, err := api.SetCaps.Do(ctx, admin, api.NewKey(), api.SetCapsParams{ProviderID: id}, caps); err != nil {
		return "", err
	}
	_, err = api.EnableProvider.Do(ctx, admin, api.NewKey(), api.EnableProviderParams{ProviderID: id}, api.None{})
	return id, err
}

// pipe is a listener whose connections are pipes in memory: no address, no
// port, nothing that another process could reach.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept implements net.Listener.
func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *pipe) Addr() net.Addr { return address{} }

func (p *pipe) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "pipe" }
