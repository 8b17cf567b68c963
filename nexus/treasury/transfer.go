package treasury

import (
	"errors"

	"remit/nexus/store"
	"remit/proof/reason"
)

// Transfer is a plain transfer: the money moves at once.
type Transfer = store.LedgerTransfer

// Funding puts money into an account's budget.
type Funding struct {
	TransferID string // unique for ever; the same again changes nothing
	Account    string // a budget
	Amount     int64  // in the unit of the account
	Reason     string // why, optional
}

// MaxFunding bounds one funding that a person types. Fundings cannot be taken
// back, and all of them together are at most MaxAmount: a slip of the keyboard
// must not use that up. What was funded too much a lower limit ([SetLimit]) keeps
// from being spent.
const MaxFunding = 10_000_000_000_000

// Fund gives a budget money to spend. The same funding again returns the first
// (created=false); the same id with another amount is amount_mismatch, with
// another account owner_mismatch.
func Fund(tx *store.Tx, f Funding) (t Transfer, created bool, err error) {
	a, err := budget(tx, f.Account)
	if err != nil {
		return Transfer{}, false, err
	}
	source := Account{ID: AccountID(issuer, a.Unit, Issuance), Owner: issuer, Holder: issuer, Unit: a.Unit, Kind: Issuance, Limit: MaxAmount}
	prepare := func() error { _, err := tx.InsertLedgerAccount(source); return err }
	return transfer(tx, Transfer{ID: f.TransferID, Kind: store.TransferPlain, Debit: source.ID, Credit: a.ID, Amount: f.Amount,
		Reason: f.Reason}, prepare)
}

// budget reads an account that must be a budget.
func budget(tx *store.Tx, id string) (Account, error) {
	a, err := tx.LedgerAccount(id)
	if errors.Is(err, store.ErrNotFound) {
		return Account{}, reason.Errorf(reason.NotFound, "no account %q", id)
	}
	if err == nil && a.Kind != Budget {
		return Account{}, invalid("account_id", "account %q is of kind %s, not %s", id, a.Kind, Budget)
	}
	return a, err
}

// transfer moves money at once. prepare runs before the first write.
func transfer(tx *store.Tx, t Transfer, prepare func() error) (done Transfer, created bool, err error) {
	for _, w := range []struct{ field, text string }{{"transfer_id", t.ID}, {"run_id", t.RunID}, {"job_id", t.JobID}, {"reason", t.Reason}} {
		if err := checkWord(w.field, w.text, w.field == "transfer_id"); err != nil {
			return Transfer{}, false, err
		}
	}
	if err := checkAmount("amount", t.Amount); err != nil {
		return Transfer{}, false, err
	}
	if old, found, err := movedBefore(tx, t); found || err != nil {
		return old, false, err
	}
	if err := Writable(tx); err != nil {
		return Transfer{}, false, err
	}
	if err := prepare(); err != nil {
		return Transfer{}, false, err
	}
	accounts, err := tx.LockLedgerAccounts(t.Debit, t.Credit)
	if err != nil {
		return Transfer{}, false, err
	}
	if old, found, err := movedBefore(tx, t); found || err != nil {
		return old, false, err
	}
	if problem := admit(accounts, t.Debit, t.Credit, t.Amount); problem != nil {
		if problem.Field == "amount_msats" { // as a reservation calls it
			problem.Field = "amount"
		}
		return Transfer{}, false, refuse(tx, t.ID, problem)
	}
	t.CreatedAt = tx.Now()
	if err := tx.InsertLedgerTransfer(t, reason.Errorf(reason.Conflict, "transfer id %q was used by another request", t.ID)); err != nil {
		return Transfer{}, false, err
	}
	return t, true, moveBalances(tx, map[string]store.LedgerDelta{t.Debit: {DebitsPosted: t.Amount}, t.Credit: {CreditsPosted: t.Amount}})
}

func movedBefore(tx *store.Tx, t Transfer) (Transfer, bool, error) {
	old, err := tx.LedgerTransfer(t.ID)
	if errors.Is(err, store.ErrNotFound) {
		return Transfer{}, false, refusedBefore(tx, t.ID)
	}
	if err != nil {
		return Transfer{}, false, err
	}
	switch {
	case old.Kind != store.TransferPlain:
		err = reason.Errorf(reason.Conflict, "transfer id %q was used for a %s transfer", t.ID, old.Kind)
	case old.Debit != t.Debit || old.Credit != t.Credit:
		err = reason.Errorf(reason.OwnerMismatch, "transfer %q is between accounts %q and %q", t.ID, old.Debit, old.Credit)
	case old.Amount != t.Amount:
		err = reason.Errorf(reason.AmountMismatch, "transfer %q is for %d, not %d", t.ID, old.Amount, t.Amount)
	}
	return old, true, err
}
