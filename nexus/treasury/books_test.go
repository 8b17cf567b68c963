//test:both-package One goroutine compares with a model; contests have many.

package treasury_test

import (
	"context"
	"time"

	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// tester is what *testing.T and *rapid.T share.
type tester interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// books is a store with the calls of a test that have to succeed.
type books struct {
	t tester
	s *store.Store
}

func (b books) update(fn func(tx *store.Tx) error) error {
	b.t.Helper()
	return b.s.Update(b.t.Context(), fn)
}

func (b books) must(fn func(tx *store.Tx) error) {
	b.t.Helper()
	if err := b.update(fn); err != nil {
		b.t.Fatal(err)
	}
}

// open opens a budget with funds and an earnings account.
func (b books) open(owner, provider string, limit, funds int64) (payer, payee string) {
	b.t.Helper()
	b.must(func(tx *store.Tx) error {
		a, _, err := treasury.OpenAccount(tx, treasury.Account{Owner: owner, Unit: treasury.Msat, Kind: treasury.Budget, Limit: limit})
		if err != nil {
			return err
		}
		p, _, err := treasury.OpenAccount(tx, treasury.Account{Owner: owner, Holder: provider, Unit: treasury.Msat, Kind: treasury.Earnings})
		if err != nil {
			return err
		}
		payer, payee = a.ID, p.ID
		_, _, err = treasury.Fund(tx, treasury.Funding{TransferID: "fund-" + owner, Account: payer, Amount: funds})
		return err
	})
	return payer, payee
}

func (b books) account(id string) (a treasury.Account) {
	b.t.Helper()
	err := b.s.View(b.t.Context(), func(tx *store.Tx) (err error) { a, err = tx.LedgerAccount(id); return err })
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (b books) reserve(r treasury.Reservation) (got treasury.Reservation, created bool, err error) {
	b.t.Helper()
	err = b.update(func(tx *store.Tx) (err error) { got, created, err = treasury.Reserve(tx, r); return err })
	return got, created, err
}

func (b books) resolve(id string, how treasury.Resolution) (got treasury.Reservation, changed bool, err error) {
	b.t.Helper()
	err = b.update(func(tx *store.Tx) (err error) { got, changed, err = treasury.Resolve(tx, id, how); return err })
	return got, changed, err
}

func (b books) cancel(id, why string) (got treasury.Reservation, changed bool, err error) {
	b.t.Helper()
	err = b.update(func(tx *store.Tx) (err error) { got, changed, err = treasury.Cancel(tx, id, why); return err })
	return got, changed, err
}

func (b books) reconcile(maxAge time.Duration, most int) (list []treasury.Reservation) {
	b.t.Helper()
	b.must(func(tx *store.Tx) (err error) { list, err = treasury.Reconcile(tx, tx.Now(), maxAge, most); return err })
	return list
}

// balanced fails the test if an invariant does not hold.
func (b books) balanced() {
	b.t.Helper()
	breaches, err := treasury.Audit(b.t.Context(), b.s)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, breach := range breaches {
		b.t.Errorf("invariant: %s", breach)
	}
}

func wantCode(t tester, err error, want reason.Code) {
	t.Helper()
	if got := reason.CodeOf(err); got != want || (want == "") != (err == nil) {
		t.Fatalf("error %v has code %q, want %q", err, got, want)
	}
}

var (
	release  = treasury.Resolution{Release: true, Passed: true}
	withhold = treasury.Resolution{Reason: treasury.WithheldVerification, ExitCode: 101}
)
