package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/workspace"
)

// policyOf reads the policy of a repository: the remit.yaml at the top of its
// work tree, whatever directory of it was named. Where the work tree cannot be
// asked, because there is none or because it may differ from the commit, a
// policy that the base has counts: leaving the file out of sight must not
// lift it. Nil is no policy.
func policyOf(ctx context.Context, repo, base string, mayBeDirty bool) (*task.Policy, error) {
	src, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return nil, err
	}
	if !src.Bare() {
		path := filepath.Join(src.Root(), task.PolicyFile)
		switch info, err := os.Lstat(path); {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			// It could lead out of the repository, and messages quote what is wrong.
			e := reason.Errorf(reason.ContractUnreadable, "the policy is a symbolic link")
			e.File = path
			return nil, e.WithHint("a repository's policy is a file of its own")
		case err == nil:
			return task.LoadPolicy(path)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, reason.Errorf(reason.ContractUnreadable, "reading the policy: %w", err)
		case !mayBeDirty:
			return nil, nil // a tracked file that is missing stops the run as a dirty start
		}
	}
	return committedPolicy(ctx, src, base)
}

// committedPolicy reads the policy of a commit.
func committedPolicy(ctx context.Context, src *workspace.Source, rev string) (*task.Policy, error) {
	base, err := src.Resolve(ctx, rev)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "remit-policy-")
	if err != nil {
		return nil, fmt.Errorf("making a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	store, err := workspace.NewStore(ctx, filepath.Join(dir, "store.git"), src, base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }() // its directory goes anyway
	text, err := store.ReadFile(ctx, base.Tree, task.PolicyFile)
	if errors.Is(err, workspace.ErrNoFile) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the policy of %s: %w", base.Commit, err)
	}
	return task.ParsePolicy(task.PolicyFile, text)
}
