package treasury

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"remit/nexus/store"
	"remit/proof/reason"
)

// Account is an account with its balances.
type Account = store.LedgerAccount

// Units and kinds of an account.
const (
	Msat     = store.UnitMsat
	MicroUSD = store.UnitMicroUSD

	Budget   = store.AccountBudget
	Earnings = store.AccountEarnings
	Issuance = store.AccountIssuance
)

// MaxAmount bounds every amount, balance and limit.
const MaxAmount = store.MaxAmount

// Unlimited is the Limit of a budget that only its funds bound.
const Unlimited = MaxAmount

// issuer owns the accounts that funding comes from. No credential has this name.
const issuer = "treasury"

// AccountID is the id of the account of a holder (a user, a provider) in a unit.
func AccountID(holder, unit, kind string) string {
	return "acc_" + derive("account", holder, unit, kind)
}

// derive makes 32 hex digits of a list of words. Lengths are not ambiguous,
// since no word of ours has a NUL in it.
func derive(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// OpenAccount opens a budget or an earnings account. Holder is the owner unless
// given, ID is derived from the holder unless given. A budget needs a Limit
// above zero. Opening the same account again returns it as it is now
// (created=false); its limit is [SetLimit]'s business. Other differences are a
// conflict.
func OpenAccount(tx *store.Tx, a Account) (opened Account, created bool, err error) {
	if a, err = completeAccount(a); err != nil {
		return Account{}, false, err
	}
	old, err := tx.LedgerAccount(a.ID)
	if errors.Is(err, store.ErrNotFound) {
		if err := Writable(tx); err != nil {
			return Account{}, false, err
		}
		if created, err = tx.InsertLedgerAccount(a); err != nil {
			return Account{}, false, err
		}
		old, err = tx.LedgerAccount(a.ID)
	}
	if err != nil {
		return Account{}, false, err
	}
	switch {
	case old.Owner != a.Owner:
		return Account{}, false, reason.Errorf(reason.OwnerMismatch, "account %q belongs to another owner", a.ID)
	case old.Holder != a.Holder || old.Unit != a.Unit || old.Kind != a.Kind:
		return Account{}, false, reason.Errorf(reason.Conflict, "account %q exists: %s %s of %q", a.ID, old.Unit, old.Kind, old.Holder)
	}
	return old, created, nil
}

func completeAccount(a Account) (Account, error) {
	if a.Holder == "" {
		a.Holder = a.Owner
	}
	if a.ID == "" {
		a.ID = AccountID(a.Holder, a.Unit, a.Kind)
	}
	if err := checkWord("owner", a.Owner, true); err != nil {
		return a, err
	}
	if err := checkWord("holder", a.Holder, true); err != nil {
		return a, err
	}
	if err := checkWord("id", a.ID, true); err != nil {
		return a, err
	}
	switch {
	case a.Owner == issuer:
		return a, invalid("owner", "%q is the name of the authority itself", a.Owner)
	case a.Unit != Msat && a.Unit != MicroUSD:
		return a, invalid("unit", "%q is neither %q nor %q", a.Unit, Msat, MicroUSD)
	case a.Kind != Budget && a.Kind != Earnings:
		return a, invalid("kind", "%q is neither %q nor %q", a.Kind, Budget, Earnings)
	case a.Kind == Earnings:
		a.Limit = 0 // what was earned is not spent through these books
	case a.Limit < 1 || a.Limit > MaxAmount:
		return a, invalid("limit", "%d is not between 1 and %d", a.Limit, MaxAmount)
	}
	a.Flags = store.FlagNoOverdraft
	return a, nil
}

// SetLimit changes the cap of a budget. It cannot be set below what the account
// has reserved and spent already.
func SetLimit(tx *store.Tx, id string, limit int64) (Account, error) {
	a, err := lockAccount(tx, id)
	if err != nil {
		return Account{}, err
	}
	used := a.DebitsPending + a.DebitsPosted
	switch {
	case a.Kind != Budget:
		return Account{}, invalid("account_id", "account %q is no budget", id)
	case limit < 1 || limit > MaxAmount:
		return Account{}, invalid("limit", "%d is not between 1 and %d", limit, MaxAmount)
	case limit < used:
		return Account{}, reason.Errorf(reason.Conflict, "limit %d is below the %d that account %q has reserved and spent", limit, used, id)
	case limit == a.Limit:
		return a, nil
	}
	a.Limit = limit
	return a, tx.SetLedgerAccount(a.ID, a.Limit, a.Flags)
}

// CloseAccount makes an account take no more transfers. What it still holds in
// reservations has to be resolved first. Closing again changes nothing.
func CloseAccount(tx *store.Tx, id string) (Account, error) {
	a, err := lockAccount(tx, id)
	switch {
	case err != nil:
		return Account{}, err
	case a.Closed():
		return a, nil
	case a.Kind == Issuance:
		return Account{}, invalid("account_id", "account %q is where funding comes from", id)
	case a.DebitsPending+a.CreditsPending > 0:
		return Account{}, reason.Errorf(reason.Conflict, "account %q has open reservations", id)
	}
	a.Flags |= store.FlagClosed
	return a, tx.SetLedgerAccount(a.ID, a.Limit, a.Flags)
}

func lockAccount(tx *store.Tx, id string) (Account, error) {
	if err := Writable(tx); err != nil {
		return Account{}, err
	}
	found, err := tx.LockLedgerAccounts(id)
	if err != nil {
		return Account{}, err
	}
	a, ok := found[id]
	if !ok {
		return Account{}, reason.Errorf(reason.NotFound, "no account %q", id)
	}
	return a, nil
}
