package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type object = map[string]any

// writer plays one turn.
type writer struct {
	w      http.ResponseWriter
	model  string
	stream bool
	turn   Turn
	step   int // results that the request brought
}

// event sends one event; a nil value is the end of a chat stream.
func (o *writer) event(kind string, v any) {
	data := []byte("[DONE]")
	if v != nil {
		var err error
		if data, err = json.Marshal(v); err != nil {
			panic(err) // made of literals and of what a test passed in
		}
	}
	if kind != "" {
		fmt.Fprintf(o.w, "event: %s\n", kind)
	}
	fmt.Fprintf(o.w, "data: %s\n\n", data)
	if err := http.NewResponseController(o.w).Flush(); err != nil {
		panic(http.ErrAbortHandler) // the agent went away
	}
}

func (o *writer) typed(v object) { o.event(v["type"].(string), v) }

func (o *writer) start() { o.w.Header().Set("Content-Type", "text/event-stream") }

// cut breaks the connection if the turn says so.
func (o *writer) cut() {
	if o.turn.Cut {
		panic(http.ErrAbortHandler)
	}
}

// pieces cuts a text between any two bytes of ASCII.
func (o *writer) pieces(text string) []string {
	n := max(1, o.turn.Pieces)
	size := max(1, (len(text)+n-1)/n)
	var out []string
	for ; len(text) > size; text = text[size:] {
		out = append(out, text[:size])
	}
	return append(out, text)
}

func (c Call) arguments() string {
	b, err := json.Marshal(c.Args)
	if err != nil {
		panic(err) // what a test passed in
	}
	return string(b)
}

// chat plays the turn as chat completions.
func (o *writer) chat() {
	o.start()
	chunk := func(choices ...any) object {
		return object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": o.model, "choices": choices}
	}
	delta := func(d object) {
		o.event("", chunk(object{"index": 0, "delta": d, "finish_reason": nil}))
	}
	delta(object{"role": "assistant", "content": ""})
	if o.turn.Text != "" {
		for _, piece := range o.pieces(o.turn.Text) {
			delta(object{"content": piece})
			o.cut()
		}
	}
	finish := "stop"
	for i, c := range o.turn.Calls {
		finish = "tool_calls"
		delta(object{"tool_calls": []any{object{"index": i, "id": o.id(i), "type": "function",
			"function": object{"name": c.Name, "arguments": ""}}}})
		for _, piece := range o.pieces(c.arguments()) {
			delta(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": piece}}}})
			o.cut()
		}
	}
	o.event("", chunk(object{"index": 0, "delta": object{}, "finish_reason": finish}))
	last := chunk()
	last["choices"] = []any{}
	last["usage"] = object{"prompt_tokens": InUncached + CacheRead, "completion_tokens": Out, "total_tokens": InUncached + CacheRead + Out,
		"prompt_tokens_details": object{"cached_tokens": CacheRead}}
	o.event("", last)
	o.event("", nil)
}

// id is the same for the same call of the same turn, and for no other.
func (o *writer) id(i int) string {
	return fmt.Sprintf("call_%s_%d_%d", o.turn.Calls[i].Name, o.step, i)
}

// responses plays the turn as responses.
func (o *writer) responses() {
	o.start()
	o.typed(object{"type": "response.created", "response": object{"id": "resp_1", "object": "response", "status": "in_progress"}})
	index := 0
	item := func(v object) {
		o.typed(object{"type": "response.output_item.added", "output_index": index, "item": v})
		o.cut()
		o.typed(object{"type": "response.output_item.done", "output_index": index, "item": v})
		index++
	}
	if o.turn.Text != "" {
		item(object{"type": "message", "id": "msg_1", "role": "assistant",
			"content": []any{object{"type": "output_text", "text": o.turn.Text, "annotations": []any{}}}})
	}
	for i, c := range o.turn.Calls {
		if c.Text != "" {
			item(object{"type": "custom_tool_call", "id": "ct_1", "call_id": o.id(i), "name": c.Name, "input": c.Text, "status": "completed"})
			continue
		}
		item(object{"type": "function_call", "id": "fc_1", "call_id": o.id(i), "name": c.Name, "arguments": c.arguments(), "status": "completed"})
	}
	o.typed(object{"type": "response.completed", "response": object{
		"id": "resp_1", "object": "response", "status": "completed", "usage": object{
			"input_tokens": InUncached + CacheRead, "input_tokens_details": object{"cached_tokens": CacheRead},
			"output_tokens": Out, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": InUncached + CacheRead + Out}}})
}

// messages plays the turn as messages, in one piece if no stream is asked for.
func (o *writer) messages() {
	var blocks []object
	stop := "end_turn"
	if o.turn.Text != "" {
		blocks = append(blocks, object{"type": "text", "text": o.turn.Text})
	}
	for i, c := range o.turn.Calls {
		stop = "tool_use"
		blocks = append(blocks, object{"type": "tool_use", "id": "tool" + o.id(i), "name": c.Name, "input": c.Args})
	}
	message := object{"id": "msg_1", "type": "message", "role": "assistant", "model": o.model, "content": blocks, "stop_reason": stop,
		"stop_sequence": nil,
		"usage": object{
			"input_tokens": InUncached, "cache_read_input_tokens": CacheRead, "cache_creation_input_tokens": 0, "output_tokens": Out}}
	if !o.stream {
		o.w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(o.w).Encode(message) // the agent may be gone
		return
	}
	o.start()
	message["content"], message["stop_reason"] = []any{}, nil
	o.typed(object{"type": "message_start", "message": message})
	for i, b := range blocks {
		begun, deltas := object{"type": "text", "text": ""}, []object{}
		if b["type"] == "text" {
			for _, piece := range o.pieces(o.turn.Text) {
				deltas = append(deltas, object{"type": "text_delta", "text": piece})
			}
		} else {
			begun = object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}
			for _, piece := range o.pieces(Call{Args: b["input"]}.arguments()) {
				deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
			}
		}
		o.typed(object{"type": "content_block_start", "index": i, "content_block": begun})
		for _, d := range deltas {
			o.typed(object{"type": "content_block_delta", "index": i, "delta": d})
			o.cut()
		}
		o.typed(object{"type": "content_block_stop", "index": i})
	}
	o.typed(object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": Out}})
	o.typed(object{"type": "message_stop"})
}
