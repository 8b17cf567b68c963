package treasury

import (
	"errors"
	"time"

	"remit/nexus/store"
	"remit/proof/reason"
)

// Reservation is money held for a job, or what became of it.
type Reservation = store.LedgerReservation

// States of a reservation.
const (
	Reserved = store.ReservationReserved
	Released = store.ReservationReleased
	Withheld = store.ReservationWithheld
)

// ReservationID is the id that [Reserve] gives to the reservation of a transfer.
func ReservationID(transferID string) string { return "rsv_" + derive("reservation", transferID) }

// Reserve holds AmountMsats of the payer for the payee. The caller fills
// TransferID, Owner, Payer, Payee, RunID, JobID and AmountMsats; ID is derived
// from the transfer id unless given, TTL is [DefaultTTL] unless given. The owner
// is the principal of the command and must own the payer.
//
// created is false when the same reservation exists, however it ended. The
// errors are insufficient_budget, amount_mismatch, owner_mismatch (another
// owner, payer or payee), conflict (another job, or the job has a reservation
// under another transfer id), account_closed, not_found, read_only_mode and
// request_invalid.
func Reserve(tx *store.Tx, r Reservation) (held Reservation, created bool, err error) {
	if r, err = CompleteReservation(r); err != nil {
		return Reservation{}, false, err
	}
	basis, err := tx.LockReservationBasis(ReservationKeys(r))
	if err != nil {
		return Reservation{}, false, err
	}
	return ReserveLocked(tx, r, basis)
}

// ReservationKeys names what a reservation depends on. A command that locks more
// than the accounts reads it with its other locks, and then calls [ReserveLocked].
func ReservationKeys(r Reservation) store.ReservationKeys {
	return store.ReservationKeys{Payer: r.Payer, Payee: r.Payee, TransferID: r.TransferID, RunID: r.RunID, JobID: r.JobID}
}

// ReserveLocked is [Reserve] for a complete reservation whose accounts are locked.
func ReserveLocked(tx *store.Tx, r Reservation, basis store.ReservationBasis) (held Reservation, created bool, err error) {
	if basis.Traced {
		if old, found, err := reservedBefore(tx, r); found || err != nil {
			return old, false, err
		}
	}
	if err := Writable(tx); err != nil {
		return Reservation{}, false, err
	}
	if problem := admitReservation(basis.Accounts, r); problem != nil {
		return Reservation{}, false, refuse(tx, r.TransferID, problem)
	}
	r.Status, r.ReservedAt = Reserved, tx.Now()
	r.ExpiresAt = r.ReservedAt + r.TTL.Milliseconds()
	return r, true, writeReservation(tx, r)
}

// CompleteReservation derives what the caller of [Reserve] leaves out and checks
// the rest.
func CompleteReservation(r Reservation) (Reservation, error) {
	if r.TransferID == "" {
		r.TransferID = r.ID
	}
	if r.ID == "" {
		r.ID = ReservationID(r.TransferID)
	}
	if r.TTL == 0 {
		r.TTL = DefaultTTL
	}
	r = Reservation{ID: r.ID, TransferID: r.TransferID, Owner: r.Owner, Payer: r.Payer, Payee: r.Payee,
		RunID: r.RunID, JobID: r.JobID, AmountMsats: r.AmountMsats, TTL: r.TTL.Truncate(time.Millisecond)}
	for _, w := range []struct{ field, text string }{
		{"transfer_id", r.TransferID}, {"reservation_id", r.ID}, {"owner", r.Owner}, {"payer", r.Payer}, {"payee", r.Payee},
		{"run_id", r.RunID}, {"job_id", r.JobID},
	} {
		if err := checkWord(w.field, w.text, true); err != nil {
			return r, err
		}
	}
	if err := checkAmount("amount_msats", r.AmountMsats); err != nil {
		return r, err
	}
	if r.TTL < time.Millisecond || r.TTL > MaxTTL {
		return r, invalid("ttl", "%s is not between 1ms and %s", r.TTL, MaxTTL)
	}
	return r, nil
}

