package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
	"remit/proof/record"
)

// price is what a provider asks for the present attempt of a job.
type price struct {
	reservation treasury.Reservation
	invalid     error                   // why there can be no such reservation
	basis       *store.ReservationBasis // nil: the accounts are not locked yet
}

// priceOf makes the reservation of a provider's price. A ttl of 0 is long enough
// for the job and for its settlement.
func priceOf(j Job, p registry.Provider, ttl time.Duration, needs job.Needs) price {
	if ttl == 0 {
		ttl = treasury.DefaultTTL + time.Duration(needs.TimeoutSecs)*time.Second
	}
	r, err := treasury.CompleteReservation(treasury.Reservation{
		TransferID: transferID(j), Owner: j.Owner, Payer: j.Payer, Payee: treasury.AccountID(p.ID, treasury.Msat, treasury.Earnings),
		RunID: j.RunID, JobID: j.ID, AmountMsats: p.PriceMsats, TTL: ttl,
	})
	return price{reservation: r, invalid: err}
}

// reserve holds the price of a locked provider.
func (m price) reserve(tx *store.Tx, j *Job, p registry.Provider) error {
	if m.invalid != nil {
		return m.invalid
	}
	m.reservation.AmountMsats = p.PriceMsats // which may have changed since it was chosen
	basis, err := m.lock(tx)
	if err != nil {
		return err
	}
	payee := basis.Accounts[m.reservation.Payee]
	own := treasury.Account{Owner: p.Owner, Holder: p.ID, Unit: treasury.Msat, Kind: treasury.Earnings}
	if payee.Owner != own.Owner || payee.Holder != own.Holder || payee.Unit != own.Unit || payee.Kind != own.Kind {
		if _, _, err := treasury.OpenAccount(tx, own); err != nil {
			return fmt.Errorf("open the account of provider %s: %w", p.ID, err)
		}
		m.basis = nil // the first job: the account is there now
		if basis, err = m.lock(tx); err != nil {
			return err
		}
	}
	held, _, err := treasury.ReserveLocked(tx, m.reservation, basis)
	if err != nil {
		return err
	}
	j.ReservationID, j.AmountMsats = held.ID, held.AmountMsats
	return nil
}

func (m price) lock(tx *store.Tx) (store.ReservationBasis, error) {
	if m.basis != nil {
		return *m.basis, nil
	}
	return tx.LockReservationBasis(treasury.ReservationKeys(m.reservation))
}

// transferID names the money of one attempt.
func transferID(j Job) string {
	sum := sha256.Sum256([]byte(j.ID + "\x00" + strconv.FormatInt(j.Attempt, 10)))
	return "trf_" + hex.EncodeToString(sum[:16])
}

// unaffordable returns the refusal when a reservation failed for want of money,
// which says something about the requester and nothing about the store.
func unaffordable(err error) *reason.Error {
	var e *reason.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code {
	case reason.InsufficientBudget, reason.AccountClosed:
		return e
	case reason.NotFound:
		return reason.Errorf(reason.InsufficientBudget, "%s", e.Message).WithHint("open a budget account and fund it")
	}
	return nil
}

// budgetReserved writes the receipt of a reservation.
func budgetReserved(tx *store.Tx, p authority.Principal, j Job) error {
	_, err := receipt(tx, j.RunID, p, record.BudgetReserved, attemptKey("budget-reserved", j), record.Reservation{
		Scope: "compute_job", AmountMsats: j.AmountMsats, ReservationID: j.ReservationID, JobID: j.ID,
		JobHash: j.Hash, ProviderID: j.ProviderID, Payer: j.Payer, IdempotencyKey: attemptKey("budget-reserved", j),
	})
	return err
}

// paid is how the money of an attempt ended.
type paid struct {
	job          Job
	status       string // record.Released or record.Withheld
	reason       string // of withholding
	resolution   string // transfer that resolved the reservation
	exitCode     int
	verification string // digest of the verification receipt, "" without a verdict
	lost         bool   // the attempt was lost and the job goes on elsewhere
}

// record writes the payment event and its receipt.
func (m paid) record(tx *store.Tx, p authority.Principal) error {
	j := m.job
	amount := int64(0)
	proof := record.PaymentProof{Type: m.status, Value: m.resolution, ReservationID: j.ReservationID, ProviderID: j.ProviderID}
	receiptType := record.PaymentWithheld
	if m.status == record.Released {
		amount, receiptType = j.AmountMsats, record.PaymentReleased
		proof.Type = record.Route
	} else {
		proof.Reason, proof.ExitCode = &m.reason, &m.exitCode
	}
	key := func(word string) string {
		k := keyOf(word, j) + ":" + m.status
		if m.lost {
			k = lostKey(k, j)
		}
		return k
	}
	if err := event(tx, j.RunID, p, "payment", key("payment"), record.PaymentLine{
		Rail: record.Rail, AssetID: record.AssetID, AmountMsats: amount, JobHash: j.Hash, JobID: j.ID, Status: m.status, Proof: proof,
	}); err != nil {
		return err
	}
	r, err := receipt(tx, j.RunID, p, receiptType, key("receipt-payment"), record.Payment{
		Rail: record.Rail, AssetID: record.AssetID, JobHash: j.Hash, JobID: j.ID, AmountMsats: amount, ReservedMsats: j.AmountMsats,
		Reason: m.reason, ReservationID: j.ReservationID, ProviderID: j.ProviderID, Route: record.Route, ResolutionID: m.resolution,
		VerificationReceiptSHA256: m.verification,
	})
	if err != nil || m.verification == "" {
		return err
	}
	return mirror(tx, j, m.verification, r.SHA256, m.status)
}

// budgetOf is the account that pays for an owner's jobs.
func budgetOf(owner string) string { return treasury.AccountID(owner, treasury.Msat, treasury.Budget) }

// affordable reports whether the payer could hold another price once the
// present reservation of the job is given back. It locks the account, so that
// the answer stays true.
func affordable(tx *store.Tx, j Job, price int64) (bool, error) {
	held, err := tx.LockReservation(j.ReservationID)
	if err != nil {
		return false, fmt.Errorf("read the reservation of job %s: %w", j.ID, err)
	}
	accounts, err := tx.LockLedgerAccounts(j.Payer)
	if err != nil {
		return false, err
	}
	payer, ok := accounts[j.Payer]
	if held.Status == treasury.Reserved {
		payer.DebitsPending -= held.AmountMsats
	}
	return ok && !payer.Closed() && payer.Remaining() >= price, nil
}
