package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/claude"
	"remit/work/engine/codex"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/engine/pi"
)

// registered makes each engine of this build by name. bin is what the user
// gave with --bin, "" for nothing.
var registered = map[string]func(bin string) (engine.Engine, error){
	command.Name: commandNamed,
	fake.Name:    fakeNamed,
	pi.Name:      func(bin string) (engine.Engine, error) { return pi.New(pi.Options{Bin: bin}), nil },
	codex.Name:   func(bin string) (engine.Engine, error) { return codex.New(codex.Options{Bin: bin}), nil },
	claude.Name:  func(bin string) (engine.Engine, error) { return claude.New(claude.Options{Bin: bin}), nil },
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
