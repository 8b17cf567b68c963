package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"remit/fixtures/tally"
	"remit/law/audit"
	"remit/law/task"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine/command"
	"remit/work/sandbox"
	"remit/work/session"
	"remit/work/verdictcache"
	"remit/work/workspace"
)

// audited holds a session to all gates of both verifiers.
func audited(t *testing.T, s session.Session) {
	t.Helper()
	var opt bundle.Options
	opt.Gates, opt.Further = audit.Gates()
	rep, err := bundle.Audit(t.Context(), s.Dir, opt)
	if err != nil || rep.Status != bundle.Pass {
		t.Errorf("audit: %v %+v", err, rep)
	}
	if python, err := exec.LookPath("python3"); err != nil {
		t.Log("no python3: the second verifier did not judge the session")
	} else if out, err := exec.CommandContext(t.Context(), python, filepath.Join("..", "..", "vectors", "verify.py"), s.Dir).CombinedOutput(); err != nil {
		t.Errorf("verify.py: %v\n%s", err, out)
	}
}

// fixing is a run that passes: the engine writes what the command asks for.
func fixing(t *testing.T, repo string, d sandbox.Driver, script string) Request {
	t.Helper()
	req := newRun(t, repo, nil, nil)
	req.Sandbox, req.VerdictCache = d, true
	req.Engine = &command.Engine{Argv: []string{"sh", "-c", script}, Dir: "/"}
	req.Contract.VerificationCommands = []string{"test -s a.txt && echo checked"}
	return req
}

// baseRun runs a request and returns the baseline's run in its report.
func baseRun(t *testing.T, req Request) (*Outcome, evidence.CommandRun) {
	t.Helper()
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if out.Report.Status != evidence.StatusPass || len(out.Report.Verification) != 2 {
		t.Fatalf("%s: %+v", out.Report.Status, out.Report.Blockers)
	}
	audited(t, out.Session)
	if out.Report.Verification[1].Cached {
		t.Error("the patched tree was not run")
	}
	return out, out.Report.Verification[0]
}

// TestBaselineIsVerifiedOnce: the second run against a baseline takes its
// result from the cache and says so; what would make another result asks anew.
func TestBaselineIsVerifiedOnce(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	d, repo := realSandbox(t), newRepo(t, map[string]string{"a.txt": "a\n"})
	first := fixing(t, repo, d, "echo one >>a.txt")
	_, base := baseRun(t, first)
	if base.Cached {
		t.Error("the first run found something")
	}
	second := fixing(t, repo, d, "echo two >>a.txt")
	second.Home = first.Home
	out, again := baseRun(t, second)
	if !again.Cached || again.CacheKey == "" || again.CachedAt == "" || again.StdoutSHA256 != base.StdoutSHA256 || again.DurationMS != base.DurationMS {
		t.Errorf("the baseline was run again: %+v", again)
	}
	log, err := os.ReadFile(filepath.Join(out.Session.Dir, evidence.TestLogFile))
	if err != nil || !bytes.HasPrefix(log, []byte("=== cached base key="+again.CacheKey+" made_at="+again.CachedAt+"\n")) || strings.Count(string(log), "\nchecked\n") < 2 {
		t.Errorf("test.log: %v\n%s", err, log)
	}
	summary, err := os.ReadFile(filepath.Join(out.Session.Dir, evidence.SummaryFile))
	if err != nil || !bytes.Contains(summary, []byte("The baseline was not run again")) {
		t.Errorf("the summary does not tell: %v\n%s", err, summary)
	}
	for name, change := range map[string]func(*Request){
		"not allowed":      func(r *Request) { r.VerdictCache = false },
		"another command":  func(r *Request) { r.Contract.VerificationCommands = []string{"test -s a.txt"} },
		"another rule":     func(r *Request) { r.Contract.Tests = "free" },
		"another limit":    func(r *Request) { r.Contract.Limits.MemoryMB = 700 },
		"more repetitions": func(r *Request) { r.Repeat = 2 },
		"another baseline": func(r *Request) { r.Repo = newRepo(t, map[string]string{"a.txt": "b\n"}) },
	} {
		req := fixing(t, repo, d, "echo three >>a.txt")
		req.Home = first.Home
		change(&req)
		if _, base := baseRun(t, req); base.Cached {
			t.Errorf("%s: the baseline was not run", name)
		}
	}
}

