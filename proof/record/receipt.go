package record

import (
	"encoding/json"
	"fmt"
	"time"

	"remit/proof/canon"
	"remit/proof/journal"
)

// The receipt types.
const (
	DeviceEnrolled       = "DeviceEnrolled"
	CapsSet              = "CapsSet"
	ProviderEnabled      = "ProviderEnabled"
	ProviderDisabled     = "ProviderDisabled"
	ProviderPenalized    = "ProviderPenalized"
	ProviderQuarantined  = "ProviderQuarantined"
	QuarantineLifted     = "QuarantineLifted"
	ProviderRetired      = "ProviderRetired"
	ProviderDeleted      = "ProviderDeleted"
	IssueClaimed         = "IssueClaimed"
	RunCreated           = "RunCreated"
	JobDispatched        = "JobDispatched"
	JobRejected          = "JobRejected"
	JobCompleted         = "JobCompleted"
	JobFailed            = "JobFailed"
	FallbackProviderUsed = "FallbackProviderUsed"
	CapsEnforced         = "CapsEnforced"
	BudgetReserved       = "BudgetReserved"
	VerificationPassed   = "VerificationPassed"
	VerificationFailed   = "VerificationFailed"
	PaymentReleased      = "PaymentReleased"
	PaymentWithheld      = "PaymentWithheld"
	ForgeUpdated         = "ForgeUpdated"
	ForgeUpdateSkipped   = "ForgeUpdateSkipped"
	OutcomeRecorded      = "OutcomeRecorded"
	ApprovalRequested    = "ApprovalRequested"
	ApprovalGranted      = "ApprovalGranted"
	ApprovalDenied       = "ApprovalDenied"
	ApprovalConsumed     = "ApprovalConsumed"
	SessionOpened        = "SessionOpened"
	SessionEnded         = "SessionEnded"
)

// Receipt is a fact that an authority vouches for. It is the payload of an
// event of type receipt.
type Receipt struct {
	Type      string          `json:"receipt_type"`
	Payload   json.RawMessage `json:"payload"`
	Principal string          `json:"principal"` // who caused it
	Key       string          `json:"idempotency_key"`
	SHA256    string          `json:"receipt_sha256"`
}

// NewReceipt returns a sealed receipt. The payload is any value of the hashed
// subset of JSON.
func NewReceipt(receiptType, principal, key string, payload any) (Receipt, error) {
	body, err := canon.Marshal(payload)
	if err != nil {
		return Receipt{}, fmt.Errorf("write receipt %s: %w", receiptType, err)
	}
	r := Receipt{Type: receiptType, Payload: body, Principal: principal, Key: key}
	if r.SHA256, err = r.Digest(); err != nil {
		return Receipt{}, fmt.Errorf("seal receipt %s: %w", receiptType, err)
	}
	return r, nil
}

// Digest computes what SHA256 must be.
func (r Receipt) Digest() (string, error) {
	return receiptDigest(r.Type, r.Payload, r.Principal, &r.Key)
}

// receiptDigest is the digest of the canonical JSON of a receipt without its
// digest.
func receiptDigest(receiptType string, payload json.RawMessage, principal string, key *string) (string, error) {
	return canon.DigestOf(map[string]any{
		"receipt_type": receiptType, "payload": payload, "principal": principal, "idempotency_key": key,
	})
}

// Sealed reports whether the receipt has the digest of its content.
func (r Receipt) Sealed() bool {
	digest, err := r.Digest()
	return err == nil && digest == r.SHA256
}

// About returns the members that name what a receipt is about; false when the
// payload does not have their form.
func (r Receipt) About() (About, bool) {
	var a About
	err := json.Unmarshal(r.Payload, &a)
	return a, err == nil
}

// About are the members that payloads of receipts share. A payload has those
// that it needs.
type About struct {
	RunID       string `json:"run_id"`
	JobID       string `json:"job_id"`
	JobHash     string `json:"job_hash"`
	ProviderID  string `json:"provider_id"`
	AmountMsats int64  `json:"amount_msats"`
	Reason      string `json:"reason"`
}

// Recorded is a receipt with its place in the log of its run.
type Recorded struct {
	Receipt
	Seq        int64
	RecordedAt time.Time
}

// Entry returns the receipt as the journal of a run has it.
func (r Recorded) Entry() AuthorityReceipt {
	return AuthorityReceipt{Type: r.Type, Payload: r.Payload, IdempotencyKey: &r.Key, ReceiptSHA256: r.SHA256, Principal: r.Principal,
		RecordedAt: r.RecordedAt.UTC().Format(journal.TimeFormat)}
}

// AuthorityReceipt is a receipt in the journal of a run and in RECEIPT.json: the
// outputs of authority.receipt. Journals that name no principal are older.
type AuthorityReceipt struct {
	Type           string          `json:"type"`
	Payload        json.RawMessage `json:"payload"`
	IdempotencyKey *string         `json:"idempotency_key"`
	RecordedAt     string          `json:"recorded_at"`
	ReceiptSHA256  string          `json:"receipt_sha256"`
	Principal      string          `json:"principal,omitempty"`
}

// Sealed reports whether the digest is that of the content. Without a principal
// it cannot be computed again.
func (a AuthorityReceipt) Sealed() bool {
	digest, err := receiptDigest(a.Type, a.Payload, a.Principal, a.IdempotencyKey)
	return a.Principal == "" || err == nil && digest == a.ReceiptSHA256
}
