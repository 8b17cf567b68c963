package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"remit/work/redact"
	"remit/work/session"

	"remit/law/secret"
	"remit/law/task"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/sandbox"
	"remit/work/tree"
)

// credential is made when the tests run: no scanner of a forge finds it here.
func credential(seed uint64) string {
	const chars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 36)
	for i := range b {
		b[i] = chars[r.IntN(len(chars))]
	}
	return string(b)
}

func githubToken(seed uint64) string { return "gh" + "p_" + credential(seed) }

// scripted is a sandbox in which the engine does what a test says. What comes
// after the engine is not reached in these tests, but for the verifier's word.
type scripted struct {
	stdout, stderr string
	files          map[string]string
	started        bool
	deletes        string // a path
	fails          error  // what comes of it in place of a result
	dies           bool   // in the middle, and Remit with it
}

func (d *scripted) Describe() sandbox.Description { return sandbox.Description{Driver: "scripted"} }

func (d *scripted) Run(_ context.Context, s sandbox.Spec) (*sandbox.Result, error) {
	c := s.Commands[0]
	if c.Argv[0] != "tool" {
		return nil, errors.New("this sandbox does not verify")
	}
	d.started = true
	for i := 0; i < len(d.stdout); i += 7 { // in many writes
		_, _ = io.WriteString(c.Stdout, d.stdout[i:min(i+7, len(d.stdout))])
	}
	_, _ = io.WriteString(c.Stderr, d.stderr)
	if d.dies {
		panic("killed")
	}
	if d.fails != nil {
		return &sandbox.Result{Commands: []sandbox.CommandResult{{Started: true}}, Layer: "copy"}, d.fails
	}
	res := &sandbox.Result{Commands: []sandbox.CommandResult{{Started: true}}, Layer: "copy"}
	for name, text := range d.files {
		res.Changes = append(res.Changes, tree.Change{Path: name, Kind: tree.File, Size: int64(len(text)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }})
	}
	if d.deletes != "" {
		res.Changes = append(res.Changes, tree.Change{Path: d.deletes, Kind: tree.Delete})
	}
	return res, nil
}

// talker is an engine with a protocol: each line of its output is an event. It
// stands in for the validation lane, which no gate keeps from running.
type talker struct{ argv []string }

func (talker) Identity(context.Context) (evidence.EngineIdentity, error) {
	return evidence.EngineIdentity{Name: "fake", Version: "1", SHA256: canon.Digest(nil)}, nil
}

func (e talker) Invocation(context.Context, engine.Task) (*engine.Invocation, error) {
	return &engine.Invocation{Argv: e.argv, Protocol: func(emit func(engine.Event)) engine.Protocol { return talk{emit} }}, nil
}

type talk struct{ emit func(engine.Event) }

func (p talk) Line(line []byte) {
	var e engine.Event
	if json.Unmarshal(line, &e) == nil {
		p.emit(e)
	}
}
func (talk) End() engine.End { return engine.End{Complete: true} }

// newRepo makes a repository of files. Runs only read it, so that many can
// share it.
func newRepo(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, words := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "base"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, words...)...).CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
	return dir
}

