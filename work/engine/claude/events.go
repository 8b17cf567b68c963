package claude

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"remit/proof/evidence"
	"remit/proof/form"
	"remit/work/engine"
	"remit/work/engine/agent"
)

// event is what a line of stream-json can hold.
type event struct {
	Type    string
	Subtype string
	Message struct{ Content json.RawMessage }

	// Of a result.
	IsError json.RawMessage `json:"is_error"` // absent, or another type, is not false
	Result  string          // the last words, or the error
	Errors  []string
	Status  int `json:"api_error_status"`
	Denials []struct {
		Tool string `json:"tool_name"`
	} `json:"permission_denials"`
	Usage struct {
		Input      int64 `json:"input_tokens"`
		CacheWrite int64 `json:"cache_creation_input_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
		Output     int64 `json:"output_tokens"`
	}

	// Of a notice that a call is made again.
	ErrorStatus int    `json:"error_status"`
	Error       string `json:"error"`
}

// block is a part of a message's content.
type block struct {
	Type    string
	Text    string
	ID      string
	Name    string
	Input   json.RawMessage
	CallID  string `json:"tool_use_id"`
	Content json.RawMessage
	IsError bool `json:"is_error"`
}

// protocol reads the events of one run.
type protocol struct {
	emit    func(engine.Event)
	lines   agent.Lines
	calls   *agent.Calls
	asked   map[string]block // open calls, by the agent's id
	begun   bool
	results int
	result  event // the last
	awake   bool  // the model has answered since
	retried event // the last notice that a call is made again
}

func newProtocol(emit func(engine.Event)) engine.Protocol {
	return &protocol{emit: emit, calls: agent.NewCalls(emit), asked: map[string]block{}}
}

// Line reads one event.
func (p *protocol) Line(line []byte) {
	var e event
	if !p.lines.Decode(line, &e, "system", "assistant", "user", "stream_event") {
		return
	}
	switch e.Type {
	case "system":
		switch e.Subtype {
		case "init":
			p.begun = true
		case "api_retry":
			p.retried = e
		}
	case "assistant":
		p.awake = true
		p.said(blocks(e.Message.Content))
	case "user":
		p.returned(blocks(e.Message.Content))
	case "result":
		p.results++
		p.result, p.awake = e, false
		p.emit(engine.Event{Kind: engine.Usage, Usage: evidence.MeteredUsage{
			Tokens: e.Usage.Input + e.Usage.CacheWrite + e.Usage.CacheRead + e.Usage.Output}})
		if denied := e.denied(); denied != "" {
			p.emit(engine.Event{Kind: engine.Message, Text: denied})
		}
	}
}

// blocks reads content, which is a list or, for plain text, a string.
func blocks(content json.RawMessage) []block {
	var list []json.RawMessage
	var text string
	if json.Unmarshal(content, &list) != nil {
		if json.Unmarshal(content, &text) != nil {
			return nil
		}
		return []block{{Type: "text", Text: text}}
	}
	out := make([]block, len(list))
	for i, one := range list {
		_ = json.Unmarshal(one, &out[i]) // what does not fit is left out
	}
	return out
}

func (p *protocol) said(content []block) {
	for _, b := range content {
		switch {
		case b.Type == "text" && b.Text != "":
			p.emit(engine.Event{Kind: engine.Message, Text: b.Text})
		case b.Type == "tool_use" && !p.calls.Open(b.ID):
			p.asked[b.ID] = b
			p.calls.Begin(b.ID, b.Name, b.Input)
		}
	}
}

func (p *protocol) returned(content []block) {
	for _, b := range content {
		if b.Type != "tool_result" {
			continue
		}
		var output strings.Builder
		for _, part := range blocks(b.Content) {
			output.WriteString(part.Text)
		}
		asked := p.asked[b.CallID]
		delete(p.asked, b.CallID)
		back := engine.Event{Output: output.String(), OK: !b.IsError}
		switch asked.Name {
		case "Bash":
			back.Exit = agent.ExitCode(exitLine(), back.Output, b.IsError)
		case "Edit", "Write", "NotebookEdit":
			if back.OK {
				back.Paths = agent.Paths(asked.path())
			}
		}
		p.calls.End(b.CallID, back)
	}
}

// path is the file that a call changes.
func (b block) path() string {
	var input struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}
	_ = json.Unmarshal(b.Input, &input) // then there is none
	return input.File + input.Notebook
}

// exitLine states how a command ended.
var exitLine = form.Lazy(`^Exit code ([0-9]{1,3})(?:\n|$)`)

// denied names the tools that the agent was not allowed to use.
func (e event) denied() string {
	var names []string
	for _, d := range e.Denials {
		names = append(names, d.Tool)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("%d uses of tools were refused by the agent itself: %s", len(names), strings.Join(slices.Compact(names), ", "))
}

// reason is what a failed result says.
func (e event) reason() string {
	switch {
	case e.Result != "":
		return e.Result
	case len(e.Errors) > 0:
		return strings.Join(e.Errors, "; ")
	}
	return e.Subtype
}

// End is complete if the last result is no error and the agent said nothing
// after it. There are several where something woke it up again: each ends a
// part, and none but the last the whole. The subtype says success of failures
// too.
func (p *protocol) End() engine.End {
	end := engine.End{}
	broken := p.lines.Broken()
	switch {
	case p.results > 0 && string(p.result.IsError) == "true":
		end.Problem = "the agent failed: " + agent.Said(p.result.reason())
		end.Code = agent.Fault(p.result.Status, p.result.reason())
	case p.results > 0 && string(p.result.IsError) != "false":
		end.Problem = "the result does not say whether it is an error"
	case broken != "":
		end.Problem = broken
	case p.results > 0 && p.awake:
		end.Problem = "the agent went on after its last result and gave no other"
	case p.results > 0:
		end.Complete, end.Summary = true, p.result.Result
	case p.retried.Type != "":
		end.Problem = fmt.Sprintf("there is no result; the last call of the model failed with status %d: %s", p.retried.ErrorStatus,
			agent.Said(p.retried.Error))
		end.Code = agent.Fault(p.retried.ErrorStatus, p.retried.Error)
	case p.begun:
		end.Problem = "the agent began and gave no result"
	default:
		end.Problem = "the agent did not begin"
	}
	return end
}
