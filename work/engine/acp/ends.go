package acp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent"
)

// End is complete after exactly one answer to the prompt that says that the
// turn is over, of an agent that was then seen to its end.
func (p *protocol) End() engine.End {
	p.said()
	for _, id := range p.ids {
		if c := p.open[id]; c != nil && !c.begun {
			p.begin(id, c) // it never ended
		}
	}
	if p.refused > 0 {
		p.emit(engine.Event{Kind: engine.Message, Text: fmt.Sprintf("The agent asked %d time(s) for a permission that cannot be given for one time, and did not get it.", p.refused)})
	}
	if p.answered > 0 && p.ended != nil && p.ended.Killed {
		p.emit(engine.Event{Kind: engine.Message, Text: "The agent did not end after its last answer, and was stopped."})
	}
	end := engine.End{Summary: p.summary}
	end.Problem, end.Code = p.problem()
	end.Complete = end.Problem == ""
	return end
}

// problem says why the run is not complete, "" if it is.
func (p *protocol) problem() (string, reason.Code) {
	broken := p.lines.Broken()
	switch {
	case p.failure != nil:
		return p.failure.problem()
	case p.failed != nil:
		return p.broke()
	case p.answered > 1:
		return fmt.Sprintf("the prompt was answered %d times", p.answered), reason.AgentProtocolFailed
	case broken != "":
		return broken, reason.AgentProtocolFailed
	case p.answered == 0:
		return "the conversation with the agent breaks off", reason.AgentProtocolFailed
	case p.ended == nil:
		return "the agent was not seen to its end", reason.AgentProtocolFailed
	}
	if p.thread == "systemError" && p.answer.StopReason == "end_turn" {
		// codex-acp says in a message what went wrong, and that all is well.
		return "the agent failed: " + agent.Said(p.summary), cmp.Or(agent.Fault(0, p.summary), reason.EngineFailed)
	}
	return stopped(p.answer.StopReason)
}

// stopped says what is wrong with the reason for which a turn ended.
func stopped(why string) (string, reason.Code) {
	switch why {
	case "end_turn":
		return "", ""
	case "refusal":
		return "the agent refused to go on (refusal)", reason.EngineFailed
	case "max_tokens":
		return "the answer of the model was cut off at its longest (max_tokens)", reason.EngineFailed
	case "max_turn_requests":
		return "the agent asked the model as often as it does in one turn (max_turn_requests)", reason.EngineFailed
	case "cancelled":
		return "the turn was cancelled (cancelled)", reason.EngineFailed
	}
	return fmt.Sprintf("the turn ended for the unknown reason %q", agent.Said(why)), reason.AgentProtocolFailed
}

// broke says how a conversation failed.
func (p *protocol) broke() (string, reason.Code) {
	text := p.failed.Problem
	if p.failed.Request != "" {
		text = p.failed.Request + ": " + text
	}
	code := reason.AgentProtocolFailed
	if e := p.ended; p.failed.Gone && e != nil {
		if e.Exit != 0 || e.Signal != "" {
			code = reason.EngineFailed
		}
		text += fmt.Sprintf(" (%s)", cmp.Or(e.Signal, fmt.Sprintf("exit code %d", e.Exit)))
	}
	if p.text != "" {
		text += "; its last words: " + agent.Said(p.text)
	}
	return text, code
}

// problem sorts an error that the agent answered with. Its data can say more
// than its message, which may be no more than that there was an error.
func (e *rpcError) problem() (string, reason.Code) {
	all := append([]string{e.Message}, texts(e.Data)...)
	all = slices.DeleteFunc(slices.Compact(all), func(s string) bool { return strings.TrimSpace(s) == "" })
	text := strings.Join(all, ": ")
	code := agent.Fault(0, text)
	for _, one := range all {
		code = cmp.Or(code, kinds[one])
	}
	if code == "" && e.Code == codeAuthRequired {
		code = reason.AuthUnavailable
	}
	return "the agent failed: " + agent.Said(text), cmp.Or(code, reason.EngineFailed)
}

// kinds are how claude-agent-acp sorts an error, in its data.
var kinds = map[string]reason.Code{
	"authentication_failed": reason.AuthUnavailable,
	"model_not_found":       reason.ProviderUnavailable,
	"overloaded":            reason.ProviderUnavailable,
	"rate_limit":            reason.ProviderUnavailable,
	"server_error":          reason.ProviderUnavailable,
}

const (
	maxTexts = 20
	maxDepth = 8
)

// texts are the strings in a JSON value, without the names.
func texts(raw json.RawMessage) []string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	var out []string
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		if depth > maxDepth || len(out) == maxTexts {
			return
		}
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			for _, one := range v {
				walk(one, depth+1)
			}
		case map[string]any:
			names := make([]string, 0, len(v))
			for name := range v {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				walk(v[name], depth+1)
			}
		}
	}
	walk(v, 0)
	return out
}
