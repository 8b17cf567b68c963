package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"remit/proof/evidence"
	"remit/work/engine"
	"remit/work/engine/agent"
	"remit/work/engine/claude"
)

// update is the part of a session/update that has a meaning here.
type update struct {
	Kind      string          `json:"sessionUpdate"`
	MessageID string          `json:"messageId"`
	Content   json.RawMessage `json:"content"` // a block of a message, or the list of a tool call
	Entries   []struct{ Content, Status string }

	// Of a tool call; an update has only what changed.
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Tool      string          `json:"kind"`
	Status    string          `json:"status"`
	RawInput  json.RawMessage `json:"rawInput"`
	RawOutput json.RawMessage `json:"rawOutput"`
	Meta      struct {
		Exit struct {
			Code *int `json:"exit_code"`
		} `json:"terminal_exit"`
		Output struct{ Data string } `json:"terminal_output_delta"`
		Codex  struct {
			Thread struct{ Type string } `json:"threadStatus"`
		} `json:"codex"`
	} `json:"_meta"`
}

// call is what is known of a tool call so far.
type call struct {
	update
	begun  bool
	output string
	paths  map[string]bool
	named  []string // the paths, in their order
}

// answer is the agent's answer to the prompt.
type answer struct {
	StopReason string
	Usage      *struct {
		Input      int64 `json:"inputTokens"` // without the cached ones
		CacheRead  int64 `json:"cachedReadTokens"`
		CacheWrite int64 `json:"cachedWriteTokens"`
		Output     int64 `json:"outputTokens"`
	}
}

// protocol reads what the client prints.
type protocol struct {
	emit  func(engine.Event)
	lines agent.Lines
	calls *agent.Calls
	open  map[string]*call // by the agent's id
	over  map[string]bool  // which have ended
	ids   []string         // the same, in their order

	message   strings.Builder // that is being said
	messageID string
	plan      string
	summary   string
	thread    string // how codex-acp says that its agent is

	answered int // how often the prompt was
	answer   answer
	failure  *rpcError // of a request
	refused  int       // permissions that could not be given once
	text     string    // the last line that was no message
	failed   *note
	ended    *note
}

func newProtocol(emit func(engine.Event)) engine.Protocol {
	return &protocol{emit: emit, calls: agent.NewCalls(emit), open: map[string]*call{}, over: map[string]bool{}}
}

// Line reads one line of the client.
func (p *protocol) Line(raw []byte) {
	var l line
	if !p.lines.Decode(raw, &l) {
		return
	}
	switch {
	case l.Client != nil:
		p.noted(l.Client)
	case l.Text != "":
		p.text = l.Text
	case len(l.Agent) > 0:
		var m message
		_ = json.Unmarshal(l.Agent, &m) // what does not fit is left out
		p.heard(&m)
	}
}

func (p *protocol) noted(n *note) {
	switch n.Event {
	case notePermission:
		if n.Option == "" {
			p.refused++
		}
	case noteFailed:
		p.failed = n
	case noteEnded:
		p.ended = n
	}
}

func (p *protocol) heard(m *message) {
	switch {
	case m.Method == methodUpdate:
		var params struct{ Update update }
		_ = json.Unmarshal(m.Params, &params) // as above
		p.updated(&params.Update)
	case m.answers(methodPrompt) && len(m.Result) > 0:
		p.said()
		p.answered++
		_ = json.Unmarshal(m.Result, &p.answer) // a reason that is no text is none
		if u := p.answer.Usage; u != nil {
			p.emit(engine.Event{Kind: engine.Usage, Usage: evidence.MeteredUsage{Tokens: u.Input + u.CacheRead + u.CacheWrite + u.Output}})
		}
	case m.Method == "" && m.Error != nil:
		p.failure = m.Error
	}
}

func (p *protocol) updated(u *update) {
	if thread := u.Meta.Codex.Thread.Type; thread != "" {
		p.thread = thread
	}
	switch u.Kind {
	case "agent_message_chunk":
		if u.MessageID != p.messageID {
			p.said()
		}
		var block struct{ Type, Text string }
		_ = json.Unmarshal(u.Content, &block) // an image has no text
		if block.Type == "text" && p.message.Len() < maxSaid {
			p.messageID = u.MessageID
			p.message.WriteString(block.Text)
		}
	case "agent_thought_chunk", "user_message_chunk":
		p.said()
	case "plan":
		p.said()
		p.planned(u)
	case "tool_call":
		p.said()
		delete(p.over, u.ID) // an id that is used again is another call
		p.tool(u)
	case "tool_call_update":
		if !p.over[u.ID] {
			p.tool(u)
		}
	}
}

