package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/workspace"
)

// policyOf reads the policy of a repository: the remit.yaml at the top of its
// work tree, whatever directory of it was named. Where the work tree cannot be
// asked, because there is none or because it may differ from the commit, a
// policy that the base has counts: leaving the file out of sight must not
// lift it. How thoroughly a change is verified is the base's word in any case;
// notes says what in the work tree's file is passed over for it. Nil is no
// policy.
func policyOf(ctx context.Context, repo, base string, mayBeDirty bool) (policy *task.Policy, notes []string, err error) {
	src, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return nil, nil, err
	}
	committed, err := committedPolicy(ctx, src, base)
	if src.Bare() {
		return committed, nil, err
	}
	beside, found, lookErr := policyBeside(src)
	switch {
	case lookErr != nil:
		return nil, nil, lookErr
	case !found && mayBeDirty:
		return committed, nil, err
	case noBase(err):
		return beside, nil, nil
	case err != nil:
		return nil, nil, err
	}
	// A tracked file that is missing stops the run as a dirty start, if it is of HEAD.
	notes = beside.Overridden(committed)
	if found {
		note, err := uncommitted(beside, committed)
		if err != nil {
			return nil, nil, err
		}
		notes = append(note, notes...)
	}
	return beside.WithBase(committed), notes, nil
}

// uncommitted says that the policy of the work tree counts although it is not that
// of the base commit.
func uncommitted(beside, committed *task.Policy) ([]string, error) {
	here, err := beside.Digest()
	if err != nil {
		return nil, fmt.Errorf("digesting the policy: %w", err)
	}
	if committed == nil {
		return []string{task.PolicyFile + " counts as it is in the work tree; the base commit has none"}, nil
	}
	there, err := committed.Digest()
	if err != nil {
		return nil, fmt.Errorf("digesting the policy: %w", err)
	}
	if here == there {
		return nil, nil
	}
	return []string{task.PolicyFile + " counts as it is in the work tree, which differs from the base commit's"}, nil
}

// noBase reports that there is no commit to start from: the run says so, in its
// evidence.
func noBase(err error) bool {
	code := reason.CodeOf(err)
	return code == reason.BaseNotFound || code == reason.UnbornHead
}

// policyBeside reads the remit.yaml of the work tree.
func policyBeside(src *workspace.Source) (*task.Policy, bool, error) {
	path := filepath.Join(src.Root(), task.PolicyFile)
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, reason.Errorf(reason.ContractUnreadable, "reading the policy: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		// It could lead out of the repository, and messages quote what is wrong.
		e := reason.Errorf(reason.ContractUnreadable, "the policy is a symbolic link")
		e.File = path
		return nil, false, e.WithHint("a repository's policy is a file of its own")
	}
	policy, err := task.LoadPolicy(path)
	return policy, true, err
}

// committedPolicy reads the policy of a commit, nil if it has none.
func committedPolicy(ctx context.Context, src *workspace.Source, rev string) (*task.Policy, error) {
	text, err := src.ReadFile(ctx, rev, task.PolicyFile)
	if errors.Is(err, workspace.ErrNoFile) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return task.ParsePolicy(task.PolicyFile+" of the base commit", text)
}

// tellPolicy prints what of the work tree's policy does not count.
func tellPolicy(w io.Writer, notes []string) {
	for _, note := range notes {
		fmt.Fprintln(w, "note: "+plain(note)) // names patterns of strangers
	}
}

// checkDirectories refuses allowed paths that are directories of the base: such
// a path allows nothing below it, and the work of the engine would be for
// nothing.
func checkDirectories(ctx context.Context, repo string, c *task.Contract) error {
	names := c.PlainPaths()
	if len(names) == 0 {
		return nil
	}
	src, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return err
	}
	looked, err := src.Look(ctx, c.Base, names)
	if noBase(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i, name := range names {
		if looked[i].Dir() {
			return reason.Errorf(reason.ContractGlob, "%q is a directory, and as a path it allows nothing below it", name).
				WithHint("write --allow '%[1]s/**', or %[1]s/** in allowed_paths", strings.ReplaceAll(name, "'", `'\''`))
		}
	}
	return nil
}
