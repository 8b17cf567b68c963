package forge

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/deliver"
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
	base, err := source.Resolve(ctx, string(c.receipt.BaselineCommit))
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "remit-branch-")
	if err != nil {
		return "", fmt.Errorf("making a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // a temporary directory
	change := deliver.Change{Base: base, Tree: *c.receipt.HeadTree, Message: deliver.Subject(c.title) + "\n\n" + c.body(), When: at,
		Patch: func() (io.ReadCloser, error) { return os.Open(filepath.Join(dir, evidence.PatchFile)) }}
	return change.Branch(ctx, source, work, branch)
}
