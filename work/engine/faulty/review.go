package faulty

import (
	"encoding/json"

	"remit/work/engine"
)

// The verdicts of an agent's reviewer.
const (
	Approved = "approved"
	Rejected = "rejected"
)

// review is the line that a reviewing agent prints.
type review struct {
	Type    string `json:"type"`
	Verdict string `json:"verdict"`
	Text    string `json:"text"`
}

func reviewLine(verdict string) string {
	text := "the reviewer has read the change"
	if verdict == Rejected {
		text = "the reviewer finds the change too narrow"
	}
	b, err := json.Marshal(review{"review", verdict, text})
	if err != nil {
		panic(err) // three strings
	}
	return string(b)
}

// reviewed reads review lines and leaves the others to the agent's own
// protocol. An agent without one is a single tool call, as it would be without
// a reviewer.
func reviewed(inner func(func(engine.Event)) engine.Protocol) func(func(engine.Event)) engine.Protocol {
	return func(emit func(engine.Event)) engine.Protocol {
		p := &reviewedProtocol{}
		if inner != nil {
			p.inner = inner(emit)
			return p
		}
		emit(engine.Event{Kind: engine.ToolCall, ID: onlyCall, Tool: "command", Params: json.RawMessage(`{}`)})
		p.inner = &wholeCommand{emit}
		return p
	}
}

type reviewedProtocol struct {
	inner  engine.Protocol
	review review
}

func (p *reviewedProtocol) Line(line []byte) {
	var r review
	if json.Unmarshal(line, &r) == nil && r.Type == "review" {
		p.review = r
		return
	}
	p.inner.Line(line)
}

func (p *reviewedProtocol) End() engine.End {
	end := p.inner.End()
	end.Rejected, end.Reason = p.review.Verdict != Approved, p.review.Text
	if p.review.Type == "" {
		end.Reason = "the reviewer did not answer"
	}
	return end
}

const onlyCall = "call_1"

// wholeCommand is the protocol of a program that has none.
type wholeCommand struct{ emit func(engine.Event) }

func (*wholeCommand) Line([]byte) {}

func (p *wholeCommand) End() engine.End {
	p.emit(engine.Event{Kind: engine.ToolResult, ID: onlyCall, OK: true})
	return engine.End{Complete: true}
}
