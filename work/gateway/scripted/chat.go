package scripted

import "iter"

// created is the time of every answer: a script has no clock.
const created = 1_700_000_000

// chatChunk is one event of the chat protocol.
func (a *reply) chatChunk(choices list, more ...any) []byte {
	return encoded(append(object{"id", a.id, "object", "chat.completion.chunk", "created", created, "model", a.answering(), "choices",
		choices}, more...))
}

func (a *reply) chatDelta(delta object, finish any) frame {
	return frame{data: a.chatChunk(list{object{"index", 0, "delta", delta, "finish_reason", finish}})}
}

// chatFrames streams a message in the chat protocol.
func (a *reply) chatFrames() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		if !yield(a.chatDelta(object{"role", "assistant", "content", ""}, nil)) {
			return
		}
		for piece := range a.pieces(atReasoning, a.line.reasoning) {
			if !yield(a.chatDelta(object{"reasoning_content", piece}, nil)) {
				return
			}
		}
		if a.over {
			return
		}
		for piece := range a.pieces(atText, a.line.text) {
			if !yield(a.chatDelta(object{"content", piece}, nil)) {
				return
			}
		}
		for i, c := range a.line.calls {
			if a.over || !a.chatCall(yield, i, c) {
				return
			}
		}
		if a.ends(atEnd) {
			return
		}
		if !yield(a.chatDelta(object{}, a.stopped("stop", "tool_calls", "length", "content_filter"))) {
			return
		}
		if a.asked.usage && !a.silent && !yield(frame{data: a.chatChunk(list{}, "usage", a.chatUsage()), usage: &a.usage}) {
			return
		}
		yield(frame{data: []byte("[DONE]"), last: true})
	}
}

// chatCall streams a call: who is called first, then with what.
func (a *reply) chatCall(yield func(frame) bool, i int, c call) bool {
	delta := func(head object, text string) frame {
		member, field := "function", "arguments"
		if c.custom {
			member, field = "custom", "input"
		}
		inner := object{field, text}
		if head != nil {
			inner = object{"name", c.name, field, text}
		}
		return a.chatDelta(object{"tool_calls", list{append(append(object{"index", i}, head...), member, inner)}}, nil)
	}
	kind := "function"
	if c.custom {
		kind = "custom"
	}
	if !yield(delta(object{"id", a.callID("call", i), "type", kind}, "")) {
		return false
	}
	for piece := range a.pieces(a.cuttable(i), c.arguments) {
		if !yield(delta(nil, piece)) {
			return false
		}
	}
	return true
}

// cuttable is the place that the arguments of call i are: a break is about
// those of the first.
func (a *reply) cuttable(i int) part {
	if i == 0 {
		return atArguments
	}
	return ""
}

func (a *reply) chatUsage() object {
	u := a.usage
	in := u.InUncached + u.CacheRead + u.CacheWrite
	details := object{"cached_tokens", u.CacheRead}
	if u.CacheWrite > 0 {
		details = append(details, "cache_write_tokens", u.CacheWrite)
	}
	return object{"prompt_tokens", in, "completion_tokens", u.Out, "total_tokens", in + u.Out,
		"prompt_tokens_details", details, "completion_tokens_details", object{"reasoning_tokens", u.Reasoning}}
}

// chatWhole is the answer to a request that asked for no stream.
func (a *reply) chatWhole() []byte {
	message := object{"role", "assistant", "content", nil}
	if a.line.text != "" || len(a.line.calls) == 0 {
		message[3] = a.line.text
	}
	if a.line.reasoning != "" {
		message = append(message, "reasoning_content", a.line.reasoning)
	}
	var calls list
	for i, c := range a.line.calls {
		if c.custom {
			calls = append(calls, object{"id", a.callID("call", i), "type", "custom", "custom", object{"name", c.name, "input", c.arguments}})
		} else {
			calls = append(calls, object{"id", a.callID("call", i), "type", "function", "function",
				object{"name", c.name, "arguments", c.arguments}})
		}
	}
	if calls != nil {
		message = append(message, "tool_calls", calls)
	}
	choice := object{"index", 0, "message", message, "finish_reason", a.stopped("stop", "tool_calls", "length", "content_filter")}
	body := object{"id", a.id, "object", "chat.completion", "created", created, "model", a.answering(), "choices", list{choice}}
	if !a.silent {
		body = append(body, "usage", a.chatUsage())
	}
	return encoded(body)
}
