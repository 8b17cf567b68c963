package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"remit/law/task"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine/command"
	"remit/work/sandbox"
)

var noon = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

func newVerdicts(t *testing.T) *verdictCache {
	t.Helper()
	c, err := openVerdicts(Home{Dir: t.TempDir()}, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func same(earlier []byte) func([]byte) bool {
	return func(other []byte) bool { return bytes.Equal(earlier, other) }
}

func mustPut(t *testing.T, c *verdictCache, key, payload string) {
	t.Helper()
	if err := c.put([]byte(key), []byte(payload), []byte("log of "+payload), same([]byte(payload))); err != nil {
		t.Fatal(err)
	}
}

// TestVerdictCacheKeepsWhatItWasGiven: an entry is found by its own key only,
// and only the user can read it.
func TestVerdictCacheKeepsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	c := newVerdicts(t)
	mustPut(t, c, `{"a":1}`, "one")
	mustPut(t, c, `{"a":2}`, "two")
	e := c.get([]byte(`{"a":1}`))
	if e == nil || string(e.payload) != "one" || string(e.log) != "log of one" || e.key != canon.Digest([]byte(`{"a":1}`)) || e.madeAt != "2026-02-01T12:00:00.000Z" {
		t.Fatalf("%+v", e)
	}
	if c.get([]byte(`{"a":3}`)) != nil {
		t.Error("an entry that nobody made")
	}
	for path, want := range map[string]os.FileMode{c.dir: 0o700, c.file([]byte(`{"a":1}`)): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
}

// TestPoisonedEntriesAreIgnored: whatever lies under the name of a key and was
// not written for it counts as nothing, and is gone afterwards.
func TestPoisonedEntriesAreIgnored(t *testing.T) {
	t.Parallel()
	key, other := []byte(`{"repository":"mine"}`), []byte(`{"repository":"theirs"}`)
	rewrite := func(change func([]byte) []byte) func(*testing.T, *verdictCache) {
		return func(t *testing.T, c *verdictCache) {
			text, err := os.ReadFile(c.file(key))
			if err == nil {
				err = os.WriteFile(c.file(key), change(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// resealed is what somebody writes who knows the format.
	resealed := func(old, replacement string) func([]byte) []byte {
		return func(text []byte) []byte {
			_, rest, _ := bytes.Cut(text, []byte("\n"))
			rest = bytes.Replace(rest, []byte(old), []byte(replacement), 1)
			return append([]byte(verdictMagic+canon.Digest(rest)+"\n"), rest...)
		}
	}
	tests := map[string]func(*testing.T, *verdictCache){
		"one bit":          rewrite(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"cut":              rewrite(func(b []byte) []byte { return b[:len(b)-3] }),
		"longer":           rewrite(func(b []byte) []byte { return append(b, 'x') }),
		"empty":            rewrite(func([]byte) []byte { return nil }),
		"another result":   rewrite(func(b []byte) []byte { return bytes.Replace(b, []byte("fail"), []byte("pass"), 1) }),
		"no head":          rewrite(func([]byte) []byte { return []byte(verdictMagic + canon.Digest([]byte("x")) + "\nx") }),
		"wrong lengths":    rewrite(resealed(`"payload_bytes":4`, `"payload_bytes":5`)),
		"negative length":  rewrite(resealed(`"payload_bytes":4`, `"payload_bytes":-4`)),
		"of another key":   rewrite(resealed(`"mine"`, `"more"`)),
		"from the future":  rewrite(resealed("2026-02-01T12", "2026-02-01T13")),
		"of last week":     rewrite(resealed("2026-02-01T12", "2026-01-25T12")),
		"more in the head": rewrite(resealed(`{"key"`, `{"extra":1,"key"`)),
		"readable for the group": func(t *testing.T, c *verdictCache) {
			if err := os.Chmod(c.file(key), 0o640); err != nil {
				t.Fatal(err)
			}
		},
		"writable for all": func(t *testing.T, c *verdictCache) {
			if err := os.Chmod(c.file(key), 0o602); err != nil {
				t.Fatal(err)
			}
		},
		"the entry of another repository": func(t *testing.T, c *verdictCache) {
			mustPut(t, c, string(other), "pass")
			if err := os.Rename(c.file(other), c.file(key)); err != nil {
				t.Fatal(err)
			}
		},
		"a link to another entry": func(t *testing.T, c *verdictCache) {
			mustPut(t, c, string(other), "pass")
			if err := errors.Join(os.Remove(c.file(key)), os.Symlink(c.file(other), c.file(key))); err != nil {
				t.Fatal(err)
			}
		},
		"a directory": func(t *testing.T, c *verdictCache) {
			if err := errors.Join(os.Remove(c.file(key)), os.Mkdir(c.file(key), 0o700)); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, poison := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newVerdicts(t)
			mustPut(t, c, string(key), "fail")
			if c.get(key) == nil {
				t.Fatal("the entry is not there: the test would prove nothing")
			}
			poison(t, c)
			if e := c.get(key); e != nil {
				t.Errorf("got %q", e.payload)
			}
			if _, err := os.Lstat(c.file(key)); err == nil {
				t.Error("it is still there")
			}
			mustPut(t, c, string(key), "fail") // and is made anew
			if c.get(key) == nil {
				t.Error("it is not made anew")
			}
		})
	}
}

// TestVerdictCacheIsTheUsersAlone: a directory that others can write to is not
// used, whatever is in it.
func TestVerdictCacheIsTheUsersAlone(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o770, 0o707, 0o755} {
		h := Home{Dir: t.TempDir()}
		if _, err := openVerdicts(h, time.Now); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(h.VerdictDir(), mode); err != nil {
			t.Fatal(err)
		}
		if _, err := openVerdicts(h, time.Now); err == nil {
			t.Errorf("mode %o is accepted", mode)
		}
	}
	h := Home{Dir: t.TempDir()}
	if err := errors.Join(os.MkdirAll(h.CacheDir(), 0o700), os.Symlink(t.TempDir(), h.VerdictDir())); err != nil {
		t.Fatal(err)
	}
	if _, err := openVerdicts(h, time.Now); err == nil {
		t.Error("a link is accepted")
	}
}

// TestDisagreementIsRemembered: what came out differently once is never given
// from the cache, however often it comes out the same afterwards.
func TestDisagreementIsRemembered(t *testing.T) {
	t.Parallel()
	c := newVerdicts(t)
	mustPut(t, c, `{}`, "pass")
	mustPut(t, c, `{}`, "pass")
	if c.get([]byte(`{}`)) == nil {
		t.Fatal("an agreement is not kept")
	}
	for _, payload := range []string{"fail", "pass", "pass"} {
		mustPut(t, c, `{}`, payload)
		if e := c.get([]byte(`{}`)); e != nil {
			t.Errorf("after %s: %q", payload, e.payload)
		}
	}
}

// TestVerdictCacheIsBounded: the least recently used goes first, and what is
// no entry goes as well.
func TestVerdictCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newVerdicts(t)
	for i := range 5 {
		key := fmt.Sprintf(`{"n":%d}`, i)
		mustPut(t, c, key, "x")
		when := noon.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(c.file([]byte(key)), when, when); err != nil {
			t.Fatal(err)
		}
	}
	stranger := filepath.Join(c.dir, "stranger")
	if err := errors.Join(os.WriteFile(stranger, make([]byte, 1<<16), 0o600), os.Chtimes(stranger, noon.AddDate(0, 0, -1), noon.AddDate(0, 0, -1))); err != nil {
		t.Fatal(err)
	}
	if err := c.trim(1<<15, 3); err != nil {
		t.Fatal(err)
	}
	var left string
	for i := range 5 {
		if c.get([]byte(fmt.Sprintf(`{"n":%d}`, i))) != nil {
			left += fmt.Sprint(i)
		}
	}
	if _, err := os.Stat(stranger); left != "234" || err == nil {
		t.Errorf("left %s, the stranger: %v", left, err)
	}
	if err := c.put([]byte(`{"n":9}`), make([]byte, maxVerdictEntry), nil, same(nil)); err != nil || c.get([]byte(`{"n":9}`)) != nil {
		t.Errorf("an entry that is too large: %v", err)
	}
}

// TestVerdictKeyNamesEverything: a change of any input is another key.
func TestVerdictKeyNamesEverything(t *testing.T) {
	t.Parallel()
	base := func() verdictKey {
		return verdictKey{Format: 1, Kind: baseResult, BaselineTree: "t", Commands: []string{"a", "b"}, TestsRule: "extend", HeldOut: []heldOutKey{{"p", "d"}}, Repeat: 1,
			Sandbox: sandbox.Description{Driver: "bwrap", Config: map[string]string{"k": "v"}}}
	}
	seen := map[string]string{}
	for name, change := range map[string]func(*verdictKey){
		"nothing":  func(*verdictKey) {},
		"kind":     func(k *verdictKey) { k.Kind = verdictResult },
		"baseline": func(k *verdictKey) { k.BaselineTree = "u" },
		"patch":    func(k *verdictKey) { k.PatchSHA256 = "p" },
		"head":     func(k *verdictKey) { k.HeadTree = "h" },
		"commands": func(k *verdictKey) { k.Commands = []string{"a b"} },
		"order":    func(k *verdictKey) { k.Commands = []string{"b", "a"} },
		"rule":     func(k *verdictKey) { k.TestsRule = "free" },
		"held out": func(k *verdictKey) { k.HeldOut[0].SHA256 = "e" },
		"place":    func(k *verdictKey) { k.HeldOut[0].Path = "q" },
		"repeat":   func(k *verdictKey) { k.Repeat = 2 },
		"limits":   func(k *verdictKey) { k.Limits.MemoryMB = 1 },
		"verifier": func(k *verdictKey) { k.Verifier.SHA256 = "v" },
		"driver":   func(k *verdictKey) { k.Sandbox.Version = "2" },
		"config":   func(k *verdictKey) { k.Sandbox.Config["k"] = "w" },
		"host":     func(k *verdictKey) { k.Host = "h" },
	} {
		k := base()
		change(&k)
		text, err := keyOf(k)
		if err != nil {
			t.Fatal(err)
		}
		if earlier, twice := seen[string(text)]; twice {
			t.Errorf("%s and %s have one key", name, earlier)
		}
		seen[string(text)] = name
	}
}

// audited holds a session to all gates of both verifiers.
func audited(t *testing.T, s Session) {
	t.Helper()
	var opt bundle.Options
	opt.Gates, opt.Further = AuditGates()
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
// what somebody wrote there is not believed.
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
		// Somebody else on this machine did, and says that the baseline fails.
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
	if err := os.MkdirAll(filepath.Join(first.Home.testingDir(), "0"), 0o700); err != nil {
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
	for _, dir := range []string{first.Home.VerdictDir(), first.Home.testingDir()} {
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s outlives the run", dir)
		}
	}
}

// TestVerifyAgainFromTheCache: a verdict of the same question is given again,
// and says so; reproducing, or asking for a fresh one, makes it.
func TestVerifyAgainFromTheCache(t *testing.T) {
	t.Parallel()
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
	return hostView(ctx, c.Driver, lower)
}

// FuzzReadVerdict: bytes of a file that is no entry never make one.
func FuzzReadVerdict(f *testing.F) {
	f.Add([]byte(`{"status":"pass"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := readVerdict(text); err == nil && !settled(v) {
			t.Errorf("%+v", v)
		}
	})
}

// TestReproduceUnderThePolicyOfTheBase: whoever made a bundle wrote its contract;
// one that asks for less than remit.yaml of the base commit is not verified again.
func TestReproduceUnderThePolicyOfTheBase(t *testing.T) {
	t.Parallel()
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
