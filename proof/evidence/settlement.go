package evidence

import (
	"encoding/json"

	"remit/proof/canon"
)

// Receipts of an authority that say how money ended.
const (
	receiptPaid     = "PaymentReleased"
	receiptWithheld = "PaymentWithheld"
)

// States of a settlement.
const (
	PaymentReleased = "released"
	PaymentWithheld = "withheld"
)

// BudgetSettled are the outputs of budget.settled: what the proof of the change
// by a job came to, and its price.
type BudgetSettled struct {
	RunID         string `json:"run_id"` // of the authority
	JobID         string `json:"job_id"`
	JobHash       string `json:"job_hash"`
	ProviderID    string `json:"provider_id"`
	ReservationID string `json:"reservation_id"`
	// Executed is "here" when the provider is part of this process and handed in
	// what the verifier had run, "elsewhere" when a provider ran it once more.
	Executed                  string    `json:"executed"`
	Passed                    bool      `json:"passed"`
	Status                    string    `json:"status"` // released or withheld
	ReservedMsats             int64     `json:"reserved_msats"`
	SettledMsats              int64     `json:"settled_msats"` // 0 unless released
	Reason                    string    `json:"reason"`        // "" when released
	VerificationReceiptSHA256 string    `json:"verification_receipt_sha256"`
	Blockers                  []Blocker `json:"blockers"`
}

// sealed reports whether the digest of a receipt is the one of its content. The
// authority computes it over these four fields.
func (a AuthorityReceipt) sealed() bool {
	digest, err := canon.DigestOf(map[string]any{
		"receipt_type": a.Type, "payload": a.Payload, "principal": a.Principal, "idempotency_key": a.IdempotencyKey,
	})
	return err == nil && digest == a.ReceiptSHA256
}

// payment is one entry of payments: how a reservation was resolved.
type payment struct {
	Rail         string       `json:"rail"`
	AssetID      string       `json:"asset_id"`
	AmountMsats  int64        `json:"amount_msats"`
	JobHash      string       `json:"job_hash"`
	Status       string       `json:"status"`
	PaymentProof paymentProof `json:"payment_proof"`
}

type paymentProof struct {
	Type          string `json:"type"`
	Value         string `json:"value"`
	ReservationID string `json:"reservation_id"`
	ProviderID    string `json:"provider_id"`
	ReceiptSHA256 string `json:"receipt_sha256"`
}

// paymentOf reads a receipt about money; false when it is about something else.
func paymentOf(a AuthorityReceipt) (payment, bool) {
	status := map[string]string{receiptPaid: PaymentReleased, receiptWithheld: PaymentWithheld}[a.Type]
	var p struct {
		Rail          string `json:"rail"`
		AssetID       string `json:"asset_id"`
		AmountMsats   int64  `json:"amount_msats"`
		JobHash       string `json:"job_hash"`
		Route         string `json:"settlement_route"`
		ResolutionID  string `json:"resolution_id"`
		ReservationID string `json:"reservation_id"`
		ProviderID    string `json:"provider_id"`
	}
	if status == "" || json.Unmarshal(a.Payload, &p) != nil || p.Rail == "" || p.AmountMsats < 0 {
		return payment{}, false
	}
	return payment{Rail: p.Rail, AssetID: p.AssetID, AmountMsats: p.AmountMsats, JobHash: p.JobHash, Status: status,
		PaymentProof: paymentProof{p.Route, p.ResolutionID, p.ReservationID, p.ProviderID, a.ReceiptSHA256}}, true
}

// contradictSettlement holds the authority's receipts against their digests and
// the settlement against the receipts.
func (r *run) contradictSettlement(agree agreeFunc) {
	for _, a := range r.receipts {
		agree(a.Principal == "" || a.sealed(), "the digest of receipt %s is not that of its content", a.Type)
	}
	b := r.budget
	if b == nil || b.ReservationID == "" {
		return
	}
	agree(b.Passed == (b.Status == PaymentReleased), "the budget is %s and passed is %t", b.Status, b.Passed)
	agree(b.Status == PaymentReleased || b.SettledMsats == 0, "the budget is %s, and %d msats were paid", b.Status, b.SettledMsats)
	found := false
	for _, a := range r.receipts {
		if p, ok := paymentOf(a); ok && p.PaymentProof.ReservationID == b.ReservationID {
			found = true
			agree(p.Status == b.Status && p.AmountMsats == b.SettledMsats && p.JobHash == b.JobHash && p.PaymentProof.ProviderID == b.ProviderID,
				"receipt %s does not say of reservation %s what %s says", a.Type, b.ReservationID, StepBudget)
		}
	}
	agree(found, "no receipt says how reservation %s was resolved", b.ReservationID)
}
