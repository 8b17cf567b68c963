package forge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/git"
	"remit/work/workspace"
)

// Branch writes the change of the session in dir as one commit on its baseline,
// on a new branch of the repository. HEAD, the index and the work tree are not
// touched, no hook runs, and a branch that exists is never moved.
func Branch(ctx context.Context, dir, repo, branch string) (commit string, err error) {
	c, err := open(dir)
	if err != nil {
		return "", err
	}
	if c.receipt.HeadTree == nil || len(c.report.ChangedFiles) == 0 {
		return "", reason.Errorf(reason.NoDiff, "the run changed nothing, so there is nothing to put on a branch")
	}
	at, err := time.Parse(time.RFC3339Nano, c.receipt.CompletedAt)
	if err != nil {
		return "", fmt.Errorf("reading the receipt: %w", err)
	}
	source, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return "", err
	}
	base, err := source.Resolve(ctx, c.receipt.BaselineCommit)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "remit-branch-")
	if err != nil {
		return "", fmt.Errorf("making a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // a temporary directory
	store, err := workspace.NewStore(ctx, filepath.Join(work, "store.git"), source, base)
	if err != nil {
		return "", err
	}
	defer func() { _ = store.Close() }() // its directory goes anyway
	patch, err := os.Open(filepath.Join(dir, evidence.PatchFile))
	if err != nil {
		return "", fmt.Errorf("reading the patch: %w", err)
	}
	defer patch.Close()
	tree, err := store.Apply(ctx, base.Tree, patch)
	if err != nil {
		return "", err
	}
	if tree != *c.receipt.HeadTree {
		return "", reason.Errorf(reason.TreeMismatch, "the patch gives tree %s here, the receipt says %s", tree, *c.receipt.HeadTree)
	}
	if commit, err = store.CommitTree(ctx, tree, base.Commit, c.subject()+"\n\n"+c.body(), at); err != nil {
		return "", err
	}
	return commit, git.PublishBranch(ctx, source.GitDir(), store.Dir(), commit, branch)
}
