//go:build linux

package codex

import (
	"testing"

	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

var live = modeltest.Live{
	Engine: func(_ *testing.T, bin string) engine.Engine { return New(bin) },
	Model:  "gpt-5.5", Path: "/v1/responses", Header: modeltest.Bearer,
	Look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "exec_command", Args: map[string]any{"cmd": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; git log --format=commit-%s; git status --short; env; exit 3"}}}},
	Edits: []modeltest.Turn{
		{Calls: []modeltest.Call{{Name: "apply_patch", Text: "*** Begin Patch\n*** Update File: calc.py\n@@\n def add(a, b):\n-    return a - b\n+    return a + b\n*** End Patch\n"}}},
	},
}

// TestLive has the real agent fix a hostile repository in the real sandbox.
func TestLive(t *testing.T) { live.Fixes(t) }

// TestRecord makes new recorded streams, of every fault too.
func TestRecord(t *testing.T) { live.Record(t, "", nil) }

var _ engine.Modelled = (*Engine)(nil)
