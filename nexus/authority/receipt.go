package authority

import (
	"encoding/json"
	"fmt"

	"remit/nexus/store"
	"remit/proof/canon"
)

// EventReceipt is the type of an event that holds a receipt.
const EventReceipt = "receipt"

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

// Receipt is the payload of a receipt event. The event itself adds when it was
// recorded and where it stands.
type Receipt struct {
	Type      string          `json:"receipt_type"`
	Payload   json.RawMessage `json:"payload"`
	Principal string          `json:"principal"`
	Key       string          `json:"idempotency_key"`
	SHA256    string          `json:"receipt_sha256"`
}

// Seal fills in the digest.
func (r *Receipt) Seal() error {
	digest, err := canon.DigestOf(map[string]any{
		"receipt_type": r.Type, "payload": r.Payload, "principal": r.Principal, "idempotency_key": r.Key,
	})
	if err != nil {
		return fmt.Errorf("seal receipt %s: %w", r.Type, err)
	}
	r.SHA256 = digest
	return nil
}

// Sealed reports whether the digest is right.
func (r Receipt) Sealed() bool {
	want := r.SHA256
	return r.Seal() == nil && r.SHA256 == want
}

// Write appends a receipt to a stream. The payload is any value of the hashed
// subset of JSON. If a receipt with this key stands there already it is
// returned, and another payload under the same key is store.ErrConflict.
func Write(tx *store.Tx, stream string, p Principal, receiptType, key string, payload any) (Receipt, store.Event, error) {
	r, err := sealed(p, receiptType, key, payload)
	if err != nil {
		return Receipt{}, store.Event{}, err
	}
	e, err := Event(tx, stream, p, EventReceipt, key, r)
	return r, e, err
}

// Post is Write without the event as a result, see [store.Tx.Post].
func Post(tx *store.Tx, stream string, p Principal, receiptType, key string, payload any) (Receipt, error) {
	r, err := sealed(p, receiptType, key, payload)
	if err != nil {
		return Receipt{}, err
	}
	return r, PostEvent(tx, stream, p, EventReceipt, key, r, 0)
}

func sealed(p Principal, receiptType, key string, payload any) (Receipt, error) {
	body, err := canon.Marshal(payload)
	if err != nil {
		return Receipt{}, fmt.Errorf("write receipt %s: %w", receiptType, err)
	}
	r := Receipt{Type: receiptType, Payload: body, Principal: p.ID, Key: key}
	return r, r.Seal()
}

// Copy repeats a receipt in another stream, unchanged: its digest says where it
// came from.
func Copy(tx *store.Tx, stream string, r Receipt) error {
	return PostEvent(tx, stream, Principal{ID: r.Principal}, EventReceipt, r.Key, r, 0)
}

// Event appends an event that is no receipt.
func Event(tx *store.Tx, stream string, p Principal, eventType, key string, payload any) (store.Event, error) {
	e, err := eventOf(stream, p, eventType, key, payload)
	if err == nil {
		e, err = tx.Append(e)
	}
	if err != nil {
		return store.Event{}, fmt.Errorf("append %s to %s: %w", eventType, stream, err)
	}
	return e, nil
}

// PostEvent is Event without the event as a result, see [store.Tx.Post].
func PostEvent(tx *store.Tx, stream string, p Principal, eventType, key string, payload any, keep int64) error {
	e, err := eventOf(stream, p, eventType, key, payload)
	if err == nil {
		err = tx.Post(e, keep)
	}
	if err != nil {
		return fmt.Errorf("append %s to %s: %w", eventType, stream, err)
	}
	return nil
}

func eventOf(stream string, p Principal, eventType, key string, payload any) (store.Event, error) {
	body, err := canon.Marshal(payload)
	return store.Event{Stream: stream, Type: eventType, IdempotencyKey: key, Payload: body, Principal: p.ID}, err
}

// ReadReceipt returns the receipt that an event holds; false when it holds none.
func ReadReceipt(e store.Event) (Receipt, bool) {
	var r Receipt
	if e.Type != EventReceipt || json.Unmarshal(e.Payload, &r) != nil {
		return Receipt{}, false
	}
	return r, true
}
