package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	"remit/proof/canon"
	"remit/proof/reason"
	change "remit/work/tree"
	"remit/work/workspace"
)

// patched is the pack of a commit that adds a file to a repository, and the commit.
func patched(t *testing.T, repo string) (pack []byte, commit string) {
	t.Helper()
	ctx := t.Context()
	src, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		t.Fatal(err)
	}
	base, err := src.Resolve(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	st, err := workspace.NewStore(ctx, filepath.Join(t.TempDir(), "store"), src, base)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	text := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(text, []byte("patched\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	im, err := st.Import(ctx, base.Tree, []change.Change{{Path: "patch.txt", Kind: change.File, Size: 8, Open: func() (io.ReadCloser, error) { return os.Open(text) }}})
	if err != nil {
		t.Fatal(err)
	}
	if commit, err = st.CommitTree(ctx, im.Tree, base.Commit, "patched", time.Unix(1700000000, 0)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := st.Pack(ctx, commit, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), commit
}

// artifacts is an authority that knows the artifacts of one run.
type artifacts struct {
	mu     sync.Mutex
	bytes  map[string][]byte // by digest
	cut    int               // how many answers break in the middle
	refuse *api.Problem
	asked  int
}

func (a *artifacts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	b, ok := a.bytes[strings.TrimPrefix(r.URL.Path, "/v1/runs/run_1/artifacts/")]
	refuse := a.refuse
	if !ok && refuse == nil {
		refuse = &api.Problem{Code: string(reason.NotFound), Status: http.StatusNotFound, Detail: "no"}
	}
	if refuse != nil {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(refuse.Status)
		_ = json.NewEncoder(w).Encode(refuse)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if a.cut > 0 {
		a.cut--
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(b[:len(b)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(b)
}

// TestSentSource runs a job on a commit that was sent with its run. The daemon may read no directory at all. What the
// requester did wrong fails the job, what happened on the way is no fault of the job.
func TestSentSource(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	pack, commit := patched(t, repo)
	digest := canon.Digest(pack)
	garbage := []byte("PACK\x00\x00\x00\x02 and no more")
	other := strings.Repeat("1", 40)
	unavailable := &api.Problem{Code: string(reason.Forbidden), Status: http.StatusForbidden, Detail: "no"}
	for name, c := range map[string]struct {
		source, ref string
		cut         int
		refuse      *api.Problem
		outcome     job.Outcome
		status      job.Status
		says        string // by the response, to the requester of the job
		asked       int
	}{
		"as it should be":       {"artifact:" + digest, commit, 0, nil, job.Passed, job.Success, "", 1},
		"a line that breaks":    {"artifact:" + digest, commit, 2, nil, job.Passed, job.Success, "", 3},
		"a line that is broken": {"artifact:" + digest, commit, 9, nil, "", job.Errored, "infrastructure_fault", 3},
		"refused":               {"artifact:" + digest, commit, 0, unavailable, "", job.Errored, "infrastructure_fault", 1},
		"other bytes":           {"artifact:" + canon.Digest([]byte("x")), commit, 0, nil, "", job.Errored, "infrastructure_fault", 3},
		"never stored":          {"artifact:" + canon.Digest([]byte("y")), commit, 0, nil, job.JobFailed, job.Failed, "not_found", 1},
		"no pack":               {"artifact:" + canon.Digest(garbage), commit, 0, nil, job.JobFailed, job.Failed, "repository_invalid", 1},
		"another commit":        {"artifact:" + digest, other, 0, nil, job.JobFailed, job.Failed, "base_not_found", 1},
		"no commit":             {"artifact:" + digest, "", 0, nil, job.JobFailed, job.Failed, "job_invalid", 0},
		"a name for a commit":   {"artifact:" + digest, "HEAD", 0, nil, job.JobFailed, job.Failed, "job_invalid", 0},
		"no digest":             {"artifact:../../v1/runs", commit, 0, nil, job.JobFailed, job.Failed, "job_invalid", 0},
		"a directory":           {repo, commit, 0, nil, job.JobFailed, job.Failed, "forbidden", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &artifacts{bytes: map[string][]byte{digest: pack, canon.Digest(garbage): garbage, canon.Digest([]byte("x")): pack}, cut: c.cut, refuse: c.refuse}
			s := httptest.NewServer(a)
			t.Cleanup(s.Close)
			d := daemon(t, s.URL)
			r := request(t, c.source, func(r *job.SandboxRunRequest) {
				r.Commands = []job.Command{{Cmd: "cat a.txt patch.txt"}}
				if c.ref != "" {
					r.Repo.GitRef = &c.ref
				}
			})
			run := &sandboxRun{Daemon: d, req: r, caps: d.binding(nil), runID: "run_1", dir: t.TempDir()}
			resp, _, err := run.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			body, err := json.Marshal(resp)
			if err != nil {
				t.Fatal(err)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			if resp.Status != c.status || !strings.Contains(string(body), c.says) || a.asked != c.asked {
				t.Fatalf("status %s, asked %d times: %s", resp.Status, a.asked, body)
			}
			if v := job.Check(r, resp); c.outcome != "" && v.Outcome != c.outcome {
				t.Errorf("verdict %+v of %s", v, body)
			}
			if c.outcome == job.Passed && api.Value(resp.Runs[0].StdoutPreview) != "hello\npatched\n" {
				t.Errorf("%s", body)
			}
			if left, err := os.ReadDir(d.scratch); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			if strings.Contains(string(body), d.scratch) {
				t.Errorf("the response tells a path of this host: %s", body)
			}
		})
	}
}

// TestSentSourceEndToEnd is one job with a real authority: the owner stores the pack, the provider gets it, runs the job
// and is paid.
func TestSentSourceEndToEnd(t *testing.T) {
	t.Parallel()
	if _, err := openDriver(); err != nil {
		t.Skipf("NO SANDBOX ON THIS HOST, no job was run: %v", err)
	}
	ctx := t.Context()
	n := startNexus(t)
	alice := n.client(t, "user:alice")
	account := must(api.OpenAccount.Do(ctx, alice, "a", api.None{}, api.AccountRequest{Limit: 100_000}))(t).Value
	must(api.FundAccount.Do(ctx, n.client(t, ""), "f", api.None{}, api.FundRequest{AccountID: account.AccountID, Amount: 10_000}))(t)
	d := n.join(t, alice)

	pack, commit := patched(t, repository(t))
	digest := canon.Digest(pack)
	run := must(api.CreateRun.Do(ctx, alice, "r", api.None{}, api.RunRequest{RepoRef: "r"}))(t)
	stored := must(api.PutRunArtifact.Put(ctx, alice, "p",
		api.PutRunArtifactParams{RunID: run.RunID, Digest: digest, Name: "source.pack"}, contentOf(pack)))(t)
	if stored.SizeBytes != int64(len(pack)) || stored.Sha256 != digest {
		t.Fatalf("%+v", stored)
	}
	r := request(t, "artifact:"+digest, func(r *job.SandboxRunRequest) {
		r.Repo.GitRef = &commit
		r.Commands = []job.Command{{Cmd: "cat a.txt patch.txt"}, {Cmd: "test ! -e .git"}}
	})
	sent := must(api.DispatchJob.Do(ctx, alice, "j", run.RunID,
		api.DispatchRequest{JobType: job.SandboxRun, Request: api.JobDocument(r.Canonical())}))(t).Value
	if ran, err := d.Once(ctx, 0); !ran || err != nil {
		t.Fatal(ran, err)
	}
	settled := must(api.SettleJob.Do(ctx, alice, "s", sent.JobID, api.None{}))(t)
	if settled.SettlementStatus != "released" {
		t.Errorf("%+v", settled)
	}
	output := must(api.GetArtifact.Read(ctx, alice,
		api.GetArtifactParams{JobID: sent.JobID, Digest: canon.Digest([]byte("hello\npatched\n"))}))(t)
	if string(output) != "hello\npatched\n" {
		t.Errorf("%q", output)
	}
}

// realNexus is an authority in this process.
type realNexus struct {
	url   string
	store *store.Store
}

func startNexus(t *testing.T) *realNexus {
	t.Helper()
	st := storetest.Open(t, storetest.SQLite(t), store.Options{})
	blobs, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Options{Store: st, Blobs: blobs, Log: slog.New(slog.DiscardHandler), Version: "test"})
	h := httptest.NewUnstartedServer(nil)
	h.Config = s.HTTPServer()
	h.Start()
	t.Cleanup(func() {
		s.Close()
		h.Close()
		if err := blobs.Close(); err != nil {
			t.Error(err)
		}
	})
	return &realNexus{h.URL, st}
}

// client is a user's, or the administrator's.
func contentOf(b []byte) api.Content {
	return api.Content{Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, Size: int64(len(b))}
}

func (n *realNexus) client(t *testing.T, principal string) *api.Client {
	t.Helper()
	g := server.AdminGrant()
	if principal != "" {
		g = identity.Grant{Kind: nexus.User, Principal: principal, Owner: strings.TrimPrefix(principal, "user:"), TTL: time.Hour, Scopes: []string{
			nexus.ScopeRuns, nexus.ScopeJobs, nexus.ScopeProviders, nexus.ScopeEnrol, nexus.ScopeTreasury, nexus.ScopeRead}}
	}
	var text string
	err := n.store.Update(t.Context(), func(tx *store.Tx) (err error) {
		text, _, err = identity.Mint(tx, g)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return must(api.Connect(n.url, text, api.Options{Retry: api.Retry{Attempts: 1}}))(t)
}

// join makes a daemon that is enabled and has no directories.
func (n *realNexus) join(t *testing.T, owner *api.Client) *Daemon {
	t.Helper()
	ctx := context.Background()
	made := must(api.RegisterProvider.Do(ctx, owner, "p", api.None{},
		api.ProviderRequest{Name: "one", Version: "test", Capabilities: []string{job.SandboxRun}, PriceMsats: 1000}))(t)
	id := made.Provider.ProviderID
	must(api.SetCaps.Do(ctx, owner, "c", api.SetCapsParams{ProviderID: id},
		api.Caps{CPUMillis: 2000, MemoryMb: 1024, DiskMb: 512, Pids: 256, TimeoutSecs: 120, Concurrency: 1, Network: "none"}))(t)
	must(api.EnableProvider.Do(ctx, owner, "e", api.EnableProviderParams{ProviderID: id}, api.None{}))(t)
	d := daemon(t, n.url, func(c *Config) {
		if err := c.State.Save(Identity{Nexus: n.url, ProviderID: id, Name: "one"}, made.Token); err != nil {
			t.Fatal(err)
		}
	})
	if err := d.heartbeat(ctx, api.HeartbeatRequestStatusRunning); err != nil {
		t.Fatal(err)
	}
	return d
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
