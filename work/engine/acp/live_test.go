//go:build linux

package acp

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

// real is an agent of the table.
type real struct {
	modeltest.Live

	name string
	// tried says that it is driven where it is installed, which make
	// agents does not.
	tried bool
}

var reals = []real{
	{
		name: "codex-acp",
		Live: modeltest.Live{Model: "gpt-5.5", Path: "/v1/responses",
			Look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "exec_command", Args: map[string]any{"cmd": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; git log --format=commit-%s; git status --short; env; exit 3"}}}},
			Edits: []modeltest.Turn{
				{Calls: []modeltest.Call{{Name: "apply_patch", Text: "*** Begin Patch\n*** Update File: calc.py\n@@\n def add(a, b):\n-    return a - b\n+    return a + b\n*** End Patch\n"}}},
			}},
	},
	{
		name: "claude-agent-acp",
		Live: modeltest.Live{Model: "claude-opus-5-5", Path: "/v1/messages?beta=true",
			Look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "Bash", Args: map[string]any{"command": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; git log --format=commit-%s; git status --short; env; exit 3", "description": "Show the file"}}}},
			Edits: []modeltest.Turn{
				{Calls: []modeltest.Call{{Name: "Read", Args: map[string]any{"file_path": "/workspace/calc.py"}}}},
				{Calls: []modeltest.Call{{Name: "Edit", Args: map[string]any{"file_path": "/workspace/calc.py", "old_string": "a - b", "new_string": "a + b"}}}},
			}},
	},
	{
		name: "opencode", tried: true,
		Live: modeltest.Live{Model: "some-model", Path: "/v1/chat/completions", Partial: true,
			Look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "bash", Args: map[string]any{"command": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; git log --format=commit-%s; git status --short; env; exit 3", "description": "Show the file"}}}},
			Edits: []modeltest.Turn{
				{Calls: []modeltest.Call{{Name: "read", Args: map[string]any{"filePath": "/workspace/calc.py"}}}},
				{Calls: []modeltest.Call{{Name: "edit", Args: map[string]any{"filePath": "/workspace/calc.py", "oldString": "a - b", "newString": "a + b"}}}},
			}},
	},
}

// live is the agent as an engine.
func (r real) live() modeltest.Live {
	r.Engine = func(t *testing.T, bin string) engine.Engine {
		t.Helper()
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
		return e
	}
	return r.Live
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
		t.Run(r.name, func(t *testing.T) { r.live().Fixes(t) })
	}
}

// TestRecord makes new recorded streams, of every fault too.
func TestRecord(t *testing.T) {
	for _, r := range reals {
		if r.tried && !r.installed(t) {
			continue
		}
		r.live().Record(t, r.name+"-", withoutMenus)
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
