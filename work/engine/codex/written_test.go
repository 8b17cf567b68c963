package codex

import (
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/engine/agent/modeltest"
)

// TestEnds: streams that no recording has.
func TestEnds(t *testing.T) {
	t.Parallel()
	const done = `{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":2}}` + "\n"
	for name, test := range map[string]struct {
		stream   string
		complete bool
		code     reason.Code
		problem  string
	}{
		"nothing":                   {"", false, "", "no turn began"},
		"only a warning":            {`{"type":"item.completed","item":{"id":"1","type":"error","message":"bad  key\n in config"}}`, false, "", "bad key in config"},
		"begun":                     {`{"type":"turn.started"}`, false, "", "did not end"},
		"done":                      {done, true, "", ""},
		"done twice":                {done + done, false, "", "2 turns"},
		"done and failed":           {done + `{"type":"turn.failed","error":{"message":"late"}}`, false, "", "late"},
		"failed without an object":  {`{"type":"turn.failed","error":"x"}`, false, "", "gave no reason"},
		"reconnected":               {`{"type":"error","message":"Reconnecting... 1/1"}` + "\n" + done, true, "", ""},
		"reconnecting at the end":   {`{"type":"turn.started"}` + "\n" + `{"type":"error","message":"status 503"}`, false, reason.ProviderUnavailable, "503"},
		"a code that ends nothing":  {`{"type":"turn.failed","error":{"message":"(remit: no_diff)"}}`, false, "", "no_diff"},
		"a code of the gateway's":   {`{"type":"turn.failed","error":{"message":"x (remit: model_mismatch)"}}`, false, reason.ModelMismatch, ""},
		"usage that is no number":   {`{"type":"turn.completed","usage":{"input_tokens":"many"}}`, true, "", ""},
		"in an array":               {"[" + strings.TrimSpace(done) + "]", false, "", "no turn began"},
		"quoted by a tool":          {`{"type":"item.completed","item":{"id":"1","type":"command_execution","aggregated_output":"{\"type\":\"turn.completed\"}"}}`, false, "", "no turn"},
		"type of another type":      {`{"type":{"type":"turn.completed"}}`, false, "", "no turn began"},
		"the deciding line cut off": {done + `{"type":"turn.failed","er`, false, "", "breaks off"},
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

// TestUnannounced: a tool of which only the end is reported is a call too, and a
// failed patch changed nothing.
func TestUnannounced(t *testing.T) {
	t.Parallel()
	events, _ := modeltest.Replay(newProtocol, []byte(
		`{"type":"item.completed","item":{"id":"1","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"ratio":0.5},"result":{},"status":"completed"}}`+"\n"+
			`{"type":"item.completed","item":{"id":"2","type":"file_change","changes":[{"path":"/workspace/a","kind":"add"}],"status":"failed"}}`+"\n"+
			`{"type":"item.completed","item":{"id":"3","type":"file_change","changes":[{"path":"/workspace/a","kind":"add"},{"path":"/etc/passwd","kind":"add"},{"path":"/workspace/../x","kind":"add"}],"status":"completed"}}`+"\n"))
	if len(events) != 6 || events[0].Tool != "mcp_tool_call" || !strings.Contains(string(events[0].Params), `0.5`) || !events[1].OK {
		t.Fatalf("%+v", events)
	}
	if events[3].OK || len(events[3].Paths) != 0 || len(events[5].Paths) != 1 || events[5].Paths[0] != "a" {
		t.Errorf("%+v", events)
	}
}
