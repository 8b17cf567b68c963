package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/sandbox"
	"remit/work/workspace"
)

// checkFlags are the flags of remit check.
type checkFlags struct {
	repo, base, head, patch string
	pr                      checkPull
	verify                  []string
	repeat                  int
	thorough                thoroughFlags
	sandbox                 string
	toolchains              []string
	noVerdictCache, timing  bool
	out                     string
	instance                string // of a prediction, "" for another change
}

func (a *app) checkCommand() *cobra.Command {
	f := new(checkFlags)
	cmd := &cobra.Command{
		Use:   "check --repo DIR --base REV (--head REV | --patch FILE | --pr N|URL)",
		Short: "Verify a branch, a patch or a pull request that Remit did not make", Args: cobra.NoArgs,
		Long: `Check judges a change that is there already, by any author. It applies the change
to the base commit and verifies it as 'remit run' does: the paths, the tests before and
after, whether new tests fail without the change, which parts of it no test notices, and
whether it brings a secret. It needs no engine, no key and no account; nothing but the
verification commands is executed, in the sandbox, and the repository is only read.

The rules are those of remit.yaml in the base commit. The one of the head counts for
nothing; where the change touches it, check says what it would newly allow or forbid.
Without a remit.yaml every path may change, and the test commands are those of --verify,
or else those that 'remit init' finds in the base.

A change of a protected path (CI workflows, hooks, instructions for agents, remit.yaml)
is blocked with the code review_required: a person has to look. Its tests are judged and
shown all the same.

Only commits are read: what is uncommitted counts for nothing. A head that does not go
on from the base is applied to it as a patch, from the commit where the two have gone
apart. Of a pull request head and base come from the forge, and its commits are fetched
without touching the repository. The result is a session like any other: show, verify,
audit, reproduce and export work on it.

The exit code is 0 for pass, 2 for fail and 3 for blocked.`,
		Example: `  remit check --repo . --base main --head feature
  remit check --patch fix.patch
  remit check --pr 12`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.oneChange(cmd); err != nil {
				return err
			}
			return a.inActions(cmd, func() (*harness.Outcome, error) {
				out, err := a.check(cmd, f)
				return out, hintOfCheck(err)
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", ".", "the repository: it is only read")
	fl.StringVar(&f.base, "base", "", "revision that the change is for, whose remit.yaml counts (default HEAD; with --pr: the branch that it is for, as it is at the forge)")
	fl.StringVar(&f.head, "head", "", "revision whose change is checked")
	fl.StringVar(&f.patch, "patch", "", "file with the change, as 'git diff --no-renames --binary' or 'git format-patch --no-renames' makes it; - is stdin")
	f.pr.add(cmd)
	fl.StringArrayVar(&f.verify, "verify", nil, "verification command, run by a shell in the sandbox, beside those of remit.yaml of the base (repeatable)")
	fl.IntVar(&f.repeat, "repeat", 1, "how often the verifier repeats the commands, to find flaky tests")
	f.thorough.add(cmd)
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver: bwrap (default); none confines nothing and is recorded")
	chooseDriver(cmd)
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
	fl.BoolVar(&f.noVerdictCache, "no-verdict-cache", false, "run the verification of the base even if its result is cached")
	fl.StringVar(&f.out, "out", "", "also write the bundle to this directory: BUNDLE.zip and the session's files")
	fl.BoolVar(&f.timing, "timing", false, "print where the time went: steps with milliseconds (--json: the field timing)")
	return cmd
}

// oneChange refuses a command line that names no change, or several.
func (f *checkFlags) oneChange(cmd *cobra.Command) error {
	var named []string
	for _, flag := range []string{"head", "patch", "pr"} {
		if cmd.Flags().Changed(flag) {
			named = append(named, "--"+flag)
		}
	}
	switch len(named) {
	case 0:
		return usagef("say which change: --head REV for a branch or commit, --patch FILE, or --pr N")
	case 1:
		return nil
	}
	return usagef("%s name several changes: give one of them, and check the others on their own", strings.Join(named, " and "))
}

// hintOfCheck gives errors that have the hint of their code the one that a check has
// for it.
func hintOfCheck(err error) error {
	var problems task.Problems
	if !errors.As(err, &problems) { // else each of them: the first is not all
		coded, ok := errors.AsType[*reason.Error](err)
		if !ok {
			return err
		}
		problems = task.Problems{coded}
	}
	for _, p := range problems {
		info, _ := reason.Lookup(p.Code)
		p.Hint = cmp.Or(p.Hint, info.HintFor(true))
	}
	return err
}

// check runs one. The outcome is nil where there is no session.
func (a *app) check(cmd *cobra.Command, f *checkFlags) (*harness.Outcome, error) {
	times := (&runFlags{timing: f.timing}).timeline()
	if f.repeat < 1 {
		return nil, usagef("--repeat %d: must be at least 1", f.repeat)
	}
	if f.out != "" {
		if err := emptyDir(f.out); err != nil {
			return nil, err
		}
	}
	source, err := workspace.OpenSource(cmd.Context(), f.repo)
	if err != nil {
		return nil, err
	}
	change, done, err := a.changeToCheck(cmd, f, source)
	if err != nil {
		return nil, err
	}
	defer done()
	title := "Check patch"
	if change.Head != "" {
		title = "Check commit " + change.Head[:min(len(change.Head), 12)]
	}
	out, err := a.judge(cmd.Context(), f, source, change, title, times)
	if err != nil {
		return nil, err
	}
	return out, a.reportCheck(cmd, out, f, times)
}

// judge runs a check under the rules of its base commit.
func (a *app) judge(ctx context.Context, f *checkFlags, source *workspace.Source, change *harness.Check, title string, times *harness.Timeline) (*harness.Outcome, error) {
	var err error
	if f.base, err = source.Commit(ctx, f.base); err != nil { // one commit for policy and run
		return nil, err
	}
	policy, err := a.policyToCheck(ctx, f, source)
	if err != nil {
		return nil, err
	}
	contract, err := f.contract(policy, title)
	if err != nil {
		return nil, err
	}
	applied, err := policy.Digest()
	if err != nil {
		return nil, fmt.Errorf("digesting the policy: %w", err)
	}
	if err := a.home.Sweep(); err != nil {
		return nil, err
	}
	if err := a.fillCache(ctx, f.sandbox, f.repo, contract.VerificationCommands...); err != nil {
		return nil, err
	}
	view := newProgress(os.Stderr)
	out, err := harness.Run(ctx, harness.Request{Home: a.home, Repo: f.repo, Contract: contract, PolicySHA256: applied, Check: change,
		ExplicitNone: f.sandbox == sandbox.DriverNone, Repeat: f.repeat, VerdictCache: !f.noVerdictCache, Build: build(), Registries: a.registries(),
		Progress: view, Timeline: times, OpenSandbox: func(ctx context.Context) (sandbox.Driver, error) {
			return sandbox.Open(ctx, a.sandboxOptions(f.sandbox, f.toolchains))
		}})
	view.close()
	if err != nil {
		return nil, err
	}
	if out.NoSandbox != nil {
		printOne(os.Stderr, out.NoSandbox)
	}
	return out, nil
}

// changeToCheck is the change that the flags name. done removes what was written for
// it.
func (a *app) changeToCheck(cmd *cobra.Command, f *checkFlags, source *workspace.Source) (change *harness.Check, done func(), err error) {
	done = func() {}
	switch {
	case f.pr.named != "":
		return f.pr.fetch(cmd, f, source)
	case f.patch == "-":
		dir, err := os.MkdirTemp("", "remit-check-")
		if err != nil {
			return nil, done, fmt.Errorf("making a directory for the patch: %w", err)
		}
		done = func() { _ = os.RemoveAll(dir) } // a temporary directory
		name := filepath.Join(dir, "stdin")     // what messages call it
		if err := spoolPatch(cmd.InOrStdin(), name); err != nil {
			done()
			return nil, func() {}, err
		}
		return &harness.Check{Patch: name}, done, nil
	case f.patch != "":
		if err := readable(f.patch); err != nil {
			return nil, done, reason.Errorf(reason.FileUnusable, "--patch: %w", err)
		}
		name, err := filepath.Abs(f.patch)
		return &harness.Check{Patch: name}, done, err
	}
	// The id from here on: the branch may move.
	id, err := source.Commit(cmd.Context(), f.head)
	if coded, ok := errors.AsType[*reason.Error](err); ok && coded.Code == reason.BaseNotFound {
		coded.Message = "--head: " + coded.Message
	}
	return &harness.Check{Head: id}, done, err
}

func spoolPatch(from io.Reader, name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keeping the patch: %w", err)
	}
	_, err = io.Copy(f, io.LimitReader(from, workspace.MaxPatchBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keeping the patch: %w", err)
	}
	return nil
}

// policyToCheck is the policy of the base commit, or what is found in the base where
// that has none. The work tree is not asked.
func (a *app) policyToCheck(ctx context.Context, f *checkFlags, source *workspace.Source) (*task.Policy, error) {
	policy, err := committedPolicy(ctx, source, f.base)
	if policy != nil || err != nil {
		return policy, err
	}
	base, err := harness.OpenBase(ctx, a.home, source, f.base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }() // temporary files
	files, closeFiles, err := base.Files()
	if err != nil {
		return nil, err
	}
	policy, err = harness.DetectedPolicy(files)
	if err := errors.Join(err, closeFiles()); err != nil {
		return nil, err
	}
	commands := "those that `remit init` finds"
	if len(f.verify) > 0 { // what is found is a guess, and no rule of the base
		policy.VerificationCommands, policy.VerificationGroups = nil, nil
		commands = "those of --verify"
	}
	fmt.Fprintf(os.Stderr, "note: the base has no %s: every path may change, and the commands are %s\n", task.PolicyFile, commands)
	return policy, nil
}

// contract is that of a check: the policy's, about a change that is there already.
func (f *checkFlags) contract(policy *task.Policy, title string) (*task.Contract, error) {
	c, err := task.FromIssue([]byte("# "+title+"\n"), "command line", policy)
	if err != nil {
		return nil, err
	}
	if f.instance != "" {
		c.TaskID = task.IDFor(f.instance)
	}
	// What an engine would need, and the start from a work tree, are not in question.
	c.Issue, c.InstructionsFrom, c.RequireClean, c.ExpectDiff, c.MutationMode, c.Network = nil, nil, false, true, task.CopiedRepo, task.NetworkNone
	flags := task.Flags{Verify: f.verify, Base: f.base}
	if len(policy.AllowedPaths) == 0 {
		flags.Allow = []string{"**"}
	}
	f.thorough.flags(&flags)
	return task.Narrow(c, flags)
}

// reportCheck prints what came of a check.
func (a *app) reportCheck(cmd *cobra.Command, out *harness.Outcome, f *checkFlags, times *harness.Timeline) error {
	changes, err := policyChanges(out.Session)
	if err != nil {
		return err
	}
	if !a.json {
		printPolicyChange(cmd.OutOrStdout(), changes)
	}
	return a.report(cmd.OutOrStdout(), out, f.out, times, nil)
}
