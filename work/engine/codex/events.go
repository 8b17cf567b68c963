package codex

import (
	"encoding/json"
	"fmt"

	"remit/proof/evidence"
	"remit/work/engine"
	"remit/work/engine/agent"
)

// event is what a line of `codex exec --json` can hold.
type event struct {
	Type    string
	Message string // of an error, which may be only that a connection is made again
	Item    struct {
		ID      string
		Type    string
		Text    string
		Message string
		Status  string
		Command json.RawMessage
		Output  string `json:"aggregated_output"`
		Exit    *int   `json:"exit_code"`
		Changes []struct{ Path, Kind string }
	}
	Usage struct {
		Input  int64 `json:"input_tokens"` // with the cached ones
		Output int64 `json:"output_tokens"`
	}
	Error struct{ Message string }
}

// protocol reads the events of one run: one turn.
type protocol struct {
	emit      func(engine.Event)
	lines     agent.Lines
	calls     *agent.Calls
	begun     bool
	completed int
	failed    int
	problem   string // of turn.failed, or the last error
	warning   string // an item of type error
	summary   string
}

func newProtocol(emit func(engine.Event)) engine.Protocol {
	return &protocol{emit: emit, calls: agent.NewCalls(emit)}
}

// Line reads one event.
func (p *protocol) Line(line []byte) {
	var e event
	if !p.lines.Decode(line, &e, "thread.started", "turn.started", "item.started", "item.updated", "item.completed") {
		return
	}
	switch e.Type {
	case "turn.started":
		p.begun = true
	case "item.started":
		if tool(e.Item.Type) {
			p.begin(e, line)
		}
	case "item.completed":
		p.item(e, line)
	case "turn.completed":
		p.completed++
		p.emit(engine.Event{Kind: engine.Usage, Usage: evidence.MeteredUsage{Tokens: e.Usage.Input + e.Usage.Output}})
	case "turn.failed":
		p.failed++
		p.problem = e.Error.Message
	case "error":
		if p.failed == 0 {
			p.problem = e.Message
		}
	}
}

// tool reports whether an item is the use of a tool. Whatever is not known to
// be none is one.
func tool(kind string) bool {
	switch kind {
	case "", "agent_message", "reasoning", "todo_list", "error":
		return false
	}
	return true
}

// begin tells of a tool call; params are the item without what it has at its
// end only.
func (p *protocol) begin(e event, line []byte) {
	var all struct {
		Item map[string]json.RawMessage
	}
	if json.Unmarshal(line, &all) != nil {
		all.Item = nil // a misfit elsewhere in the line
	}
	for _, name := range []string{"id", "type", "status", "aggregated_output", "exit_code", "result", "error"} {
		delete(all.Item, name)
	}
	params, err := json.Marshal(all.Item)
	if err != nil {
		params = nil // not possible: it came from JSON
	}
	p.calls.Begin(e.Item.ID, e.Item.Type, params)
}

// item reads a finished item.
func (p *protocol) item(e event, line []byte) {
	switch e.Item.Type {
	case "agent_message":
		p.summary = e.Item.Text
		p.emit(engine.Event{Kind: engine.Message, Text: e.Item.Text})
	case "error":
		p.warning = e.Item.Message
	}
	if !tool(e.Item.Type) {
		return
	}
	p.begin(e, line) // some are never said to have begun
	ok := e.Item.Status == "completed" && (e.Item.Exit == nil || *e.Item.Exit == 0)
	back := engine.Event{Output: e.Item.Output, Exit: e.Item.Exit, OK: ok}
	if ok {
		named := make([]string, len(e.Item.Changes))
		for i, c := range e.Item.Changes {
			named[i] = c.Path
		}
		back.Paths = agent.Paths(named...)
	}
	p.calls.End(e.Item.ID, back)
}

// End is complete after exactly one turn that was completed.
func (p *protocol) End() engine.End {
	end := engine.End{Summary: p.summary}
	broken := p.lines.Broken()
	switch {
	case p.failed > 0:
		end.Problem, end.Code = "the turn failed: "+agent.Said(p.problem), agent.Fault(0, p.problem)
	case p.completed > 1:
		end.Problem = fmt.Sprintf("%d turns ended where there is one", p.completed)
	case broken != "":
		end.Problem = broken
	case p.completed == 1:
		end.Complete = true
	case p.problem != "":
		end.Problem, end.Code = "the turn did not end; the last error was: "+agent.Said(p.problem), agent.Fault(0, p.problem)
	case p.begun:
		end.Problem = "the turn did not end"
	case p.warning != "":
		end.Problem = "no turn began: " + agent.Said(p.warning)
	default:
		end.Problem = "no turn began"
	}
	return end
}
