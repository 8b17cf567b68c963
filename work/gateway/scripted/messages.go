package scripted

import (
	"encoding/json"
	"iter"
)

// signature stands in for the one that providers put below their reasoning.
const signature = "c2NyaXB0ZWQ="

func messagesEvent(kind string, members ...any) frame {
	return frame{event: kind, data: encoded(append(object{"type", kind}, members...))}
}

// messagesFrames streams a message in the messages protocol.
func (a *reply) messagesFrames() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		start := messagesEvent("message_start", "message", a.messageObject(list{}, nil, a.startUsage()))
		known := a.usage
		known.Out, known.Reasoning = min(1, a.usage.Out), 0
		if !a.silent {
			start.usage = &known
		}
		if !yield(start) {
			return
		}
		for at, b := range a.blocks() {
			if !a.block(yield, at, b) || a.over {
				return
			}
		}
		if a.ends(atEnd) {
			return
		}
		end := messagesEvent("message_delta", "delta", object{"stop_reason", a.messagesStop(), "stop_sequence", nil})
		if !a.silent {
			end = messagesEvent("message_delta", "delta", object{"stop_reason", a.messagesStop(), "stop_sequence", nil}, "usage", a.endUsage())
			end.usage = &Usage{Out: a.usage.Out - known.Out, Reasoning: a.usage.Reasoning}
		}
		if yield(end) {
			stop := messagesEvent("message_stop")
			stop.last = true
			yield(stop)
		}
	}
}

func (a *reply) messagesStop() string {
	return a.stopped("end_turn", "tool_use", "max_tokens", "refusal")
}

func (a *reply) messageObject(content list, stop any, usage object) object {
	body := object{"id", a.id, "type", "message", "role", "assistant", "model", a.answering(), "content", content, "stop_reason", stop,
		"stop_sequence", nil}
	if usage != nil {
		body = append(body, "usage", usage)
	}
	return body
}

// startUsage is known at the start: what was read, and that writing began.
func (a *reply) startUsage() object {
	if a.silent {
		return nil
	}
	u := a.usage
	return object{"input_tokens", u.InUncached, "cache_creation_input_tokens", u.CacheWrite, "cache_read_input_tokens", u.CacheRead,
		"output_tokens", min(1, u.Out)}
}

func (a *reply) endUsage() object {
	usage := object{"output_tokens", a.usage.Out}
	if a.usage.Reasoning > 0 {
		usage = append(usage, "output_tokens_details", object{"thinking_tokens", a.usage.Reasoning})
	}
	return usage
}

// block is one part of a message.
type block struct {
	begun, done object
	part        part
	text        string
	delta       func(piece string) object
}

// blocks are the parts of the message in their order.
func (a *reply) blocks() []block {
	var all []block
	if text := a.line.reasoning; text != "" {
		all = append(all, block{part: atReasoning, text: text,
			begun: object{"type", "thinking", "thinking", "", "signature", ""},
			done:  object{"type", "thinking", "thinking", text, "signature", signature},
			delta: func(piece string) object { return object{"type", "thinking_delta", "thinking", piece} }})
	}
	if text := a.line.text; text != "" || len(a.line.calls) == 0 && len(all) == 0 {
		all = append(all, block{part: atText, text: text,
			begun: object{"type", "text", "text", ""},
			done:  object{"type", "text", "text", text},
			delta: func(piece string) object { return object{"type", "text_delta", "text", piece} }})
	}
	for i, c := range a.line.calls {
		arguments := c.arguments
		if c.custom { // the protocol knows no tool that takes text
			arguments = string(encoded(object{"input", c.arguments}))
		}
		var input any = json.RawMessage(arguments)
		if !json.Valid([]byte(arguments)) {
			input = arguments // in a whole answer there is no room for what is not JSON
		}
		id := a.callID("toolu", i)
		all = append(all, block{part: a.cuttable(i), text: arguments,
			begun: object{"type", "tool_use", "id", id, "name", c.name, "input", object{}},
			done:  object{"type", "tool_use", "id", id, "name", c.name, "input", input},
			delta: func(piece string) object { return object{"type", "input_json_delta", "partial_json", piece} }})
	}
	return all
}

func (a *reply) block(yield func(frame) bool, at int, b block) bool {
	if !yield(messagesEvent("content_block_start", "index", at, "content_block", b.begun)) {
		return false
	}
	for piece := range a.pieces(b.part, b.text) {
		if !yield(messagesEvent("content_block_delta", "index", at, "delta", b.delta(piece))) {
			return false
		}
	}
	if a.over {
		return true
	}
	if b.part == atReasoning && !yield(messagesEvent("content_block_delta", "index", at, "delta",
		object{"type", "signature_delta", "signature", signature})) {
		return false
	}
	return yield(messagesEvent("content_block_stop", "index", at))
}

// messagesWhole is the answer to a request that asked for no stream.
func (a *reply) messagesWhole() []byte {
	content := list{}
	for _, b := range a.blocks() {
		content = append(content, b.done)
	}
	usage := a.startUsage()
	if usage != nil {
		usage = append(usage[:6:6], a.endUsage()...)
	}
	return encoded(a.messageObject(content, a.messagesStop(), usage))
}
