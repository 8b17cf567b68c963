package harness

import (
	"remit/proof/evidence"
	"remit/proof/journal"
)

// recount says what a model was asked for by a run that was cut off before its
// gateway was closed: what its requests add up to, one by one. A request that
// was under way left no entry, and so the cost is not known.
func (r *run) recount() {
	if r.opened.Model == nil || r.has(evidence.StepUsage, journal.Completed) {
		return
	}
	sum, err := evidence.Asked(r.w.Entries())
	if err != nil {
		return // the audit says so, too
	}
	// The first request, Remit's own, goes as soon as the baseline is copied. A
	// run that was refused there without a record asked no person.
	begun := r.has(evidence.StepWorkspace, journal.Completed) && len(r.blockersSoFar()) == 0
	if sum.CostKnown == nil && !begun {
		return
	}
	sum.CostKnown = new(false)
	r.note(evidence.StepUsage, "usage", journal.Completed, nil, sum)
}
