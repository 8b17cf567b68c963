// Package faulty wraps an engine and injects one real fault into its work. The
// failure matrix uses it to show that the pipeline fails closed, in the tests and
// in `remit ladder matrix`, so the program carries it.
//
// Nothing here fakes a report. The wrapped engine's own process runs in the
// sandbox, with a shell around it that does what a broken or hostile agent
// would do ([Fault.Before], [Fault.After]); or its invocation is made
// impossible; or the host gets a full disk under the files that the harness is
// about to write ([FullDisk]); or a step is kept away from the journal
// ([DropStep]). What the pipeline makes of it is the pipeline's own doing.
//
// A run under a fault can never be taken for another: the fault stands in the
// engine's version and digest, and so in run_id. Only this concrete type can
// come between the pipeline and its journal; an engine cannot become able to
// do that by having a method of some name.
package faulty

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/engine"
	"remit/work/sandbox"
)

// insideNeeds is where the agent finds the file that it depends on.
const insideNeeds = "/opt/remit/lib/dependency"

// Fault is one thing that goes wrong. The zero value is no fault.
type Fault struct {
	// Name identifies the fault in the evidence.
	Name string
	// Before and After are shell commands around the agent, at the root of the
	// workspace. The agent's exit code stays.
	Before, After string
	// Elsewhere lets the agent work in a copy that is thrown away: it reports
	// success truthfully, and the workspace does not change.
	Elsewhere bool
	// Program takes the place of the agent's program.
	Program string
	// Needs is a host file that the agent depends on and that is lent to it.
	Needs string
	// Review is the verdict that the agent's reviewer prints at the end:
	// Approved, Rejected, or "" when there is no reviewer.
	Review string
	// Host is called when the harness asks how to start the engine, with the
	// session open and no output file made.
	Host func() error
	// Journal gets every step on its way to the journal and returns what is
	// written in its place. It is called from one goroutine at a time.
	Journal func(journal.Step) []journal.Step
}

// Engine is an engine under a fault.
type Engine struct {
	Inner engine.Engine
	Fault Fault
	// Known is the wrapped engine's identity where it was looked up before: that of
	// an agent has hundreds of megabytes to digest. nil has it looked up.
	Known *evidence.EngineIdentity
	// Seen, if set, gets the invocation as it goes to the sandbox.
	Seen func(*engine.Invocation)
}

// Wrapped is the engine as the harness is to see it: it asks a model, or has
// several agents, exactly if the wrapped one does.
func (e *Engine) Wrapped() engine.Engine {
	switch inner := e.Inner.(type) {
	case engine.Team:
		return team{e, inner}
	case engine.Modelled:
		return modelled{e, inner}
	}
	return e
}

type modelled struct {
	*Engine
	inner engine.Modelled
}

func (m modelled) Wire() string { return m.inner.Wire() }

type team struct {
	*Engine
	inner engine.Team
}

func (t team) Wire() string                 { return t.inner.Wire() }
func (t team) AgentIn(system string) string { return t.inner.AgentIn(system) }

// Identity is the wrapped engine's, marked with the fault. A fault without a
// name is refused: it would leave no mark.
func (e *Engine) Identity(ctx context.Context) (evidence.EngineIdentity, error) {
	id, err := e.identity(ctx)
	if err != nil || e.Fault.none() {
		return id, err
	}
	if e.Fault.Name == "" {
		return id, errors.New("a fault needs a name")
	}
	if id.SHA256, err = canon.DigestOf(map[string]any{"engine": id, "fault": e.Fault.described()}); err != nil {
		return id, err
	}
	id.Version += "+fault." + e.Fault.Name
	return id, nil
}

func (e *Engine) identity(ctx context.Context) (evidence.EngineIdentity, error) {
	if e.Known != nil {
		return *e.Known, nil
	}
	return e.Inner.Identity(ctx)
}

// none reports whether nothing at all goes wrong.
func (f Fault) none() bool { return reflect.ValueOf(f).IsZero() }

// described is what of a fault can be digested.
func (f Fault) described() map[string]any {
	return map[string]any{"name": f.Name, "before": f.Before, "after": f.After, "elsewhere": f.Elsewhere,
		"program": f.Program, "needs": f.Needs != "", "review": f.Review, "host": f.Host != nil, "journal": f.Journal != nil}
}

// Invocation is the wrapped engine's, with the fault in it.
func (e *Engine) Invocation(ctx context.Context, t engine.Task) (*engine.Invocation, error) {
	inv, err := e.Inner.Invocation(ctx, t)
	if err != nil {
		return nil, err
	}
	f := e.Fault
	if f.Host != nil {
		if err := f.Host(); err != nil {
			return nil, err
		}
	}
	if f.Program != "" {
		inv.Argv = append([]string{f.Program}, inv.Argv[1:]...)
	}
	if f.Needs != "" {
		inv.Binds = append(inv.Binds, sandbox.Bind{Host: f.Needs, Inside: insideNeeds})
	}
	if script := f.script(); script != "" {
		inv.Argv = append([]string{"sh", "-c", script, "sh"}, inv.Argv...)
	}
	if f.Review != "" {
		inv.Protocol = reviewed(inv.Protocol)
	}
	if e.Seen != nil {
		e.Seen(inv)
	}
	return inv, nil
}

// script wraps the agent, whose command line is "$@".
func (f Fault) script() string {
	after := []string{f.After}
	if f.Review != "" {
		after = append(after, `echo '`+reviewLine(f.Review)+`'`)
	}
	agent := `"$@"`
	if f.Elsewhere {
		agent = `(cp -R . /tmp/elsewhere && cd /tmp/elsewhere && "$@")`
	}
	lines := []string{f.Before, agent, "code=$?", strings.Join(after, "\n"), "exit $code"}
	if f.Before == "" && f.After == "" && f.Review == "" && !f.Elsewhere {
		return ""
	}
	return strings.Join(lines, "\n")
}

// DropStep keeps every entry of one journal step from being written.
func DropStep(name string) Fault {
	return Fault{Name: "drop." + name, Journal: func(s journal.Step) []journal.Step {
		if s.Name == name {
			return nil
		}
		return []journal.Step{s}
	}}
}

// DelayStep writes a journal step only after another one.
func DelayStep(name, after string) Fault {
	var held []journal.Step
	return Fault{Name: "delay." + name, Journal: func(s journal.Step) []journal.Step {
		switch s.Name {
		case name:
			held = append(held, s)
			return nil
		case after:
			out := append([]journal.Step{s}, held...)
			held = nil
			return out
		}
		return []journal.Step{s}
	}}
}

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
