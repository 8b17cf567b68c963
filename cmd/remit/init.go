package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/detect"
	"remit/work/harness"
	"remit/work/sandbox"
	"remit/work/session"
	"remit/work/workspace"
)

// initFlags are the flags of remit init.
type initFlags struct {
	repo, sandbox             string
	toolchains, tests         []string
	dryRun, yes, force, noTry bool
}

func (a *app) initCommand() *cobra.Command {
	f := new(initFlags)
	cmd := &cobra.Command{
		Use: "init", Short: "Write the remit.yaml of a repository, and try whether its tests can be verified", Args: cobra.NoArgs,
		Long: `Init looks at the HEAD commit of a repository: its languages and package managers, the
commands that run its tests (from manifests, makefiles and CI workflows), the lock files
of what they need, and the paths that hold code. From that it writes remit.yaml at the
top of the work tree, with comments. Files of the repository are read as data; nothing
of it is executed for that.

Then it tries the file: the verification commands run on a fresh checkout in the sandbox,
as the first phase of 'remit run' does, and init says how many tests ran in what time, or
what is missing. --no-try leaves that out; --dry-run prints the file and does nothing else.

A remit.yaml that exists is not lost: init shows what it would change, asks before it
writes, and keeps the old one under another name. Without a terminal to ask at, --yes and
--force together say so. --test names the commands in the place of those that were found.

The exit code is 0 when the tests of the base pass, 2 when they do not, and 3 when there
is no test command or it could not be tried.`,
		Example: `  remit init --yes && git add remit.yaml && git commit -m 'Add remit.yaml'
  remit init --dry-run
  remit init --test 'make check' --test 'python3 -m unittest discover -s tools'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.init(cmd, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", ".", "the repository, or a directory in it")
	fl.StringArrayVar(&f.tests, "test", nil, "a test command, in the place of those that would be found (repeatable)")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print the file, and neither write nor try it")
	fl.BoolVar(&f.yes, "yes", false, "ask nothing")
	fl.BoolVar(&f.force, "force", false, "with --yes: write over a remit.yaml that is there, which is kept under another name")
	fl.BoolVar(&f.noTry, "no-try", false, "do not run the tests of the base")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver: bwrap (default); none confines nothing")
	chooseDriver(cmd)
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
	return cmd
}

// initResult is the JSON document of remit init.
type initResult struct {
	Repository string         `json:"repository"`
	BaseCommit string         `json:"base_commit"`
	Facts      *detect.Facts  `json:"facts"`
	Policy     string         `json:"policy"`            // the text of remit.yaml
	File       string         `json:"file"`              // where it belongs
	Written    bool           `json:"written"`           // false: it was there already, or nothing was to be written
	Backup     string         `json:"backup,omitempty"`  // where the file is that was there before
	Changes    []string       `json:"changes,omitempty"` // lines of that file with - and of the new one with +
	Tried      *harness.Tried `json:"tried"`             // null where nothing was tried
	Next       []string       `json:"next"`              // what to type
	ExitCode   int            `json:"exit_code"`

	uncommitted []string // tracked files that differ from what was looked at
	committed   bool     // the base commit has this very policy

	policyInBase string // the one that it has, "" for none
}

// init looks, writes and tries.
func (a *app) init(cmd *cobra.Command, f *initFlags) error {
	source, err := workspace.OpenSource(cmd.Context(), f.repo)
	if err != nil {
		return err
	}
	if source.Bare() && !f.dryRun {
		return usagef("%s has no work tree to write %s to: use a clone with one, or --dry-run", f.repo, task.PolicyFile)
	}
	base, out, err := f.open(cmd.Context(), a.home, source)
	if err != nil {
		return err
	}
	defer func() { _ = base.Close() }() // temporary files
	switch {
	case f.dryRun:
		return a.printDry(cmd.OutOrStdout(), out)
	case !a.json:
		printFacts(cmd.OutOrStdout(), out)
	}
	if err := f.write(cmd, a.json, source.Root(), out); err != nil {
		return err
	}
	if err := a.tryInit(cmd, f, base, out); err != nil {
		if stopped, ok := errors.AsType[*reason.Error](err); ok && stopped.Code == reason.Interrupted { // there is no session to be shown
			return stopped.WithHint("%s is written; `remit init` tries it again", task.PolicyFile)
		}
		return err
	}
	out.conclude(f)
	if a.json {
		err = printJSON(cmd.OutOrStdout(), out)
	} else {
		printTried(cmd.OutOrStdout(), out)
	}
	if err == nil && out.ExitCode != 0 {
		err = exitCode(out.ExitCode)
	}
	return err
}

// open lays out the base commit and looks at it.
func (f *initFlags) open(ctx context.Context, home session.Home, source *workspace.Source) (*harness.Base, *initResult, error) {
	view := newProgress(os.Stderr)
	defer view.close()
	view.Step("repository.look", "started", "")
	base, err := harness.OpenBase(ctx, home, source, "HEAD")
	if err != nil {
		return nil, nil, err
	}
	out, err := f.look(ctx, home, source, base)
	if err != nil {
		return nil, nil, errors.Join(err, base.Close())
	}
	view.Step("repository.look", "completed", fmt.Sprintf("%d project(s), %d test command(s)", len(out.Facts.Projects),
		len(out.Facts.Commands)))
	return base, out, nil
}

// look finds the facts and makes the text of the file.
func (f *initFlags) look(ctx context.Context, home session.Home, source *workspace.Source, base *harness.Base) (*initResult, error) {
	files, closeFiles, err := base.Files()
	if err != nil {
		return nil, err
	}
	facts, err := detect.Look(files, depend.Ecosystems())
	if err := errors.Join(err, closeFiles()); err != nil {
		return nil, err
	}
	pinImage(home, facts)
	if len(f.tests) > 0 {
		for _, line := range f.tests {
			if strings.TrimSpace(line) == "" || plain(line) != line {
				return nil, usagef("--test %q: give one printable command line", line)
			}
		}
		facts.Use(f.tests)
	}
	text, err := facts.Policy()
	if err != nil && len(f.tests) > 0 {
		return nil, asUsage(fmt.Errorf("--test: %w", err))
	}
	if err != nil {
		return nil, err
	}
	out := &initResult{Repository: source.Root(), BaseCommit: base.Commit, Facts: facts, Policy: string(text), Next: []string{}}
	if out.uncommitted, err = source.Dirty(ctx); err != nil {
		return nil, err
	}
	there, err := source.ReadFile(ctx, base.Commit, task.PolicyFile)
	if err != nil && !errors.Is(err, workspace.ErrNoFile) {
		return nil, err
	}
	out.committed, out.policyInBase = err == nil && bytes.Equal(there, text), string(there)
	return out, nil
}

// tryInit runs the verification commands of the file that was written on the
// base.
func (a *app) tryInit(cmd *cobra.Command, f *initFlags, base *harness.Base, out *initResult) error {
	if f.noTry || len(out.Facts.Commands) == 0 {
		return nil
	}
	policy, err := task.ParsePolicy(task.PolicyFile, []byte(out.Policy))
	if err != nil {
		return err
	}
	contract, err := task.FromIssue([]byte("# Try the verification commands\n"), task.PolicyFile, policy)
	if err != nil {
		return err
	}
	if err := a.fillCache(cmd.Context(), f.sandbox, f.repo, contract.VerificationCommands...); err != nil {
		return err
	}
	driver, err := sandbox.Open(cmd.Context(), a.sandboxOptions(f.sandbox, f.toolchains))
	if err != nil {
		return err
	}
	view := newProgress(os.Stderr)
	view.Step("base.try", "started", "")
	out.Tried, err = base.Try(cmd.Context(), harness.Trial{Sandbox: driver, Contract: contract, Environment: policy.Surroundings(),
		Registries: a.registries(), Progress: view})
	if err == nil {
		view.Step("base.try", out.Tried.Status, "")
	}
	view.close()
	return err
}

// conclude says what comes of it all, and what to type next: a run only where one can
// pass.
func (r *initResult) conclude(f *initFlags) {
	remit := form.ShellWord(calledAs(os.Args[0]))
	switch {
	case len(r.Facts.Commands) == 0:
		r.ExitCode = codeOf(reason.MissingTestCommand)
		r.Next = append(r.Next, remit+" init --yes --force --test 'CMD'"+f.place())
		return
	case r.Tried != nil:
		r.ExitCode = evidence.ExitCode(r.Tried.Status)
	}
	if r.ExitCode != 0 {
		r.Next = r.again(remit, f)
		if !r.repairable() {
			return
		}
	}
	if !r.committed {
		git := "git"
		if !sameDir(".", r.Repository) {
			git += " -C " + form.ShellWord(r.Repository)
		}
		r.Next = append(r.Next, git+" add "+task.PolicyFile+" && "+git+" commit -m 'Add "+task.PolicyFile+"'")
	}
	r.Next = append(r.Next, remit+" run"+f.place()+" -- ./fix.sh")
}

// again are the commands that try once more what did not pass: with what is missing, and
// without the commands that do not pass.
func (r *initResult) again(remit string, f *initFlags) (next []string) {
	for _, c := range r.Tried.Commands {
		if dir := toolchainFor(c); dir != "" {
			next = append(next, remit+" init --yes"+f.place()+" --toolchain "+dir)
		}
	}
	if keep := r.working(); len(keep) > 0 {
		next = append(next, remit+" init --yes --force"+testFlags(keep)+f.place())
	}
	if len(next) == 0 && !r.repairable() { // once its cause is gone
		next = append(next, remit+" init --yes"+testFlags(f.tests)+f.place())
	}
	return next
}

// testFlags name test commands.
func testFlags(commands []string) (out string) {
	for _, command := range commands {
		out += " --test " + form.ShellWord(command)
	}
	return out
}

// repairable says whether the commands run, and what does not pass can be what a run is
// to repair: tests that failed, or a command that failed for no reason of the sandbox.
func (r *initResult) repairable() bool {
	return len(r.Tried.Commands) > 0 && !slices.ContainsFunc(r.Tried.Commands, func(c harness.TriedCommand) bool {
		switch {
		case c.Passed:
			return false
		case c.Tests != nil:
			return c.Tests.Failed == 0
		}
		return c.ExitCode <= 0 || c.ExitCode == notExecutable || c.ExitCode == notFound || c.Hint != "" || missingPackage(c.Output) != ""
	})
}

// The exit codes of a shell for a program that it cannot start, and for one that is not
// there.
const (
	notExecutable = 126
	notFound      = 127
)

// place are the flags that name the repository and the toolchains again.
func (f *initFlags) place() string {
	out := ""
	if f.repo != "." {
		out = " --repo " + form.ShellWord(f.repo)
	}
	for _, dir := range f.toolchains {
		out += " --toolchain " + form.ShellWord(dir)
	}
	return out
}

// working are the commands that pass on the base, where some do and others do
// not.
func (r *initResult) working() (keep []string) {
	if r.Tried == nil || slices.ContainsFunc(r.Facts.Commands, func(c detect.Command) bool { return len(c.Lines) > 1 }) {
		return nil // a group cannot be named on the command line
	}
	for _, c := range r.Tried.Commands {
		if c.Passed {
			keep = append(keep, c.Command)
		}
	}
	return keep
}
