package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/reason"
	"remit/provider"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/route"
)

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
		return provider.Agent{}, wrong("wire", "what does %s speak to its model? one of %s", filepath.Base(command[0]), strings.Join(acp.Wires(), ", "))
	case d.Engine == acp.Name && d.Wire != "" && !slices.Contains(acp.Wires(), d.Wire):
		return provider.Agent{}, wrong("wire", "%q: one of %s", d.Wire, strings.Join(acp.Wires(), ", "))
	case d.Engine != acp.Name && (len(command) > 0 || d.Wire != ""):
		return provider.Agent{}, wrong("command", "engine %s takes no command and no wire", d.Engine)
	}
	agent := provider.Agent{
		Bin: bin, Prices: route.Prices(d.Prices), MaxMicroUSD: d.MaxMicroUSD, File: d.File, Lines: map[string]int{"": d.Line}, Models: map[string]route.Model{},
		Engine: func() (engine.Engine, error) { return engineNamed(d.Engine, bin) },
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
