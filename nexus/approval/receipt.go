package approval

import (
	"fmt"
	"time"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/record"
)

// key is the key of a receipt about an approval; there is one of each type.
func (a Approval) key(receiptType string) string { return receiptKeys[receiptType] + a.ID }

var receiptKeys = map[string]string{
	record.ApprovalRequested: "approval-requested:",
	record.ApprovalGranted:   "approval-granted:",
	record.ApprovalDenied:    "approval-denied:",
	record.ApprovalConsumed:  "approval-consumed:",
}

// record writes what has happened into the journal of the account.
func (a Approval) record(tx *store.Tx, p authority.Principal, receiptType string) error {
	_, _, err := authority.Write(tx, authority.AccountStream(a.Owner), p, receiptType, a.key(receiptType), a.payload(p))
	return err
}

// recordUse lets the log of the run say by whose word it works.
func (a Approval) recordUse(tx *store.Tx, p authority.Principal) error {
	e, err := tx.EventByKey(authority.AccountStream(a.Owner), a.key(record.ApprovalGranted))
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
	_, _, err = authority.Write(tx, stream, p, record.ApprovalConsumed, a.key(record.ApprovalConsumed), a.payload(p))
	return err
}

// payload says who, about what, how far and until when. What the contract says in
// free words is left to the contract.
func (a Approval) payload(p authority.Principal) record.ApprovalUse {
	return record.ApprovalUse{
		ApprovalID: a.ID, ContractSHA256: a.ContractSHA256, RepoRef: a.RepoRef, Actor: p.ID, TaskID: a.Contract.TaskID,
		Scope: a.Contract.AllowedPaths, MutationMode: a.Contract.MutationMode.String(), RiskClass: string(a.Contract.RiskClass),
		ExpiresAt: time.UnixMilli(a.ExpiresAt).UTC().Format("2006-01-02T15:04:05.000Z"), Reason: a.Reason, RunID: a.RunID,
	}
}
