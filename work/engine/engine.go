// Package engine is the seam between Remit and the coding agents that it
// drives. An engine says who it is and how its process is started; the harness
// starts that process in the sandbox, captures what it wrote and lets the
// verifier judge. An engine never judges itself: what it prints becomes
// events, never a verdict.
package engine

import (
	"context"
	"encoding/json"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// Engine drives one coding agent.
type Engine interface {
	// Identity names the engine and the digest of what it would execute. It
	// must not start the agent. A *reason.Error with provider_unavailable says
	// that the agent cannot be had on this machine.
	Identity(ctx context.Context) (evidence.EngineIdentity, error)
	// Invocation says how to start the agent for one task.
	Invocation(ctx context.Context, t Task) (*Invocation, error)
}

// Task is what an engine gets to do.
type Task struct {
	Title        string
	Instructions string
	// Verify are the contract's verification commands, each a line for a shell.
	Verify []string
	// InBaseline reports whether the baseline holds a file at a relative path.
	InBaseline func(path string) bool
	// Model is the way to a model, nil when the run has none.
	Model *Model
}

// Model is the one way out of the sandbox: a gateway on its own loopback.
type Model struct {
	URL   string // such as http://127.0.0.1:18080, without the path of a protocol
	Token string // what the gateway wants to see; it opens nothing else
	Name  string // the model to ask for, by the name that the engine knows
}

// AdapterVersion is the version of the code of Remit that drives an engine: what
// is proved of one adapter says nothing of the next. An engine whose adapter has
// changed in what it starts or in how it reads the output says so by a method.
func AdapterVersion(e Engine) string {
	if v, ok := e.(interface{ AdapterVersion() string }); ok {
		return v.AdapterVersion()
	}
	return "1"
}

// Modelled is an engine that needs a model.
type Modelled interface {
	Engine
	// Wire is the protocol that the engine speaks: chat, responses or messages.
	Wire() string
}

// Team is an engine with several agents, of which each asks the model by itself.
type Team interface {
	Modelled
	// AgentIn names the agent that gets a system text, "" for none of them.
	AgentIn(system string) string
}

// Invocation is a process inside the sandbox.
type Invocation struct {
	Argv []string
	// Program is the first word as the user wrote it, without the directory of an
	// absolute path; "" for an engine whose program is not the user's word.
	Program string
	// Notes tell the user what was done with the words of the command.
	Notes []string
	Env   map[string]string
	Binds []sandbox.Bind // files lent to the sandbox, read-only
	// Scratch are names at the top of the workspace that the agent keeps its own
	// files under. What stands there at the end is no change of the task, however
	// the agent ended; an engine refuses a baseline that has something there.
	Scratch []string
	// Protocol interprets the agent's stdout as it arrives. Nil means that the
	// output is not a protocol and the whole command is one tool call.
	Protocol func(emit func(Event)) Protocol
}

// Protocol receives the agent's stdout, then tells how the agent ended.
type Protocol interface {
	Line(line []byte)
	// End is called once, after the process is dead.
	End() End
}

// EventKind says what an event is.
type EventKind string

// The normalized kinds.
const (
	ToolCall   EventKind = "tool_call"
	ToolResult EventKind = "tool_result"
	Message    EventKind = "message"
	Usage      EventKind = "usage"
)

// Event is one normalized event of an agent.
type Event struct {
	Kind   EventKind
	ID     string          // of the tool call, for calls and results
	Tool   string          // calls
	Params json.RawMessage // calls
	Output string          // results: hashed, never stored whole
	Exit   *int            // results, when the tool has an exit code
	OK     bool            // results
	Paths  []string        // results: paths that the agent says it changed
	Text   string          // messages
	Usage  evidence.MeteredUsage
}

// End is what the agent's protocol says at its end.
type End struct {
	Complete bool   // the protocol ended as it should
	Summary  string // the agent's own words
	Problem  string // why it is not complete
	// Code sorts the problem as far as the agent's own words do; "" is
	// agent_protocol_failed. The gateway's record is the better witness.
	Code reason.Code
	// Agent is which agent of a [Team] did not do its part, "" if that is not known.
	Agent string
	// Rejected says that the agent's own reviewer turned the change down. It
	// can only block a run; no review of its own makes one pass.
	Rejected bool
	Reason   string // the reviewer's words
}
