// Package acp is the engine that drives any agent that speaks the Agent Client
// Protocol: JSON-RPC 2.0, one message a line, over the agent's stdin and
// stdout. The agent is the command that the user gives.
//
// # The conversation
//
// A run reads what a process in the sandbox prints; this protocol wants
// a client to talk to. So the client runs in the sandbox too: this very binary,
// lent to it and started with [Argument]. It starts the agent, says initialize,
// session/new (no servers, the workspace as directory) and session/prompt,
// closes the agent's stdin after the answer and stops an agent that does not
// end then. What asks for permission gets it once, by the kind of the option
// (allow_once) and never for good; what cannot be had once is refused. Files
// and terminals of the client are not offered: the agent has its own.
//
// The client prints one line of JSON for each line of the agent: {"agent": the
// message, byte by byte}, or {"text": the beginning of what is no message}.
// Its own notes ({"client": …}) say which permission it gave, why a
// conversation failed and how the agent ended. It interprets nothing else. The
// meaning is read outside, from these lines. Agent and client are the same
// user in the same sandbox, so the agent could write notes of the client's: as
// with every engine, nothing of it is more than a claim.
//
// # Which agents
//
// An agent of the table [Known] is found as the other engines' agents are,
// started without anything of the repository's that could give it orders, and
// configured for its model in its own way. Any other program is taken as it is:
// an npm package with all that it depends on, or a single file. It finds the
// gateway in the variables that are customary (OPENAI_BASE_URL,
// OPENAI_API_KEY, ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY), the name of the
// model in REMIT_MODEL, and whether it executes what a repository
// configures is between it and the sandbox.
//
// The digest covers every file of the packages, the program of the agent that
// an adapter drives, and not the words after the program: they may name
// neither a file of this machine, which the sandbox does not show, nor one of
// the repository, which is not to be its own agent.
package acp

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent"
	"remit/work/sandbox"
)

// Name is the engine's name in contracts and reports.
const Name = "acp"

// Argument is the first argument that makes the remit binary the client.
const Argument = "__acp-client"

// Where things stand in the sandbox.
const (
	insideClient  = "/opt/remit/bin/remit"
	insideModules = agent.InsideDir + "/acp/node_modules"
	insideProgram = agent.InsideDir + "/acp/bin"
	insideOwn     = agent.InsideDir + "/acp/driven"
)

// Options say which agent is driven.
type Options struct {
	// Command is the agent's program and its arguments.
	Command []string
	// Bin is where an agent of the table is: its package or an npm prefix; ""
	// looks in the known places.
	Bin string
	// Wire is the protocol that the agent speaks to its model: chat, responses
	// or messages. "" is right for the agents of the table only.
	Wire string
	// Client is the remit executable.
	Client string
}

// Wires are the protocols that an agent can speak to its model.
func Wires() []string { return []string{"chat", "messages", "responses"} }

// Engine is one agent.
type Engine struct {
	command []string
	bin     string
	wire    string
	client  string
	known   *known
}

// New checks what can be checked without looking for the agent.
func New(o Options) (*Engine, error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, reason.Errorf(reason.ProviderUnavailable, "the engine acp got no agent").
			WithHint("put its command after two dashes (remit run --engine acp … -- codex-acp), or name its program with --bin")
	}
	e := &Engine{command: slices.Clone(o.Command), bin: o.Bin, wire: o.Wire, client: o.Client}
	word := o.Command[0]
	e.known = table[filepath.Base(word)]
	switch {
	case o.Wire != "" && !slices.Contains(Wires(), o.Wire):
		return nil, reason.Errorf(reason.EngineUnknown, "no protocol %q", o.Wire).WithHint("there are %s", strings.Join(Wires(), ", "))
	case e.known == nil && e.bin != "", e.bin != "" && strings.Contains(word, "/"):
		return nil, reason.Errorf(reason.ProviderUnavailable, "where %q is cannot be said twice", filepath.Base(word)).
			WithHint("--bin is for an agent that acp knows by name: %s", strings.Join(Known(), ", "))
	case e.known == nil:
		return e, nil
	case o.Wire != "" && o.Wire != e.known.wire:
		return nil, reason.Errorf(reason.EngineUnknown, "%s speaks %s to its model, not %s", e.known.Program, e.known.wire, o.Wire)
	}
	e.wire = e.known.wire
	if strings.Contains(word, "/") {
		e.bin = word
	}
	return e, nil
}

