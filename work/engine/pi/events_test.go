package pi

import (
	"testing"

	"remit/proof/reason"
	"remit/work/engine/agent/modeltest"
)

var streams = modeltest.Streams{Protocol: newProtocol}

// TestRecorded: what the real agent printed when it could do its work, and when
// something was wrong.
func TestRecorded(t *testing.T) {
	t.Parallel()
	streams.Ends(t, map[string]modeltest.Ending{
		"fix":        modeltest.Complete(),
		"auth":       modeltest.Incomplete(reason.AuthUnavailable, "invalid key"),
		"no-model":   modeltest.Incomplete(reason.ProviderUnavailable, "no such model"),
		"budget":     modeltest.Incomplete(reason.BudgetExhausted, "has spent its budget"),
		"rate-limit": modeltest.Incomplete(reason.ProviderUnavailable, "slow down"),
		"failure":    modeltest.Incomplete(reason.ProviderUnavailable, "internal failure"),
		"empty":      modeltest.Incomplete(reason.ResponseShape, "is empty"),
		"html":       modeltest.Incomplete(reason.ResponseShape, "is empty"),
		"cut":        modeltest.Incomplete(reason.ProviderUnavailable, "terminated"),
	})
}

// TestEvents: each thing that the agent did is one event.
func TestEvents(t *testing.T) {
	t.Parallel()
	streams.Events(t, []string{"message I look at the function.", "usage ", "tool_call call_1 bash", "tool_result call_1",
		"usage ", "tool_call call_2 edit", "tool_result call_2", "message Fixed.", "usage "})
}

// TestLenient: neither the order of keys nor what is unknown makes a difference.
func TestLenient(t *testing.T) {
	t.Parallel()
	streams.Lenient(t, false, "fix", "auth", "failure")
}

// TestBrokenOff: a stream that ends anywhere before the event that decides is
// never complete.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	streams.BrokenOff(t, `{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Fixed."`)
}

// TestLongLines: an event of any length is read whole, and one that was cut
// is a failure only where it could be the deciding one.
func TestLongLines(t *testing.T) {
	t.Parallel()
	streams.LongLines(t, map[string]bool{
		`{"type":"agent_end","messages":[`:                                true,
		`{"type":"message_update","message":{"role":"assis`:               true,
		`{"messages":[],"type":"turn_end","mess`:                          true,
		`{"type":"message_end","message":{"role":"assistant","content":[`: false,
		`{"typ`: false,
	})
}

func FuzzLine(f *testing.F) { streams.Fuzz(f) }
