//go:build !race

package treasury_test

import (
	"math"
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// TestReserveRepeats keeps the promise that a repeated request changes nothing
// and that one which differs gets the reason.
func TestReserveRepeats(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		b := books{t, open()}
		payer, payee := b.open("alice", "prv_a", 10_000, 10_000)
		otherPayer, otherPayee := b.open("bob", "prv_b", 10_000, 10_000)
		first := treasury.Reservation{TransferID: "t1", Owner: "alice", Payer: payer, Payee: payee, RunID: "run_1", JobID: "job_1",
			AmountMsats: 1000}
		held, created, err := b.reserve(first)
		if err != nil || !created || held.Status != treasury.Reserved || held.ExpiresAt-held.ReservedAt != treasury.DefaultTTL.Milliseconds() {
			t.Fatalf("reserve: %+v, %v, %v", held, created, err)
		}
		tests := []struct {
			name   string
			change func(r *treasury.Reservation)
			want   reason.Code // "" = the stored reservation
		}{
			{"the same", func(*treasury.Reservation) {}, ""},
			{"another TTL", func(r *treasury.Reservation) { r.TTL = time.Minute }, ""},
			{"another amount", func(r *treasury.Reservation) { r.AmountMsats++ }, reason.AmountMismatch},
			{"another owner", func(r *treasury.Reservation) { r.Owner = "bob" }, reason.OwnerMismatch},
			{"another payer", func(r *treasury.Reservation) { r.Payer = otherPayer }, reason.OwnerMismatch},
			{"another provider", func(r *treasury.Reservation) { r.Payee = otherPayee }, reason.OwnerMismatch},
			{"another job", func(r *treasury.Reservation) { r.JobID = "job_2" }, reason.Conflict},
			{"another run", func(r *treasury.Reservation) { r.RunID = "run_2" }, reason.Conflict},
			{"another transfer id for the job", func(r *treasury.Reservation) { r.TransferID = "t2" }, reason.Conflict},
			{"the id of a funding", func(r *treasury.Reservation) { r.TransferID, r.JobID = "fund-alice", "job_9" }, reason.Conflict},
			{"another owner's budget", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.Payer = "t3", "job_3", otherPayer },
				reason.OwnerMismatch},
			{"no such payer", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.Payer = "t4", "job_4", "acc_none" }, reason.NotFound},
			{"no such provider", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.Payee = "t4", "job_4", "acc_none" }, reason.NotFound},
			{"paid to a budget", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.Payee = "t5", "job_5", otherPayer },
				reason.RequestInvalid},
			{"paid from earnings", func(r *treasury.Reservation) {
				r.TransferID, r.JobID, r.Payer, r.Payee = "t5", "job_5", payee, otherPayee
			}, reason.RequestInvalid},
			{"zero", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.AmountMsats = "t6", "job_6", 0 }, reason.RequestInvalid},
			{"negative", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.AmountMsats = "t6", "job_6", -1 }, reason.RequestInvalid},
			{"lowest number", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.AmountMsats = "t6", "job_6", math.MinInt64 },
				reason.RequestInvalid},
			{"highest number", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.AmountMsats = "t6", "job_6", math.MaxInt64 },
				reason.RequestInvalid},
			{"longest TTL", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.TTL = "t6", "job_6", math.MaxInt64 }, reason.RequestInvalid},
			{"negative TTL", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.TTL = "t6", "job_6", -1 }, reason.RequestInvalid},
			{"TTL below a millisecond", func(r *treasury.Reservation) { r.TransferID, r.JobID, r.TTL = "t6", "job_6", 1 }, reason.RequestInvalid},
			{"no job", func(r *treasury.Reservation) { r.TransferID, r.JobID = "t6", "" }, reason.RequestInvalid},
			{"a newline in a name", func(r *treasury.Reservation) { r.TransferID = "t6\nt7" }, reason.RequestInvalid},
		}
		for _, test := range tests {
			r := first
			test.change(&r)
			got, created, err := b.reserve(r)
			if reason.CodeOf(err) != test.want || created {
				t.Errorf("%s: created %v, error %v, want code %q", test.name, created, err, test.want)
			}
			if test.want == "" && got != held {
				t.Errorf("%s: got %+v, want %+v", test.name, got, held)
			}
		}
		if a := b.account(payer); a.DebitsPending != 1000 || a.Remaining() != 9000 {
			t.Errorf("after all that the payer is %+v", a)
		}
		b.balanced()
	})
}

