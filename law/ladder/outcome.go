package ladder

import (
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// OutcomeRequired reports whether a run of a mode counts only with the operator's
// outcome: from stage 5 on, where a real repository is changed.
func OutcomeRequired(mode task.MutationMode) bool { return mode >= task.OwnedNoncriticalRepo }

// OutcomeMissing says why a report counts for nothing as long as its operator has
// not accepted or rejected the change, nil where it counts.
func OutcomeMissing(rep *evidence.Report) *reason.Error {
	mode, err := task.ParseMutationMode(rep.MutationMode)
	if err == nil && !OutcomeRequired(mode) || rep.Status != evidence.StatusPass {
		return nil // what did not pass counts for nothing anyway
	}
	if rep.OperatorOutcome == "accepted" || rep.OperatorOutcome == "rejected" {
		return nil
	}
	return reason.Errorf(reason.OperatorOutcomeMissing, "session %s passed in mode %s, and its operator outcome is %q", rep.SessionID, rep.MutationMode, rep.OperatorOutcome).
		WithHint("`remit accept %s` or `remit reject %s --reason TEXT`", rep.SessionID, rep.SessionID)
}
