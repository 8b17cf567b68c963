package pi

import (
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/engine/agent/modeltest"
)

// TestEnds: streams that no recording has.
func TestEnds(t *testing.T) {
	t.Parallel()
	said := func(stop, text string) string {
		return `{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"` + text + `"}],"stopReason":"` + stop + `"}}` + "\n"
	}
	for name, test := range map[string]struct {
		stream   string
		complete bool
		code     reason.Code
		problem  string
	}{
		"nothing":            {"", false, "", "did not begin"},
		"no prompt":          {`{"type":"session","version":3}`, false, "", "did not begin"},
		"begun":              {`{"type":"agent_start"}`, false, "", "no answer"},
		"done":               {said("stop", "ok"), true, "", ""},
		"only white space":   {said("stop", `\n `), false, reason.ResponseShape, "empty"},
		"no stop reason":     {`{"type":"agent_start"}` + "\n" + said("", "ok"), false, "", "no answer"},
		"at the token limit": {said("length", "half"), false, "", "token limit"},
		"in a tool":          {said("toolUse", "x"), false, "", "in the middle"},
		"aborted":            {said("aborted", "x"), false, "", "gave no reason"},
		"mended":             {said("error", "") + said("stop", "ok"), true, "", ""},
		"not mended":         {said("stop", "ok") + `{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"503 busy"}}`, false, reason.ProviderUnavailable, "503 busy"},
		"goes on":            {said("stop", "ok") + `{"type":"message_start","message":{"role":"assistant","content":[]}}`, false, "", "did not end"},
		"the user's words":   {`{"type":"agent_start"}` + "\n" + `{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"ok"}],"stopReason":"stop"}}`, false, "", "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, end := modeltest.Replay(newProtocol, []byte(test.stream))
			if end.Complete != test.complete || end.Code != test.code || !strings.Contains(end.Problem, test.problem) {
				t.Errorf("%+v", end)
			}
		})
	}
}

// TestCalls: a command that was stopped has no exit code, and a failed edit
// changed nothing.
func TestCalls(t *testing.T) {
	t.Parallel()
	events, _ := modeltest.Replay(newProtocol, []byte(
		`{"type":"tool_execution_start","toolCallId":"a|b","toolName":"bash","args":{"command":"x","timeout":0.5}}`+"\n"+
			`{"type":"tool_execution_start","toolCallId":"","toolName":"edit","args":{"path":"a"}}`+"\n"+
			`{"type":"tool_execution_end","toolCallId":"","toolName":"edit","result":{"content":[{"type":"text","text":"no match"}]},"isError":true}`+"\n"+
			`{"type":"tool_execution_end","toolCallId":"a|b","toolName":"bash","result":{"content":[{"type":"text","text":"Command exited with code 1\nbut no\n\nCommand timed out after 5 seconds"}]},"isError":true}`+"\n"+
			`{"type":"tool_execution_start","toolCallId":"c","toolName":"write","args":{"path":"../../etc/passwd"}}`+"\n"+
			`{"type":"tool_execution_end","toolCallId":"c","toolName":"write","result":{"content":"text"},"isError":false}`+"\n"))
	if len(events) != 6 || events[0].ID != "call_1" || !strings.Contains(string(events[0].Params), `"json"`) {
		t.Fatalf("%+v", events)
	}
	if events[2].OK || len(events[2].Paths) != 0 || events[3].Exit != nil || len(events[5].Paths) != 0 {
		t.Errorf("%+v", events)
	}
}