// TestBudget checks both ceilings, to the last unit, and that a refused
// transfer id stays refused when there is money again.
func TestBudget(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		limit, funds int64
		want         int64 // that can be reserved
	}{
		{"the limit binds", 100, 1000, 100},
		{"the funds bind", 1000, 100, 100},
		{"all the money there can be", treasury.Unlimited, treasury.MaxAmount - 1100, treasury.MaxAmount - 1100},
	}
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		for _, test := range tests {
			b := books{t, s}
			payer, payee := b.open("owner-"+test.name, "prv-"+test.name, test.limit, test.funds)
			r := treasury.Reservation{TransferID: "too-much-" + test.name, Owner: "owner-" + test.name, Payer: payer, Payee: payee,
				RunID: "run_1", JobID: "job_" + test.name, AmountMsats: test.want + 1}
			_, _, err := b.reserve(r)
			wantCode(t, err, reason.InsufficientBudget)
			r.TransferID, r.AmountMsats = "all-"+test.name, test.want
			if _, created, err := b.reserve(r); err != nil || !created {
				t.Fatalf("%s: reserve all: %v, %v", test.name, created, err)
			}
			r.TransferID, r.JobID, r.AmountMsats = "one-more-"+test.name, "job_more_"+test.name, 1
			_, _, err = b.reserve(r)
			wantCode(t, err, reason.InsufficientBudget)
			if test.limit == treasury.Unlimited {
				// The issuance account is exhausted as well: nothing wraps around.
				err = b.update(func(tx *store.Tx) error {
					_, _, err := treasury.Fund(tx, treasury.Funding{TransferID: "wrap", Account: payer, Amount: 1})
					return err
				})
				wantCode(t, err, reason.InsufficientBudget)
			}
		}
		books{t, s}.balanced()
	})
}

// TestRefusedStaysRefused covers both ways to keep the refusal: commit it, or
// remember it in the next command.
func TestRefusedStaysRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		b := books{t, open()}
		payer, payee := b.open("alice", "prv_a", treasury.Unlimited, 10)
		r := treasury.Reservation{TransferID: "t1", Owner: "alice", Payer: payer, Payee: payee, RunID: "run_1", JobID: "job_1", AmountMsats: 11}
		_, _, refused := b.reserve(r)
		wantCode(t, refused, reason.InsufficientBudget)
		b.must(func(tx *store.Tx) error { return treasury.Remember(tx, refused) })

		committed := r
		committed.TransferID = "t2"
		b.must(func(tx *store.Tx) error {
			_, _, err := treasury.Reserve(tx, committed)
			wantCode(t, err, reason.InsufficientBudget)
			return nil
		})
		b.must(func(tx *store.Tx) error {
			_, _, err := treasury.Fund(tx, treasury.Funding{TransferID: "more", Account: payer, Amount: 1})
			return err
		})
		for _, id := range []string{"t1", "t2"} {
			again := r
			again.TransferID = id
			_, _, err := b.reserve(again)
			wantCode(t, err, reason.InsufficientBudget)
		}
		r.TransferID = "t3"
		if _, created, err := b.reserve(r); err != nil || !created {
			t.Fatalf("a new id: %v, %v", created, err)
		}
		// Remembering late must not turn a transfer into a failure.
		b.must(func(tx *store.Tx) error {
			return treasury.Remember(tx, &reason.Error{Code: reason.InsufficientBudget, Err: &treasury.Refused{TransferID: "t3",
				Code: reason.InsufficientBudget}})
		})
		if _, _, err := b.reserve(r); err != nil {
			t.Fatalf("a reservation was turned into a failure: %v", err)
		}
		b.balanced()
	})
}

