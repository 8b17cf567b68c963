package treasury

import (
	"errors"
	"maps"
	"slices"
	"time"

	"remit/nexus/store"
	"remit/proof/reason"
)

// Reasons of a withheld reservation. Callers may have others.
const (
	WithheldExpired      = string(reason.ReservationExpired)
	WithheldVerification = string(reason.VerificationFailed)
)

// Resolution is a verdict: what becomes of the money, and why.
type Resolution struct {
	Release  bool   // to the payee; otherwise back to the payer
	Reason   string // of withholding; required then
	JobID    string // guards against settling another job's money; "" leaves the guard out
	ExitCode int    // of the verification
	Passed   bool   // nothing is released that did not pass
}

// Resolve settles a reservation, once. The same verdict again returns what is
// stored with changed=false, another one is settlement_conflict. A reservation
// that outlived its TTL, swept or not, is reservation_expired; other errors are
// not_found, read_only_mode and request_invalid. What is stored comes with the error.
func Resolve(tx *store.Tx, id string, how Resolution) (settled Reservation, changed bool, err error) {
	if err := how.check(); err != nil {
		return Reservation{}, false, err
	}
	r, err := lockReservation(tx, id)
	if err != nil {
		return Reservation{}, false, err
	}
	if how.JobID != "" && how.JobID != r.JobID {
		return r, false, reason.Errorf(reason.SettlementConflict, "reservation %q is for job %q, not %q", id, r.JobID, how.JobID)
	}
	if r.Status != Reserved {
		return r, false, how.sameAs(r)
	}
	if err := Writable(tx); err != nil {
		return r, false, err
	}
	if tx.Now() >= r.ExpiresAt {
		return r, false, reason.Errorf(reason.ReservationExpired, "reservation %q expired before its verdict", id)
	}
	end := ending{status: Withheld, kind: store.TransferVoid, reason: how.Reason, passed: &how.Passed, exitCode: &how.ExitCode}
	if how.Release {
		end.status, end.kind = Released, store.TransferPost
	}
	list, err := conclude(tx, end, r)
	if err != nil {
		return Reservation{}, false, err
	}
	return list[0], true, nil
}

func (how Resolution) check() error {
	switch {
	case how.Release && (!how.Passed || how.ExitCode != 0):
		return invalid("release", "nothing is released without a passed verification and exit code 0")
	case how.Release && how.Reason != "":
		return invalid("reason", "a release has none")
	}
	return checkWord("reason", how.Reason, !how.Release)
}

// sameAs compares a repeated verdict with the one that was stored.
func (how Resolution) sameAs(r Reservation) error {
	if r.Passed == nil && r.Reason == WithheldExpired {
		return reason.Errorf(reason.ReservationExpired, "reservation %q expired and was given back", r.ID)
	}
	same := r.Passed != nil && *r.Passed == how.Passed && r.ExitCode != nil && *r.ExitCode == how.ExitCode &&
		(r.Status == Released) == how.Release && r.Reason == how.Reason
	if !same {
		return reason.Errorf(reason.SettlementConflict, "reservation %q was %s already", r.ID, r.Status).
			WithHint("a verdict is final: a reservation is settled once")
	}
	return nil
}

// Cancel gives back what a reservation still holds, without a verdict: the job
// was canceled, or its provider is lost. It does not mind the clock, and
// records reservation_expired if the TTL is over. A withheld reservation stays
// as it is (changed=false), a released one is settlement_conflict.
func Cancel(tx *store.Tx, id, why string) (canceled Reservation, changed bool, err error) {
	if err := checkWord("reason", why, true); err != nil {
		return Reservation{}, false, err
	}
	r, err := lockReservation(tx, id)
	switch {
	case err != nil:
		return Reservation{}, false, err
	case r.Status == Withheld:
		return r, false, nil
	case r.Status == Released:
		return r, false, reason.Errorf(reason.SettlementConflict, "reservation %q was paid out already", id)
	}
	if err := Writable(tx); err != nil {
		return r, false, err
	}
	end := ending{status: Withheld, kind: store.TransferVoid, reason: why}
	if tx.Now() >= r.ExpiresAt {
		end = expired()
	}
	list, err := conclude(tx, end, r)
	if err != nil {
		return Reservation{}, false, err
	}
	return list[0], true, nil
}

