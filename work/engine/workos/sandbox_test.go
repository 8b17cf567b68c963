//go:build linux

package workos

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
	"remit/work/gateway/scripted"
	"remit/work/sandbox"
)

// model is one that is said to Case.
const model = "gw-model"

// secret is in the environment of the user, and must not be seen inside.
const secret = "s3cr3t-of-the-user"

// heard is a scripted model that keeps what it was asked.
type heard struct {
	*scripted.Server
	mu     sync.Mutex
	bodies []string
	wrong  []string // requests that are not of the one kind
}

func (h *heard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent went away
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.mu.Lock()
	h.bodies = append(h.bodies, string(body))
	if r.Method != http.MethodPost || r.URL.RequestURI() != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+modeltest.Token {
		h.wrong = append(h.wrong, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
	}
	h.mu.Unlock()
	h.Server.ServeHTTP(w, r)
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.bodies, "\n")
}

// envelope is what an agent ends with.
func envelope(result string) string {
	return "text: '<<<AGENT_RESULT " + result + " AGENT_RESULT>>>'"
}

// script has the roles answer; edit makes the change.
func script(implementer, verifier, reviewer string) string {
	return `name: case
conversations:
  - when: {system: '^# Implementer'}
    turns:
` + implementer + `
  - when: {system: '^# Verifier'}
    turns:
` + verifier + `
  - when: {system: '^# Reviewer'}
    turns:
` + reviewer + `
  - when: {system: '^# Retrospective'}
    otherwise: {` + envelope(fine) + `}
`
}

const (
	edit = `      - calls: [{name: edit, arguments: {path: calc.py, edits: [{oldText: "a - b", newText: "a + b"}]}}]
`
	look = `      - text: I look at everything.
        calls:
          - name: bash
            arguments:
              command: |
                cat calc.py .case/tasks/active/remit.md "$CASE_DATA_DIR/projects.json"; env
                echo "remotes: <$(git remote)>"; git log --oneline main; command -v ca; ca status x agent y
                git push /tmp/x HEAD; (sleep 999 >/dev/null 2>&1 &); exit 3
`
	commit = `      - calls: [{name: bash, arguments: {command: "git add -- . ':!.case/' && git commit -qm 'fix: add' && git show --stat"}}]
`
)

func turn(result string) string { return "      - {" + envelope(result) + "}\n" }

