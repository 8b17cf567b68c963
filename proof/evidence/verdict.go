package evidence

import (
	"encoding/json"
	"fmt"
	"slices"

	"remit/proof/journal"
	"remit/proof/reason"
)

// The statuses of a run.
const (
	StatusPass    = "pass"
	StatusFail    = "fail"
	StatusBlocked = "blocked"
)

// ExitCode is the process exit code of a status: 0 pass, 2 fail, 3 blocked.
func ExitCode(status string) int {
	switch status {
	case StatusPass:
		return 0
	case StatusFail:
		return 2
	}
	return 3
}

// Verdict folds a journal into the run's verdict. The harness records it in
// run.completed and an auditor computes it again; entries of earlier
// run.completed steps do not count.
//
// The status is that of the first blocker, the root cause. Without a blocker
// it is pass, and then the facts must carry it: the engine ran (or the change to
// check was taken), the writes
// were checked, the source is untouched, the verifier passed and every
// required event is there in order. A fact that is missing is a blocker
// itself: nothing claims a pass that the journal does not prove.
func Verdict(entries []journal.Entry) (RunCompleted, error) {
	r, err := fold(entries)
	if err != nil {
		return RunCompleted{}, err
	}
	return r.verdict(), nil
}

func (r *run) verdict() RunCompleted {
	blockers := append([]Blocker{}, r.blockers...)
	var unproved []Blocker
	if len(blockers) == 0 {
		unproved = r.unproved()
	}
	// A run that looked at its source again came to its end: what is missing
	// before that was left out, and is no interruption.
	closed := r.source != nil
	for _, b := range unproved {
		if !closed || !followsFromMissing(b.Code) {
			blockers = append(blockers, b)
		}
	}
	for _, missing := range missingEvents(r) {
		blockers = append(blockers, Blocker{Code: reason.MissingRequiredEvent, Message: missing, Evidence: EventsFile})
	}
	for _, b := range unproved {
		if closed && followsFromMissing(b.Code) {
			blockers = append(blockers, b)
		}
	}
	v := RunCompleted{Status: StatusPass, Blockers: blockers}
	if len(blockers) > 0 {
		first := blockers[0]
		v.Status = string(reason.StatusOf(first.Code))
		text := fmt.Sprintf("%s: %s", first.Code, first.Message)
		v.FailureReason = &text
	}
	return v
}

// followsFromMissing tells the unproved facts that a missing event explains:
// without the event there is no such fact. The event is then the root cause.
func followsFromMissing(code reason.Code) bool {
	return code == reason.Interrupted || code == reason.VerificationFailed
}

// unproved names the facts that a pass needs and the journal lacks.
func (r *run) unproved() []Blocker {
	var out []Blocker
	need := func(ok bool, code reason.Code, message string) {
		if !ok {
			out = append(out, Blocker{Code: code, Message: message, Evidence: JournalFile})
		}
	}
	need(r.gate == nil, reason.GateMissing, "a gate was closed")
	need(r.approval != "denied", reason.ApprovalDenied, "the approval was denied")
	need(r.workspace != nil, reason.Interrupted, "the baseline was not copied into a workspace")
	if r.checks() {
		need(r.taken != nil, reason.Interrupted, "the change to check was not taken")
	} else {
		need(r.engine != nil && r.engine.ProcessStarted, reason.Interrupted, "the engine did not finish")
	}
	if e := r.engine; e != nil && e.ProcessStarted {
		need(r.endedWell(), reason.EngineFailed, "the engine did not end well")
		need(e.Rejected == nil, reason.ReviewerRejected, "the engine's own reviewer rejected the change")
	}
	need(r.patch != nil, reason.Interrupted, "no patch was captured")
	need(r.patch == nil || len(r.patch.Refused) == 0, reason.DirtyEndingTree, "the engine left what cannot be part of a patch")
	need(r.writes != nil && r.writes.AllowedWritesPassed, reason.Interrupted, "the changed paths were not checked")
	need(r.verification != nil && r.verification.Status == StatusPass, reason.Interrupted, "the verifier did not pass")
	need(r.sourceKept(), reason.Interrupted, "the source repository was not proved untouched")
	need(!r.opened.ApprovalRequired || r.approval == "granted", reason.ApprovalMissing, "the contract asks for an approval and none was granted")
	need(r.patch == nil || !r.opened.ExpectDiff || len(r.patch.Files) > 0, reason.NoDiff, "the task expects a change and the patch has none")
	need(!r.opened.ExpectDiff || !r.unchanged(), reason.NoDiff, "the task expects a change and the follow-up has none")
	if v := r.verification; v != nil && v.Status == StatusPass {
		need(v.Repeats >= 1 && v.Confidence == v.full(), reason.FlakyVerification, "not every repetition of the verification passed")
		r.unprovedTests(need)
		need(v.TestsRule == "free" || len(v.PassToFail)+len(v.Missing) == 0, reason.VerificationFailed, "tests that passed before fail or did not run")
	}
	r.unprovedDelivery(need)
	need(r.budget == nil || r.budget.Passed || r.budget.Executed == "here", reason.VerificationFailed, "the proof by a provider did not pass")
	need(len(missingGates(r.eligibility)) == 0, reason.GateMissing, "the eligibility decision names gates that are missing")
	need(len(r.opened.VerificationCommands) > 0, reason.MissingTestCommand, "no verification command was given")
	ran, before := map[string]bool{}, map[string]bool{}
	for _, p := range r.phases {
		for _, c := range p.Runs {
			ran[c.Command] = ran[c.Command] || c.Phase == "head"
			before[c.Command] = before[c.Command] || c.Phase == "base"
			need(c.Phase != "head" || c.Passed && c.ExitCode == 0, reason.VerificationFailed, fmt.Sprintf("%q failed on the patched tree", c.Command))
		}
	}
	for _, c := range r.opened.VerificationCommands {
		need(ran[c], reason.VerificationFailed, fmt.Sprintf("%q was not run on the patched tree", c))
		need(before[c], reason.VerificationFailed, fmt.Sprintf("%q was not run on the baseline", c))
	}
	for i := range r.entries {
		// A tool call may fail: the agent tries again. What a run of the
		// verifier means is said by the verification that it is part of. A step that was cut off
		// is skipped and done again. Every other step that ended badly says why
		// with a blocker, so this one was never explained.
		e := &r.entries[i]
		ended := e.Status == journal.Failed || e.Status == journal.Denied || e.Status == journal.Skipped
		explained := e.Name == StepTool || e.Name == StepModel || e.Name == StepVerifyRun || e.Name == StepRunCompleted || (e.Status == journal.Skipped && (r.doneLater(i) || r.undelivered && e.Name == StepDelivered)) ||
			e.Name == StepEngine && r.stopAllowed()
		need(!ended || explained, reason.Interrupted, fmt.Sprintf("step %s is %s", e.Name, e.Status))
	}
	return out
}