// Wire is the protocol of the agent to its model, "" if it is not known.
func (e *Engine) Wire() string { return e.wire }

// Identity digests the agent and what it drives.
func (e *Engine) Identity(ctx context.Context) (evidence.EngineIdentity, error) {
	p, err := e.find()
	if err != nil {
		return evidence.EngineIdentity{}, err
	}
	digest, err := p.digest(ctx)
	if err != nil {
		return evidence.EngineIdentity{}, err
	}
	version := p.name + "-sha256-" + strings.TrimPrefix(digest, "sha256:")[:16]
	if len(p.packages) > 0 {
		version = p.name + "-" + p.packages[0].Release()
	}
	return evidence.EngineIdentity{Name: Name, Version: version, SHA256: digest}, nil
}

// Invocation starts the client with the agent as its command.
func (e *Engine) Invocation(_ context.Context, t engine.Task) (*engine.Invocation, error) {
	p, err := e.find()
	if err != nil {
		return nil, err
	}
	m, prompt, err := agent.Briefing(Name, t)
	if err != nil {
		return nil, err
	}
	if e.known == nil {
		if err := e.arguments(t); err != nil {
			return nil, err
		}
	}
	argv, lent, err := p.start()
	if err != nil {
		return nil, err
	}
	with := generic(m)
	if e.known != nil {
		with = e.known.with(m)
	}
	argv = append(append([]string{insideClient, Argument, string(encode(with.session)), prompt}, argv...), e.words()...)
	return &engine.Invocation{
		Argv:     agent.Launch{Home: "agent", Variables: with.home, Settings: with.settings, Argv: argv}.Words(),
		Env:      with.env,
		Binds:    append(lent, sandbox.Bind{Host: e.client, Inside: insideClient}),
		Scratch:  []string{agent.GitDir},
		Protocol: newProtocol,
	}, nil
}

// words are the agent's arguments.
func (e *Engine) words() []string {
	if e.known != nil && len(e.command) == 1 {
		return e.known.arguments
	}
	return e.command[1:]
}

// arguments refuses words that name a file: one of this machine would not be
// there, and one of the repository would make it the agent.
func (e *Engine) arguments(t engine.Task) error {
	for i, word := range e.command[1:] {
		for _, place := range places(word) {
			below, inside := inWorkspace(place)
			switch {
			case inside && t.InBaseline(below):
				return reason.Errorf(reason.ProviderUnavailable, "word %d of the agent's command, %q, names a file of the repository, which is not to be its own agent", i+2, word)
			case filepath.IsAbs(place) && exists(place):
				return reason.Errorf(reason.ProviderUnavailable, "word %d of the agent's command names a file of this machine, which the sandbox does not show", i+2).
					WithHint("make it executable and give it as the agent's program")
			}
		}
	}
	return nil
}

// places are the paths that a word could name: the whole of it, and what stands
// in it behind an option's name, a scheme, a quote or a blank. That does not
// find a name which the agent puts together itself.
func places(word string) []string {
	var out []string
	add := func(p string) {
		p = strings.TrimPrefix(p, "//") // of a scheme
		if p != "" && !strings.HasPrefix(p, "-") {
			out = append(out, p)
		}
	}
	add(word)
	for _, part := range strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(" \t\r\n=:,;|&<>()'\"`", r) }) {
		add(part)
		if len(part) > 2 && part[0] == '-' {
			add(part[2:]) // a short option with its value
		}
	}
	return out
}

// inWorkspace is where in the workspace a path leads, and whether it does: the
// agent is started there.
func inWorkspace(place string) (below string, inside bool) {
	if !path.IsAbs(place) {
		place = path.Join(sandbox.WorkspacePath, place)
	}
	below, inside = strings.CutPrefix(path.Clean(place)+"/", sandbox.WorkspacePath+"/")
	return path.Clean(below), inside
}
