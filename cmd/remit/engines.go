package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/reason"
	"remit/provider"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/engine/claude"
	"remit/work/engine/codex"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/engine/pi"
	"remit/work/engine/workos"
	"remit/work/route"
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

func engineUnknown(name string) error {
	return reason.Errorf(reason.EngineUnknown, "no engine %q", name).WithHint("engines: %s", strings.Join(engineNames(), ", "))
}

// engineNamed is the engine of a name, whose agent is at bin, or where the
// engine looks for it if bin is "".
func engineNamed(name, bin string) (engine.Engine, error) {
	construct, ok := registered[name]
	if !ok {
		return nil, engineUnknown(name)
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

// providerAgents opens the agents of a file; nil without one.
func (a *app) providerAgents(ctx context.Context, file string) (*provider.Agents, error) {
	if file == "" {
		return nil, nil
	}
	described, err := task.LoadAgents(file)
	if err != nil {
		return nil, err
	}
	offered := make(map[string]provider.Agent, len(described))
	var problems task.Problems
	for _, d := range described {
		agent, problem := agentOf(d)
		if problem != nil {
			problems = append(problems, problem)
		}
		offered[d.Name] = agent
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return provider.OpenAgents(ctx, a.home.Dir, offered)
}

// agentOf is an agent as a provider takes it. Paths get absolute here: the file
// is the operator's, and a repository that has a file of that name must never
// stand in its place.
func agentOf(d task.Agent) (provider.Agent, *reason.Error) {
	wrong := func(field, format string, args ...any) *reason.Error {
		e := reason.Errorf(reason.ContractValue, format, args...)
		e.File, e.Line, e.Field = d.File, d.Line, d.Name+"."+field
		return e
	}
	dir, err := filepath.Abs(filepath.Dir(d.File))
	if err != nil {
		return provider.Agent{}, wrong("engine", "finding the file's directory: %w", err)
	}
	place := func(word string) string {
		if word == "" || filepath.IsAbs(word) {
			return word
		}
		return filepath.Join(dir, word)
	}
	program := func(words []string) []string { // one without a slash is looked up on PATH
		if len(words) > 0 && strings.ContainsRune(words[0], filepath.Separator) {
			words[0] = place(words[0])
		}
		return words
	}
	command, bin := program(d.Command), place(d.Bin)
	switch _, known := registered[d.Engine]; {
	case !known, !eligibility.AdmissionRequired(d.Engine):
		e := wrong("engine", "no engine %q that asks a model", d.Engine)
		return provider.Agent{}, e.WithHint("one of %s; a program without a model is offered with --engine", strings.Join(askingNames(), ", "))
	case d.Engine == acp.Name && len(command) == 0:
		return provider.Agent{}, wrong("command", "the engine acp needs the command of its agent, such as [codex-acp]")
	case d.Engine == acp.Name && d.Wire == "" && !slices.Contains(acp.Known(), filepath.Base(command[0])):
		return provider.Agent{}, wrong("wire", "what does %s speak to its model? one of %s", filepath.Base(command[0]),
			strings.Join(acp.Wires(), ", "))
	case d.Engine == acp.Name && d.Wire != "" && !slices.Contains(acp.Wires(), d.Wire):
		return provider.Agent{}, wrong("wire", "%q: one of %s", d.Wire, strings.Join(acp.Wires(), ", "))
	case d.Engine != acp.Name && (len(command) > 0 || d.Wire != ""):
		return provider.Agent{}, wrong("command", "engine %s takes no command and no wire", d.Engine)
	}
	agent := provider.Agent{
		Bin: bin, Prices: route.Prices(d.Prices), MaxMicroUSD: d.MaxMicroUSD, File: d.File, Lines: map[string]int{"": d.Line},
		Models: map[string]route.Model{}, Engine: func() (engine.Engine, error) { return engineNamed(d.Engine, bin) },
	}
	if d.Engine == acp.Name {
		agent.Engine = func() (engine.Engine, error) { return acpNamed(command, bin, d.Wire) }
		if bin == "" {
			agent.Bin = command[0]
		}
	}
	for _, m := range d.Models {
		agent.Models[m.Name] = route.Model{Provider: m.Provider, Name: m.Name, EngineName: m.EngineModel, BaseURL: m.BaseURL, Local: m.Local,
			CAFile: place(m.CAFile), KeyEnv: m.KeyEnv, KeyFile: place(m.KeyFile), KeyCommand: program(m.KeyCommand)}
		agent.Lines[m.Name] = m.Line
	}
	return agent, nil
}

// askingNames are the engines that ask a model.
func askingNames() []string {
	var names []string
	for _, name := range engineNames() {
		if eligibility.AdmissionRequired(name) {
			names = append(names, name)
		}
	}
	return names
}

// readable says why a file cannot be read. Nothing but a regular file is opened.
func readable(name string) error {
	info, err := os.Stat(name) //nolint:gosec // G703: the caller names the file that is read
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is not a regular file", name)
	}
	if err != nil {
		return err
	}
	f, err := os.Open(name) //nolint:gosec // G703: as above
	if err != nil {
		return err
	}
	return f.Close()
}