// TestAccounts covers opening, limits and closing.
func TestAccounts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		b := books{t, open()}
		payer, payee := b.open("alice", "prv_a", 100, 50)
		budget := treasury.Account{Owner: "alice", Unit: treasury.Msat, Kind: treasury.Budget, Limit: 100}
		tests := []struct {
			name   string
			change func(a *treasury.Account)
			want   reason.Code
		}{
			{"the same", func(*treasury.Account) {}, ""},
			{"another limit", func(a *treasury.Account) { a.Limit = 7 }, ""},
			{"no limit", func(a *treasury.Account) { a.Limit = 0 }, reason.RequestInvalid},
			{"limit too large", func(a *treasury.Account) { a.Limit = treasury.MaxAmount + 1 }, reason.RequestInvalid},
			{"another owner", func(a *treasury.Account) { a.ID, a.Owner = payer, "bob" }, reason.OwnerMismatch},
			{"another unit", func(a *treasury.Account) { a.ID, a.Unit = payer, treasury.MicroUSD }, reason.Conflict},
			{"another kind", func(a *treasury.Account) { a.ID, a.Kind = payer, treasury.Earnings }, reason.Conflict},
			{"a unit that is none", func(a *treasury.Account) { a.Unit = "eur" }, reason.RequestInvalid},
			{"an issuance account", func(a *treasury.Account) { a.Kind = treasury.Issuance }, reason.RequestInvalid},
			{"the authority's own", func(a *treasury.Account) { a.Owner = "treasury" }, reason.RequestInvalid},
			{"no owner", func(a *treasury.Account) { a.Owner = "" }, reason.RequestInvalid},
		}
		for _, test := range tests {
			a := budget
			test.change(&a)
			var got treasury.Account
			var created bool
			err := b.update(func(tx *store.Tx) (err error) { got, created, err = treasury.OpenAccount(tx, a); return err })
			if reason.CodeOf(err) != test.want || created {
				t.Errorf("%s: created %v, error %v, want code %q", test.name, created, err, test.want)
			}
			if test.want == "" && (got.Limit != 100 || got.CreditsPosted != 50) {
				t.Errorf("%s: got %+v", test.name, got)
			}
		}

		held, _, err := b.reserve(treasury.Reservation{TransferID: "t1", Owner: "alice", Payer: payer, Payee: payee, RunID: "r", JobID: "j",
			AmountMsats: 40})
		wantCode(t, err, "")
		setLimit := func(n int64) error {
			return b.update(func(tx *store.Tx) error { _, err := treasury.SetLimit(tx, payer, n); return err })
		}
		wantCode(t, setLimit(39), reason.Conflict)
		wantCode(t, setLimit(40), "")
		wantCode(t, setLimit(0), reason.RequestInvalid)
		closeAccount := func(id string) error {
			return b.update(func(tx *store.Tx) error { _, err := treasury.CloseAccount(tx, id); return err })
		}
		wantCode(t, closeAccount(payee), reason.Conflict)
		_, _, err = b.resolve(held.ID, release)
		wantCode(t, err, "")
		wantCode(t, closeAccount(payee), "")
		wantCode(t, closeAccount(payee), "")
		_, _, err = b.reserve(treasury.Reservation{TransferID: "t2", Owner: "alice", Payer: payer, Payee: payee, RunID: "r", JobID: "j2",
			AmountMsats: 1})
		wantCode(t, err, reason.AccountClosed)
		wantCode(t, closeAccount(payer), "")
		fund := func() error {
			return b.update(func(tx *store.Tx) error {
				_, _, err := treasury.Fund(tx, treasury.Funding{TransferID: "late", Account: payer, Amount: 1})
				return err
			})
		}
		wantCode(t, fund(), reason.AccountClosed)
		b.balanced()
	})
}

