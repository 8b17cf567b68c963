package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"remit/proof/reason"
	"remit/work/agentconf"
	"remit/work/engine/npm"
)

// npmName is the agent as npm's table has it.
func (s *setup) npmName() string {
	if len(s.conf.Command) > 0 {
		return filepath.Base(s.conf.Command[0])
	}
	return s.conf.Engine
}

// ownTools is where engines look below the current directory, which may be that of a
// repository of strangers.
const ownTools = ".tools/agents"

// find looks for the program. One that lies in the current directory is taken by name
// only: setting up is what admits it.
func (s *setup) find(ctx context.Context) (err error) {
	if s.conf.Bin == "" && os.Getenv("REMIT_AGENTS") == "" && exists(filepath.FromSlash(ownTools)) {
		return usagef("this directory has agents of its own in %s: say --bin %s if they are yours", ownTools, ownTools)
	}
	if s.engine, err = settledEngine(s.conf); err == nil {
		s.id, err = s.engine.Identity(ctx)
	}
	return err
}

// consent says what is going to be done, and asks.
func (s *setup) consent(ctx context.Context) error {
	err := s.find(ctx)
	plan := []string{}
	switch known, installable := npm.Known(s.npmName()); {
	case err == nil:
		plan = append(plan, fmt.Sprintf("admit %s %s, %s", s.conf.Engine, s.id.Version, s.id.SHA256))
	case reason.CodeOf(err) != reason.ProviderUnavailable || !installable || s.conf.Bin != "":
		return err
	default:
		plan = append(plan, "install "+known.Packages[0]+" with npm, and admit it")
	}
	plan = append(plan, fmt.Sprintf("admit model %s of %s, with its key %s", s.model.model, s.model.provider, keyPlace(s.conf)))
	if !s.noCheck {
		plan = append(plan, "ask that model one question")
	}
	plan = append(plan, "switch the engine on in remit.yaml")
	if !s.noProve {
		plan = append(plan, "have the agent prove itself with that model (stages 1 to 3)")
	}
	if s.yes {
		return nil
	}
	in := terminalOf(s.cmd.InOrStdin())
	w := s.cmd.ErrOrStderr()
	fmt.Fprintln(w, "This is going to be done:")
	for _, p := range plan {
		fmt.Fprintf(w, "  %s\n", plain(p))
	}
	if in == nil {
		return usagef("there is no terminal to ask on: read what is going to be done, and say --yes")
	}
	return confirmed(w, in, "Go on?", "set up")
}

// program installs what is not there, and says what it is.
func (s *setup) program(ctx context.Context) error {
	found := s.engine != nil && s.id.SHA256 != ""
	if !found {
		log := io.Discard
		dir, err := npm.Install(ctx, filepath.Join(s.home.Dir, agentconf.Dir, "npm"), s.npmName(), runtime.GOARCH, log)
		if err != nil {
			return err
		}
		s.conf.Bin, s.model.bin = dir, dir
		if err := s.find(ctx); err != nil {
			return err
		}
	}
	if known, ok := npm.Known(s.npmName()); ok {
		for _, prefix := range []string{s.conf.Bin, os.Getenv("REMIT_AGENTS")} {
			if s.conf.Licence == "" && prefix != "" {
				s.conf.Licence = known.Licence(prefix, s.npmName())
			}
		}
	}
	s.conf.Version, s.conf.SHA256 = s.id.Version, s.id.SHA256
	s.did("program", !found, "%s %s, %s, licence %s", s.conf.Engine, s.id.Version, s.id.SHA256, cmp.Or(s.conf.Licence, "not stated"))
	return nil
}
