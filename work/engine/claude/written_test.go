package claude

import (
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

// TestEnds: streams that no recording has.
func TestEnds(t *testing.T) {
	t.Parallel()
	const done = `{"type":"result","subtype":"success","is_error":false,"result":"ok"}` + "\n"
	const more = `{"type":"assistant","message":{"content":[{"type":"text","text":"It has ended."}]}}` + "\n"
	const failed = `{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"slow"}` + "\n"
	for name, test := range map[string]struct {
		stream   string
		complete bool
		code     reason.Code
		problem  string
	}{
		"nothing":                  {"", false, "", "did not begin"},
		"begun":                    {`{"type":"system","subtype":"init"}`, false, "", "gave no result"},
		"done":                     {done, true, "", ""},
		"done twice":               {done + done, true, "", ""},
		"woken up, and done":       {done + more + done, true, "", ""},
		"woken up, and cut off":    {done + more, false, "", "went on after its last result"},
		"woken up, and failed":     {done + failed, false, reason.ProviderUnavailable, "slow"},
		"failed, and then done":    {failed + done, true, "", ""},
		"the last says nothing":    {done + `{"type":"result","result":"ok"}`, false, "", "does not say"},
		"the last breaks off":      {done + `{"type":"result","is_err`, false, "", "breaks off"},
		"success that is an error": {`{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"slow"}`, false, reason.ProviderUnavailable, "slow"},
		"no word on errors":        {`{"type":"result","subtype":"success","result":"ok"}`, false, "", "does not say"},
		"no is no answer":          {`{"type":"result","subtype":"success","is_error":"false","result":"ok"}`, false, "", "does not say"},
		"too many turns":           {`{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (200)"]}`, false, "", "maximum number of turns"},
		"an error without words":   {`{"type":"result","subtype":"error_during_execution","is_error":true}`, false, "", "error_during_execution"},
		"killed while trying again": {`{"type":"system","subtype":"init"}` + "\n" + `{"type":"system","subtype":"api_retry","error_status":401,"error":"authentication_failed"}`,
			false, reason.AuthUnavailable, "status 401"},
		"quoted by a tool": {`{"type":"user","message":{"content":[{"type":"tool_result","content":"{\"type\":\"result\",\"is_error\":false}"}]}}`, false, "", "did not begin"},
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

// TestBlocks: content is a list or a text, and a refused tool is an event.
func TestBlocks(t *testing.T) {
	t.Parallel()
	events, end := modeltest.Replay(newProtocol, []byte(
		`{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"A"},{"type":"tool_use","id":"1","name":"Write","input":{"file_path":"/workspace/d/a"}},7]}}`+"\n"+
			`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"1","name":"Write","input":{"file_path":"/workspace/b"}}]}}`+"\n"+
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"9","content":"of nothing"},{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]}}`+"\n"+
			`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"1","name":"Bash","input":{"command":"x"}}]}}`+"\n"+
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1","is_error":true,"content":"permission denied"}]}}`+"\n"+
			`{"type":"user","message":{"content":"a text"}}`+"\n"+
			`{"type":"result","is_error":false,"result":"B","usage":{"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":8},`+
			`"permission_denials":[{"tool_name":"Write"},{"tool_name":"Bash"},{"tool_name":"Write"}]}`+"\n"))
	if !end.Complete || end.Summary != "B" || len(events) != 7 {
		t.Fatalf("%+v %+v", end, events)
	}
	if events[2].Output != "xy" || len(events[2].Paths) != 1 || events[2].Paths[0] != "d/a" || events[3].ID != "call_2" || events[4].OK || events[4].Exit != nil {
		t.Errorf("%+v", events)
	}
	if events[5].Usage.Tokens != 15 || events[6].Kind != engine.Message || !strings.Contains(events[6].Text, "3 uses of tools were refused by the agent itself: Bash, Write") {
		t.Errorf("%+v", events)
	}
}
