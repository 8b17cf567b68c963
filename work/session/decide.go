package session

import (
	"slices"
	"time"

	"remit/work/redact"

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
// given once. Words that hold a secret are refused before anything is written.
func (s Session) Decide(outcome, why, actor string, clock func() time.Time) (*evidence.Report, error) {
	st, err := s.Inspect()
	if err != nil {
		return nil, err
	}
	switch {
	case st.Phase == Running:
		return nil, reason.Errorf(reason.SessionBusy, "session %s is still running", s.ID)
	case st.Phase == Interrupted:
		return nil, reason.Errorf(reason.Interrupted, "session %s stopped at %s and has no verdict", s.ID, st.At)
	case st.Report.OperatorOutcome != "pending":
		return nil, reason.Errorf(reason.OutcomeGiven, "session %s is already %s", s.ID, st.Report.OperatorOutcome)
	case outcome == Accepted && st.Report.Status != evidence.StatusPass:
		return nil, reason.Errorf(reason.NotAcceptable, "session %s ended as %s and cannot be accepted", s.ID, st.Report.Status).
			WithHint("read why with `remit show %s`; `remit reject` records that you will not take it", s.ID)
	}
	said := evidence.Outcome{Outcome: outcome, Reason: why, Actor: actor}
	if err := redact.RefuseRecord("the outcome", said); err != nil {
		return nil, err
	}
	w, err := journal.Continue(s.Journal())
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }() // it is synced before anything depends on it
	now := clock()
	step := journal.Step{StepID: "outcome", Name: evidence.StepOutcome, Status: journal.Completed, StartedAt: now, CompletedAt: now, Outputs: said}
	if err := s.extend(w, step); err != nil {
		return nil, err
	}
	return evidence.ReportOf(slices.Clone(w.Entries()))
}
