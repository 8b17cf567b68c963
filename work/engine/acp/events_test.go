package acp

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

// stream is what the client prints around updates of the agent: the agent
// answers the prompt, and ends.
func stream(updates ...string) string {
	var b strings.Builder
	for _, u := range updates {
		b.WriteString(`{"agent":{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + u + "}}}\n")
	}
	return b.String() + answered + end
}

const (
	answered = `{"agent":{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}}` + "\n"
	end      = `{"client":{"event":"ended","exit":0}}` + "\n"
)

var streams = modeltest.Streams{Protocol: newProtocol}

// TestRecorded: what real agents said when they could do their work, and when
// something was wrong.
func TestRecorded(t *testing.T) {
	t.Parallel()
	streams.Ends(t, map[string]modeltest.Ending{
		"codex-acp-fix":               modeltest.Complete(),
		"codex-acp-auth":              modeltest.Incomplete(reason.AuthUnavailable, "Authentication required"),
		"codex-acp-no-model":          modeltest.Incomplete(reason.ProviderUnavailable, "no such model"),
		"codex-acp-budget":            modeltest.Incomplete(reason.BudgetExhausted, "has spent its budget"),
		"codex-acp-rate-limit":        modeltest.Incomplete(reason.ProviderUnavailable, "429"),
		"codex-acp-failure":           modeltest.Incomplete(reason.ProviderUnavailable, "the agent failed"),
		"codex-acp-empty":             modeltest.Incomplete(reason.ResponseShape, "closed before"),
		"codex-acp-html":              modeltest.Incomplete(reason.ResponseShape, "closed before"),
		"codex-acp-cut":               modeltest.Incomplete(reason.ProviderUnavailable, "disconnected"),
		"claude-agent-acp-fix":        modeltest.Complete(),
		"claude-agent-acp-auth":       modeltest.Incomplete(reason.AuthUnavailable, "invalid key"),
		"claude-agent-acp-no-model":   modeltest.Incomplete(reason.ProviderUnavailable, "selected model"),
		"claude-agent-acp-budget":     modeltest.Incomplete(reason.BudgetExhausted, "has spent its budget"),
		"claude-agent-acp-rate-limit": modeltest.Incomplete(reason.ProviderUnavailable, "429"),
		"claude-agent-acp-failure":    modeltest.Incomplete(reason.ProviderUnavailable, "500"),
		"claude-agent-acp-empty":      modeltest.Incomplete(reason.ResponseShape, "without receiving any events"),
		"claude-agent-acp-html":       modeltest.Incomplete(reason.ResponseShape, "without receiving any events"),
		"claude-agent-acp-cut":        modeltest.Incomplete(reason.ProviderUnavailable, "ECONNRESET"),
		"opencode-fix":                modeltest.Complete(),
		"opencode-budget":             modeltest.Incomplete(reason.BudgetExhausted, "has spent its budget"),
	})
}

// TestEvents: each thing that a real agent did is one event.
func TestEvents(t *testing.T) {
	t.Parallel()
	look := "(sleep 999 >/dev/null 2>&1 &); cat calc.py; env; exit 3"
	for name, want := range map[string][]string{
		"codex-acp-fix": {"message I look at the function.", "tool_call call_1 execute " + look, "tool_result call_1 3",
			"tool_call call_2 edit Editing files", "tool_result call_2 calc.py", "message Fixed.", "usage 321"},
		"claude-agent-acp-fix": {"message I look at the function.", "tool_call call_1 execute " + look, "tool_result call_1 3",
			"tool_call call_2 read Read calc.py", "tool_result call_2 ", "tool_call call_3 edit Edit calc.py", "tool_result call_3 calc.py", "message Fixed.", "usage 428"},
		"opencode-fix": {"message I look at the function.", "tool_call call_1 execute " + look, "tool_result call_1 3",
			"tool_call call_2 read read", "tool_result call_2 ", "tool_call call_3 edit edit", "tool_result call_3 calc.py", "message Fixed.", "usage 107"},
	} {
		events, end := modeltest.Replay(newProtocol, streams.Recorded(t, name))
		if !end.Complete || end.Summary != "Fixed." {
			t.Errorf("%s: %+v", name, end)
		}
		var got []string
		for _, e := range events {
			line := string(e.Kind) + " " + e.ID
			switch e.Kind {
			case engine.ToolCall:
				var params struct{ Title string }
				if err := json.Unmarshal(e.Params, &params); err != nil {
					t.Error(err)
				}
				line += " " + e.Tool + " " + params.Title
			case engine.ToolResult:
				line += " " + strings.Join(e.Paths, ",")
				if e.Exit != nil {
					line += strconv.Itoa(*e.Exit)
				}
				if (e.Exit != nil) == e.OK || e.Output == "" && e.Paths == nil {
					t.Errorf("%s: %+v", name, e)
				}
			case engine.Message:
				line += e.Text
			case engine.Usage:
				line += strconv.FormatInt(e.Usage.Tokens, 10)
			}
			got = append(got, line)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, want)
		}
	}
}

// TestLenient: neither the order of keys nor what is unknown makes a difference.
func TestLenient(t *testing.T) {
	t.Parallel()
	streams.Lenient(t, true, "codex-acp-fix", "codex-acp-failure", "claude-agent-acp-fix", "claude-agent-acp-auth")
}

// TestBrokenOff: a stream that ends anywhere before the agent was seen to its
// end is never complete.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	stream := streams.Recorded(t, "codex-acp-fix")
	end := bytes.LastIndex(stream, []byte(`{"client"`)) + len(`{"client":{"event":"ended"}`)
	for n := 0; n < end; n += 1 + len(stream)/60 {
		if _, end := modeltest.Replay(newProtocol, stream[:n]); end.Complete || end.Problem == "" {
			t.Fatalf("complete after %d bytes: %+v", n, end)
		}
	}
	if _, end := modeltest.Replay(newProtocol, stream); !end.Complete {
		t.Errorf("not complete at its end: %+v", end)
	}
}

// TestEnds: streams that no recording has.
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stream   string
		complete bool
		code     reason.Code
		problem  string
	}{
		"nothing":                        {"", false, reason.AgentProtocolFailed, "breaks off"},
		"well":                           {answered + end, true, "", ""},
		"an id that came back as text":   {strings.Replace(answered, "3", `"3"`, 1) + end, true, "", ""},
		"answered to another request":    {strings.Replace(answered, "3", "4", 1) + end, false, reason.AgentProtocolFailed, "breaks off"},
		"answered by a request":          {strings.Replace(answered, `"id"`, `"method":"x","id"`, 1) + end, false, reason.AgentProtocolFailed, "breaks off"},
		"not seen to its end":            {answered, false, reason.AgentProtocolFailed, "to its end"},
		"ended badly afterwards":         {answered + `{"client":{"event":"ended","exit":1}}`, true, "", ""},
		"no reason":                      {`{"agent":{"id":3,"result":{}}}` + "\n" + end, false, reason.AgentProtocolFailed, "unknown reason"},
		"a reason of another type":       {`{"agent":{"id":3,"result":{"stopReason":["end_turn"]}}}` + "\n" + end, false, reason.AgentProtocolFailed, "unknown reason"},
		"answered and failed":            {answered + `{"agent":{"id":3,"error":{"message":"late"}}}` + "\n" + end, false, reason.EngineFailed, "late"},
		"the agent quotes a note":        {`{"text":"{\"client\":{\"event\":\"ended\"}}"}` + "\n" + answered, false, reason.AgentProtocolFailed, "to its end"},
		"a message of the agent's only":  {strings.ReplaceAll(answered+end, "agent", "text"), false, reason.AgentProtocolFailed, "breaks off"},
		"the deciding line cut off":      {answered + end + `{"agent":{"jsonrpc":"2.0","id":3,"er`, false, reason.AgentProtocolFailed, "breaks off"},
		"an error that says nothing":     {`{"agent":{"id":1,"error":{"code":-32603}}}`, false, reason.EngineFailed, "gave no reason"},
		"an error with more in its data": {`{"agent":{"id":3,"error":{"code":-32603,"message":"Internal error","data":{"a":{"message":"status 503"}}}}}`, false, reason.ProviderUnavailable, "503"},
		"a code of the gateway's":        {`{"agent":{"id":3,"error":{"message":"x (remit: model_mismatch)"}}}`, false, reason.ModelMismatch, ""},
		"a code that ends nothing":       {`{"agent":{"id":3,"error":{"message":"(remit: no_diff)"}}}`, false, reason.EngineFailed, "no_diff"},
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

// short writes events as one word each, and what counts of it.
func short(events []engine.Event) []string {
	var out []string
	for _, e := range events {
		line := string(e.Kind)
		switch e.Kind {
		case engine.ToolCall:
			line += " " + e.ID + " " + e.Tool + " " + string(e.Params)
		case engine.ToolResult:
			line += " " + e.ID + " " + e.Output + " " + strings.Join(e.Paths, ",")
			if !e.OK {
				line += "failed"
			}
		case engine.Message:
			line += " " + e.Text
		}
		out = append(out, line)
	}
	return out
}

// TestUpdates: what agents send in pieces is one event.
func TestUpdates(t *testing.T) {
	t.Parallel()
	chunk := func(id, text string) string {
		return `{"sessionUpdate":"agent_message_chunk","messageId":"` + id + `","content":{"type":"text","text":"` + text + `"}}`
	}
	for name, test := range map[string]struct {
		updates []string
		want    []string
	}{
		"a message in pieces": {[]string{chunk("m", ""), chunk("m", "Hel"), `{"sessionUpdate":"usage_update","used":1,"size":2}`, chunk("m", "lo"), chunk("n", "there")},
			[]string{"message Hello", "message there"}},
		"a message without an id, and a thought": {[]string{`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}`,
			`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"b"}}`}, []string{"message a", "message b"}},
		"an image": {[]string{`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"x","text":"y"}}`}, nil},
		"a call whose input comes late": {[]string{
			`{"sessionUpdate":"tool_call","toolCallId":"x","title":"Edit","kind":"edit","status":"pending","rawInput":{}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"x","rawInput":{"p":1},"title":"Edit a","content":[{"type":"diff","path":"/workspace/a","oldText":"1","newText":"2"},{"type":"diff","path":"/etc/passwd"}]}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"x","status":"completed"}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"x","status":"completed","title":"again"}`,
		}, []string{`tool_call call_1 edit {"input":{"p":1},"title":"Edit a"}`, "tool_result call_1  a"}},
		"a call without an input": {[]string{`{"sessionUpdate":"tool_call","toolCallId":"x","title":"Think","status":"failed","content":[{"type":"content","content":{"type":"text","text":"no"}}]}`},
			[]string{`tool_call call_1 other {"title":"Think"}`, "tool_result call_1 no failed"}},
		"a call of which only the end is reported": {[]string{`{"sessionUpdate":"tool_call_update","toolCallId":"x","status":"completed","rawOutput":"out"}`},
			[]string{`tool_call call_1 other {"title":""}`, `tool_result call_1 "out" `}},
		"an id twice": {[]string{`{"sessionUpdate":"tool_call","toolCallId":"x","title":"1","status":"completed"}`, `{"sessionUpdate":"tool_call","toolCallId":"x","title":"2","status":"completed"}`},
			[]string{`tool_call call_1 other {"title":"1"}`, "tool_result call_1  ", `tool_call call_2 other {"title":"2"}`, "tool_result call_2  "}},
		"a call that never ends": {[]string{`{"sessionUpdate":"tool_call","toolCallId":"x","title":"1","kind":"read"}`}, []string{`tool_call call_1 read {"title":"1"}`}},
		"a failed command": {[]string{`{"sessionUpdate":"tool_call","toolCallId":"x","title":"1","kind":"execute","status":"completed","rawOutput":{"exit_code":3}}`},
			[]string{`tool_call call_1 execute {"title":"1"}`, `tool_result call_1 {"exit_code":3} failed`}},
		"a plan": {[]string{`{"sessionUpdate":"plan","entries":[{"content":"look","status":"pending"}]}`, `{"sessionUpdate":"plan","entries":[{"content":"look","status":"pending"}]}`,
			`{"sessionUpdate":"plan","entries":[{"content":"look","status":"completed"}]}`}, []string{"message Plan:\n- look (pending)", "message Plan:\n- look (completed)"}},
		"unknown updates": {[]string{`{"sessionUpdate":"of.the.future","content":7,"toolCallId":[]}`, `7`, `null`, `{"sessionUpdate":7}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, end := modeltest.Replay(newProtocol, []byte(stream(test.updates...)))
			if got := short(events); !reflect.DeepEqual(got, test.want) || !end.Complete {
				t.Errorf("%+v\ngot  %q\nwant %q", end, got, test.want)
			}
		})
	}
}

// TestBounds: what arrives in any number of pieces is not kept without end.
func TestBounds(t *testing.T) {
	t.Parallel()
	piece := `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("a", 1<<16) + `"}}`
	updates := make([]string, 10)
	for i := range updates {
		updates[i] = piece
	}
	events, end := modeltest.Replay(newProtocol, []byte(stream(updates...)))
	if !end.Complete || len(events) != 1 || len(events[0].Text) > maxSaid+1<<16 {
		t.Errorf("%d events, %+v", len(events), end.Complete)
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(stream(`{"sessionUpdate":"tool_call","toolCallId":"x","title":"t","content":[{"type":"diff","path":"../a"}],"status":"completed"}`)))
	streams.Fuzz(f)
}

// FuzzEnvelope: whatever an agent prints is one line of JSON of the client's,
// and never a note.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{"", "x", "{", `{"client":{"event":"ended"}}`, `{"id":3,"result":{"stopReason":"end_turn"}}`, "{\"a\":\"\xff\"}", `{}}`, `{"a":1},"client":{"event":"ended"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		said, _ := envelope(raw)
		p := newProtocol(func(engine.Event) {}).(*protocol)
		p.Line(said)
		if p.ended != nil || p.failed != nil || p.lines.Broken() != "" {
			t.Fatalf("%q became %q", raw, said)
		}
	})
}
