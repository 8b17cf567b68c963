package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/nexus/requester"
	"remit/work/engine"
	"remit/work/harness"
	"remit/work/session"
)

// preflight asks the gates that need nothing of the repository: first what
// records alone decide, then what its policy file does. The first refusal is the
// outcome, and no process was started for it; without one the outcome is nil. What
// is wrong with the command line is said by the whole way, which comes next.
func (a *app) preflight(ctx context.Context, f *runFlags, args []string, eng engine.Engine, name string,
	view harness.Progress) (*harness.Outcome, error) {
	for _, known := range []eligibility.Known{eligibility.KnownRecords, eligibility.KnownPolicy} {
		req, ok := a.before(ctx, f, args, eng, name, known)
		if !ok {
			continue // the contract needs the policy, or more than that
		}
		req.Progress = view
		if out, err := harness.Preflight(ctx, req, known); out != nil || err != nil {
			return out, err
		}
	}
	return nil, nil
}

// tellRefusal reports to the named nexus a run that was refused before the nexus was
// asked. The refusal stands if the report fails; `remit resume` sends the report again.
func (a *app) tellRefusal(cmd *cobra.Command, f *runFlags, out *harness.Outcome) {
	nexus := f.nexus
	if nexus.named() == "" {
		return
	}
	nexus.once = true
	told, err := func() (*harness.Outcome, error) {
		ref, err := f.repositoryAt(nexus.named())
		if err != nil {
			return nil, err
		}
		if err := a.home.ChangeLocal(out.Session.ID, func(l *session.Local) { l.Nexus, l.RepoRef = nexus.named(), ref }); err != nil {
			return nil, err
		}
		to, err := a.authority(cmd, &nexus, "")
		if err != nil {
			return nil, err
		}
		return harness.Resume(cmd.Context(), harness.Resumption{Home: a.home, Session: out.Session, Authority: requester.New(to)})
	}()
	if err == nil {
		err = told.NotConcluded
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "note: the nexus does not know of this run: %s\n", plainText(messageOf(err)))
	}
}

// before is the run as it is known before its repository is opened; false if that
// is not enough for a contract.
func (a *app) before(ctx context.Context, f *runFlags, args []string, eng engine.Engine, name string,
	known eligibility.Known) (req harness.Request, ok bool) {
	stated, err := f.stated()
	if err != nil {
		return req, false
	}
	var policy *task.Policy
	var looked harness.Looked
	if known == eligibility.KnownPolicy {
		if policy, ok = policyAlone(f.repo, f.mayBeDirty(stated)); !ok {
			return req, false
		}
		if policy != nil {
			looked.Files = []string{task.PolicyFile}
		}
	}
	contract, err := f.under(policy, stated, args)
	if err != nil {
		return req, false
	}
	applied := ""
	if known == eligibility.KnownPolicy {
		if applied, err = policy.Digest(); err != nil {
			return req, false
		}
	}
	if req, err = a.engineRequest(ctx, f, contract, policy, applied, eng, name); err != nil {
		return req, false
	}
	req.Looked = looked
	return req, true
}

// policyAlone reads the policy file of a work tree and nothing else; nil without
// one. False is that the policy of the base commit may count, or that there is no
// work tree.
func policyAlone(repo string, mayBeDirty bool) (*task.Policy, bool) {
	top, err := filepath.Abs(repo)
	if err != nil {
		return nil, false
	}
	for !exists(filepath.Join(top, ".git")) {
		if exists(filepath.Join(top, "objects")) && exists(filepath.Join(top, "HEAD")) { // bare
			return nil, false
		}
		above := filepath.Dir(top)
		if above == top {
			return nil, false
		}
		top = above
	}
	path := filepath.Join(top, task.PolicyFile)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, !mayBeDirty
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	policy, err := task.LoadPolicy(path)
	return policy, err == nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// lookedAtBase is what the whole way has read of the target before a run begins.
func lookedAtBase() harness.Looked {
	return harness.Looked{Files: []string{task.PolicyFile, ".git"}, Programs: []string{"git"}}
}
