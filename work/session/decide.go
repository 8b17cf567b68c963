package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"remit/work/deliver"
	"remit/work/redact"

	"remit/law/job"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// The operator's outcomes.
const (
	Accepted = "accepted"
	Rejected = "rejected"
)

// Decide records what the operator makes of a run that has ended. It is apart
// from the verdict and never changes it; the bundle is sealed anew over the
// longer journal. Only a run that passed can be accepted, and an outcome is
// given once. A rejection takes a delivered branch back first, or fails with
// ref_moved and records nothing. Words that hold a secret are refused before anything is written.
func (s Session) Decide(ctx context.Context, outcome, why, actor string, clock func() time.Time) (*evidence.Report, error) {
	return s.decide(ctx, outcome, why, actor, clock, func() error { return nil })
}

// decide is Decide with the consent of an authority, which is asked when nothing
// here speaks against the outcome.
func (s Session) decide(ctx context.Context, outcome, why, actor string, clock func() time.Time,
	consent func() error) (*evidence.Report, error) {
	st, err := s.mayDecide(outcome)
	if err != nil {
		return nil, err
	}
	said := evidence.Outcome{Outcome: outcome, Reason: why, Actor: actor}
	if err := redact.RefuseRecord("the outcome", said); err != nil {
		return nil, err
	}
	if d := st.Report.Delivered; d != nil && outcome == Rejected {
		if said.Branch, err = s.takeBack(ctx, d); err != nil {
			return nil, err
		}
	}
	if err := consent(); err != nil {
		return nil, err
	}
	return s.recordOutcome(said, said.Step(clock()))
}

// mayDecide refuses an outcome that the session cannot have.
func (s Session) mayDecide(outcome string) (*State, error) {
	st, err := s.Inspect()
	if err != nil {
		return nil, err
	}
	switch {
	case st.Phase == Running:
		return nil, reason.Errorf(reason.SessionBusy, "session %s is still running", s.ID)
	case st.Phase == Interrupted:
		return nil, reason.Errorf(reason.Interrupted, "session %s stopped at %s and has no verdict", s.ID, st.At)
	case st.Report.OperatorOutcome != evidence.Pending:
		return nil, reason.Errorf(reason.OutcomeGiven, "session %s is already %s", s.ID, recorded(st.Log.Entries))
	case outcome == Accepted && st.Report.Status != evidence.StatusPass:
		return nil, reason.Errorf(reason.NotAcceptable, "session %s ended as %s and cannot be accepted", s.ID, st.Report.Status).
			WithHint("read why with `remit show %s`; `remit reject %[1]s` records that you will not take it", s.ID)
	}
	return st, nil
}

// recorded reads the outcome of a journal that has one.
func recorded(entries []journal.Entry) (d job.Decision) {
	for _, e := range entries {
		var o evidence.Outcome
		if e.Name == evidence.StepOutcome && json.Unmarshal(e.Outputs, &o) == nil {
			d = job.Decision{Outcome: o.Outcome, Note: o.Reason, Principal: o.Actor}
			d.At, _ = time.Parse(journal.TimeFormat, e.StartedAt) // zero is said as not known
		}
	}
	return d
}

// recordOutcome appends an outcome to the journal and seals the bundle anew.
func (s Session) recordOutcome(said evidence.Outcome, step journal.Step) (*evidence.Report, error) {
	step.Outputs = said
	w, err := journal.Continue(s.Journal())
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }() // it is synced before anything depends on it
	if err := s.extend(w, step); err != nil {
		return nil, err
	}
	return evidence.ReportOf(slices.Clone(w.Entries()))
}

// takeBack removes the branch that the run delivered its change to, and says what
// became of it. A repository that the run made goes with it.
func (s Session) takeBack(ctx context.Context, d *evidence.DeliveredBranch) (string, error) {
	if s.home == nil {
		return "", reason.Errorf(reason.RefMoved, "session %s was not made in this REMIT_HOME, so the repository that has branch %q is not known", s.ID, d.Branch).
			WithHint("reject it on the machine, and with the REMIT_HOME, that the run was made with")
	}
	repo := s.home.DisposableDir(s.ID)
	if d.Repository != evidence.DisposableRepository {
		local, err := s.home.LoadLocal(s.ID)
		if err != nil {
			return "", fmt.Errorf("reading what this machine knows of the session: %w", err)
		}
		repo = local.Repo
	}
	if _, err := os.Lstat(repo); errors.Is(err, fs.ErrNotExist) {
		return evidence.BranchGone, nil
	}
	gone, err := deliver.Remove(ctx, repo, d.Branch, d.Commit)
	if err == nil && d.Repository == evidence.DisposableRepository {
		err = os.RemoveAll(repo)
	}
	if err != nil {
		return "", err
	}
	if gone {
		return evidence.BranchGone, nil
	}
	return evidence.BranchRemoved, nil
}