// newRun is a request over a repository.
func newRun(t *testing.T, repo string, d *scripted, e engine.Engine, values ...secret.Value) Request {
	t.Helper()
	c, err := task.FromIssue([]byte("# Change it\n"), "test", nil)
	if err == nil {
		c, err = task.Narrow(c, task.Flags{Allow: []string{"**"}, Verify: []string{"true"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return Request{Home: session.Home{Dir: t.TempDir()}, Repo: repo, Contract: c, Engine: e, Sandbox: d, Credentials: values, Admission: Admission{ProvenMode: task.CopiedRepo}}
}

// leakFree holds a session against what no leak may change: it audits, by both
// verifiers, it has a scan, and it has the texts nowhere.
func leakFree(t *testing.T, s session.Session, texts ...string) {
	t.Helper()
	opt := bundle.Options{}
	for _, g := range evidence.Gates() {
		opt.Gates = append(opt.Gates, bundle.Gate(g))
	}
	rep, err := bundle.Audit(t.Context(), s.Dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Status != bundle.Pass {
		t.Errorf("audit: %+v", rep.Gates)
	}
	// The second verifier is slow to start; what it judges here is a redacted patch.
	if patch, err := os.ReadFile(filepath.Join(s.Dir, evidence.PatchFile)); err != nil || !bytes.Contains(patch, []byte("[redacted")) {
		t.Logf("the second verifier is not asked: %v", err)
	} else if python, err := exec.LookPath("python3"); err != nil {
		t.Log("no python3: the second verifier did not judge the session")
	} else if out, err := exec.Command(python, filepath.Join("..", "..", "vectors", "verify.py"), s.Dir).CombinedOutput(); err != nil {
		t.Errorf("verify.py: %v\n%s", err, out)
	}
	err = filepath.WalkDir(s.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		for _, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				t.Errorf("%s still has the secret", name)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// scanProof is what a reader finds in proofs/secret-scan.json.
type scanProof struct {
	Artifacts   []scanned
	Hits        []leak
	Quarantined []string
}

type scanned struct {
	Path        string
	Bytes       int64
	SHA256      string
	Quarantined bool
}

type leak struct {
	InBaseline bool `json:"in_baseline"`
}

// readScan is proofs/secret-scan.json.
func readScan(t *testing.T, s session.Session) (out scanProof) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Dir, redact.ProofFile))
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// moreThanListed is how many finds the proof lists of one artifact.
const moreThanListed = 1000

// TestLeaks takes secrets through every way from the engine into the evidence.
func TestLeaks(t *testing.T) {
	t.Parallel()
	value, gh, old := credential(1), githubToken(2), githubToken(3)
	event := func(e engine.Event) string {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(line) + "\n"
	}
	call := event(engine.Event{Kind: engine.ToolCall, ID: "c1", Tool: "write", Params: json.RawMessage(`{"path":"x"}`)})
	letter := strings.IndexAny(value, "GHIJKLMNOPQRSTUVWXYZ") // not one that its own escape ends in
	escaped := value[:letter] + fmt.Sprintf(`\u%04x`, value[letter]) + value[letter+1:]
	many := strings.Repeat(gh+"\n"+value+"\n", moreThanListed)
	tests := []struct {
		name        string
		argv        []string
		sandbox     scripted
		quarantined []string
		message     string
		notStarted  bool
	}{
		{name: "argv", argv: []string{"tool", "--key=" + value}, notStarted: true, message: "word 2 of the engine's command holds the value of credential DEPLOY_TOKEN"},
		{name: "argv, shape", argv: []string{"tool", gh}, notStarted: true, message: "(github-token)"},
		{name: "stdout", sandbox: scripted{stdout: "a\n" + value}, quarantined: []string{stdoutFile}, message: "at byte 2"},
		{name: "stderr", sandbox: scripted{stderr: gh + " " + value + "."}, quarantined: []string{stderrFile}, message: "and 1 more"},
		{name: "both", sandbox: scripted{stdout: value, stderr: value}, quarantined: []string{stderrFile, stdoutFile}, message: stdoutFile},
		{name: "more than can be listed", sandbox: scripted{stdout: many}, quarantined: []string{stdoutFile}, message: "more"},
		{name: "tool parameters", sandbox: scripted{stdout: event(engine.Event{Kind: engine.ToolCall, ID: value, Tool: "run", Params: json.RawMessage(`{"a":["` + value + `"]}`)})},
			quarantined: []string{stdoutFile}, message: stdoutFile},
		{name: "escaped tool parameters", sandbox: scripted{stdout: event(engine.Event{Kind: engine.ToolCall, ID: "c2", Tool: "run",
			Params: json.RawMessage(`{"a":"` + escaped + `"}`)})}, message: "the run would have written into its journal the value of credential DEPLOY_TOKEN (in tool/inputs/params/a)"},
		{name: "message", sandbox: scripted{stdout: event(engine.Event{Kind: engine.Message, Text: "I found " + value})}, quarantined: []string{stdoutFile}, message: stdoutFile},
		{name: "paths of a result", sandbox: scripted{stdout: call + event(engine.Event{Kind: engine.ToolResult, ID: "c1", OK: true, Paths: []string{"x/" + value}})},
			quarantined: []string{stdoutFile}, message: stdoutFile},
		{name: "text file", sandbox: scripted{files: map[string]string{"a.txt": "a\nkey " + value + "\n"}}, quarantined: []string{evidence.PatchFile}, message: "patch.diff holds the value"},
		{name: "shape in a text file", sandbox: scripted{files: map[string]string{"new.txt": gh}}, quarantined: []string{evidence.PatchFile}, message: "(github-token)"},
		{name: "old shape and a new one", sandbox: scripted{files: map[string]string{"new.txt": old + "\n" + gh}}, quarantined: []string{evidence.PatchFile}, message: "(github-token)"},
		{name: "file name", sandbox: scripted{files: map[string]string{"d/" + value + "/é": "x\n"}}, quarantined: []string{evidence.PatchFile}, message: "DEPLOY_TOKEN"},
		{name: "shape in a file name", sandbox: scripted{files: map[string]string{gh: "x\n"}}, quarantined: []string{evidence.PatchFile}, message: "(github-token)"},
		{name: "binary file", sandbox: scripted{files: map[string]string{"b.bin": "\x00" + value, "a.txt": "b\n"}}, quarantined: []string{evidence.PatchFile}, message: "at byte 1 of b.bin"},
		{name: "shape in a binary file", sandbox: scripted{files: map[string]string{"b.bin": "\x00\n" + gh}}, quarantined: []string{evidence.PatchFile}, message: "at byte 2 of b.bin"},
		{name: "patch with more than can be listed", sandbox: scripted{files: map[string]string{"a.txt": many, "b.bin": "\x00" + value, "c.txt": "x"}}, quarantined: []string{evidence.PatchFile}, message: "more"},
	}
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "old.txt": old + "\n"})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			argv := test.argv
			if argv == nil {
				argv = []string{"tool"}
			}
			req := newRun(t, repo, &test.sandbox, talker{argv}, secret.Value{Name: "DEPLOY_TOKEN", Value: value})
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			leakFree(t, out.Session, value, gh)
			if out.Report.Status != evidence.StatusFail || out.Report.Blockers[0].Code != reason.SecretLeak || !strings.Contains(out.Report.Blockers[0].Message, test.message) {
				t.Errorf("%s: %+v, want %q", out.Report.Status, out.Report.Blockers, test.message)
			}
			if test.sandbox.started == test.notStarted {
				t.Errorf("the engine was started: %v", test.sandbox.started)
			}
			got := readScan(t, out.Session)
			if !slices.Equal(got.Quarantined, orNone(test.quarantined)) || len(got.Hits) == 0 || len(got.Artifacts) < 2 {
				t.Errorf("scan: %+v", got)
			}
			checkQuarantine(t, req.Home, out.Session, got.Artifacts)
		})
	}
}

