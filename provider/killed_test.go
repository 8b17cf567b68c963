package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/law/job"
	"remit/law/task"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/blob"
	"remit/nexus/identity"
	"remit/nexus/requester"
	"remit/nexus/server"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/canon"
	"remit/work/engine/command"
	"remit/work/harness"
	"remit/work/sandbox"
	"remit/work/session"
)

// stage is an authority with one provider, whose jobs are done as soon as they
// are offered, and one repository.
type stage struct {
	t        testing.TB
	url      string
	owner    string // tokens
	worker   string
	repo     string
	driver   sandbox.Driver
	provider string
}

func newStage(t testing.TB, st *store.Store) *stage {
	t.Helper()
	blobs, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Options{Store: st, Blobs: blobs, Log: slog.New(slog.DiscardHandler), Version: "test", Sweep: server.Sweep{Every: -1}})
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		h.Close()
		s.Close()
		if err := blobs.Close(); err != nil {
			t.Error(err)
		}
	})
	driver, err := sandbox.Open(t.Context(), sandbox.Options{Driver: sandbox.DriverNone, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	g := &stage{t: t, url: h.URL, repo: committed(t), driver: driver}
	mint := func(grant identity.Grant) (text string) {
		if err := st.Update(t.Context(), func(tx *store.Tx) (err error) {
			text, _, err = identity.Mint(tx, grant)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return text
	}
	grant := server.AdminGrant()
	grant.Owner, grant.TTL = "alice", time.Hour
	admin := g.client(mint(grant), nil)
	g.owner = mint(identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice", TTL: time.Hour,
		Scopes: []string{authority.ScopeRuns, authority.ScopeJobs, authority.ScopeRead}})
	account := must(api.OpenAccount.Do(t.Context(), admin, "a", api.None{}, api.AccountRequest{Limit: 1e6}))(t)
	must(api.FundAccount.Do(t.Context(), admin, "f", api.None{}, api.FundRequest{AccountID: account.Value.AccountID, Amount: 1e6}))(t)
	made := must(api.RegisterProvider.Do(t.Context(), admin, "p", api.None{}, api.ProviderRequest{
		Name: "one", Version: "test", Capabilities: []string{job.SandboxRun}, PriceMsats: 7}))(t)
	g.provider = made.Provider.ProviderID
	must(api.SetCaps.Do(t.Context(), admin, "c", api.SetCapsParams{ProviderID: g.provider}, api.Caps{CPUMillis: 1 << 20, MemoryMb: 1 << 20,
		DiskMb: job.MaxDiskMB, Pids: 1 << 20, TimeoutSecs: 600_000, Concurrency: 20, Network: "none"}))(t)
	must(api.EnableProvider.Do(t.Context(), admin, "e", api.EnableProviderParams{ProviderID: g.provider}, api.None{}))(t)
	g.worker = mint(identity.Grant{Kind: authority.Provider, Principal: authority.ProviderPrincipal(g.provider), Owner: "alice", TTL: time.Hour,
		Scopes: []string{authority.ScopeWork, authority.ScopeRead}})
	g.beat()
	return g
}

// beat has the provider heard of: a table of runs takes longer than its heartbeat counts.
func (g *stage) beat() {
	g.t.Helper()
	must(api.Heartbeat.Do(g.t.Context(), g.client(g.worker, nil), api.NewKey(), g.provider, api.HeartbeatRequest{Version: "test"}))(g.t)
}

// committed is a repository with one commit.
func committed(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return dir
}

// must returns what a call gave, or ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (g *stage) client(token string, transport http.RoundTripper) *api.Client {
	g.t.Helper()
	c, err := api.Connect(g.url, token, api.Options{Retry: api.Retry{Attempts: 1}, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// death is what a killed client ends with: nothing of it goes on.
type death struct{ request string }

// mortal sends requests, and kills its client at the Nth one, when the authority
// has committed it and before the answer arrives.
type mortal struct {
	*stage
	dies int
	sent []string
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if strings.HasSuffix(r.URL.Path, "/journal") { // sent beside the run, at times that differ
		return resp, err
	}
	m.sent = append(m.sent, r.Method+" "+r.URL.Path)
	if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") {
		m.work()
	}
	if len(m.sent) == m.dies {
		if err == nil {
			_ = resp.Body.Close()
		}
		panic(death{m.sent[len(m.sent)-1]})
	}
	return resp, err
}

// work is the provider: whatever it was offered has succeeded.
func (g *stage) work() {
	c := g.client(g.worker, nil)
	taken := must(api.LeaseJobs.Do(context.Background(), c, api.NewKey(), api.None{}, api.LeaseRequest{}))(g.t)
	for _, l := range taken.Leases {
		var req job.SandboxRunRequest
		if err := json.Unmarshal(l.Job.Request, &req); err != nil {
			g.t.Error(err)
		}
		resp := job.SandboxRunResponse{EnvInfo: job.EnvInfo{ImageDigest: "host"}, Status: job.Success, Artifacts: []job.Artifact{}, Provenance: job.Provenance{ModelID: "none"},
			Caps: &job.CapsApplied{CPUMillis: 1000, MemoryMB: 512, TimeoutSecs: 1800, Network: job.NetworkNone}, Usage: &job.Usage{WallMillis: 5}}
		for _, cmd := range req.Commands {
			resp.Runs = append(resp.Runs, job.Run{Cmd: cmd.Cmd, StdoutSHA256: canon.Digest(nil), StderrSHA256: canon.Digest(nil)})
		}
		body, err := json.Marshal(resp)
		if err != nil {
			g.t.Error(err)
		}
		must(api.CompleteJob.Do(context.Background(), c, api.NewKey(), l.Job.JobID, api.CompleteRequest{Fence: l.Fence, Response: body}))(g.t)
	}
}

// authority connects as the owner.
func (g *stage) authority(transport http.RoundTripper) *requester.Requester {
	c := g.client(g.owner, transport)
	return requester.New(func(context.Context) (*requester.Connection, error) {
		return &requester.Connection{Client: c, Close: func() error { return nil }}, nil
	})
}

// run makes a change, as a client that may be killed.
func (g *stage) run(home session.Home, m *mortal, issue string) (out *harness.Outcome, killed *death) {
	g.t.Helper()
	g.beat()
	c, err := task.FromIssue([]byte("# Change it\n"), issue, nil)
	if err == nil {
		c, err = task.Narrow(c, task.Flags{Allow: []string{"**"}, Verify: []string{"grep -q better a.txt"}})
	}
	if err != nil {
		g.t.Fatal(err)
	}
	engine := &command.Engine{Argv: []string{"sh", "-c", "echo better > a.txt"}}
	defer func() {
		if what := recover(); what != nil {
			d, ok := what.(death)
			if !ok {
				panic(what)
			}
			killed = &d
		}
	}()
	out, err = harness.Run(g.t.Context(), harness.Request{Home: home, Repo: g.repo, RepoRef: "repo", Contract: c, Engine: engine, Sandbox: g.driver, ExplicitNone: true, Repeat: 1,
		Authority: g.authority(m), Nexus: g.url, Admission: harness.Admission{ProvenMode: task.CopiedRepo}})
	if err != nil {
		g.t.Fatal(err)
	}
	return out, nil
}

// TestClientIsKilledAtEachRequest kills the client of a run at each of its
// requests, in the moment after the authority's commit. Resuming the
// session leaves nothing open: the run has ended, its issue is free, and its money
// is spent or back. Without the resumption something is open at most of them, or
// the test would prove nothing.
func TestClientIsKilledAtEachRequest(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		g := newStage(t, open())
		home := func() session.Home { return session.Home{Dir: t.TempDir()} }
		whole := &mortal{stage: g}
		if out, _ := g.run(home(), whole, "whole"); out.Report.Status != "pass" || out.NotConcluded != nil {
			t.Fatalf("%s %v %v: the test would prove nothing", out.Report.Status, out.Report.Blockers, out.NotConcluded)
		}
		t.Logf("%d requests: %q", len(whole.sent), whole.sent)
		for _, ask := range mutations {
			if !slices.ContainsFunc(whole.sent, func(sent string) bool { return strings.HasPrefix(sent, ask[0]) && strings.HasSuffix(sent, ask[1]) }) {
				t.Errorf("%q is no request of the run: its client was not killed there", ask)
			}
		}
		left := 0
		for n := 1; n <= len(whole.sent); n++ {
			h, m, issue := home(), &mortal{stage: g, dies: n}, fmt.Sprint("issue-", n)
			if _, killed := g.run(h, m, issue); killed == nil {
				t.Fatalf("request %d of %v killed no client", n, whole.sent)
			}
			if len(g.open()) > 0 {
				left++
			}
			sessions, err := h.List()
			if err != nil || len(sessions) != 1 {
				t.Fatal(sessions, err)
			}
			for life := range 2 { // the second one finds nothing to do
				out, err := harness.Resume(t.Context(), harness.Resumption{Home: h, Session: sessions[0], Sandbox: g.driver, Authority: g.authority(&mortal{stage: g})})
				if err != nil || out.NotConcluded != nil {
					t.Fatalf("killed at %s, life %d: %v %+v", whole.sent[n-1], life, err, out)
				}
			}
			if open := g.open(); len(open) > 0 {
				t.Errorf("killed at %s, then resumed: %v", whole.sent[n-1], open)
			}
			c := must(api.ClaimIssue.Do(t.Context(), g.client(g.owner, nil), issue, api.None{},
				api.ClaimRequest{RepoRef: "repo", IssueRef: issue}))(t)
			if c.RunID != nil {
				t.Errorf("killed at %s, then resumed: run %s has the issue", whole.sent[n-1], *c.RunID)
			}
		}
		if left < len(whole.sent)/2 {
			t.Errorf("only %d of %v have left something open: the test proves nothing", left, whole.sent)
		}
	})
}

// mutations are what a client changes at the authority in the life of a run, by the
// beginning and the end of the request.
var mutations = [][2]string{{"POST /v1/runs", "/runs"}, {"PUT /v1/runs/", ""}, {"POST /v1/runs/", "/jobs"}, {"POST /v1/jobs/", "/settle"},
	{"POST /v1/runs/", "/finish"}}

// open lists what the authority holds for a client: runs and reservations.
func (g *stage) open() (list []string) {
	g.t.Helper()
	c := g.client(g.owner, nil)
	for cursor := (*string)(nil); ; {
		page := must(api.ListRuns.Get(g.t.Context(), c, api.ListRunsParams{Cursor: cursor}))(g.t)
		for _, r := range page.Items {
			if r.FinishedAt == nil {
				list = append(list, r.RunID+" is "+string(r.Status))
			}
		}
		if cursor = page.NextCursor; cursor == nil {
			break
		}
	}
	books := must(api.GetTreasurySummary.Get(g.t.Context(), c, api.GetTreasurySummaryParams{}))(g.t)
	if n := books.Totals.ReservedCount; n > 0 {
		list = append(list, fmt.Sprint(n, " reservations are held"))
	}
	return list
}
