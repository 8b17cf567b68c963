//go:build linux

package acp

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
	"remit/work/sandbox"
)

// secret is in the environment of the user, and must not be seen inside.
const secret = "s3cr3t-of-the-user"

// real is an agent of the table: a model that it knows, a turn that uses a tool
// that fails and leaves a process behind, and turns that make the change.
type real struct {
	name, model, path string
	look              modeltest.Turn
	edits             []modeltest.Turn
	// tried says that it is driven where somebody has installed it, which make
	// agents does not. It tells the usage of its last request only.
	tried bool
}

var reals = []real{
	{
		name: "codex-acp", model: "gpt-5.5", path: "/v1/responses",
		look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "exec_command", Args: map[string]any{"cmd": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; env; exit 3"}}}},
		edits: []modeltest.Turn{
			{Calls: []modeltest.Call{{Name: "apply_patch", Text: "*** Begin Patch\n*** Update File: calc.py\n@@\n def add(a, b):\n-    return a - b\n+    return a + b\n*** End Patch\n"}}},
		},
	},
	{
		name: "claude-agent-acp", model: "claude-opus-5-5", path: "/v1/messages?beta=true",
		look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "Bash", Args: map[string]any{"command": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; env; exit 3", "description": "Show the file"}}}},
		edits: []modeltest.Turn{
			{Calls: []modeltest.Call{{Name: "Read", Args: map[string]any{"file_path": "/workspace/calc.py"}}}},
			{Calls: []modeltest.Call{{Name: "Edit", Args: map[string]any{"file_path": "/workspace/calc.py", "old_string": "a - b", "new_string": "a + b"}}}},
		},
	},
	{
		name: "opencode", model: "some-model", path: "/v1/chat/completions", tried: true,
		look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "bash", Args: map[string]any{"command": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; env; exit 3", "description": "Show the file"}}}},
		edits: []modeltest.Turn{
			{Calls: []modeltest.Call{{Name: "read", Args: map[string]any{"filePath": "/workspace/calc.py"}}}},
			{Calls: []modeltest.Call{{Name: "edit", Args: map[string]any{"filePath": "/workspace/calc.py", "oldString": "a - b", "newString": "a + b"}}}},
		},
	},
}

// live returns the engine and a sandbox, or skips the test, loudly.
func (r real) live(t *testing.T) (*Engine, sandbox.Driver) {
	t.Helper()
	bin, err := modeltest.Installed()
	if err != nil {
		t.Fatal(err)
	}
	if bin != "" { // the program that the adapter drives is looked for there too
		t.Setenv("REMIT_AGENTS", bin)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{Command: []string{r.name}, Client: self})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Identity(t.Context()); err != nil {
		if os.Getenv("REMIT_AGENTS") != "" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, the real agent is not driven: %v", err)
	}
	d, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("SKIPPED, there is no sandbox here: %v", err)
	}
	return e, d
}

// installed reports whether the agent is there.
func (r real) installed(t *testing.T) bool {
	t.Helper()
	e, err := New(Options{Command: []string{r.name}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Identity(t.Context())
	return err == nil
}

// TestLive has real agents fix a hostile repository in the real sandbox.
func TestLive(t *testing.T) {
	for _, r := range reals {
		if r.tried && !r.installed(t) {
			continue
		}
		t.Run(r.name, func(t *testing.T) { r.fixes(t) })
	}
}

func (r real) fixes(t *testing.T) {
	t.Setenv("REMIT_CANARY", secret)
	e, d := r.live(t)
	lower := t.TempDir()
	if err := modeltest.Repository(lower); err != nil {
		t.Fatal(err)
	}
	s := &modeltest.Server{Turns: append(append([]modeltest.Turn{r.look}, r.edits...), modeltest.Turn{Text: "Fixed."})}
	o, err := modeltest.Trial{Engine: e, Model: r.model, Title: "--help @calc.py", Lower: lower, Server: s, Wall: 3 * time.Minute}.Run(t.Context(), d, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ended after %s", o.Command.Duration)
	if o.Command.ExitCode != 0 || !o.End.Complete || o.End.Summary != "Fixed." {
		t.Errorf("exit %d, %+v\n%s\n%s", o.Command.ExitCode, o.End, o.Stderr.String(), o.Stdout.String())
	}
	if len(o.Changed) != 1 || o.Changed["calc.py"] != "def add(a, b):\n    return a + b\n" {
		t.Errorf("changed: %q", o.Changed)
	}
	for _, a := range s.Asked() {
		if a.Path != r.path || a.Key != modeltest.Token && a.Authorization != "Bearer "+modeltest.Token || a.Model != r.model {
			t.Errorf("asked %s with %q %q for %q", a.Path, a.Authorization, a.Key, a.Model)
		}
		for _, word := range []string{modeltest.Canary, secret} {
			if strings.Contains(a.Prompt, word) {
				t.Errorf("the model was told %q: …%s", word, around(a.Prompt, word))
			}
		}
	}
	if len(s.Asked()) == 0 || !strings.Contains(s.Asked()[0].Prompt, "Task: --help @calc.py") {
		t.Error("the task did not arrive")
	}
	var tokens int64
	var paths []string
	var exits []int
	for _, event := range o.Events {
		tokens += event.Usage.Tokens
		paths = append(paths, event.Paths...)
		if event.Exit != nil {
			exits = append(exits, *event.Exit)
		}
	}
	if want := int64(len(s.Asked())) * (modeltest.InUncached + modeltest.CacheRead + modeltest.Out); tokens != want && !r.tried {
		t.Errorf("%d tokens of %d", tokens, want)
	}
	if len(exits) != 1 || exits[0] != 3 || len(paths) != 1 || paths[0] != "calc.py" {
		t.Errorf("exit codes %v, paths %q", exits, paths)
	}
}

// TestRecord makes new recorded streams, of every fault too.
func TestRecord(t *testing.T) {
	if os.Getenv("REMIT_RECORD") == "" {
		t.Skip("set REMIT_RECORD to record new streams into testdata")
	}
	for _, r := range reals {
		if r.tried && !r.installed(t) {
			continue
		}
		e, d := r.live(t)
		all := modeltest.Faults(r.look)
		all["fix"] = append(append([]modeltest.Turn{r.look}, r.edits...), modeltest.Turn{Text: "Fixed."})
		for name, turns := range all {
			lower := t.TempDir()
			if err := os.WriteFile(filepath.Join(lower, "calc.py"), []byte("def add(a, b):\n    return a - b\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			s := &modeltest.Server{Turns: turns}
			o, err := modeltest.Trial{Engine: e, Model: r.model, Title: "add subtracts", Lower: lower, Server: s, Wall: 3 * time.Minute}.Run(t.Context(), d, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s-%s: exit %d after %s, %d requests, %+v, stderr %q", r.name, name, o.Command.ExitCode, o.Command.Duration, len(s.Asked()), o.End, o.Stderr.String())
			if err := os.WriteFile(filepath.Join("testdata", r.name+"-"+name+".jsonl"), withoutMenus(o.Stdout.Bytes()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var menu = regexp.MustCompile(`("id":2,"result":\{"sessionId":"[^"]*").*\}\}\}`)

// withoutMenus leaves out which models, modes and commands an agent has: they
// are most of a stream, and nothing here reads them.
func withoutMenus(stream []byte) []byte {
	var out []byte
	for line := range bytes.Lines(stream) {
		if !bytes.Contains(line, []byte(`"available_commands_update"`)) {
			out = append(out, menu.ReplaceAll(line, []byte("$1}}}"))...)
		}
	}
	return out
}

var _ engine.Modelled = (*Engine)(nil)

// around is where a word stands in a text.
func around(text, word string) string {
	at := strings.Index(text, word)
	return text[max(0, at-300):min(len(text), at+300)]
}