// reservedBefore answers from what is stored, before any state is asked: a
// repeated request gets the same answer, also when the money is gone by now.
// A replica that uses other accounts can commit between any two of its
// statements, so each later one must make sense after each earlier one.
func reservedBefore(tx *store.Tx, r Reservation) (Reservation, bool, error) {
	if t, err := tx.LedgerTransfer(r.TransferID); err == nil {
		old, err := tx.ReservationOfTransfer(r.TransferID)
		if errors.Is(err, store.ErrNotFound) {
			return Reservation{}, false, reason.Errorf(reason.Conflict, "transfer id %q was used for a %s transfer", t.ID, t.Kind)
		}
		if err != nil {
			return Reservation{}, false, err
		}
		return old, true, sameReservation(old, r)
	} else if !errors.Is(err, store.ErrNotFound) {
		return Reservation{}, false, err
	}
	if err := refusedBefore(tx, r.TransferID); err != nil {
		return Reservation{}, false, err
	}
	old, err := tx.ReservationOfJob(r.RunID, r.JobID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Reservation{}, false, nil
	case err != nil:
		return Reservation{}, false, err
	case old.TransferID == r.TransferID:
		return old, true, sameReservation(old, r)
	}
	return Reservation{}, false, reason.Errorf(reason.Conflict, "job %q of run %q has reservation %q, %s", r.JobID, r.RunID, old.ID,
		old.Status)
}

// sameReservation compares a repeated request with the stored one. The TTL may
// differ: the configuration can change between two attempts, and the first holds.
func sameReservation(old, again Reservation) error {
	switch {
	case old.Owner != again.Owner:
		return reason.Errorf(reason.OwnerMismatch, "transfer id %q was used by another owner", again.TransferID)
	case old.Payer != again.Payer || old.Payee != again.Payee:
		return reason.Errorf(reason.OwnerMismatch, "reservation %q is between accounts %q and %q", old.ID, old.Payer, old.Payee)
	case old.AmountMsats != again.AmountMsats:
		return reason.Errorf(reason.AmountMismatch, "reservation %q is for %d msats, not %d", old.ID, old.AmountMsats, again.AmountMsats)
	case old.RunID != again.RunID || old.JobID != again.JobID || old.ID != again.ID:
		return reason.Errorf(reason.Conflict, "transfer id %q was used for job %q of run %q", again.TransferID, old.JobID, old.RunID)
	}
	return nil
}

// admitReservation adds to [admit] who may pay whom.
func admitReservation(accounts map[string]Account, r Reservation) *reason.Error {
	payer, payee := accounts[r.Payer], accounts[r.Payee]
	switch {
	case payer.ID != "" && payer.Owner != r.Owner:
		return reason.Errorf(reason.OwnerMismatch, "account %q does not belong to %q", payer.ID, r.Owner)
	case payer.ID != "" && (payer.Kind != Budget || payer.Unit != Msat):
		return invalid("payer", "account %q is no %s budget", payer.ID, Msat)
	case payee.ID != "" && payee.Kind != Earnings:
		return invalid("payee", "account %q is no earnings account", payee.ID)
	}
	return admit(accounts, r.Payer, r.Payee, r.AmountMsats)
}

// writeReservation writes an admitted reservation: transfer, record, balances.
func writeReservation(tx *store.Tx, r Reservation) error {
	// Two payers at the same moment; the command that loses is rolled back.
	taken := reason.Errorf(reason.Conflict, "transfer %q or job %q of run %q was reserved by another request", r.TransferID, r.JobID, r.RunID)
	if err := tx.InsertLedgerTransfer(store.LedgerTransfer{ID: r.TransferID, Kind: store.TransferPending,
		Debit: r.Payer, Credit: r.Payee, Amount: r.AmountMsats, RunID: r.RunID, JobID: r.JobID, TimeoutMS: r.TTL.Milliseconds()},
		taken); err != nil {
		return err
	}
	if err := tx.InsertReservation(r, taken); err != nil {
		return err
	}
	return moveBalances(tx, map[string]store.LedgerDelta{
		r.Payer: {DebitsPending: r.AmountMsats},
		r.Payee: {CreditsPending: r.AmountMsats},
	})
}