// Bounds of one sweep: a transaction that locks more rows keeps others waiting.
const (
	DefaultSweep = 200
	MaxSweep     = 2000
)

// Reconcile gives back what is overdue, the oldest first, at most max (0:
// [DefaultSweep]): reservations that expire by now, and with maxAge > 0 also
// those that are at least as old. now is [store.Tx.Now] but in tests. The
// caller writes PaymentWithheld for each that is returned, in the same
// transaction. Calling again finds nothing, or the next ones.
func Reconcile(tx *store.Tx, now int64, maxAge time.Duration, most int) ([]Reservation, error) {
	if most == 0 {
		most = DefaultSweep
	}
	switch {
	case most < 1 || most > MaxSweep:
		return nil, invalid("max", "%d is not between 1 and %d", most, MaxSweep)
	case maxAge < 0:
		return nil, invalid("max_age", "%s is negative", maxAge)
	}
	if err := Writable(tx); err != nil {
		return nil, err
	}
	madeBy := int64(-1)
	if maxAge > 0 {
		madeBy = now - maxAge.Milliseconds()
	}
	due, err := tx.LockDueReservations(now, madeBy, most)
	if err != nil || len(due) == 0 {
		return nil, err
	}
	return conclude(tx, expired(), due...)
}

func lockReservation(tx *store.Tx, id string) (Reservation, error) {
	r, err := tx.LockReservation(id)
	if errors.Is(err, store.ErrNotFound) {
		return Reservation{}, reason.Errorf(reason.NotFound, "no reservation %q", id)
	}
	return r, err
}

// ending is how a reservation ends.
type ending struct {
	status, kind, reason string
	passed               *bool
	exitCode             *int
}

func expired() ending {
	return ending{status: Withheld, kind: store.TransferExpire, reason: WithheldExpired}
}

// conclude ends locked, open reservations: one resolving transfer each, and
// the balances of all accounts at once. The accounts are locked before the
// first transfer is written: its foreign keys lock them too, in another order.
func conclude(tx *store.Tx, end ending, open ...Reservation) ([]Reservation, error) {
	delta := map[string]store.LedgerDelta{}
	for _, r := range open {
		payer, payee := store.LedgerDelta{DebitsPending: -r.AmountMsats}, store.LedgerDelta{CreditsPending: -r.AmountMsats}
		if end.kind == store.TransferPost {
			payer.DebitsPosted, payee.CreditsPosted = r.AmountMsats, r.AmountMsats
		}
		delta[r.Payer], delta[r.Payee] = delta[r.Payer].Plus(payer), delta[r.Payee].Plus(payee)
	}
	if _, err := tx.LockLedgerAccounts(slices.Sorted(maps.Keys(delta))...); err != nil {
		return nil, err
	}
	for i := range open {
		if err := concludeOne(tx, end, &open[i]); err != nil {
			return nil, err
		}
	}
	return open, moveBalances(tx, delta)
}

func concludeOne(tx *store.Tx, end ending, r *Reservation) error {
	r.Status, r.Reason, r.Passed, r.ExitCode = end.status, end.reason, end.passed, end.exitCode
	r.ResolutionID, r.SettledAt = "res_"+derive("resolution", r.TransferID), tx.Now()
	err := tx.InsertLedgerTransfer(store.LedgerTransfer{ID: r.ResolutionID, Kind: end.kind, PendingID: r.TransferID,
		Debit: r.Payer, Credit: r.Payee, Amount: r.AmountMsats, RunID: r.RunID, JobID: r.JobID, Reason: end.reason},
		reason.Errorf(reason.LedgerInvariant, "reservation %q is open, and its transfer is resolved", r.ID))
	if err != nil {
		return err
	}
	return tx.SettleReservation(*r)
}

// moveBalances adds to the balances of locked accounts.
func moveBalances(tx *store.Tx, delta map[string]store.LedgerDelta) error {
	for _, id := range slices.Sorted(maps.Keys(delta)) {
		if err := tx.MoveLedgerBalance(id, delta[id]); err != nil {
			return err
		}
	}
	return nil
}