// TestPoisoningTheCache: an agent in the sandbox cannot reach the cache, and
// what another program wrote there is not believed.
func TestPoisoningTheCache(t *testing.T) {
	t.Parallel()
	d, repo := realSandbox(t), newRepo(t, map[string]string{"a.txt": "a\n"})
	first := fixing(t, repo, d, "echo one >>a.txt")
	_, want := baseRun(t, first)
	entries := func() map[string]string {
		names, err := os.ReadDir(first.Home.VerdictDir())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, n := range names {
			text, err := os.ReadFile(filepath.Join(first.Home.VerdictDir(), n.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out[n.Name()] = string(text)
		}
		return out
	}
	before := entries()
	if len(before) != 1 {
		t.Fatalf("%d entries: the test would prove nothing", len(before))
	}
	attack := fixing(t, repo, d, fmt.Sprintf("echo two >>a.txt; for f in %[1]s %[1]s/*; do [ -e $f ] && echo reached; echo poison >$f; rm -rf $f; done 2>/dev/null; mkdir -p %[1]s; true", first.Home.VerdictDir()))
	attack.Home = first.Home
	attack.Contract.VerificationCommands[0] += fmt.Sprintf("; [ -e %[1]s ] && echo reached; echo poison >%[1]s/x; true", first.Home.VerdictDir())
	out, err := Run(t.Context(), attack)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{evidence.TestLogFile, stdoutFile} {
		if log, err := os.ReadFile(filepath.Join(out.Session.Dir, name)); err != nil || bytes.Contains(log, []byte("\nreached\n")) {
			t.Errorf("%s: %v %s", name, err, log)
		}
	}
	after := entries()
	for name, text := range before {
		if after[name] != text {
			t.Error("the sandbox changed an entry")
		}
		// Another program on this machine did, and says that the baseline fails.
		lie := strings.ReplaceAll(text, `"passed":true`, `"passed":null`)
		if lie == text {
			t.Fatal("nothing was poisoned")
		}
		if err := os.WriteFile(filepath.Join(first.Home.VerdictDir(), name), []byte(lie), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	req := fixing(t, repo, d, "echo three >>a.txt")
	req.Home = first.Home
	if _, got := baseRun(t, req); got.Cached || got.StdoutSHA256 != want.StdoutSHA256 || !got.Passed {
		t.Errorf("the poisoned entry counts: %+v", got)
	}
	req = fixing(t, repo, d, "echo four >>a.txt")
	req.Home = first.Home
	if _, got := baseRun(t, req); !got.Cached {
		t.Error("the entry was not made anew")
	}
}

// unconfined is a driver under which the commands are the user.
type unconfined struct{ sandbox.Driver }

func (u unconfined) Describe() sandbox.Description {
	d := u.Driver.Describe()
	d.Driver = sandbox.DriverNone
	return d
}

// TestUnconfinedRunsEmptyTheCache: what runs as the user can write entries, so
// none of those outlives such a run, and none is used in it.
func TestUnconfinedRunsEmptyTheCache(t *testing.T) {
	t.Parallel()
	d, repo := realSandbox(t), newRepo(t, map[string]string{"a.txt": "a\n"})
	first := fixing(t, repo, d, "echo one >>a.txt")
	baseRun(t, first)
	if err := os.MkdirAll(filepath.Join(first.Home.TestingDir(), "0"), 0o700); err != nil {
		t.Fatal(err)
	}
	second := fixing(t, repo, unconfined{d}, "echo two >>a.txt")
	second.Home, second.ExplicitNone = first.Home, true
	out, err := Run(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Report.Verification {
		if c.Cached {
			t.Errorf("%s is from the cache", c.Phase)
		}
	}
	for _, dir := range []string{first.Home.VerdictDir(), first.Home.TestingDir()} {
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s outlives the run", dir)
		}
	}
}

// TestVerifyAgainFromTheCache: a verdict of the same question is given again,
// and says so; reproducing, or asking for a fresh one, makes it.
func TestVerifyAgainFromTheCache(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	d, repo := realSandbox(t), newRepo(t, map[string]string{"a.txt": "a\n"})
	req := fixing(t, repo, d, "echo one >>a.txt")
	out, _ := baseRun(t, req)
	counted := &counting{Driver: d}
	again := func(change func(*Reproduction)) *Reproduced {
		counted.runs.Store(0)
		r := Reproduction{Evidence: os.DirFS(out.Session.Dir), Repo: repo, Home: req.Home, Sandbox: counted, Repeat: 1, Log: io.Discard, Verdicts: true}
		change(&r)
		got, err := Reproduce(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != evidence.StatusPass || got.Verification == nil || (counted.runs.Load() > 0) == got.Cached {
			t.Errorf("%+v after %d runs", got, counted.runs.Load())
		}
		return got
	}
	if again(func(*Reproduction) {}).Cached {
		t.Error("the verdict of the run itself counts as one of a later verification")
	}
	var log bytes.Buffer
	got := again(func(r *Reproduction) { r.Log = &log })
	if !got.Cached || !strings.HasPrefix(log.String(), "=== cached verdict key="+got.CacheKey+" made_at="+got.CachedAt+"\n") || !strings.Contains(log.String(), "=== head tree=head") {
		t.Errorf("%+v, log %q", got, log.String())
	}
	for name, change := range map[string]func(*Reproduction){
		"fresh":     func(r *Reproduction) { r.Fresh = true },
		"reproduce": func(r *Reproduction) { r.Verdicts = false },
		"repeated":  func(r *Reproduction) { r.Repeat = 2 },
	} {
		if again(change).Cached {
			t.Errorf("%s: from the cache", name)
		}
	}
	if !again(func(*Reproduction) {}).Cached {
		t.Error("a fresh verdict that agrees removed the entry")
	}
	counted.moved = "another host"
	if again(func(*Reproduction) {}).Cached {
		t.Error("a verdict of another host counts")
	}
}

// counting counts the runs of a driver, some of which are at the same time.
type counting struct {
	sandbox.Driver
	runs  atomic.Int64
	moved string // what the host looks like, "" for what it is
}

func (c *counting) Run(ctx context.Context, s sandbox.Spec) (*sandbox.Result, error) {
	c.runs.Add(1)
	return c.Driver.Run(ctx, s)
}

func (c *counting) HostView(ctx context.Context, lower string) (string, error) {
	if c.moved != "" {
		return c.moved, nil
	}
	return verdictcache.HostView(ctx, c.Driver, lower)
}

// TestReproduceUnderThePolicyOfTheBase: the maker of a bundle wrote its contract;
// one that asks for less than remit.yaml of the base commit is not verified again.
func TestReproduceUnderThePolicyOfTheBase(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	d, repo := realSandbox(t), newRepo(t, map[string]string{"a.txt": "a\n", "remit.yaml": "tests: protect\nverify: {observe: all}\n"})
	for name, want := range map[string]string{"less": evidence.StatusFail, "as much": evidence.StatusPass} {
		req := fixing(t, repo, d, "echo one >>a.txt")
		if name == "as much" {
			req.Contract.Tests, req.Contract.Verify.Observe = task.TestsProtect, task.ObserveAll
		}
		out, _ := baseRun(t, req)
		got, err := Reproduce(t.Context(), Reproduction{Evidence: os.DirFS(out.Session.Dir), Repo: repo, Home: req.Home, Sandbox: d, Repeat: 1, Log: io.Discard})
		if err != nil || got.Status != want || (want == evidence.StatusFail) != (len(got.Findings) == 1 && got.Findings[0].Code == reason.EnvelopeMismatch) {
			t.Errorf("%s: %v %+v", name, err, got)
		}
	}
}

// TestContractBesideAnUnreadablePolicy: no contract is found to ask for enough where
// what the base wants cannot be read.
func TestContractBesideAnUnreadablePolicy(t *testing.T) {
	t.Parallel()
	link := newRepo(t, map[string]string{"a.txt": "a\n"})
	amend := exec.Command("sh", "-c", "ln -s a.txt remit.yaml && git add . && git -c user.name=t -c user.email=t@example.com commit -q --amend -C HEAD")
	amend.Dir = link
	if out, err := amend.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, repo := range map[string]string{
		"":        newRepo(t, map[string]string{"a.txt": "a\n"}),
		"a link":  link,
		"a key":   newRepo(t, map[string]string{"remit.yaml": "tests: protect\nverifies: {}\n"}),
		"a flood": newRepo(t, map[string]string{"remit.yaml": strings.Repeat("# much\n", task.MaxSourceBytes/7+1)}),
	} {
		source, err := workspace.OpenSource(t.Context(), repo)
		if err != nil {
			t.Fatal(err)
		}
		base, err := source.Resolve(t.Context(), task.DefaultBase)
		if err != nil {
			t.Fatal(err)
		}
		found := weakerThanBase(t.Context(), source, base, &task.Contract{})
		if name == "" && found != nil || name != "" && (found == nil || found.Code != reason.EnvelopeMismatch || !strings.Contains(found.Detail, "remit.yaml of the base commit, which cannot be read")) {
			t.Errorf("%q: %+v", name, found)
		}
	}
}
