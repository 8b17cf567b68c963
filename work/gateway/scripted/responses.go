package scripted

import (
	"fmt"
	"iter"
)

// responsesEvent is one event of the responses protocol. Each says its type
// twice and has a number.
func (a *reply) responsesEvent(kind string, members ...any) frame {
	body := append(object{"type", kind, "sequence_number", a.seq}, members...)
	a.seq++
	return frame{event: kind, data: encoded(body)}
}

// responseObject is the response itself, as far as it has come.
func (a *reply) responseObject(status string, output list, usage any, more ...any) object {
	return append(object{"id", a.id, "object", "response", "created_at", created, "status", status, "model", a.answering(), "output",
		output, "usage", usage}, more...)
}

// item is one part of a response: what it is at its beginning and at its end,
// and what comes between.
type item struct {
	begun, done object
	between     func(yield func(frame) bool, at int) bool
}

// responsesFrames streams a response.
func (a *reply) responsesFrames() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		if !yield(a.responsesEvent("response.created", "response", a.responseObject("in_progress", list{}, nil))) {
			return
		}
		var output list
		for at, it := range a.items() {
			if !yield(a.responsesEvent("response.output_item.added", "output_index", at, "item", it.begun)) {
				return
			}
			if !it.between(yield, at) || a.over {
				return
			}
			if !yield(a.responsesEvent("response.output_item.done", "output_index", at, "item", it.done)) {
				return
			}
			output = append(output, it.done)
		}
		if a.ends(atEnd) {
			return
		}
		kind, body := a.finished(output)
		f := a.responsesEvent(kind, "response", body)
		f.last = true
		if !a.silent {
			f.usage = &a.usage
		}
		yield(f)
	}
}

// finished is the response at its end, and the event that says so.
func (a *reply) finished(output list) (string, object) {
	var usage any
	if !a.silent {
		usage = a.responsesUsage()
	}
	if why := a.stopped("", "", "max_output_tokens", "content_filter"); why != "" {
		return "response.incomplete", a.responseObject("incomplete", output, usage, "incomplete_details", object{"reason", why})
	}
	return "response.completed", a.responseObject("completed", output, usage)
}

func (a *reply) responsesUsage() object {
	u := a.usage
	in := u.InUncached + u.CacheRead + u.CacheWrite
	details := object{"cached_tokens", u.CacheRead}
	if u.CacheWrite > 0 {
		details = append(details, "cache_write_tokens", u.CacheWrite)
	}
	return object{"input_tokens", in, "input_tokens_details", details, "output_tokens", u.Out,
		"output_tokens_details", object{"reasoning_tokens", u.Reasoning}, "total_tokens", in + u.Out}
}

// items are the parts of the response in their order.
func (a *reply) items() []item {
	var all []item
	if a.line.reasoning != "" {
		all = append(all, a.reasoningItem())
	}
	if a.line.text != "" || len(a.line.calls) == 0 && a.line.reasoning == "" {
		all = append(all, a.messageItem())
	}
	for i, c := range a.line.calls {
		all = append(all, a.callItem(i, c))
	}
	return all
}

// itemID names a part of this turn.
func (a *reply) itemID(prefix string, i int) string { return a.callID(prefix, i) }

func (a *reply) reasoningItem() item {
	id, text := a.itemID("rs", 0), a.line.reasoning
	summary := object{"type", "summary_text", "text", text}
	return item{
		begun: object{"type", "reasoning", "id", id, "summary", list{}},
		done:  object{"type", "reasoning", "id", id, "summary", list{summary}},
		between: func(yield func(frame) bool, at int) bool {
			where := []any{"item_id", id, "output_index", at, "summary_index", 0}
			event := func(kind string, members ...any) bool {
				return yield(a.responsesEvent("response.reasoning_summary_"+kind, append(where[:len(where):len(where)], members...)...))
			}
			if !event("part.added", "part", object{"type", "summary_text", "text", ""}) {
				return false
			}
			for piece := range a.pieces(atReasoning, text) {
				if !event("text.delta", "delta", piece) {
					return false
				}
			}
			return a.over || event("text.done", "text", text) && event("part.done", "part", summary)
		},
	}
}

func (a *reply) messageItem() item {
	id, text := a.itemID("msg", 0), a.line.text
	part := func(text string) object { return object{"type", "output_text", "text", text, "annotations", list{}} }
	return item{
		begun: object{"type", "message", "id", id, "status", "in_progress", "role", "assistant", "content", list{}},
		done:  object{"type", "message", "id", id, "status", "completed", "role", "assistant", "content", list{part(text)}},
		between: func(yield func(frame) bool, at int) bool {
			where := []any{"item_id", id, "output_index", at, "content_index", 0}
			event := func(kind string, members ...any) bool {
				return yield(a.responsesEvent("response."+kind, append(where[:len(where):len(where)], members...)...))
			}
			if !event("content_part.added", "part", part("")) {
				return false
			}
			for piece := range a.pieces(atText, text) {
				if !event("output_text.delta", "delta", piece) {
					return false
				}
			}
			return a.over || event("output_text.done", "text", text) && event("content_part.done", "part", part(text))
		},
	}
}

func (a *reply) callItem(i int, c call) item {
	prefix, kind, field, event := "fc", "function_call", "arguments", "response.function_call_arguments"
	if c.custom {
		prefix, kind, field, event = "ctc", "custom_tool_call", "input", "response.custom_tool_call_input"
	}
	id := a.itemID(prefix, i)
	whole := func(status, text string) object {
		return object{"type", kind, "id", id, "status", status, "call_id", a.callID("call", i), "name", c.name, field, text}
	}
	return item{
		begun: whole("in_progress", ""),
		done:  whole("completed", c.arguments),
		between: func(yield func(frame) bool, at int) bool {
			for piece := range a.pieces(a.cuttable(i), c.arguments) {
				if !yield(a.responsesEvent(event+".delta", "item_id", id, "output_index", at, "delta", piece)) {
					return false
				}
			}
			return a.over || yield(a.responsesEvent(event+".done", "item_id", id, "output_index", at, field, c.arguments))
		},
	}
}

// responsesWhole is the answer to a request that asked for no stream.
func (a *reply) responsesWhole() []byte {
	output := list{}
	for _, it := range a.items() {
		output = append(output, it.done)
	}
	_, body := a.finished(output)
	return encoded(body)
}

// responseID is the name of the n-th answer of a server.
func responseID(p Protocol, n int64) string {
	return fmt.Sprintf("%s_scripted_%d", map[Protocol]string{Chat: "chatcmpl", Responses: "resp", Messages: "msg"}[p], n)
}
