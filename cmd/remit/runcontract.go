package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"remit/law/task"
	"remit/work/engine/acp"
)

// contract builds the contract and narrows it by the flags.
func (f *runFlags) contract(ctx context.Context, args []string) (*task.Contract, *task.Policy, error) {
	c, err := f.stated()
	if err != nil {
		return nil, nil, err
	}
	base := f.base
	if f.task != "" && base == "" {
		base = c.Base
	}
	policy, notes, err := policyOf(ctx, f.repo, base, f.mayBeDirty(c))
	if err != nil {
		return nil, nil, err
	}
	tellPolicy(os.Stderr, notes)
	if c, err = f.under(policy, c, args); err != nil {
		return nil, nil, err
	}
	return c, policy, checkDirectories(ctx, f.repo, c)
}

// stated is the contract that was given: of a task file, or of a session. Nil is
// one that is made from an issue or flags.
func (f *runFlags) stated() (*task.Contract, error) {
	switch {
	case f.task != "" && f.issue != "":
		return nil, usagef("--task and --issue exclude each other")
	case f.task != "":
		return task.Load(f.task)
	}
	return f.given, nil
}

// mayBeDirty reports whether the work tree may differ from the base: a task may
// not ask for a clean start.
func (f *runFlags) mayBeDirty(stated *task.Contract) bool { return f.allowDirty || stated != nil }

// under is the contract under a policy, narrowed by the flags.
func (f *runFlags) under(policy *task.Policy, c *task.Contract, args []string) (*task.Contract, error) {
	var err error
	switch {
	case c != nil:
		asked := c.Budget
		if c, err = policy.Apply(c); err == nil {
			f.lowered = task.LoweredLimits(asked, c.Budget)
			tellLowered(os.Stderr, f.lowered)
		}
	case f.atForge.read != nil:
		c, err = f.atForge.contract(policy)
	case f.issue != "":
		var text []byte
		if text, err = readInput(f.issue); err != nil {
			return nil, err
		}
		c, err = task.FromIssue(text, filepath.Base(f.issue), policy)
	default:
		title := f.title
		if title == "" && len(args) > 0 && f.engine != acp.Name { // an agent needs a task
			title = "Run " + filepath.Base(args[0])
		}
		if title == "" {
			return nil, usagef("say what to do: --task FILE, --issue FILE, or -- COMMAND")
		}
		if c, err = task.FromIssue([]byte("# "+title+"\n"), "command line", policy); err == nil {
			c.Issue = nil
			if rule := task.TestsRule(f.tests); slices.Contains(task.TestsRules(), rule) && (policy == nil || policy.Tests == "") {
				c.Tests = rule // there is no rule that this could widen
			}
			if rule := task.LifecycleRule(f.limits.lifecycle); slices.Contains(task.LifecycleRules(), rule) &&
				(policy == nil || policy.Lifecycle == task.Lifecycle{}) {
				c.Lifecycle.TimeoutAfterValidPatch = rule // as above
			}
		}
	}
	if err != nil {
		return nil, err
	}
	flags := task.Flags{Allow: f.allow, Forbid: f.forbid, Verify: f.verify, Base: f.base, ApprovalRequired: f.requireApprove,
		Tests: task.TestsRule(f.tests)}
	if f.mode != "" {
		mode, err := task.ParseMutationMode(f.mode)
		if err != nil {
			return nil, asUsage(err)
		}
		flags.MutationMode = &mode
	}
	f.limits.flags(&flags)
	f.thorough.flags(&flags)
	if c, err = task.Narrow(c, flags); err != nil {
		return nil, err
	}
	if f.allowDirty {
		c.RequireClean = false
	}
	if f.noDiffOK {
		c.ExpectDiff = false
	}
	return c, nil
}

// tellLowered says which limits of the task the policy has lowered.
func tellLowered(w io.Writer, lowered []task.Lowered) {
	for _, l := range lowered {
		fmt.Fprintf(w, "note: the policy allows %s %d, and the task asks for %d\n", l.Limit, l.Allowed, l.Asked)
	}
}