// checkQuarantine: the originals are there, whole, for their owner only.
func checkQuarantine(t *testing.T, home session.Home, s session.Session, artifacts []scanned) {
	t.Helper()
	for _, a := range artifacts {
		if !a.Quarantined {
			continue
		}
		name := filepath.Join(home.QuarantineDir(), s.ID, filepath.FromSlash(a.Path))
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if canon.Digest(content) != a.SHA256 || int64(len(content)) != a.Bytes {
			t.Errorf("the original of %s is not what was scanned", a.Path)
		}
	}
}

// TestNoLeaks: what the repository had before, and what only looks like a
// secret, stops nothing. The scan is recorded all the same.
func TestNoLeaks(t *testing.T) {
	t.Parallel()
	old, name := githubToken(3), githubToken(4)
	repo := newRepo(t, map[string]string{"a.txt": old + "\na\n", name: "x\n"})
	for what, files := range map[string]map[string]string{
		"context":      {"a.txt": old + "\nb\n"},
		"moved":        {"c.txt": "x\n" + old + "\n"},
		"binary":       {"c.bin": "\x00" + old},
		"old name":     {name: "changed\n"},
		"near a shape": {"a.txt": "-----BEGIN PRIVATE KEY-----\nhttps://u:password@h.corp.net\n"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := &scripted{files: files, stdout: "printed " + old + "\n"}
			req := newRun(t, repo, d, talker{[]string{"tool", old}})
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			leakFree(t, out.Session)
			for _, b := range out.Report.Blockers {
				if b.Code == reason.SecretLeak {
					t.Errorf("%+v", b)
				}
			}
			got := readScan(t, out.Session)
			if len(got.Quarantined) != 0 || len(got.Hits) == 0 || slices.ContainsFunc(got.Hits, func(h leak) bool { return !h.InBaseline }) {
				t.Errorf("scan: %+v", got)
			}
		})
	}
}

// TestRefusedRequests: what a person wrote is theirs to correct, and nothing is
// left of the attempt.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	value := credential(1)
	tests := map[string]func(*task.Contract){
		"instructions": func(c *task.Contract) { c.Instructions = "use " + value },
		"verification": func(c *task.Contract) { c.VerificationCommands = []string{"TOKEN=" + value + " make test"} },
		"shape":        func(c *task.Contract) { c.Instructions = "use " + githubToken(1) },
	}
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &scripted{}
			req := newRun(t, repo, d, talker{[]string{"tool"}}, secret.Value{Name: "T", Value: value})
			change(req.Contract)
			_, err := Run(t.Context(), req)
			if reason.CodeOf(err) != reason.SecretLeak || strings.Contains(err.Error(), value) || d.started {
				t.Errorf("%v", err)
			}
			if left, err := os.ReadDir(req.Home.Dir); err != nil || len(left) != 0 {
				t.Errorf("left in the home: %v, %v", left, err)
			}
		})
	}
}