// maxSaid bounds a message, which arrives in any number of pieces.
const maxSaid = 256 << 10

// said ends the message that the agent was saying.
func (p *protocol) said() {
	text := p.message.String()
	p.message.Reset()
	p.messageID = ""
	if strings.TrimSpace(text) == "" {
		return
	}
	p.summary = text
	p.emit(engine.Event{Kind: engine.Message, Text: text})
}

// planned tells of a plan when it is another one than before.
func (p *protocol) planned(u *update) {
	var text strings.Builder
	text.WriteString("Plan:")
	for _, e := range u.Entries {
		fmt.Fprintf(&text, "\n- %s (%s)", e.Content, e.Status)
	}
	if len(u.Entries) == 0 || text.String() == p.plan {
		return
	}
	p.plan = text.String()
	p.emit(engine.Event{Kind: engine.Message, Text: p.plan})
}

// tool merges the updates of a tool call. It begins when its input is known,
// which agents may tell late, and at the latest when it ends.
func (p *protocol) tool(u *update) {
	c := p.open[u.ID]
	if c == nil {
		c = &call{paths: map[string]bool{}}
		p.open[u.ID] = c
		p.ids = append(p.ids, u.ID)
	}
	c.merge(u)
	over := c.Status == "completed" || c.Status == "failed"
	// What a call begins with while it is pending can be a part of its input.
	known := filled(c.RawInput) && (u.Kind == "tool_call_update" || c.Status != "pending")
	if !c.begun && (over || known) {
		p.begin(u.ID, c)
	}
	if over {
		p.calls.End(u.ID, c.result())
		delete(p.open, u.ID)
		p.over[u.ID] = true
	}
}

func (p *protocol) begin(id string, c *call) {
	c.begun = true
	tool := c.Tool
	if tool == "" {
		tool = "other" // as the protocol has it
	}
	params := map[string]any{"title": c.Title}
	if filled(c.RawInput) {
		params["input"] = c.RawInput
	}
	p.calls.Begin(id, tool, encode(params))
}

// filled reports whether an input says something.
func filled(input json.RawMessage) bool {
	return len(input) > 0 && string(input) != "null" && string(input) != "{}"
}

// merge takes over what an update has.
func (c *call) merge(u *update) {
	if u.Title != "" && !c.begun {
		c.Title = u.Title
	}
	if u.Tool != "" {
		c.Tool = u.Tool
	}
	if u.Status != "" {
		c.Status = u.Status
	}
	if filled(u.RawInput) {
		c.RawInput = u.RawInput
	}
	if len(u.RawOutput) > 0 {
		c.RawOutput = u.RawOutput
	}
	if u.Meta.Exit.Code != nil {
		c.Meta.Exit.Code = u.Meta.Exit.Code
	}
	if len(c.output) < maxSaid {
		c.output += u.Meta.Output.Data
	}
	var parts []struct {
		Type    string
		Path    string
		Content struct{ Text string }
	}
	if json.Unmarshal(u.Content, &parts) != nil {
		return
	}
	var output strings.Builder
	for _, part := range parts {
		output.WriteString(part.Content.Text)
		if part.Type == "diff" && !c.paths[part.Path] && len(c.named) < maxPaths {
			c.paths[part.Path] = true
			c.named = append(c.named, part.Path)
		}
	}
	if output.Len() > 0 {
		c.output = output.String()
	}
}

// maxPaths bounds the files of one call.
const maxPaths = 1000

// exit is the exit code of a command, nil if none was stated. Each agent has
// another place for it.
func (c *call) exit() *int {
	var raw struct {
		Snake *int                `json:"exit_code"`
		Camel *int                `json:"exitCode"`
		More  struct{ Exit *int } `json:"metadata"`
	}
	var text string
	if json.Unmarshal(c.RawOutput, &text) != nil {
		_ = json.Unmarshal(c.RawOutput, &raw) // then there is none
	}
	for _, code := range []*int{c.Meta.Exit.Code, raw.Snake, raw.Camel, raw.More.Exit} {
		if code != nil {
			return code
		}
	}
	if c.Tool == "execute" {
		return claude.StatedExit(text)
	}
	return nil
}

// result is how a call ended.
func (c *call) result() engine.Event {
	exit := c.exit()
	back := engine.Event{Output: c.output, Exit: exit, OK: c.Status == "completed" && (exit == nil || *exit == 0)}
	if back.Output == "" {
		back.Output = string(c.RawOutput)
	}
	if back.OK {
		back.Paths = agent.Paths(c.named...)
	}
	return back
}
