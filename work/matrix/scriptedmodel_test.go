package matrix

import (
	"encoding/json"
	"testing"

	"remit/work/engine/acp"
	"remit/work/engine/claude"
	"remit/work/engine/codex"
	"remit/work/engine/pi"
	"remit/work/engine/workos"
	"remit/work/gateway/scripted"
)

// TestScriptsAreScripts: what the model is to say to each engine can be played.
func TestScriptsAreScripts(t *testing.T) {
	t.Parallel()
	for _, e := range []struct{ name, wire string }{{pi.Name, "chat"}, {codex.Name, "responses"}, {claude.Name, "messages"}, {workos.Name, "chat"},
		{acp.Name, "responses"}, {acp.Name, "messages"}, {acp.Name, "chat"}} {
		text, err := json.Marshal(scriptFor(e.name, e.wire, correct))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scripted.Parse(e.name, text); err != nil {
			t.Errorf("%s with %s: %v", e.name, e.wire, err)
		}
	}
	if missing := Unscripted(); len(missing) > 0 {
		t.Errorf("no scenario brings about %v", missing)
	}
}
