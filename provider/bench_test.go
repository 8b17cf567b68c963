package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	nexus "remit/nexus/authority"
	"remit/nexus/blob"
	"remit/nexus/identity"
	"remit/nexus/server"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/work/sandbox"
)

// startCommand tells when it runs: the shell of a job has begun, and started
// one more program.
const startCommand = "date +%s%N"

// BenchmarkDispatch sends a job to a real authority, whose lane wakes a real
// daemon, and takes the time from before the request is sent until the job's
// command runs in the sandbox: its own clock says when. Beside it stand the
// answer to the dispatch, and the sandbox without anything around it.
func BenchmarkDispatch(b *testing.B) {
	for _, kind := range []struct {
		name string
		dsn  func(testing.TB) string
	}{{"sqlite", storetest.SQLite}, {"postgres", storetest.Postgres}} {
		b.Run(kind.name, func(b *testing.B) {
			m := newMarket(b, storetest.Open(b, kind.dsn(b), store.Options{}))
			m.job(b) // fills caches
			b.Run("1", m.measure)
		})
	}
}

func (m *market) measure(b *testing.B) {
	took := map[string][]time.Duration{}
	b.ResetTimer()
	for range b.N {
		t := m.job(b)
		took[""] = append(took[""], t.started.Sub(t.sent))
		took["answer-"] = append(took["answer-"], t.answered.Sub(t.sent))
		took["settle-"] = append(took["settle-"], t.settled)
		took["sandbox-"] = append(took["sandbox-"], m.sandboxAlone(b))
	}
	b.StopTimer()
	for name, list := range took {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, name+"p50-ms")
		b.ReportMetric(float64(list[len(list)*99/100].Microseconds())/1000, name+"p99-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// market is an authority, an owner with money, and one daemon.
type market struct {
	store  *store.Store
	client *api.Client // alice's
	driver sandbox.Driver
	repo   string
}

func newMarket(b *testing.B, st *store.Store) *market {
	b.Helper()
	driver, err := openDriver()
	if err != nil {
		b.Skipf("no sandbox on this host: %v", err)
	}
	m := &market{store: st, driver: driver, repo: repository(b)}
	url := m.serve(b)
	alice := m.mint(b, identity.Grant{Kind: nexus.User, Principal: "user:alice", Owner: "alice", TTL: time.Hour, Scopes: []string{
		nexus.ScopeRuns, nexus.ScopeJobs, nexus.ScopeProviders, nexus.ScopeTreasury, nexus.ScopeRead}})
	m.client = connect(b, url, alice)
	registration := m.mint(b, identity.Grant{Kind: nexus.Registration, Owner: "alice", TTL: time.Hour, OneTime: true, Scopes: []string{nexus.ScopeEnrol}})
	account, err := api.OpenAccount.Do(b.Context(), m.client, api.NewKey(), api.None{}, api.AccountRequest{Limit: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	admin := connect(b, url, m.mint(b, server.AdminGrant()))
	if _, err := api.FundAccount.Do(b.Context(), admin, api.NewKey(), api.None{},
		api.FundRequest{AccountID: account.Value.AccountID, Amount: 1 << 40}); err != nil {
		b.Fatal(err)
	}
	m.start(b, url, registration)
	return m
}

// serve listens on loopback.
func (m *market) serve(b *testing.B) string {
	b.Helper()
	blobs, err := blob.OpenDir(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	unlimited := server.Rate{PerSecond: 1e6, Burst: 1e6}
	s := server.New(server.Options{Store: m.store, Blobs: blobs, Log: slog.New(slog.DiscardHandler), Version: "bench", Rate: unlimited, Failures: unlimited})
	h := httptest.NewUnstartedServer(nil)
	h.Config = s.HTTPServer()
	h.Start()
	b.Cleanup(func() { s.Close(); h.Close(); _ = blobs.Close() })
	return h.URL
}

func (m *market) mint(b *testing.B, g identity.Grant) (text string) {
	b.Helper()
	if err := m.store.Update(b.Context(), func(tx *store.Tx) (err error) {
		text, _, err = identity.Mint(tx, g)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return text
}

func connect(b *testing.B, url, token string) *api.Client {
	b.Helper()
	c, err := api.Connect(url, token, api.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// start joins a daemon, enables it and lets it run until the end.
func (m *market) start(b *testing.B, url, registration string) {
	b.Helper()
	ctx := b.Context()
	state := State{Dir: b.TempDir()}
	p, err := state.Join(ctx, Registration{Nexus: url, Token: registration, Name: "box", Version: "bench", PriceMsats: 1})
	if err != nil {
		b.Fatal(err)
	}
	caps := api.Caps{CPUMillis: 2000, MemoryMb: 1024, DiskMb: 512, Pids: 256, TimeoutSecs: 60, Concurrency: 2, Network: api.CapsNetworkNone}
	if _, err := api.SetCaps.Do(ctx, m.client, api.NewKey(), api.SetCapsParams{ProviderID: p.ProviderID}, caps); err != nil {
		b.Fatal(err)
	}
	if _, err := api.EnableProvider.Do(ctx, m.client, api.NewKey(),
		api.EnableProviderParams{ProviderID: p.ProviderID}, api.None{}); err != nil {
		b.Fatal(err)
	}
	d, err := Open(Config{State: state, Driver: m.driver, Version: "bench", Sources: []string{m.repo}, CacheDir: b.TempDir(), Scratch: b.TempDir(), Caps: caps})
	if err != nil {
		b.Fatal(err)
	}
	if err := d.heartbeat(ctx, api.HeartbeatRequestStatusRunning); err != nil { // Run's own comes when it comes
		b.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		if err := d.Run(running); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() { stop(); done.Wait() })
}

// times are the moments of one job.
type times struct {
	sent, answered, started time.Time
	settled                 time.Duration
}

// job dispatches one, waits for its result and settles it.
func (m *market) job(b *testing.B) times {
	b.Helper()
	ctx := b.Context()
	run, err := api.CreateRun.Do(ctx, m.client, api.NewKey(), api.None{}, api.RunRequest{RepoRef: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	request, err := json.Marshal(map[string]any{"sandbox": map[string]any{"image_digest": "host"}, "repo": map[string]any{"source": m.repo},
		"commands": []any{map[string]any{"cmd": startCommand}}})
	if err != nil {
		b.Fatal(err)
	}
	var t times
	t.sent = time.Now()
	job, err := api.DispatchJob.Do(ctx, m.client, api.NewKey(), run.RunID, api.DispatchRequest{JobType: job.SandboxRun, Request: request})
	t.answered = time.Now()
	if err != nil {
		b.Fatal(err)
	}
	t.started = m.startOf(b, run.RunID, job.Value.JobID)
	begin := time.Now()
	s, err := api.SettleJob.Do(ctx, m.client, api.NewKey(), job.Value.JobID, api.None{})
	t.settled = time.Since(begin)
	if err != nil || !s.VerificationPassed {
		b.Fatalf("%+v: %v", s, err)
	}
	return t
}

// startOf waits for the response of a job and reads what its command said.
func (m *market) startOf(b *testing.B, run, id string) time.Time {
	b.Helper()
	late := time.After(60 * time.Second)
	for {
		changed := m.store.Changed(nexus.RunStream(run))
		j, err := api.GetJob.Get(b.Context(), m.client, id)
		if err != nil {
			b.Fatal(err)
		}
		if j.State == api.JobStateSubmitted {
			var resp job.SandboxRunResponse
			if err := json.Unmarshal(api.Value(j.Response), &resp); err != nil || len(resp.Runs) != 1 {
				b.Fatalf("%v: %s", err, api.Value(j.Response))
			}
			return timeOf(b, api.Value(resp.Runs[0].StdoutPreview))
		}
		select {
		case <-changed:
		case <-late:
			b.Fatalf("job %s is still %s", id, j.State)
		}
	}
}

// timeOf reads the output of startCommand.
func timeOf(b *testing.B, text string) time.Time {
	b.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Unix(0, n)
}

// sandboxAlone runs the same command without an authority and without git.
func (m *market) sandboxAlone(b *testing.B) time.Duration {
	b.Helper()
	var out strings.Builder
	begin := time.Now()
	_, err := m.driver.Run(b.Context(), sandbox.Spec{Lower: m.repo, Commands: []sandbox.Command{{Argv: []string{"sh", "-c", startCommand}, Stdout: &out}}})
	if err != nil {
		b.Fatal(fmt.Errorf("sandbox: %w", err))
	}
	return timeOf(b, out.String()).Sub(begin)
}
