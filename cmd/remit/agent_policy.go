package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"remit/law/task"
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
	if err := replaceWhole(file, after, mode); err != nil {
		return err
	}
	s.did("policy", true, "remit.yaml switches the engine on")
	if !s.json {
		for _, line := range changedLines(string(before), string(after)) {
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

// replaceWhole writes a file beside the old one and puts it in its place.
func replaceWhole(file string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".remit-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(file), err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", filepath.Base(file), err), os.Remove(f.Name()))
	}
	return nil
}

// changedLines are the lines that two texts differ in, with a sign each. What was
// added to a file is all that there is to show.
func changedLines(before, after string) (out []string) {
	was, is := strings.Split(strings.TrimSuffix(before, "\n"), "\n"), strings.Split(strings.TrimSuffix(after, "\n"), "\n")
	if before == "" {
		was = nil
	}
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(was) > 0 && len(is) > 0 && was[0] == is[0]:
			was, is = was[1:], is[1:]
		case len(is) > 1 && len(was) > 0 && is[1] == was[0], len(was) == 0:
			out, is = append(out, "+ "+is[0]), is[1:]
		default:
			out, was = append(out, "- "+was[0]), was[1:]
		}
	}
	return out
}
