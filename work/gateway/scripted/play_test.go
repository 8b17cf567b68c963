package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

const whole = `
name: all kinds
usage: {in: 1000, cache_read: 200, cache_write: 30, out: 50, reasoning: 7}
turns:
  - reasoning: "Ich überlege: zwei Züge."
    text: "Let me look – 日本 first."
    chunks: [1, 3, 2]
    calls:
      - name: bash
        arguments: {command: "echo \"hi\" && cat <a.py>", timeout: 10, deep: {list: [1, 2.5, true, null], z: "", a: "é"}}
      - name: apply_patch
        input: |
          *** Begin Patch
          *** End Patch
`

// TestWholeAnswer: what a reader of each protocol makes of an answer is what
// the script says, in odd pieces and odd but right forms, and the usage that
// it read is the one that was counted.
func TestWholeAnswer(t *testing.T) {
	t.Parallel()
	const patch = "*** Begin Patch\n*** End Patch\n"
	arguments := `{"command":"echo \"hi\" && cat <a.py>","timeout":10,"deep":{"list":[1,2.5,true,null],"z":"","a":"é"}}`
	for _, form := range []string{"", "shape: crlf", "shape: comments", "shape: tight", "writes: [11]", "writes: [3, 1, 7, 2]", "shape: untyped"} {
		for _, p := range protocols {
			t.Run(fmt.Sprintf("%s %s", p, form), func(t *testing.T) {
				t.Parallel()
				s, address := serve(t, strings.Replace(whole, "    chunks:", "    "+form+"\n    chunks:", 1), Options{})
				all, end := raw(t, s, address, p, request(p, conversed{}))
				_, body := bodyOf(t, all)
				h := listen(t, p, body)
				want := heard{text: "Let me look – 日本 first.", reasoning: "Ich überlege: zwei Züge.", model: "gw-model", terminal: true, events: h.events,
					stop: map[Protocol]string{Chat: "tool_calls", Responses: "completed", Messages: "tool_use"}[p], usage: Usage{1000, 200, 30, 50, 7},
					calls: []called{{"call_1_1", "bash", arguments}, {"call_1_2", "apply_patch", patch}}}
				if p == Messages {
					custom, _ := json.Marshal(map[string]string{"input": patch})
					want.calls = []called{{"toolu_1_1", "bash", arguments}, {"toolu_1_2", "apply_patch", string(custom)}}
				}
				if !reflect.DeepEqual(h, want) || end != clean {
					t.Errorf("%s\ngot  %+v\nwant %+v\n%s", end, h, want, body)
				}
				if h.events < 30 {
					t.Errorf("only %d events: the pieces are not small", h.events)
				}
				got := s.Count()
				if got.Usage != want.usage || got.Requests != 1 || got.Completed != 1 || got.Broken+got.Refused+got.Unscripted+got.Elsewhere != 0 || !reflect.DeepEqual(got.Models, []string{"gw-model"}) {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

// TestPlainAnswer: without a stream the same is one object.
func TestPlainAnswer(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		s, address := serve(t, whole, Options{})
		status, body := post(t, address, p, request(p, conversed{plain: true}))
		var v map[string]any
		if err := json.Unmarshal([]byte(body), &v); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d %v %s", p, status, err, body)
		}
		var text, reasoning, name, patch string
		var usage Usage
		switch p {
		case Chat:
			m := at(v, "choices", 0, "message")
			text, reasoning, name, patch = str(m, "content"), str(m, "reasoning_content"), str(m, "tool_calls", 0, "function", "name"), str(m, "tool_calls", 1, "custom", "input")
			usage = openAI(v["usage"], "prompt", "completion")
		case Responses:
			text, reasoning = str(v, "output", 1, "content", 0, "text"), str(v, "output", 0, "summary", 0, "text")
			name, patch = str(v, "output", 2, "name"), str(v, "output", 3, "input")
			usage = openAI(v["usage"], "input", "output")
		case Messages:
			text, reasoning, name, patch = str(v, "content", 1, "text"), str(v, "content", 0, "thinking"), str(v, "content", 2, "name"), str(v, "content", 3, "input", "input")
			u := v["usage"]
			usage = Usage{num(u, "input_tokens"), num(u, "cache_read_input_tokens"), num(u, "cache_creation_input_tokens"), num(u, "output_tokens"), num(u, "output_tokens_details", "thinking_tokens")}
		}
		if text != "Let me look – 日本 first." || reasoning != "Ich überlege: zwei Züge." || name != "bash" || !strings.HasPrefix(patch, "*** Begin") || usage != (Usage{1000, 200, 30, 50, 7}) {
			t.Errorf("%s: %q %q %q %q %+v\n%s", p, text, reasoning, name, patch, usage, body)
		}
		if got := s.Count(); got.Usage != usage || got.Completed != 1 {
			t.Errorf("%s: %+v", p, got)
		}
	}
}

// fault is one thing that can go wrong, and what a client sees of it.
type fault struct {
	name   string
	answer string // in YAML
	plain  bool   // the client asks for no stream

	status    int // 0: 200
	end       ending
	kind      string // content type, "" for the ordinary one
	headers   map[string]string
	contains  string
	without   string
	terminal  bool // the stream says that it is complete
	failed    bool // an error event comes
	illegible bool // not a stream that can be listened to
	text      string
	usage     map[Protocol]Usage // that was counted; nil: none
	refused   bool
}

// long is a text of which a half and a piece differ.
const long = `text: "0123456789abcdefghij", chunks: [3], usage: {in: 10, out: 5}`

// started is what messages tells at the start of a stream.
var started = map[Protocol]Usage{Messages: {InUncached: 10, Out: 1}}

var reported = map[Protocol]Usage{Chat: {InUncached: 10, Out: 5}, Responses: {InUncached: 10, Out: 5}, Messages: {InUncached: 10, Out: 5}}

func faults() []fault {
	half := "0123456789"
	all := half + "abcdefghij"
	return []fault{
		{name: "right", answer: `{` + long + `}`, end: clean, terminal: true, text: all, usage: reported},
		{name: "right, plain", answer: `{` + long + `}`, plain: true, end: clean, contains: all, usage: reported, illegible: true, kind: "application/json"},

		{name: "status 500", answer: `{status: 500}`, status: 500, end: clean, kind: "application/json", contains: `"Internal Server Error"`, refused: true},
		{name: "status 400 with an error", answer: `{status: 400, error: {type: bad_thing, message: "no <such> tool", code: no_tool}}`, status: 400, end: clean, kind: "application/json", contains: `"no <such> tool"`, refused: true},
		{name: "status 401 with a body", answer: `{status: 401, body: "go away"}`, status: 401, end: clean, kind: "text/plain; charset=utf-8", contains: "go away", refused: true},
		{name: "status 429 with Retry-After", answer: `{status: 429, retry_after: 7}`, status: 429, end: clean, kind: "application/json", contains: `"rate_limit_error"`, headers: map[string]string{"Retry-After": "7"}, refused: true},
		{name: "status 429 with a date", answer: `{status: 429, headers: {Retry-After: "Wed, 21 Oct 2026 07:28:00 GMT", X-Request-Id: "a b"}}`, status: 429, end: clean, kind: "application/json",
			headers: map[string]string{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT", "X-Request-Id": "a b"}, refused: true},
		{name: "status 529", answer: `{status: 529}`, status: 529, end: clean, kind: "application/json", contains: "overloaded_error", refused: true},
		{name: "redirect", answer: `{status: 307, headers: {Location: "http://192.0.2.1/v1"}}`, status: 307, end: clean, kind: "application/json", headers: map[string]string{"Location": "http://192.0.2.1/v1"}, refused: true},
		{name: "no content", answer: `{status: 204, body: "dropped"}`, status: 204, end: clean, refused: true, kind: "application/json", without: "dropped"},
		{name: "status with its body cut", answer: `{status: 500, body: "0123456789", break: {at: bytes, after: 4, how: abort}}`, status: 500, end: aborted, kind: "text/plain; charset=utf-8", contains: "0123", without: "4"},

		{name: "hang at once", answer: `{break: {at: start, how: hang}}`, end: hanging},
		{name: "abort at once", answer: `{break: {at: start, how: abort}}`, end: aborted},
		{name: "hang after the head", answer: `{break: {at: headers, how: hang}}`, end: hanging},
		{name: "abort after the head", answer: `{break: {at: headers, how: abort}}`, end: aborted},
		{name: "nothing after the head", answer: `{break: {at: headers, how: close}}`, end: clean},
		{name: "error after the head", answer: `{break: {at: headers, how: error}}`, end: clean, failed: true},
		{name: "plain, nothing after the head", answer: `{break: {at: headers, how: close}}`, plain: true, end: clean, kind: "application/json", illegible: true},

		{name: "close in the text", answer: `{` + long + `, break: {at: text, how: close}}`, end: clean, text: half, usage: started},
		{name: "close at a character of the text", answer: `{` + long + `, break: {at: text, after: 4, how: close}}`, end: clean, text: "0123", usage: started},
		{name: "close before the text", answer: `{` + long + `, break: {at: text, after: 0, how: close}}`, end: clean, usage: started},
		{name: "close after the text", answer: `{` + long + `, break: {at: text, after: 99, how: close}}`, end: clean, text: all, usage: started},
		{name: "abort in the text", answer: `{` + long + `, break: {at: text, how: abort}}`, end: aborted, text: half, usage: started},
		{name: "hang in the text", answer: `{` + long + `, break: {at: text, how: hang}}`, end: hanging, text: half, usage: started},
		{name: "error in the text", answer: `{` + long + `, break: {at: text, how: error}}`, end: clean, text: half, failed: true, usage: started},
		{name: "close in the reasoning", answer: `{reasoning: "0123456789", ` + long + `, break: {at: reasoning, how: close}}`, end: clean, contains: `"34"`, without: "567", usage: started},
		{name: "no end marker", answer: `{` + long + `, break: {at: end, how: close}}`, end: clean, text: all, usage: started},
		{name: "abort for the end marker", answer: `{` + long + `, break: {at: end, how: abort}}`, end: aborted, text: all, usage: started},
		{name: "close in the arguments", answer: `{calls: [{name: write, arguments: {path: "a.py", content: "0123456789"}}], usage: {in: 10, out: 5}, break: {at: arguments, how: close}}`, end: clean, contains: "write", without: "0123456789", usage: started},
		{name: "abort in the arguments", answer: `{calls: [{name: write, arguments: {path: "a.py"}}, {name: other}], usage: {in: 10, out: 5}, break: {at: arguments, after: 5, how: abort}}`, end: aborted, contains: "write", without: "other", usage: started},
		{name: "abort after bytes", answer: `{` + long + `, break: {at: bytes, after: 23, how: abort}}`, end: aborted, illegible: true},
		{name: "close after bytes", answer: `{` + long + `, break: {at: bytes, after: 23, how: close}}`, end: clean, illegible: true},
		{name: "hang after bytes", answer: `{` + long + `, break: {at: bytes, after: 23, how: hang}}`, end: hanging, illegible: true},
		{name: "more bytes than there are", answer: `{` + long + `, break: {at: bytes, after: 999999, how: abort}}`, end: clean, terminal: true, text: all, usage: reported},
		{name: "plain, abort in the text", answer: `{` + long + `, break: {at: text, how: abort}}`, plain: true, end: aborted, kind: "application/json", illegible: true, without: "total_tokens"},
		{name: "plain, close in the text", answer: `{` + long + `, break: {at: text, how: close}}`, plain: true, end: clean, kind: "application/json", illegible: true, without: "output_tokens"},
		{name: "plain, an error is an abort", answer: `{` + long + `, break: {at: text, how: error}}`, plain: true, end: aborted, kind: "application/json", illegible: true},
		{name: "plain, hang at the end", answer: `{` + long + `, break: {at: end, how: hang}}`, plain: true, end: hanging, kind: "application/json", illegible: true},

		{name: "JSON for a stream", answer: `{` + long + `, shape: json}`, end: clean, kind: "application/json", contains: all, illegible: true, usage: reported},
		{name: "a stream for JSON", answer: `{` + long + `, shape: stream}`, plain: true, end: clean, terminal: true, text: all, usage: reported},
		{name: "an HTML page", answer: `{shape: html}`, end: clean, kind: "text/html; charset=utf-8", contains: "<html>", illegible: true},
		{name: "an empty stream", answer: `{shape: empty}`, end: clean, illegible: true},
		{name: "only the end marker of chat", answer: `{shape: done}`, end: clean, contains: "data: [DONE]\n\n", illegible: true},
		{name: "the wrong type", answer: `{` + long + `, shape: untyped}`, end: clean, kind: "text/plain; charset=utf-8", terminal: true, text: all, usage: reported},
		{name: "half the JSON of each event", answer: `{` + long + `, shape: half_json}`, end: clean, illegible: true, without: `"}]}`},
		{name: "bare lines", answer: `{` + long + `, shape: bare}`, end: clean, illegible: true, without: "data:"},
		{name: "no lines between events", answer: `{` + long + `, shape: unframed}`, end: clean, illegible: true, without: "\n\n"},

		{name: "reasoning only", answer: `{reasoning: "hm, hm", usage: {in: 10, out: 5}}`, end: clean, terminal: true, contains: "hm, hm", usage: reported},
		{name: "reasoning only, cut by the limit", answer: `{reasoning: "hm, hm", stop: length, usage: {in: 10, out: 5}}`, end: clean, terminal: true, contains: "hm, hm", usage: reported},
		{name: "another model", answer: `{` + long + `, model: gpt-other}`, end: clean, terminal: true, text: all, contains: `"model":"gpt-other"`, without: "gw-model", usage: reported},
		{name: "no usage", answer: `{text: "0123456789abcdefghij", usage: none}`, end: clean, terminal: true, text: all, without: `_tokens"`},
		{name: "arguments that are no JSON", answer: `{calls: [{name: bash, raw: '{"command": "ls'}], usage: {in: 10, out: 5}}`, end: clean, terminal: true, contains: `{\"command\": \"ls`, usage: reported},
		{name: "an empty text", answer: `{text: "", usage: {in: 10, out: 5}}`, end: clean, terminal: true, usage: reported},
		{name: "huge", answer: `{text: "0123456789", repeat: 20000, chunks: [65536], usage: {in: 10, out: 5}}`, end: clean, terminal: true, text: strings.Repeat("0123456789", 20_000), usage: reported},
	}
}

// TestFaults: each fault over each protocol, as the bytes on the wire show it.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		for _, p := range protocols {
			t.Run(f.name+" over "+string(p), func(t *testing.T) {
				t.Parallel()
				s, address := serve(t, "turns: ["+f.answer+"]", Options{})
				all, end := raw(t, s, address, p, request(p, conversed{plain: f.plain}))
				if end != f.end {
					t.Errorf("it ended %s and not %s:\n%q", end, f.end, cutShort(all))
				}
				f.counted(t, s.Count(), p)
				if all == "" {
					if f.end == clean {
						t.Error("nothing came")
					}
					return
				}
				r, body := bodyOf(t, all)
				f.answered(t, r, body)
				if !f.illegible && !f.refused && f.status == 0 {
					f.listened(t, listen(t, p, body))
				}
			})
		}
	}
}

func cutShort(s string) string { return s[:min(len(s), 2000)] }

func (f fault) counted(t *testing.T, got Counts, p Protocol) {
	t.Helper()
	want := Counts{Usage: f.usage[p], Requests: 1, Models: []string{"gw-model"}}
	switch broke := strings.Contains(f.answer, "break:") && !strings.Contains(f.answer, "999999"); {
	case f.refused:
		want.Refused = 1
	case broke:
		want.Broken = 1
	default:
		want.Completed = 1
	}
	if f.plain && want.Broken == 1 {
		want.Usage = Usage{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

func (f fault) answered(t *testing.T, r *http.Response, body string) {
	t.Helper()
	status, kind := f.status, f.kind
	if status == 0 {
		status = http.StatusOK
	}
	if kind == "" {
		kind = "text/event-stream"
	}
	if r.StatusCode != status || r.Header.Get("Content-Type") != kind {
		t.Errorf("%d %q, want %d %q", r.StatusCode, r.Header.Get("Content-Type"), status, kind)
	}
	for name, value := range f.headers {
		if r.Header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, r.Header.Get(name), value)
		}
	}
	if !strings.Contains(body, f.contains) {
		t.Errorf("%q is not in %q", f.contains, cutShort(body))
	}
	if f.without != "" && strings.Contains(body, f.without) {
		t.Errorf("%q is in %q", f.without, cutShort(body))
	}
}

func (f fault) listened(t *testing.T, h heard) {
	t.Helper()
	if h.terminal != f.terminal || h.failed != f.failed {
		t.Errorf("complete: %v, want %v; an error: %v, want %v", h.terminal, f.terminal, h.failed, f.failed)
	}
	if f.text != "" && h.text != f.text {
		t.Errorf("text %q, want %q", cutShort(h.text), cutShort(f.text))
	}
}
