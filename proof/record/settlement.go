package record

import (
	"encoding/json"

	"remit/proof/reason"
)

// How a reservation ended.
const (
	Released = "released"
	Withheld = "withheld"
)

// Rail, asset and route of every payment: figures in the authority's own books,
// and no claim to be anything else.
const (
	Rail    = "remit_ledger"
	AssetID = "REMIT_LEDGER_MSAT"
	Route   = "internal_ledger"
)

// Where the commands of a proof ran.
const (
	// ExecutedHere: the provider is part of this process and handed in what the
	// verifier had run.
	ExecutedHere = "here"
	// ExecutedElsewhere: a provider ran the commands once more.
	ExecutedElsewhere = "elsewhere"
)

// Settlement is how the proof of a change by a job was judged and paid. It is
// most of the outputs of budget.settled.
type Settlement struct {
	RunID                     string `json:"run_id"` // of the authority
	JobID                     string `json:"job_id"`
	JobHash                   string `json:"job_hash"`
	ProviderID                string `json:"provider_id"`
	ReservationID             string `json:"reservation_id"`
	Executed                  string `json:"executed"`
	Passed                    bool   `json:"passed"`
	Status                    string `json:"status"` // Released or Withheld
	ReservedMsats             int64  `json:"reserved_msats"`
	SettledMsats              int64  `json:"settled_msats"` // 0 unless released
	Reason                    string `json:"reason"`        // "" when released
	VerificationReceiptSHA256 string `json:"verification_receipt_sha256"`
}

// Reservation is the payload of BudgetReserved.
type Reservation struct {
	Scope          string `json:"scope"`
	AmountMsats    int64  `json:"amount_msats"`
	ReservationID  string `json:"reservation_id"`
	JobID          string `json:"job_id"`
	JobHash        string `json:"job_hash"`
	ProviderID     string `json:"provider_id"`
	Payer          string `json:"payer"`
	IdempotencyKey string `json:"idempotency_key"`
}

// Payment is the payload of PaymentReleased and PaymentWithheld.
type Payment struct {
	Rail                      string `json:"rail"`
	AssetID                   string `json:"asset_id"`
	JobHash                   string `json:"job_hash"`
	JobID                     string `json:"job_id"`
	AmountMsats               int64  `json:"amount_msats"` // 0 when withheld
	ReservedMsats             int64  `json:"reserved_msats"`
	Reason                    string `json:"reason"`
	ReservationID             string `json:"reservation_id"`
	ProviderID                string `json:"provider_id"`
	Route                     string `json:"settlement_route"`
	ResolutionID              string `json:"resolution_id"` // transfer that resolved the reservation
	VerificationReceiptSHA256 string `json:"verification_receipt_sha256"`
}

// PaymentLine is how one reservation was resolved: an event of type payment in
// the log of a run, and an entry of payments in RECEIPT.json, which has no job
// id.
type PaymentLine struct {
	Rail        string       `json:"rail"`
	AssetID     string       `json:"asset_id"`
	AmountMsats int64        `json:"amount_msats"`
	JobHash     string       `json:"job_hash"`
	JobID       string       `json:"job_id,omitempty"`
	Status      string       `json:"status"`
	Proof       PaymentProof `json:"payment_proof"`
}

// PaymentProof says which transfer a payment is. The event of a payment that was
// withheld says why; an entry of RECEIPT.json names the receipt.
type PaymentProof struct {
	Type          string  `json:"type"`
	Value         string  `json:"value"`
	ReservationID string  `json:"reservation_id"`
	ProviderID    string  `json:"provider_id"`
	Reason        *string `json:"reason,omitempty"`
	ExitCode      *int    `json:"exit_code,omitempty"`
	ReceiptSHA256 string  `json:"receipt_sha256,omitempty"`
}

// Payment returns what a receipt says of money as an entry of RECEIPT.json;
// false when the receipt is about something else.
func (a AuthorityReceipt) Payment() (PaymentLine, bool) {
	status := map[string]string{PaymentReleased: Released, PaymentWithheld: Withheld}[a.Type]
	var p Payment
	if status == "" || json.Unmarshal(a.Payload, &p) != nil || p.Rail == "" || p.AmountMsats < 0 {
		return PaymentLine{}, false
	}
	return PaymentLine{Rail: p.Rail, AssetID: p.AssetID, AmountMsats: p.AmountMsats, JobHash: p.JobHash, Status: status,
		Proof: PaymentProof{Type: p.Route, Value: p.ResolutionID, ReservationID: p.ReservationID, ProviderID: p.ProviderID, ReceiptSHA256: a.ReceiptSHA256}}, true
}

// Verdict is the payload of VerificationPassed and VerificationFailed.
type Verdict struct {
	JobID          string      `json:"job_id"`
	JobHash        string      `json:"job_hash"`
	ProviderID     string      `json:"provider_id"`
	Verifier       string      `json:"verifier"`
	Outcome        string      `json:"outcome"`
	ExitCode       int         `json:"exit_code"`
	Reason         reason.Code `json:"reason"`
	Violations     []Violation `json:"violations"`
	ResponseSHA256 string      `json:"response_sha256"`
}

// Violation is one rule that a response breaks.
type Violation struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// Provider is false when the job broke the rule, and not its provider: a job
	// that uses up its time must not cost its provider a strike.
	Provider bool `json:"provider"`
}
