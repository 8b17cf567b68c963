//go:build linux

package claude

import (
	"testing"

	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

var live = modeltest.Live{
	Engine: func(_ *testing.T, bin string) engine.Engine { return New(Options{Bin: bin}) },
	Model:  "claude-opus-5-5", Path: "/v1/messages?beta=true", Header: modeltest.APIKey,
	Look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "Bash", Args: map[string]any{"command": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; env; exit 3", "description": "Show the file"}}}},
	Edits: []modeltest.Turn{
		{Calls: []modeltest.Call{{Name: "Read", Args: map[string]any{"file_path": "/workspace/calc.py"}}}},
		{Calls: []modeltest.Call{{Name: "Edit", Args: map[string]any{"file_path": "/workspace/calc.py", "old_string": "a - b", "new_string": "a + b"}}}},
	},
}

// TestLive has the real agent fix a hostile repository in the real sandbox.
func TestLive(t *testing.T) { live.Fixes(t) }

// TestRecord makes new recorded streams, of every fault too.
func TestRecord(t *testing.T) { live.Record(t, "", nil) }

var _ engine.Modelled = (*Engine)(nil)
