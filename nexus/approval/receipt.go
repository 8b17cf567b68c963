package approval

import (
	"fmt"
	"time"

	"remit/nexus/authority"
	"remit/nexus/store"
)

// key is the key of a receipt about an approval; there is one of each type.
func (a Approval) key(receiptType string) string { return receiptKeys[receiptType] + a.ID }

var receiptKeys = map[string]string{
	authority.ApprovalRequested: "approval-requested:",
	authority.ApprovalGranted:   "approval-granted:",
	authority.ApprovalDenied:    "approval-denied:",
	authority.ApprovalConsumed:  "approval-consumed:",
}

// record writes what has happened into the journal of the account.
func (a Approval) record(tx *store.Tx, p authority.Principal, receiptType string) error {
	_, _, err := authority.Write(tx, authority.AccountStream(a.Owner), p, receiptType, a.key(receiptType), a.payload(p))
	return err
}

// recordUse lets the log of the run say by whose word it works.
func (a Approval) recordUse(tx *store.Tx, p authority.Principal) error {
	e, err := tx.EventByKey(authority.AccountStream(a.Owner), a.key(authority.ApprovalGranted))
	if err != nil {
		return fmt.Errorf("read the grant of approval %s: %w", a.ID, err)
	}
	granted, ok := authority.ReadReceipt(e)
	if !ok {
		return fmt.Errorf("the grant of approval %s is no receipt", a.ID)
	}
	stream := authority.RunStream(a.RunID)
	if err := authority.Copy(tx, stream, granted); err != nil {
		return err
	}
	_, _, err = authority.Write(tx, stream, p, authority.ApprovalConsumed, a.key(authority.ApprovalConsumed), a.payload(p))
	return err
}

// payload says who, about what, how far and until when. What the contract says in
// free words is left to the contract.
func (a Approval) payload(p authority.Principal) map[string]any {
	out := map[string]any{
		"approval_id": a.ID, "contract_sha256": a.ContractSHA256, "repo_ref": a.RepoRef, "actor": p.ID, "task_id": a.Contract.TaskID,
		"scope": a.Contract.AllowedPaths, "mutation_mode": a.Contract.MutationMode.String(), "risk_class": a.Contract.RiskClass,
		"expires_at": time.UnixMilli(a.ExpiresAt).UTC().Format("2006-01-02T15:04:05.000Z"),
	}
	if a.Reason != "" {
		out["reason"] = a.Reason
	}
	if a.RunID != "" {
		out["run_id"] = a.RunID
	}
	return out
}
