package gateway

import (
	"encoding/json"
	"fmt"
	"testing"

	"remit/proof/reason"
)

// TestStoredState: what is stored at the provider is neither read nor added to,
// under whatever name and in every place, unless the user allows it.
func TestStoredState(t *testing.T) {
	t.Parallel()
	chat := func(part string) string { return `"messages":[{"role":"user","content":[` + part + `]}]` }
	input := func(item string) string { return `"input":[` + item + `]` }
	messages := func(block string) string { return `"messages":[{"role":"user","content":[` + block + `]}]` }
	for _, test := range []struct {
		p     Protocol
		body  string
		never bool // not even where stored state is allowed
	}{
		{Chat, chat(`{"type":"file","file":{"file_id":"file-1"}}`), false},
		{Chat, chat(`{"type":"file","file":{"FileID":"file-1"}}`), false},
		{Chat, chat(`{"type":"file","file":"file-1"}`), false},
		{Chat, chat(`{"type":"image_file","image_file":{"file_id":"file-1"}}`), false},
		{Chat, `"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]`, false},
		{Chat, `"messages":[],"store":true`, false},
		{Chat, `"messages":[],"store":"true"`, true},
		{Chat, `"messages":[],"store":1`, true},
		{Responses, input(`{"type":"message","role":"user","content":[{"type":"input_file","file_id":"file-1"}]}`), false},
		{Responses, input(`{"type":"message","role":"user","content":[{"type":"input_image","file_id":"file-1"}]}`), false},
		{Responses, input(`{"type":"item_reference","id":"rs_1"}`), false},
		{Responses, input(`{"id":"rs_1"}`), false},
		{Responses, input(`{"id":"rs_1","type":null}`), false},
		{Responses, input(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_file","file_id":"file-1"}]}`), false},
		{Responses, input(`{"type":"x","vector_store_ids":["vs_1"]}`), false},
		{Responses, input(`{"type":"x","container_id":"cntr_1"}`), false},
		{Responses, `"input":"x","previous_response_id":"resp_1"`, false},
		{Responses, `"input":"x","conversation":"conv_1"`, false},
		{Responses, `"input":"x","store":true`, false},
		{Responses, `"input":"x","prompt":{"id":"p"}`, true},
		{Responses, `"input":"x","tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]`, true},
		{Responses, `"input":"x","tools":[{"type":"code_interpreter","container":{"file_ids":["file-1"]}}]`, true},
		{Messages, messages(`{"type":"document","source":{"type":"file","file_id":"file_1"}}`), false},
		{Messages, messages(`{"type":"image","source":{"type":"file","file_id":"file_1"}}`), false},
		{Messages, messages(`{"type":"container_upload","file_id":"file_1"}`), false},
		{Messages, messages(`{"type":"container_upload"}`), false},
		{Messages, messages(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}`), false},
		{Messages, `"messages":[],"container":"container_1"`, false},
		{Messages, `"messages":[],"container":{"id":"container_1","skills":[{"skill_id":"pptx"}]}`, true},
	} {
		body := fmt.Appendf(nil, `{"model":"m",%s}`, test.body)
		if _, bad := inspect(test.p, body, false); bad == nil || bad.code != reason.HostedToolRefused {
			t.Errorf("%s: %+v", body, bad)
		}
		if _, bad := inspect(test.p, body, true); (bad != nil) != test.never {
			t.Errorf("allowed, %s: %+v", body, bad)
		}
	}
}

// TestNothingStored: what agents send every day is no stored state.
func TestNothingStored(t *testing.T) {
	t.Parallel()
	for body, p := range map[string]Protocol{
		`"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"open","arguments":"{\"file_id\":\"a\"}"}}]},{"role":"tool","tool_call_id":"c","content":"{\"file_id\":1}"}],"store":false`:                 Chat,
		`"messages":[],"tools":[{"type":"function","function":{"name":"open","parameters":{"type":"object","properties":{"file_id":{"type":"string"}}}}}]`:                                                                                        Chat,
		`"input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","id":"fc_1","name":"x","arguments":"{}"}],"store":false,"previous_response_id":null`: Responses,
		`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"open","input":{"file_id":"a","container":"b"}}]}]`:                                                                                                        Messages,
	} {
		if _, bad := inspect(p, fmt.Appendf(nil, `{"model":"m",%s}`, body), false); bad != nil {
			t.Errorf("%s: %+v", body, bad)
		}
	}
}

// TestNothingIsKept: the request asks the provider to keep no answer, where it would
// without a word.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		p      Protocol
		more   string
		stored bool
		want   string
	}{
		{Responses, ``, false, `false`}, {Responses, `,"store":null`, false, `false`}, {Responses, `,"store":false`, false, `false`},
		{Responses, ``, true, ``}, {Responses, `,"store":true`, true, `true`}, {Chat, ``, false, ``}, {Messages, ``, false, ``},
	} {
		q, bad := inspect(test.p, []byte(ask(test.p, false, test.more)), test.stored)
		if bad != nil {
			t.Fatal(bad.message)
		}
		var sent map[string]json.RawMessage
		if err := json.Unmarshal((&Gateway{model: model}).compose(test.p, q), &sent); err != nil || string(sent["store"]) != test.want {
			t.Errorf("%+v: %v, store is %q", test, err, sent["store"])
		}
	}
}
