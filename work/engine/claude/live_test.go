//go:build linux

package claude

import (
	"testing"

	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

var live = modeltest.Live{
	Engine: func(_ *testing.T, bin string) engine.Engine { return New(bin) },
	Model:  "claude-opus-5-5", Path: "/v1/messages?beta=true", Header: modeltest.APIKey,
	Look: modeltest.Turn{Text: "I look at the function.", Pieces: 3, Calls: []modeltest.Call{{Name: "Bash", Args: map[string]any{"command": "(sleep 999 >/dev/null 2>&1 &); cat calc.py; git log --format=commit-%s; git status --short; env; exit 3", "description": "Show the file"}}}},
	Edits: []modeltest.Turn{
		{Calls: []modeltest.Call{{Name: "Read", Args: map[string]any{"file_path": "/workspace/calc.py"}}}},
		{Calls: []modeltest.Call{{Name: "Edit", Args: map[string]any{"file_path": "/workspace/calc.py", "old_string": "a - b", "new_string": "a + b"}}}},
	},
}

// TestLive has the real agent fix a hostile repository in the real sandbox.
func TestLive(t *testing.T) { live.Fixes(t) }

// TestLiveBackground: a command that takes longer than it may, or that the model
// asks to have in the background, does not wake the agent up after its end.
func TestLiveBackground(t *testing.T) {
	slow := map[string]any{"command": `python3 -c "import time; time.sleep(3)"`, "description": "Wait", "timeout": 1000}
	behind := map[string]any{"command": `python3 -c "import time; time.sleep(1)"`, "description": "Wait", "run_in_background": true}
	for name, args := range map[string]map[string]any{"too slow": slow, "in the background": behind} {
		t.Run(name, func(t *testing.T) {
			l := live
			if name == "too slow" {
				l.Exits = []int{143}
			}
			l.Edits = append([]modeltest.Turn{{Calls: []modeltest.Call{{Name: "Bash", Args: args}}}}, live.Edits...)
			l.Fixes(t)
		})
	}
}

// TestRecord makes new recorded streams, of every fault too.
func TestRecord(t *testing.T) { live.Record(t, "", nil) }

var _ engine.Modelled = (*Engine)(nil)
