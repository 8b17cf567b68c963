package pi

import (
	"encoding/json"
	"strings"

	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent"
)

// event is what a line of `pi --mode json` can hold.
type event struct {
	Type    string
	Message struct {
		Role    string
		Content json.RawMessage
		Usage   struct{ Input, Output, CacheRead, CacheWrite int64 }
		Stop    string `json:"stopReason"`
		Error   string `json:"errorMessage"`
	}

	// Of a tool call.
	CallID  string `json:"toolCallId"`
	Tool    string `json:"toolName"`
	Args    json.RawMessage
	Result  struct{ Content json.RawMessage }
	IsError bool
}

// protocol reads the events of one run.
type protocol struct {
	emit    func(engine.Event)
	lines   agent.Lines
	calls   *agent.Calls
	changes map[string]string // path that an open call changes, by the agent's id
	begun   bool
	pending bool   // a message of the model has begun and not ended
	stop    string // of the last one that ended
	text    string
	failure string
}

func newProtocol(emit func(engine.Event)) engine.Protocol {
	return &protocol{emit: emit, calls: agent.NewCalls(emit), changes: map[string]string{}}
}

// Line reads one event. The types that repeat what others say may be of any
// length, and cut.
func (p *protocol) Line(line []byte) {
	var e event
	if !p.lines.Decode(line, &e, "message_update", "tool_execution_update", "turn_end", "agent_end", "session") {
		return
	}
	model := e.Message.Role == "assistant"
	switch {
	case e.Type == "agent_start":
		p.begun = true
	case e.Type == "message_start" && model:
		p.pending = true
	case e.Type == "message_end" && model:
		p.message(e)
	case e.Type == "tool_execution_start":
		p.begin(e)
	case e.Type == "tool_execution_end":
		p.end(e)
	}
}

// message reads a whole message of the model.
func (p *protocol) message(e event) {
	p.pending, p.stop, p.failure = false, e.Message.Stop, e.Message.Error
	p.text = text(e.Message.Content)
	if p.text != "" {
		p.emit(engine.Event{Kind: engine.Message, Text: p.text})
	}
	u := e.Message.Usage
	p.emit(engine.Event{Kind: engine.Usage, Usage: evidence.MeteredUsage{Tokens: u.Input + u.Output + u.CacheRead + u.CacheWrite,
		Requests: 1}})
}

// text joins the text parts of a content.
func text(content json.RawMessage) string {
	var parts []struct{ Type, Text string }
	_ = json.Unmarshal(content, &parts) // what does not fit is left out
	var out []string
	for _, part := range parts {
		if part.Type == "text" && part.Text != "" {
			out = append(out, part.Text)
		}
	}
	return strings.Join(out, "\n")
}

func (p *protocol) begin(e event) {
	if p.calls.Open(e.CallID) {
		return
	}
	if e.Tool == "edit" || e.Tool == "write" {
		var args struct{ Path string }
		_ = json.Unmarshal(e.Args, &args) // then there is none
		p.changes[e.CallID] = args.Path
	}
	p.calls.Begin(e.CallID, e.Tool, e.Args)
}

func (p *protocol) end(e event) {
	back := engine.Event{Output: text(e.Result.Content), OK: !e.IsError}
	if changed := p.changes[e.CallID]; changed != "" && back.OK {
		back.Paths = agent.Paths(changed)
	}
	delete(p.changes, e.CallID)
	if e.Tool == "bash" {
		back.Exit = agent.ExitCode(exitLine(), back.Output, e.IsError)
	}
	p.calls.End(e.CallID, back)
}

// exitLine states how a command ended: there is no field for it.
var exitLine = form.Lazy(`(?:^|\n)Command exited with code ([0-9]{1,3})\s*$`)

// End is complete if the last message of the model ended by itself and says
// something: the agent takes an empty answer for a success, and its exit code
// is 0 after a failed call.
func (p *protocol) End() engine.End {
	end := engine.End{Summary: p.text}
	broken := p.lines.Broken()
	switch {
	case p.stop == "error" || p.stop == "aborted":
		end.Problem, end.Code = "the call of the model failed: "+agent.Said(p.failure), agent.Fault(0, p.failure)
	case broken != "":
		end.Problem = broken
	case p.pending:
		end.Problem = "an answer of the model began and did not end"
	case p.stop == "stop" && strings.TrimSpace(p.text) != "":
		end.Complete = true
	case p.stop == "stop":
		end.Problem, end.Code = "the last answer of the model is empty", reason.ResponseShape
	case p.stop == "length":
		end.Problem = "the last answer of the model was cut off at its token limit"
	case p.stop != "":
		end.Problem = "the agent ended in the middle: the model's last word was " + agent.Said(p.stop)
	case p.begun:
		end.Problem = "the model gave no answer"
	default:
		end.Problem = "the agent did not begin"
	}
	return end
}
