package evidence

import (
	"remit/proof/journal"
)

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
