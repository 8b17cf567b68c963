package evidence

import "remit/proof/record"

// BudgetSettled are the outputs of budget.settled: what the proof of the change
// by a job came to, and its price.
type BudgetSettled struct {
	record.Settlement
	Blockers []Blocker `json:"blockers"`
}

// contradictSettlement holds the authority's receipts against their digests and
// the settlement against the receipts.
func (r *run) contradictSettlement(agree agreeFunc) {
	for _, a := range r.receipts {
		agree(a.Sealed(), "the digest of receipt %s is not that of its content", a.Type)
	}
	b := r.budget
	if b == nil || b.ReservationID == "" {
		return
	}
	agree(b.Passed == (b.Status == record.Released), "the budget is %s and passed is %t", b.Status, b.Passed)
	agree(b.Status == record.Released || b.SettledMsats == 0, "the budget is %s, and %d msats were paid", b.Status, b.SettledMsats)
	found := false
	for _, a := range r.receipts {
		if p, ok := a.Payment(); ok && p.Proof.ReservationID == b.ReservationID {
			found = true
			agree(p.Status == b.Status && p.AmountMsats == b.SettledMsats && p.JobHash == b.JobHash && p.Proof.ProviderID == b.ProviderID,
				"receipt %s does not say of reservation %s what %s says", a.Type, b.ReservationID, StepBudget)
		}
	}
	agree(found, "no receipt says how reservation %s was resolved", b.ReservationID)
}
