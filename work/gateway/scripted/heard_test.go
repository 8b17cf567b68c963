package scripted

import (
	"encoding/json"
	"strings"
	"testing"
)

// heard is what a reader of a stream or of a whole answer makes of it; it is
// written without a look at how the answers are made.
type heard struct {
	text, reasoning, model, stop string
	calls                        []called
	usage                        Usage
	terminal                     bool // the stream says that it is complete
	failed                       bool // an error event came
	events                       int
}

type called struct{ id, name, arguments string }

func (h *heard) call(i int) *called {
	for len(h.calls) <= i {
		h.calls = append(h.calls, called{})
	}
	return &h.calls[i]
}

// listen reads an event stream of a protocol by the rules of the format.
func listen(t testing.TB, p Protocol, stream string) heard {
	t.Helper()
	var h heard
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	for block := range strings.SplitSeq(stream, "\n\n") {
		var event, data string
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "event":
				event = value
			case "data":
				data += value
			case "":
			default:
				t.Fatalf("a line that is none of an event: %q", line)
			}
		}
		if data == "" {
			continue
		}
		h.events++
		if data == "[DONE]" {
			h.terminal = h.stop != ""
			continue
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		if p != Chat && v["type"] != event {
			t.Fatalf("event %q has the type %v", event, v["type"])
		}
		if v["error"] != nil || v["type"] == "error" {
			h.failed = true
			continue
		}
		switch p {
		case Chat:
			h.chat(v)
		case Responses:
			h.responses(v)
		case Messages:
			h.messages(v)
		}
	}
	return h
}

// at goes down into nested values; what is not there is nil.
func at(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

func str(v any, path ...any) string { s, _ := at(v, path...).(string); return s }

func num(v any, path ...any) int64 { f, _ := at(v, path...).(float64); return int64(f) }

func (h *heard) chat(v map[string]any) {
	h.model = str(v, "model")
	delta := at(v, "choices", 0, "delta")
	h.text += str(delta, "content")
	h.reasoning += str(delta, "reasoning_content")
	h.stop += str(v, "choices", 0, "finish_reason")
	if calls, ok := at(delta, "tool_calls").([]any); ok {
		for _, c := range calls {
			to := h.call(int(num(c, "index")))
			to.id += str(c, "id")
			to.name += str(c, "function", "name") + str(c, "custom", "name")
			to.arguments += str(c, "function", "arguments") + str(c, "custom", "input")
		}
	}
	if v["usage"] != nil {
		h.usage = openAI(v["usage"], "prompt", "completion")
	}
}

func openAI(u any, in, out string) Usage {
	read, wrote := num(u, in+"_tokens_details", "cached_tokens"), num(u, in+"_tokens_details", "cache_write_tokens")
	return Usage{InUncached: num(u, in+"_tokens") - read - wrote, CacheRead: read, CacheWrite: wrote, Out: num(u, out+"_tokens"), Reasoning: num(u, out+"_tokens_details", "reasoning_tokens")}
}

func (h *heard) responses(v map[string]any) {
	index := int(num(v, "output_index"))
	switch kind := str(v, "type"); kind {
	case "response.output_text.delta":
		h.text += str(v, "delta")
	case "response.reasoning_summary_text.delta":
		h.reasoning += str(v, "delta")
	case "response.output_item.added":
		if name := str(v, "item", "name"); name != "" {
			*h.call(index) = called{id: str(v, "item", "call_id"), name: name}
		}
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		h.call(index).arguments += str(v, "delta")
	case "response.completed", "response.incomplete":
		h.terminal, h.stop = true, strings.TrimPrefix(kind, "response.")
		h.model = str(v, "response", "model")
		if u := at(v, "response", "usage"); u != nil {
			h.usage = openAI(u, "input", "output")
		}
		// The parts before the calls have no call.
		var calls []called
		for _, c := range h.calls {
			if c.name != "" {
				calls = append(calls, c)
			}
		}
		h.calls = calls
	}
}

func (h *heard) messages(v map[string]any) {
	switch str(v, "type") {
	case "message_start":
		h.model = str(v, "message", "model")
		u := at(v, "message", "usage")
		h.usage = Usage{InUncached: num(u, "input_tokens"), CacheRead: num(u, "cache_read_input_tokens"), CacheWrite: num(u, "cache_creation_input_tokens"), Out: num(u, "output_tokens")}
	case "content_block_start":
		if str(v, "content_block", "type") == "tool_use" {
			h.calls = append(h.calls, called{id: str(v, "content_block", "id"), name: str(v, "content_block", "name")})
		}
	case "content_block_delta":
		h.text += str(v, "delta", "text")
		h.reasoning += str(v, "delta", "thinking")
		if part := str(v, "delta", "partial_json"); part != "" {
			h.calls[len(h.calls)-1].arguments += part
		}
	case "message_delta":
		h.stop = str(v, "delta", "stop_reason")
		if u := at(v, "usage"); u != nil {
			h.usage.Out, h.usage.Reasoning = num(u, "output_tokens"), num(u, "output_tokens_details", "thinking_tokens")
		}
	case "message_stop":
		h.terminal = h.stop != ""
	}
}
