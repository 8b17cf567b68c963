package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
	"remit/work/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	if len(os.Args) == 3 && os.Args[1] == askArgument {
		if err := ask(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var openDriver = sync.OnceValues(func() (sandbox.Driver, error) {
	return sandbox.Open(context.Background(), sandbox.Options{})
})

// repository makes a repository with one commit.
func repository(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repo")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.txt": "hello\n", "sub/b.txt": "below\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return dir
}

// daemon is one that is registered at a server.
func daemon(t *testing.T, nexus string, change ...func(*Config)) *Daemon {
	t.Helper()
	driver, err := openDriver()
	if err != nil {
		t.Skipf("NO SANDBOX ON THIS HOST, no job was run: %v", err)
	}
	state := State{Dir: t.TempDir()}
	if err := state.Save(Identity{Nexus: nexus, ProviderID: "prv_1", Name: "one"}, "rmt_provider_x_y"); err != nil {
		t.Fatal(err)
	}
	c := Config{State: state, Driver: driver, Unenforced: true, Version: "test", CacheDir: t.TempDir(), Scratch: t.TempDir(),
		Client: api.Options{Retry: api.Retry{Attempts: 1}}}
	for _, f := range change {
		f(&c)
	}
	d, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func request(t *testing.T, repo string, change func(*job.SandboxRunRequest)) job.SandboxRunRequest {
	t.Helper()
	r := job.SandboxRunRequest{
		Sandbox:  job.Sandbox{Provider: "local", ImageDigest: "host", Resources: job.Resources{TimeoutSecs: 20}},
		Repo:     job.Repo{Source: repo},
		Commands: []job.Command{{Cmd: "cat a.txt"}},
	}
	if change != nil {
		change(&r)
	}
	r, err := r.Filled()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (d *Daemon) runForTest(ctx context.Context, t *testing.T, r job.SandboxRunRequest) (job.SandboxRunResponse, []File) {
	t.Helper()
	resp, files, err := (&sandboxRun{Daemon: d, req: r, caps: d.binding(nil), dir: t.TempDir()}).run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return resp, files
}

// TestSandboxRun runs real commands. Whatever a job does wrong, the response
// must never read as a fault of the provider.
func TestSandboxRun(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	elsewhere := repository(t)
	below, missing, odd := "sub", "nowhere", "no-such-ref"
	link := filepath.Join(filepath.Dir(repo), "link")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	d := daemon(t, "http://127.0.0.1:1", func(c *Config) { c.Sources = []string{filepath.Dir(repo)} })
	for name, c := range map[string]struct {
		change  func(*job.SandboxRunRequest)
		outcome job.Outcome
		status  job.Status
		exits   []int32
		stderr  string
	}{
		"success": {nil, job.Passed, job.Success, []int32{0}, ""},
		"below":   {func(r *job.SandboxRunRequest) { r.Commands = []job.Command{{Cmd: "cat b.txt", Workdir: &below}} }, job.Passed, job.Success, []int32{0}, ""},
		"failing": {func(r *job.SandboxRunRequest) { r.Commands = []job.Command{{Cmd: "exit 3"}, {Cmd: "true"}} }, job.JobFailed, job.Failed, []int32{3}, ""},
		"continue": {func(r *job.SandboxRunRequest) {
			r.Commands = []job.Command{{Cmd: "exit 3", ContinueOnFail: true}, {Cmd: "true"}}
		}, job.JobFailed, job.Failed, []int32{3, 0}, ""},
		"shared tree": {func(r *job.SandboxRunRequest) { r.Commands = []job.Command{{Cmd: "echo x > new"}, {Cmd: "cat new"}} }, job.Passed, job.Success, []int32{0, 0}, ""},
		"no network": {func(r *job.SandboxRunRequest) {
			r.Commands = []job.Command{{Cmd: "test $(wc -l < /proc/net/dev) -le 3"}}
		}, job.Passed, job.Success, []int32{0}, ""},
		"environment": {func(r *job.SandboxRunRequest) {
			r.Env = map[string]string{"X": "1"}
			r.Commands[0].Cmd = `test "$X" = 1 && test -z "$REMIT_TOKEN"`
		}, job.Passed, job.Success, []int32{0}, ""},
		"no directory":    {func(r *job.SandboxRunRequest) { r.Commands[0].Workdir = &missing }, job.JobFailed, job.Failed, []int32{127}, ""},
		"no revision":     {func(r *job.SandboxRunRequest) { r.Repo.GitRef = &odd }, job.JobFailed, job.Failed, []int32{128}, "base_not_found"},
		"elsewhere":       {func(r *job.SandboxRunRequest) { r.Repo.Source = elsewhere }, job.JobFailed, job.Failed, []int32{128}, "forbidden"},
		"dots":            {func(r *job.SandboxRunRequest) { r.Repo.Source = repo + "/../../../etc" }, job.JobFailed, job.Failed, []int32{128}, "forbidden"},
		"through a link":  {func(r *job.SandboxRunRequest) { r.Repo.Source = link }, job.JobFailed, job.Failed, []int32{128}, "forbidden"},
		"relative":        {func(r *job.SandboxRunRequest) { r.Repo.Source = "repo" }, job.JobFailed, job.Failed, []int32{128}, "forbidden"},
		"a remote helper": {func(r *job.SandboxRunRequest) { r.Repo.Source = "ext::sh -c id" }, job.JobFailed, job.Failed, []int32{128}, "forbidden"},
		"no repository":   {func(r *job.SandboxRunRequest) { r.Repo.Source = filepath.Dir(repo) }, job.JobFailed, job.Failed, []int32{128}, "not_a_repository"},
		"another image":   {func(r *job.SandboxRunRequest) { r.Sandbox.ImageDigest = "sha256:" + strings.Repeat("a", 64) }, job.JobFailed, job.Failed, []int32{128}, "job_invalid"},
		"another mount":   {func(r *job.SandboxRunRequest) { r.Repo.MountPath = "/etc" }, job.JobFailed, job.Failed, []int32{128}, "job_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request(t, repo, c.change)
			resp, files := d.runForTest(t.Context(), t, r)
			body, err := json.Marshal(resp)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := job.ParseSandboxRunResponse(body); err != nil {
				t.Fatalf("the authority would not read the response: %v", err)
			}
			v := job.Check(r, resp)
			var exits []int32
			for _, run := range resp.Runs {
				exits = append(exits, run.ExitCode)
			}
			if v.Outcome != c.outcome || resp.Status != c.status || fmt.Sprint(exits) != fmt.Sprint(c.exits) {
				t.Errorf("outcome %s, status %s, exits %v, verdict %+v, response %s", v.Outcome, resp.Status, exits, v, body)
			}
			if c.stderr != "" && !strings.Contains(api.Value(resp.Runs[0].StderrPreview), c.stderr) {
				t.Errorf("stderr %q does not say %s", api.Value(resp.Runs[0].StderrPreview), c.stderr)
			}
			if len(files) != 2*len(resp.Runs) || len(resp.Artifacts) != len(files) || resp.Provider.ID != "prv_1" || resp.Platform.Driver == "" {
				t.Errorf("%d files, %s", len(files), body)
			}
			if strings.Contains(string(body), elsewhere) && name != "elsewhere" {
				t.Errorf("the response tells a path of this host: %s", body)
			}
			if name == "success" && (resp.Usage == nil || resp.Caps == nil || resp.Caps.TimeoutSecs != 20 || resp.Caps.Network != "none" || *resp.Runs[0].StdoutPreview != "hello\n") {
				t.Errorf("%s", body)
			}
		})
	}
}

func TestJobTimeIsForAllCommands(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	d := daemon(t, "http://127.0.0.1:1", func(c *Config) { c.Sources = []string{repo}; c.Caps.TimeoutSecs = 1 })
	r := request(t, repo, func(r *job.SandboxRunRequest) {
		r.Commands = []job.Command{{Cmd: "true"}, {Cmd: "sleep 60"}, {Cmd: "true"}}
	})
	resp, _ := d.runForTest(t.Context(), t, r)
	if v := job.Check(r, resp); resp.Status != job.Timeout || v.Passed || len(resp.Runs) != 2 || resp.Caps.TimeoutSecs != 1 {
		t.Errorf("%+v %+v", resp, v)
	}
}

func TestCancelledWorkSaysSo(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	d := daemon(t, "http://127.0.0.1:1", func(c *Config) { c.Sources = []string{repo} })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	resp, _ := d.runForTest(ctx, t, request(t, repo, nil))
	if resp.Status != job.Cancelled {
		t.Errorf("%+v", resp)
	}
}

func TestSpoolOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	s := spool{filepath.Join(t.TempDir(), "spool")}
	if all, err := s.all(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	hostile := "../../etc/passwd\x00"
	for _, id := range []string{"job_1", hostile} {
		dir, err := s.begin(id)
		if err != nil || filepath.Dir(dir) != s.dir {
			t.Fatal(dir, err)
		}
		if r, err := s.load(id); r != nil || err != nil {
			t.Fatal(r, err)
		}
		if err := s.finish(Result{JobID: id, JobHash: "h", Fence: 3, Response: json.RawMessage("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.begin("job_cut_off"); err != nil {
		t.Fatal(err)
	}
	if all, err := s.all(); err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	if err := os.WriteFile(filepath.Join(s.path("job_1"), resultFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := s.all(); err != nil || len(all) != 1 || all[0].JobID != hostile {
		t.Fatal(all, err)
	}
	if err := s.drop(hostile); err != nil {
		t.Fatal(err)
	}
}

func TestStateKeepsTheCredentialPrivate(t *testing.T) {
	t.Parallel()
	s := State{filepath.Join(t.TempDir(), "p")}
	if _, _, err := s.Load(); reason.CodeOf(err) != reason.NotFound {
		t.Fatal(err)
	}
	if err := s.Save(Identity{"http://127.0.0.1:1", "prv_1", "n"}, "secret"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir, credentialFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	if id, token, err := s.Load(); err != nil || token != "secret" || id.ProviderID != "prv_1" {
		t.Fatal(id, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Load(); reason.CodeOf(err) != reason.Forbidden || strings.Contains(err.Error(), "secret") {
		t.Fatal(err)
	}
}

// authority is a scripted nexus.
type authority struct {
	t         *testing.T
	mu        sync.Mutex
	lease     *api.Lease
	refuse    map[string]reason.Code // by last element of the path
	refused   func(step string)      // is called at each refusal, if not nil
	completed []api.CompleteRequest
	keys      []string
	uploads   int
	story     []string // what a provider says of itself and of its leases
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	step := filepath.Base(r.URL.Path)
	said := a.said(step, r)
	if strings.Contains(r.URL.Path, "/artifacts/") {
		step = "artifact"
	}
	if r.Header.Get("Authorization") != "Bearer rmt_provider_x_y" || r.Method != http.MethodGet && r.Header.Get(api.HeaderKey) == "" {
		a.t.Errorf("%s %s without credential or key", r.Method, r.URL.Path)
	}
	if code, ok := a.refuse[step]; ok {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(api.Problem{Code: string(code), Detail: "no"})
		if a.refused != nil {
			a.refused(step)
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if said != "" {
		a.story = append(a.story, said)
	}
	var answer any = api.Job{}
	switch step {
	case "heartbeat":
		answer = api.Provider{}
	case "renew":
		answer = api.Lease{}
	case "lease":
		leases := []api.Lease{}
		if a.lease != nil {
			leases, a.lease = append(leases, *a.lease), nil
		}
		answer = api.LeaseList{Leases: leases}
	case "complete":
		var c api.CompleteRequest
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			a.t.Error(err)
		}
		a.completed, a.keys = append(a.completed, c), append(a.keys, r.Header.Get(api.HeaderKey))
	case "artifact":
		a.uploads++
		w.WriteHeader(http.StatusCreated)
		answer = api.Artifact{}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func leaseOf(r job.SandboxRunRequest) *api.Lease {
	return &api.Lease{Fence: 7, LeaseUntil: api.TimeOf(time.Now().UnixMilli()), Job: api.Job{JobID: "job_1", JobType: job.SandboxRun, JobHash: r.Hash(), Request: api.JobDocument(r.Canonical())}}
}

func serve(t *testing.T, repo string, r job.SandboxRunRequest) (*authority, *Daemon) {
	t.Helper()
	a := &authority{t: t, lease: leaseOf(r), refuse: map[string]reason.Code{}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, daemon(t, s.URL, func(c *Config) { c.Sources = []string{repo}; c.LeaseTTL = 60 * time.Millisecond })
}

func TestOnce(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	a, d := serve(t, repo, request(t, repo, nil))
	d.ttl = time.Minute
	for i, want := range []bool{true, false} {
		if ran, err := d.Once(t.Context(), 0); err != nil || ran != want {
			t.Fatal(i, ran, err)
		}
	}
	if len(a.completed) != 1 || a.completed[0].Fence != 7 || a.uploads != 2 {
		t.Errorf("%+v, %d uploads", a.completed, a.uploads)
	}
	if left, err := d.spool.all(); err != nil || len(left) != 0 {
		t.Error(left, err)
	}
}

// TestStaleFenceKillsTheWork has the authority give the lease away.
func TestStaleFenceKillsTheWork(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	a, d := serve(t, repo, request(t, repo, func(r *job.SandboxRunRequest) { r.Commands[0].Cmd = "sleep 600" }))
	a.refuse["renew"] = reason.StaleFence
	d.ttl = 6 * time.Second // a busy machine must not lose the lease before it can hear that
	ran, err := d.Once(t.Context(), 0)
	if !ran || !errors.Is(err, errStale) || len(a.completed) != 0 {
		t.Errorf("%v %v %+v", ran, err, a.completed)
	}
	if left, err := d.spool.all(); err != nil || len(left) != 0 {
		t.Error(left, err)
	}
}

// TestUnreachableAuthorityKillsTheWork lets the lease run out.
func TestUnreachableAuthorityKillsTheWork(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	a, d := serve(t, repo, request(t, repo, func(r *job.SandboxRunRequest) { r.Commands[0].Cmd = "sleep 600" }))
	a.refuse["renew"] = reason.StoreUnavailable
	if ran, err := d.Once(t.Context(), 0); !ran || !errors.Is(err, errLost) {
		t.Errorf("%v %v", ran, err)
	}
}

// TestFinishedWorkIsKept has the authority unreachable when the work is done,
// until the daemon is asked to stop, and back later, for a new daemon.
func TestFinishedWorkIsKept(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	a, d := serve(t, repo, request(t, repo, nil))
	d.ttl = time.Minute
	a.refuse["complete"] = reason.StoreUnavailable
	working, stop := context.WithCancel(t.Context())
	a.refused = func(string) { stop() }
	if _, err := d.Once(working, 0); reason.CodeOf(err) != reason.StoreUnavailable {
		t.Fatal(err)
	}
	if left, err := d.spool.all(); err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	delete(a.refuse, "complete")
	for range 2 {
		if ran, err := d.Once(t.Context(), 0); ran || err != nil {
			t.Fatal(ran, err)
		}
	}
	if len(a.completed) != 1 || len(a.keys) != 1 {
		t.Errorf("%d answers", len(a.completed))
	}
}

// TestRequestMustHaveItsHash has the authority (or a proxy between) change the
// request of a job.
func TestRequestMustHaveItsHash(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	r := request(t, repo, nil)
	a, d := serve(t, repo, r)
	r.Commands[0].Cmd = "cat a.txt; curl evil"
	a.lease.Job.Request = api.JobDocument(r.Canonical())
	if ran, err := d.Once(t.Context(), 0); !ran || err == nil || len(a.completed) != 0 {
		t.Errorf("%v %v", ran, err)
	}
}

// TestLaneFrames applies events by sequence number, twice and out of order.
func TestLaneFrames(t *testing.T) {
	t.Parallel()
	d := daemon(t, "http://127.0.0.1:1")
	stopped := 0
	d.register("job_1", func(error) { stopped++ })
	var after int64
	cancel := func(seq int64) api.LaneFrame {
		return api.LaneFrame{Type: api.LaneFrameTypeEvent, Event: &api.Event{Seq: seq, EventType: eventCancel, Payload: api.Document(`{"job_id":"job_1"}`)}}
	}
	seven := int64(7)
	for _, f := range []api.LaneFrame{{Type: api.LaneFrameTypeSnapshot, Seq: &seven}, cancel(3), cancel(8), cancel(8)} {
		d.frame(f, &after)
	}
	if stopped != 1 || after != 8 {
		t.Errorf("stopped %d times, after %d", stopped, after)
	}
}

// TestPartOfALargerRepository: git climbs from a directory to the repository
// around it, which the operator never opened.
func TestPartOfALargerRepository(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	d := daemon(t, "http://127.0.0.1:1", func(c *Config) { c.Sources = []string{filepath.Join(repo, "sub")} })
	resp, _ := d.runForTest(t.Context(), t, request(t, repo, func(r *job.SandboxRunRequest) { r.Repo.Source = filepath.Join(repo, "sub") }))
	if resp.Status != job.Failed || resp.Runs[0].StderrPreview == nil || !strings.Contains(*resp.Runs[0].StderrPreview, "forbidden") {
		t.Errorf("%+v", resp)
	}
}
