package harness

import (
	"context"
	"errors"
	"fmt"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/workspace"
)

// bindInstructions ties the contract to the content of the file that it names in
// the base commit: an approval, and the journal, are about that text.
func (req *Request) bindInstructions(ctx context.Context, source *workspace.Source, base workspace.Baseline) error {
	if req.Contract.InstructionsFrom == nil {
		return nil
	}
	content, err := instructionsIn(ctx, source, base, req.Contract)
	if err != nil {
		return err
	}
	req.Contract, err = req.Contract.BindInstructions(content)
	return err
}

// instructionsIn is the file of the base commit that a contract names. Links are not
// followed: what they lead to is no part of a commit.
func instructionsIn(ctx context.Context, source *workspace.Source, base workspace.Baseline, c *task.Contract) ([]byte, error) {
	path := c.InstructionsFrom.Path
	content, err := source.ReadFile(ctx, base.Commit, path)
	if errors.Is(err, workspace.ErrNoFile) {
		e := reason.Errorf(reason.ContractUnreadable, "instructions_from names no regular file of the base commit %s", base.Commit)
		e.File = path
		return nil, e.WithHint("commit the file, or take instructions_from out of %s", task.PolicyFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of the base commit: %w", path, err)
	}
	return content, nil
}

// assignment returns the text that the engine gets.
func (r *run) assignment(ctx context.Context) (string, error) {
	if r.Contract.InstructionsFrom == nil {
		return r.Contract.Instructions, nil
	}
	content, err := instructionsIn(ctx, r.source, r.base, r.Contract)
	if err != nil {
		return "", err
	}
	return r.Contract.Assignment(content)
}