// try runs the stand-in, or the program at bin, in the sandbox.
func try(t *testing.T, bin, yaml string) (*modeltest.Outcome, *heard) {
	t.Helper()
	s, err := scripted.Parse("case.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	d, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("SKIPPED, there is no sandbox here: %v", err)
	}
	if bin == "" {
		if bin, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	lower := t.TempDir()
	if err := modeltest.Repository(lower); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lower, ".gitignore"), []byte("*.json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &heard{Server: scripted.New(s, scripted.Options{})}
	o, err := modeltest.Trial{Engine: New(bin), Model: model, Title: "--help @calc.py", Verify: []string{"python3 -m unittest -q"},
		Lower: lower, Server: h, Wall: 3 * time.Minute}.Run(t.Context(), d, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ended after %s with %d, %+v", o.Command.Duration, o.Command.ExitCode, o.End)
	if len(h.wrong) > 0 {
		t.Errorf("asked %q", h.wrong)
	}
	for name := range o.Changed {
		if name != "calc.py" {
			t.Errorf("changed %s", name)
		}
	}
	return o, h
}

const fixed = "def add(a, b):\n    return a + b\n"

// TestFix drives a whole pipeline in the real sandbox, over a hostile repository.
func TestFix(t *testing.T) {
	t.Setenv("REMIT_CANARY", secret)
	o, h := try(t, "", script(look+edit+commit+turn(`{"status":"completed","summary":"add adds"}`), turn(fine), turn(softFail)))
	if o.Command.ExitCode != 0 || !o.End.Complete || o.End.Rejected || o.End.Summary != "add adds" || o.Changed["calc.py"] != fixed {
		t.Errorf("exit %d, %+v, %q\n%s", o.Command.ExitCode, o.End, o.Changed, o.Stderr.String())
	}
	if !strings.Contains(o.Stderr.String(), "Model not found: none/none") {
		t.Errorf("it was stopped in another way: %s", o.Stderr.String())
	}
	prompts := h.all()
	for _, want := range []string{"Task: --help @calc.py", "exit code 0: python3 -m unittest -q", `\"test\\\":\\\"python3 -m unittest -q\\\"`, "remotes: \\u003c\\u003e", "case/bin/ca", "baseline",
		"transport 'file' not allowed", "1 file changed"} {
		if !strings.Contains(unquote(prompts), unquote(want)) {
			t.Errorf("nothing shows %q", want)
		}
	}
	for _, not := range []string{modeltest.Canary, secret, "# Closer"} {
		if strings.Contains(prompts, not) {
			t.Errorf("the model got %q", not)
		}
	}
	var exits []int
	var paths []string
	for _, e := range o.Events {
		paths = append(paths, e.Paths...)
		if e.Exit != nil {
			exits = append(exits, *e.Exit)
		}
	}
	// The reviewer's advice has the implementer work three times, with one thing
	// to commit. Of the long output the end is cut off, which has the exit code.
	if !reflect.DeepEqual(paths, []string{"calc.py", "calc.py", "calc.py"}) || !reflect.DeepEqual(exits, []int{0, 1, 1}) {
		t.Errorf("exit codes %v, paths %q", exits, paths)
	}
}

func unquote(s string) string { return strings.ReplaceAll(s, `\`, "") }

// fault is what goes wrong in the pipeline or on the way to the model, and what
// the engine is to make of it.
type fault struct {
	script   string
	complete bool
	rejected string
	code     reason.Code
	problem  string
	changed  bool
}

func faults() map[string]fault {
	return map[string]fault{
		"no AGENT_RESULT": {script(edit+"      - {text: I am done.}\n", turn(fine), turn(fine)), false, "", "", "start delimiter not found", true},
		"no key":          {script("      - {status: 401, error: {message: invalid key}}\n", turn(fine), turn(fine)), false, "", "", "start delimiter not found", false},
		"rejected":        {script(edit+turn(fine), turn(fine), turn(hardFail)), true, "scope-discipline", "", "", true},
		"blocked":         {script(edit+turn(fine), turn(fine), turn(blocked)), true, "must not go in", "", "", true},
		"gave up":         {script(turn(gaveUp), turn(fine), turn(fine)), false, "", reason.EngineFailed, "cannot be found", false},
	}
}

func (f fault) check(t *testing.T, bin string) {
	o, _ := try(t, bin, f.script)
	if o.Command.ExitCode != 0 || o.End.Complete != f.complete || o.End.Code != f.code || !strings.Contains(o.End.Problem, f.problem) {
		t.Errorf("exit %d, %+v\n%s", o.Command.ExitCode, o.End, o.Stderr.String())
	}
	if o.End.Rejected != (f.rejected != "") || !strings.Contains(o.End.Reason, f.rejected) {
		t.Errorf("%+v", o.End)
	}
	if (o.Changed["calc.py"] == fixed) != f.changed {
		t.Errorf("%q", o.Changed)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.check(t, "")
		})
	}
}

// TestKilled: the launcher dies without a word. The events so far have arrived,
// and the engine's scratch is no change all the same.
func TestKilled(t *testing.T) {
	t.Parallel()
	const kill = `      - calls:
          - name: bash
            arguments:
              command: |
                until [ "$(cat "$HOME"/case/seen/*)" -ge 7 ]; do sleep 0.05; done # printed: all up to this
                set -- $(cat /proc/$PPID/stat)
                kill -9 $4
`
	o, _ := try(t, "", script(edit+turn(fine), kill, turn(fine)))
	if o.Command.Signal != "SIGKILL" || o.End.Complete || !strings.Contains(o.End.Problem, "verify began and did not end") || o.Changed["calc.py"] != fixed {
		t.Errorf("%+v %+v %q", o.Command, o.End, o.Changed)
	}
}

var _ engine.Modelled = (*Engine)(nil)
