package evidence

import (
	"encoding/json"

	"remit/proof/record"
)

// contradictApproval holds a grant against the receipts of the authority. Under
// an authority elsewhere only its own word counts: the person who runs
// something there is not the one who approves it. A run without an
// authority, or one that was settled here, may rest on the word of the person at
// the terminal, which names no approval.
func (r *run) contradictApproval(agree agreeFunc) {
	g := r.granted
	if r.approval != "granted" || g == nil {
		return
	}
	elsewhere := r.budget != nil && r.budget.Executed == record.ExecutedElsewhere
	if g.ApprovalID == "" {
		agree(!elsewhere || !r.opened.ApprovalRequired, "the contract was approved, and the authority that the run was under knows of no approval")
		return
	}
	for _, kind := range []string{record.ApprovalGranted, record.ApprovalConsumed} {
		found := false
		for _, a := range r.receipts {
			found = found || a.Type == kind && r.approves(a, g)
		}
		agree(found, "no receipt %s says of approval %s what %s says", kind, g.ApprovalID, StepApprovalGranted)
	}
}

// approves reports whether a receipt is about this approval, this contract and,
// when it says for which run, this run; and whether who granted is who is named.
func (r *run) approves(a record.AuthorityReceipt, g *Approval) bool {
	var p record.ApprovalUse
	if json.Unmarshal(a.Payload, &p) != nil || p.ApprovalID != g.ApprovalID || p.ContractSHA256 != r.opened.ContractSHA256 || p.MutationMode != r.opened.MutationMode {
		return false
	}
	if a.Type == record.ApprovalGranted {
		return p.Actor == g.Actor && p.Actor == a.Principal
	}
	return p.RunID != "" && (r.budget == nil || p.RunID == r.budget.RunID)
}
