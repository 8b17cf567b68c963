//go:build linux

package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
	"remit/work/sandbox"
)

// model is one that the agent knows.
const model = "claude-opus-5-5"

// secret is in the environment of the user, and must not be seen inside.
const secret = "s3cr3t-of-the-user"

// look uses a tool that fails and leaves a process behind; edits make the change.
var (
	look  = modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "Bash", Args: map[string]any{"command": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; env; exit 3", "description": "Show the file"}}}}
	edits = []modeltest.Turn{
		{Calls: []modeltest.Call{{Name: "Read", Args: map[string]any{"file_path": "/workspace/calc.py"}}}},
		{Calls: []modeltest.Call{{Name: "Edit", Args: map[string]any{"file_path": "/workspace/calc.py", "old_string": "a - b", "new_string": "a + b"}}}},
	}
)

// live returns the engine and a sandbox, or skips the test, loudly.
func live(t *testing.T) (*Engine, sandbox.Driver) {
	t.Helper()
	bin, err := modeltest.Installed()
	if err != nil {
		t.Fatal(err)
	}
	e := New(Options{Bin: bin})
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

// TestLive has the real agent fix a hostile repository in the real sandbox.
func TestLive(t *testing.T) {
	t.Setenv("REMIT_CANARY", secret)
	e, d := live(t)
	lower := t.TempDir()
	if err := modeltest.Repository(lower); err != nil {
		t.Fatal(err)
	}
	s := &modeltest.Server{Turns: append(append([]modeltest.Turn{look}, edits...), modeltest.Turn{Text: "Fixed."})}
	o, err := modeltest.Trial{Engine: e, Model: model, Title: "--help @calc.py", Lower: lower, Server: s, Wall: 3 * time.Minute}.Run(t.Context(), d, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ended after %s", o.Command.Duration)
	if o.Command.ExitCode != 0 || !o.End.Complete || o.End.Summary != "Fixed." {
		t.Errorf("exit %d, %+v\n%s", o.Command.ExitCode, o.End, o.Stderr.String())
	}
	if len(o.Changed) != 1 || o.Changed["calc.py"] != "def add(a, b):\n    return a + b\n" {
		t.Errorf("changed: %q", o.Changed)
	}
	for _, a := range s.Asked() {
		if a.Path != "/v1/messages?beta=true" || a.Key != modeltest.Token || a.Model != model {
			t.Errorf("asked %s with %q %q for %q", a.Path, a.Authorization, a.Key, a.Model)
		}
		for _, word := range []string{modeltest.Canary, secret} {
			if strings.Contains(a.Prompt, word) {
				t.Errorf("the model was told %q", word)
			}
		}
	}
	if len(s.Asked()) == 0 || !strings.Contains(s.Asked()[0].Prompt, "Task: --help @calc.py") {
		t.Error("the task did not arrive")
	}
	var tokens, requests int64
	var exits []int
	var paths []string
	for _, event := range o.Events {
		tokens, requests = tokens+event.Usage.Tokens, requests+event.Usage.Requests
		paths = append(paths, event.Paths...)
		if event.Exit != nil {
			exits = append(exits, *event.Exit)
		}
	}
	asked := int64(len(s.Asked()))
	if tokens != asked*(modeltest.InUncached+modeltest.CacheRead+modeltest.Out) || requests != 0 {
		t.Errorf("%d tokens, %d requests", tokens, requests)
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
	e, d := live(t)
	all := modeltest.Faults(look)
	all["fix"] = append(append([]modeltest.Turn{look}, edits...), modeltest.Turn{Text: "Fixed."})
	for name, turns := range all {
		lower := t.TempDir()
		if err := os.WriteFile(filepath.Join(lower, "calc.py"), []byte("def add(a, b):\n    return a - b\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s := &modeltest.Server{Turns: turns}
		o, err := modeltest.Trial{Engine: e, Model: model, Title: "add subtracts", Lower: lower, Server: s, Wall: 3 * time.Minute}.Run(t.Context(), d, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: exit %d after %s, %d requests, %+v, stderr %q", name, o.Command.ExitCode, o.Command.Duration, len(s.Asked()), o.End, o.Stderr.String())
		if err := os.WriteFile(filepath.Join("testdata", name+".jsonl"), o.Stdout.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var _ engine.Modelled = (*Engine)(nil)