// TestProjectionsAreTheLastLook: a credential that is a word of the documents
// themselves cannot be taken out, so nothing is sealed.
func TestProjectionsAreTheLastLook(t *testing.T) {
	t.Parallel()
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &scripted{files: map[string]string{"a.txt": "b\n"}}, talker{[]string{"tool"}},
		secret.Value{Name: "ODD_TOKEN", Value: evidence.ReportSchema})
	out, err := Run(t.Context(), req)
	if reason.CodeOf(err) != reason.SecretLeak || out != nil {
		t.Fatalf("%v, %v", out, err)
	}
	sessions, err := req.Home.List()
	if err != nil || len(sessions) != 1 {
		t.Fatal(sessions, err)
	}
	if _, err := os.Stat(filepath.Join(sessions[0].Dir, evidence.ManifestFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was sealed: %v", err)
	}
}

// TestUnsearchedIsTold: values that cannot be searched for are named to the user
// and do not stop a run.
func TestUnsearchedIsTold(t *testing.T) {
	t.Parallel()
	seen := &lines{}
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &scripted{stdout: "abc\n" + githubToken(9)}, talker{[]string{"tool"}}, secret.Value{Name: "SHORT_TOKEN", Value: "abc"})
	req.Progress = seen
	if _, err := Run(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(seen.String(), "SHORT_TOKEN is shorter than 8 bytes") {
		t.Errorf("shown: %s", seen)
	}
	if strings.Contains(seen.String(), githubToken(9)) {
		t.Error("the progress view was shown the secret")
	}
}

// lines keeps what a progress view is shown.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Step(name, status, detail string) { l.add(name + " " + status + " " + detail) }
func (l *lines) Output(line string)               { l.add(line) }

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(line + "\n")
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestSessionsArePrivate: only the owner can enter a session, what this
// machine knows of it, or the quarantine, whatever the modes of files in them.
func TestSessionsArePrivate(t *testing.T) {
	t.Parallel()
	value := credential(1)
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &scripted{stdout: value, files: map[string]string{"a.txt": "b\n"}}, talker{[]string{"tool"}}, secret.Value{Name: "T", Value: value})
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	entered := 0
	for _, dir := range []string{out.Session.Dir, req.Home.QuarantineDir(), filepath.Join(req.Home.Dir, "local")} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !d.IsDir() {
				return nil
			}
			entered++
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", name, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if entered < 7 { // a session has 3 directories, its quarantine 3, what is known of it 1
		t.Errorf("only %d directories: the test shows little", entered)
	}
}

// TestLeakOfARunThatDied: raw output that was not looked at is looked at
// when the run is closed, before anything is sealed.
func TestLeakOfARunThatDied(t *testing.T) {
	t.Parallel()
	value := secret.Value{Name: "T", Value: credential(1)}
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &scripted{stdout: value.Value, dies: true}, talker{[]string{"tool"}}, value)
	func() {
		defer func() { _ = recover() }()
		_, err := Run(t.Context(), req)
		t.Errorf("the run ended: %v", err)
	}()
	sessions, err := req.Home.List()
	if err != nil || len(sessions) != 1 {
		t.Fatal(sessions, err)
	}
	if raw, err := os.ReadFile(filepath.Join(sessions[0].Dir, filepath.FromSlash(stdoutFile))); err != nil || string(raw) != value.Value {
		t.Fatalf("the raw output is not there: %v", err)
	}
	out, err := Resume(t.Context(), Resumption{Home: req.Home, Session: sessions[0], Sandbox: req.Sandbox, Credentials: req.Credentials})
	if err != nil {
		t.Fatal(err)
	}
	leakFree(t, out.Session, value.Value)
	if out.Report.Status != evidence.StatusFail || out.Report.Blockers[0].Code != reason.SecretLeak {
		t.Errorf("%s: %+v", out.Report.Status, out.Report.Blockers)
	}
	if got := readScan(t, out.Session); !slices.Equal(got.Quarantined, []string{stdoutFile}) {
		t.Errorf("scan: %+v", got)
	}
}
