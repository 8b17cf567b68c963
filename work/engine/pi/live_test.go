//go:build linux

package pi

import (
	"testing"

	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

var live = modeltest.Live{
	Engine: func(_ *testing.T, bin string) engine.Engine { return New(bin) },
	Model:  "gw-model", Path: "/v1/chat/completions", Header: modeltest.Bearer, Requests: true,
	Look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "bash", Args: map[string]any{"command": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; git log --format=commit-%s; git status --short; env; exit 3"}}}},
	Edits: []modeltest.Turn{
		{Calls: []modeltest.Call{{Name: "edit", Args: map[string]any{"path": "calc.py", "edits": []any{map[string]any{"oldText": "a - b", "newText": "a + b"}}}}}},
	},
}

// TestLive has the real agent fix a hostile repository in the real sandbox.
func TestLive(t *testing.T) { live.Fixes(t) }

// TestRecord makes new recorded streams, of every fault too.
func TestRecord(t *testing.T) { live.Record(t, "", nil) }

var _ engine.Modelled = (*Engine)(nil)