// TestFunding: a funding happens once, into a budget, and a repeat that differs is refused.
func TestFunding(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		b := books{t, open()}
		payer, payee := b.open("alice", "prv_a", 1000, 1)
		other, _ := b.open("bob", "prv_b", 1000, 1)
		fund := func(f treasury.Funding) (created bool, err error) {
			err = b.update(func(tx *store.Tx) (err error) { _, created, err = treasury.Fund(tx, f); return err })
			return created, err
		}
		first := treasury.Funding{TransferID: "f1", Account: payer, Amount: 399}
		if created, err := fund(first); err != nil || !created {
			t.Fatalf("fund: %v, %v", created, err)
		}
		for _, test := range []struct {
			name   string
			change func(f *treasury.Funding)
			want   reason.Code
		}{
			{"the same", func(*treasury.Funding) {}, ""},
			{"another amount", func(f *treasury.Funding) { f.Amount = 1 }, reason.AmountMismatch},
			{"another account", func(f *treasury.Funding) { f.Account = other }, reason.OwnerMismatch},
			{"no budget", func(f *treasury.Funding) { f.TransferID, f.Account = "f2", payee }, reason.RequestInvalid},
			{"no account", func(f *treasury.Funding) { f.TransferID, f.Account = "f3", "acc_none" }, reason.NotFound},
			{"no id", func(f *treasury.Funding) { f.TransferID = "" }, reason.RequestInvalid},
			{"nothing", func(f *treasury.Funding) { f.TransferID, f.Amount = "f4", 0 }, reason.RequestInvalid},
		} {
			f := first
			test.change(&f)
			if created, err := fund(f); reason.CodeOf(err) != test.want || created {
				t.Errorf("%s: created %v, error %v, want code %q", test.name, created, err, test.want)
			}
		}
		if a := b.account(payer); a.CreditsPosted != 400 || a.Remaining() != 400 {
			t.Errorf("the account is %+v", a)
		}
		b.balanced()
	})
}

// TestPlainTransfers covers funding and charging, and that units do not mix.
func TestPlainTransfers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		b := books{t, open()}
		msats, _ := b.open("alice", "prv_a", 1000, 1000)
		var usd, model string
		b.must(func(tx *store.Tx) error {
			a, _, err := treasury.OpenAccount(tx, treasury.Account{Owner: "alice", Unit: treasury.MicroUSD, Kind: treasury.Budget, Limit: 500})
			if err != nil {
				return err
			}
			m, _, err := treasury.OpenAccount(tx, treasury.Account{Owner: "operator", Holder: "model", Unit: treasury.MicroUSD, Kind: treasury.Earnings})
			if err != nil {
				return err
			}
			usd, model = a.ID, m.ID
			_, _, err = treasury.Fund(tx, treasury.Funding{TransferID: "usd", Account: usd, Amount: 400})
			return err
		})
		charge := func(s treasury.Spending) (created bool, err error) {
			err = b.update(func(tx *store.Tx) (err error) { _, created, err = treasury.Charge(tx, s); return err })
			return created, err
		}
		cost := treasury.Spending{TransferID: "c1", Owner: "alice", Payer: usd, Payee: model, Amount: 399, RunID: "run_1"}
		created, err := charge(cost)
		if err != nil || !created {
			t.Fatalf("charge: %v, %v", created, err)
		}
		tests := []struct {
			name   string
			change func(s *treasury.Spending)
			want   reason.Code
		}{
			{"the same", func(*treasury.Spending) {}, ""},
			{"another amount", func(s *treasury.Spending) { s.Amount = 1 }, reason.AmountMismatch},
			{"another owner", func(s *treasury.Spending) { s.Owner = "bob" }, reason.OwnerMismatch},
			{"another payer", func(s *treasury.Spending) { s.Payer = msats }, reason.OwnerMismatch},
			{"another unit", func(s *treasury.Spending) { s.TransferID, s.Payer = "c2", msats }, reason.RequestInvalid},
			{"too much", func(s *treasury.Spending) { s.TransferID, s.Amount = "c3", 2 }, reason.InsufficientBudget},
			{"too much, again", func(s *treasury.Spending) { s.TransferID, s.Amount = "c3", 1 }, reason.InsufficientBudget},
			{"from nowhere", func(s *treasury.Spending) { s.TransferID, s.Payer = "c4", "acc_none" }, reason.NotFound},
			{"no id", func(s *treasury.Spending) { s.TransferID = "" }, reason.RequestInvalid},
		}
		for _, test := range tests {
			s := cost
			test.change(&s)
			created, err := charge(s)
			if reason.CodeOf(err) != test.want || created {
				t.Errorf("%s: created %v, error %v, want code %q", test.name, created, err, test.want)
			}
			b.must(func(tx *store.Tx) error { return treasury.Remember(tx, err) })
		}
		if a := b.account(usd); a.DebitsPosted != 399 || a.Remaining() != 1 {
			t.Errorf("the payer is %+v", a)
		}
		b.balanced()
	})
}
