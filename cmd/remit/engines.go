package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/engine/claude"
	"remit/work/engine/codex"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/engine/pi"
	"remit/work/engine/workos"
)

// registered makes each engine of this build by name. bin is what the user
// gave with --bin, "" for nothing. A new engine is a package below work/engine, a
// line here and a row of the table in docs/engines.md.
var registered = map[string]func(bin string) (engine.Engine, error){
	command.Name: commandNamed,
	fake.Name:    fakeNamed,
	pi.Name:      at(pi.New),
	codex.Name:   at(codex.New),
	claude.Name:  at(claude.New),
	workos.Name:  at(workos.New),
	acp.Name:     acpAt,
}

// at makes an engine of which only the place of its agent has to be known.
func at[E engine.Engine](construct func(bin string) E) func(bin string) (engine.Engine, error) {
	return func(bin string) (engine.Engine, error) { return construct(bin), nil }
}

// engineNames are the names of all engines, sorted.
func engineNames() []string {
	var names []string
	for name := range registered {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// engineNamed is the engine of a name, whose agent is at bin, or where the
// engine looks for it if bin is "".
func engineNamed(name, bin string) (engine.Engine, error) {
	construct, ok := registered[name]
	if !ok {
		return nil, reason.Errorf(reason.EngineUnknown, "no engine %q", name).WithHint("engines: %s", strings.Join(engineNames(), ", "))
	}
	return construct(bin)
}

// commandNamed is the command engine with a program and no arguments.
func commandNamed(bin string) (engine.Engine, error) {
	e := &command.Engine{}
	if bin == "" {
		return e, nil // says itself that it has no command
	}
	program, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	if err := readable(program); err != nil {
		return nil, reason.Errorf(reason.ProviderUnavailable, "--bin: %w", err).WithHint("name the program that the engine is to run")
	}
	e.Argv, e.Dir = []string{program}, filepath.Dir(program)
	return e, nil
}

func fakeNamed(bin string) (engine.Engine, error) {
	if bin != "" {
		return nil, usagef("--bin: the fake engine is this program itself")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return &fake.Engine{Binary: self}, nil
}

// acpAt is the agent of a program without arguments, for what needs no more of
// it than its identity.
func acpAt(bin string) (engine.Engine, error) {
	if bin == "" {
		return acpOf(acp.Options{}) // says itself what is missing
	}
	return acpOf(acp.Options{Command: []string{bin}})
}

// acpNamed is an agent that is to be driven: by its command, which --bin can
// stand for.
func acpNamed(command []string, bin, wire string) (engine.Engine, error) {
	if wire != "" && !slices.Contains(acp.Wires(), wire) {
		return nil, usagef("--acp-wire %q: one of %s", wire, strings.Join(acp.Wires(), ", "))
	}
	o := acp.Options{Command: command, Bin: bin, Wire: wire}
	if len(command) == 0 && bin != "" {
		o.Command, o.Bin = []string{bin}, ""
	}
	e, err := acpOf(o)
	if err == nil && e.Wire() == "" {
		return nil, usagef("what does %s speak to its model? --acp-wire %s", filepath.Base(o.Command[0]), strings.Join(acp.Wires(), "|"))
	}
	return e, err
}

func acpOf(o acp.Options) (*acp.Engine, error) {
	var err error
	if o.Client, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return acp.New(o)
}
