package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"remit/law/task"
	"remit/proof/atomicfile"
	"remit/proof/reason"
	"remit/work/gateway"
)

// top is the work tree that the policy is of; false without one.
func (s *setup) top() (string, bool) {
	dir, err := filepath.Abs(s.repo)
	if err != nil {
		return "", false
	}
	for !exists(filepath.Join(dir, ".git")) {
		above := filepath.Dir(dir)
		if above == dir {
			return "", false
		}
		dir = above
	}
	return dir, true
}

// policy switches the engine on in the remit.yaml of the repository, with a way to
// its model and a budget, and shows what it changed.
func (s *setup) policy(context.Context) error {
	top, there := s.top()
	if !there {
		s.did("policy", false, "there is no repository here, so no remit.yaml either")
		return nil
	}
	file := filepath.Join(top, task.PolicyFile)
	var before []byte
	mode := fs.FileMode(0o644)
	info, err := os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		e := reason.Errorf(reason.ContractUnreadable, "the policy is no regular file")
		e.File = file
		return e.WithHint("a repository's policy is a file of its own")
	default:
		mode = info.Mode().Perm()
		if before, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	after, err := task.SwitchOn(file, before, s.conf.Engine, s.budget())
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		s.did("policy", false, "remit.yaml has the engine on already")
		return nil
	}
	if err := atomicfile.ReplaceDurably(file, after, mode); err != nil {
		return err
	}
	s.did("policy", true, "remit.yaml switches the engine on")
	if !s.json {
		for _, line := range lineChanges(string(before), string(after)) {
			fmt.Fprintf(s.cmd.OutOrStdout(), "      %s\n", plain(line))
		}
	}
	return nil
}

// budget is what a policy without one gets: money where the model is known to cost
// some, tokens elsewhere.
func (s *setup) budget() string {
	prices, err := s.model.prices()
	if costs, known := gateway.Costs(s.model.provider, s.model.model, prices); err == nil && known && costs {
		return "{max_budget_usd: 5}"
	}
	return "{max_tokens: 1000000}"
}
