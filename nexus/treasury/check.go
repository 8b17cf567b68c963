package treasury

import (
	"errors"
	"time"

	"remit/nexus/store"
	"remit/proof/reason"
)

const (
	// maxWord bounds ids, owners and reasons: they end up in receipts.
	maxWord = 200

	// DefaultTTL is how long a reservation holds money unless it says otherwise.
	DefaultTTL = time.Hour
	// MaxTTL bounds what a reservation can ask for: longer than the longest job,
	// short enough that a forgotten one is noticed.
	MaxTTL = 30 * 24 * time.Hour
)

// checkWord refuses names that are empty, long, or not printable ASCII: receipts
// and logs carry them as they are.
func checkWord(field, s string, required bool) error {
	if s == "" && required {
		return invalid(field, "missing")
	}
	if len(s) > maxWord {
		return invalid(field, "%d bytes, at most %d", len(s), maxWord)
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return invalid(field, "%q has something else than printable ASCII", s)
		}
	}
	return nil
}

func checkAmount(field string, n int64) error {
	if n < 1 || n > MaxAmount {
		return invalid(field, "%d is not between 1 and %d", n, MaxAmount)
	}
	return nil
}

func invalid(field, format string, args ...any) *reason.Error {
	e := reason.Errorf(reason.RequestInvalid, format, args...)
	e.Field = field
	return e
}

// admit decides whether amount can go from payer to payee now. It looks at
// locked rows and writes nothing.
func admit(accounts map[string]Account, payer, payee string, amount int64) *reason.Error {
	from, ok := accounts[payer]
	if !ok {
		return reason.Errorf(reason.NotFound, "no account %q", payer)
	}
	to, ok := accounts[payee]
	if !ok {
		return reason.Errorf(reason.NotFound, "no account %q", payee)
	}
	switch {
	case from.Unit != to.Unit:
		return invalid("payee", "account %q counts %s, account %q counts %s", from.ID, from.Unit, to.ID, to.Unit)
	case from.Closed():
		return reason.Errorf(reason.AccountClosed, "account %q is closed", from.ID)
	case to.Closed():
		return reason.Errorf(reason.AccountClosed, "account %q is closed", to.ID)
	case amount > from.Remaining() && from.Kind == Issuance:
		return reason.Errorf(reason.InsufficientBudget, "all fundings of these books are at most %d %s, and %d of it are left", MaxAmount,
			from.Unit, from.Remaining()).
			WithHint("what was funded stays in the books: fund less, and lower the limit of an account that got too much")
	case amount > from.Remaining():
		return reason.Errorf(reason.InsufficientBudget, "account %q has %d %s left, %d are needed", from.ID, from.Remaining(), from.Unit, amount)
	case amount > MaxAmount-to.CreditsPending-to.CreditsPosted:
		return invalid("amount_msats", "account %q would hold more than %d", to.ID, MaxAmount)
	}
	return nil
}

// Refused is the cause, inside the *reason.Error, of a transfer that was refused
// for good, account_closed or insufficient_budget. [Reserve] and [Fund]
// have recorded it in the transaction, and written nothing else, so a command
// that did nothing else may swallow the error and commit. A command that rolls
// back calls [Remember] with the error in the next one, the one that stores its
// 4xx response.
type Refused struct {
	TransferID string
	Code       reason.Code
	Message    string
}

// Error implements error.
func (r *Refused) Error() string { return "transfer " + r.TransferID + " stays refused" }

// Remember records the refusal in err's chain, if there is one. A transfer of the
// same id that has succeeded meanwhile stays: transfers are looked up first.
func Remember(tx *store.Tx, err error) error {
	var r *Refused
	if !errors.As(err, &r) {
		return nil
	}
	return tx.PutLedgerFailure(store.LedgerFailure{TransferID: r.TransferID, Code: string(r.Code), Message: r.Message})
}

// refuse makes the error of a transfer that admit turned away, and records it
// if it depends on the balances. Other problems do not go away with time.
func refuse(tx *store.Tx, transferID string, problem *reason.Error) error {
	if problem.Code != reason.AccountClosed && problem.Code != reason.InsufficientBudget {
		return problem
	}
	problem.Err = &Refused{TransferID: transferID, Code: problem.Code, Message: problem.Message}
	if err := Remember(tx, problem); err != nil {
		return err
	}
	return problem
}

// refusedBefore returns the error that a transfer id got when it was refused.
func refusedBefore(tx *store.Tx, transferID string) error {
	f, err := tx.LedgerFailure(transferID)
	if err != nil || f == nil {
		return err
	}
	e := reason.Errorf(reason.Code(f.Code), "%s", f.Message).
		WithHint("the transfer id %q was refused with this and stays refused: ask again under a new one", transferID)
	e.Err = &Refused{TransferID: transferID, Code: e.Code, Message: f.Message}
	return e
}
