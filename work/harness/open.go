package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/uuid"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/session"
)

// open collects all that the run depends on: the inputs of journal entry 0.
func (r *run) open(ctx context.Context) (evidence.RunOpened, error) {
	identity, err := r.Engine.Identity(ctx)
	if err != nil {
		return evidence.RunOpened{}, err
	}
	o, err := r.opening(identity)
	if err != nil {
		return o, err
	}
	o.BaselineCommit, o.BaselineTree = evidence.ObjectID(r.base.Commit), evidence.ObjectID(r.base.Tree)
	if r.Sandbox != nil {
		d := r.Sandbox.Describe()
		o.Host.Sandbox = evidence.SandboxFacts{Driver: d.Driver, Version: d.Version, Layer: d.Layer, NotEnforced: d.NotEnforced}
	}
	o.RunID, err = evidence.RunIDOf(o)
	return o, err
}

// opening is the part of it that needs neither the repository nor a sandbox.
func (r *run) opening(identity evidence.EngineIdentity) (evidence.RunOpened, error) {
	c := r.Contract
	digest, err := c.Digest()
	if err != nil {
		return evidence.RunOpened{}, fmt.Errorf("digesting the contract: %w", err)
	}
	audit, err := uuid.NewV7()
	if err != nil {
		return evidence.RunOpened{}, fmt.Errorf("making an id: %w", err)
	}
	o := evidence.RunOpened{
		RunIDAudit: audit.String(), CaseID: c.TaskID, Title: c.Title, ContractSHA256: digest, PolicyBundleID: c.PolicyBundleID,
		PolicySHA256: r.PolicySHA256, Remit: r.Build, Engine: identity, RepoRoot: "target",
		MutationMode: c.MutationMode.String(), AllowedMutationScope: evidence.MutationScope(c.MutationMode.String()),
		ApprovalRequired: c.NeedsApproval() && r.checked == nil, ExpectDiff: c.ExpectDiff,
		SourceAdmission: "not_required", ModelAdmission: "not_required", VerificationCommands: c.VerificationCommands,
		SummaryForm: evidence.SummaryForm, Purpose: r.Purpose, Checked: r.checked,
		Host: evidence.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Sandbox: evidence.SandboxFacts{Driver: "unavailable"}},
	}
	if c.Issue != nil {
		o.IssueNumber = c.Issue.Number
	}
	if m := r.Model; m != nil {
		o.ModelProvider, o.Model, o.ModelAdmission = &m.Upstream.Provider, &m.Model, string(r.modelStatus())
	}
	if r.Parent != nil {
		o.Parent = &r.Parent.Facts
	}
	if s := r.Admission.SourceStatus; s != "" {
		o.SourceAdmission = s
	}
	return o, nil
}

// create makes the session directory with the first entry of its journal, and
// a work directory. The session appears under its name with that entry in it,
// so that there is no session that knows nothing of its run.
func (r *run) create() error {
	if err := r.Home.Prepare(); err != nil {
		return err
	}
	var tail [3]byte
	if _, err := rand.Read(tail[:]); err != nil {
		return fmt.Errorf("making an id: %w", err)
	}
	now := r.Clock().UTC()
	id := fmt.Sprintf("%s-%s-%s", now.Format("20060102T150405Z"), r.Contract.TaskID, hex.EncodeToString(tail[:]))
	r.session = r.Home.New(id)
	if err := r.saveLocal(); err != nil {
		return err
	}
	fresh := filepath.Join(r.Home.Sessions(), session.NewPrefix+id)
	if err := os.MkdirAll(fresh, 0o700); err != nil {
		return fmt.Errorf("making the session directory: %w", err)
	}
	w, err := journal.Create(filepath.Join(fresh, evidence.JournalFile), id)
	if err != nil {
		return err
	}
	reserve(filepath.Join(fresh, evidence.JournalFile))
	r.recorder = &recorder{w: w, clock: r.Clock, progress: quietly(r.Progress, r.secrets), clean: r.secrets.Step, times: r.Timeline}
	r.note(evidence.StepRunOpened, "run", journal.Completed, r.opened, nil)
	r.sync()
	r.work = filepath.Join(r.Home.WorkDir(), id)
	if err = r.failed(); err == nil {
		if err = os.Rename(fresh, r.session.Dir); err == nil {
			err = os.MkdirAll(r.work, 0o700)
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("making the session directory: %w", err), w.Close(), os.RemoveAll(fresh))
	}
	return nil
}

// saveLocal remembers what closing a run that was cut off needs.
func (r *run) saveLocal() error {
	repo, err := filepath.Abs(r.Repo)
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	contract, err := r.Contract.Canonical()
	if err != nil {
		return fmt.Errorf("encoding the contract: %w", err)
	}
	engine := r.eligibilityRequest().Engine
	return r.Home.SaveLocal(r.session.ID, session.Local{Engine: &engine, Repo: repo, TaskDir: r.Contract.Dir, Contract: contract,
		Nexus: r.Nexus, RepoRef: r.RepoRef, Unclaimed: r.Unclaimed, MaxPriceMsats: r.MaxPriceMsats, Silence: r.Silence})
}
