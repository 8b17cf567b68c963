package workos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"remit/proof/form"
	"remit/work/engine"
	"remit/work/engine/agent"
)

// event is what a line of Case's event files can hold.
type event struct {
	Event string
	TS    string
	RunID string // of the file
	Phase string
	Agent string

	// Of a phase's end; the result of a tool is a text.
	Outcome    string
	DurationMS float64 `json:"durationMs"`
	Result     json.RawMessage

	// Of a tool call. The arguments are a text too: JSON, cut after some hundred
	// characters.
	CallID  string `json:"toolCallId"`
	Tool    string
	Args    string
	IsError bool

	// Of the pipeline.
	Plan struct {
		Phases []struct{ Phase string }
	}
	Source           string
	Cycle            int
	Cycles           int
	FailedCategories []category
	FailedAgent      string

	Code int // of the launcher's last line
}

// phaseEnd is how a phase ended that was not skipped.
type phaseEnd struct {
	ts, run  string
	agent    string
	outcome  string
	duration float64 // in milliseconds
	result   *result // nil if there is none
}

// protocol reads the events of one run.
type protocol struct {
	emit    func(engine.Event)
	lines   agent.Lines
	calls   *agent.Calls
	open    map[string]event // open calls, by phase and id
	begun   bool
	started map[string]bool     // phases
	ends    map[string]phaseEnd // the latest of each phase
	closing bool                // the phase close has begun, and no other after it
	ended   bool
	code    int // of Case
}

func newProtocol(emit func(engine.Event)) engine.Protocol {
	return &protocol{emit: emit, calls: agent.NewCalls(emit), open: map[string]event{}, started: map[string]bool{},
		ends: map[string]phaseEnd{}}
}

// Line reads one event. None may break off: they are short, and each kind could
// be the deciding one.
func (p *protocol) Line(line []byte) {
	var e event
	if !p.lines.Decode(line, &e) {
		return
	}
	switch e.Event {
	case "pipeline_start":
		p.begun = true
		p.say("Case begins: %s", e.phases())
	case "phase_start":
		p.phaseStart(e)
	case "phase_end":
		p.phaseEnd(e)
	case "tool_start":
		p.toolStart(e)
	case "tool_end":
		p.toolEnd(e)
	case "revision_requested":
		p.say("the %s asks for a revision (%d): %s", e.Source, e.Cycle, verdicts(e.FailedCategories))
	case "revision_budget_exhausted":
		p.say("Case allows no further revision after %d", e.Cycles)
	case "pipeline_end":
		p.say("Case ends: %s", strings.TrimSpace(e.Outcome+" "+e.FailedAgent))
	case "remit_ended":
		p.ended, p.code = true, e.Code
	}
}

func (p *protocol) say(format string, args ...any) {
	p.emit(engine.Event{Kind: engine.Message, Text: fmt.Sprintf(format, args...)})
}

// phases is the plan of the pipeline.
func (e event) phases() string {
	var names []string
	for _, one := range e.Plan.Phases {
		names = append(names, one.Phase)
	}
	return strings.Join(names, ", ")
}

func (p *protocol) phaseStart(e event) {
	p.begun, p.started[e.Phase] = true, true
	switch e.Phase {
	case phaseClose:
		p.closing = true
	case phaseImplement:
		// What a reviewer said of the work before says nothing about this.
		delete(p.ends, phaseReview)
		delete(p.started, phaseReview)
		fallthrough
	case phaseVerify, phaseReview:
		p.closing = false
	}
	p.say("%s begins", e.Phase)
}

// phaseEnd keeps the latest end of a phase. Skipped ones come after a failure,
// for phases that ran before too. The lines of one file are in order; those of
// several may arrive side by side.
func (p *protocol) phaseEnd(e event) {
	if known := p.ends[e.Phase]; e.Outcome == "skipped" || e.RunID != known.run && e.TS < known.ts {
		return
	}
	end := phaseEnd{ts: e.TS, run: e.RunID, agent: e.Agent, outcome: e.Outcome, duration: e.DurationMS, result: readResult(e.Result)}
	p.ends[e.Phase] = end
	p.say("%s ends: %s", e.Phase, strings.TrimSuffix(e.Outcome+": "+end.result.words(), ": "))
}

func (e event) key() string { return e.Phase + "\x00" + e.CallID }

func (p *protocol) toolStart(e event) {
	if p.calls.Open(e.key()) {
		return
	}
	p.open[e.key()] = e
	p.calls.Begin(e.key(), e.Tool, json.RawMessage(e.Args))
}

func (p *protocol) toolEnd(e event) {
	begun := p.open[e.key()]
	delete(p.open, e.key())
	var output string
	if json.Unmarshal(e.Result, &output) != nil {
		output = string(e.Result)
	}
	back := engine.Event{Output: output, OK: !e.IsError}
	switch begun.Tool {
	case "bash":
		back.Exit = agent.ExitCode(exitLine(), output, e.IsError)
	case "edit", "write":
		if back.OK {
			back.Paths = agent.Paths(pathOf(begun.Args))
		}
	}
	p.calls.End(e.key(), back)
}

// exitLine states how a command ended: there is no field for it. It may be cut
// off.
var exitLine = form.Lazy(`Command exited with code ([0-9]{1,3})\s*(?:"|\\n|$)`)

// pathOf is the path among the arguments of a call, as far as they go: "." if
// it was cut off.
func pathOf(args string) string {
	d := json.NewDecoder(bytes.NewReader([]byte(args)))
	if _, err := d.Token(); err != nil {
		return "."
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "."
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return "."
		}
		if text, ok := value.(string); ok && key == "path" {
			return text
		}
	}
	return "."
}