// missingGates are those that an eligibility decision says are not there.
func missingGates(decision json.RawMessage) []string {
	var d struct {
		MissingGates []string `json:"missing_gates"`
	}
	if json.Unmarshal(decision, &d) != nil {
		return nil // no decision: an event is missing
	}
	return d.MissingGates
}

// doneLater reports whether the step of entry i was completed after it.
func (r *run) doneLater(i int) bool {
	return slices.ContainsFunc(r.entries[i+1:], func(e journal.Entry) bool {
		return e.StepID == r.entries[i].StepID && e.Name == r.entries[i].Name && e.Status == journal.Completed
	})
}

// BlockersOf returns the blockers that one entry brought.
func BlockersOf(e journal.Entry) []Blocker {
	var b blocked
	if e.Name == StepRunCompleted || json.Unmarshal(e.Outputs, &b) != nil {
		return nil
	}
	return b.Blockers
}

// A run can be refused before its repository is opened. It has no baseline, and
// its report says of each fact and each event that is not there why it is not.

// wholeRun are the events that a run has which goes its whole way, beside those
// that every journal has.
var wholeRun = []string{"plan.updated", "engine.started", "engine.finished", "patch.applied", "git.diff.checked", "verification.completed", "budget.settled"}

// unopened says on what the run was refused.
func (r *run) unopened() string {
	if r.opened.DecidedOn == DecidedOnPolicy {
		return "the run was refused on records, contract and remit.yaml, before the repository was opened"
	}
	return "the run was refused on records and contract, before any file of the repository was opened"
}

// notApplicableUnopened adds to the reasons of a report.
func (r *run) notApplicableUnopened(out map[string]string) {
	if r.opened.DecidedOn == "" {
		return
	}
	why := r.unopened()
	for _, field := range []string{"baseline_commit", "baseline_tree", "host.sandbox", "source_repository_mutated", "allowed_writes_passed", "verification"} {
		out[field] = why
	}
	if r.opened.Engine.SHA256 == "" {
		out["engine.sha256"] = why + "; the engine's program is not there, or was not looked at"
	}
	if r.opened.DecidedOn == DecidedOnRecords {
		out["policy_sha256"] = why
	}
	seen := map[string]bool{}
	for _, e := range r.normalized() {
		seen[e.Type] = true
	}
	for _, event := range wholeRun {
		if !seen[event] {
			out["event:"+event] = why
		}
	}
}

// contradictUnopened holds a run without a baseline to what such a run can have
// done: it was refused, and nothing was copied, started or verified.
func (r *run) contradictUnopened(agree agreeFunc) {
	on, none := r.opened.DecidedOn, r.opened.BaselineCommit == "" && r.opened.BaselineTree == ""
	agree((on != "") == none, "the run has a baseline exactly if its repository was opened")
	if on == "" {
		return
	}
	agree(on == DecidedOnRecords || on == DecidedOnPolicy, "decided_on %q is nothing that a run is refused on", on)
	agree(r.gate != nil || r.completed == nil, "no gate refused a run whose repository was not opened")
	for i := range r.entries {
		switch e := &r.entries[i]; e.Name {
		case StepSourceObserved, StepWorkspace, StepTaken, StepEngine, StepTool, StepModel, StepPatch, StepWrites, StepVerifyBase, StepVerifyHead, StepVerifyRun, StepSourceChecked, StepBudget, StepBranchPolicy, StepDelivered:
			agree(e.Status == journal.Skipped, "entry %d is %s of a run whose repository was not opened", i, e.Name)
		}
	}
}
