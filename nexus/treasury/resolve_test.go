//go:build !race

package treasury_test

import (
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// ready is a store with one reservation of 1000 msats of alice for prv_a, job_1.
func ready(t *testing.T, s *store.Store) (b books, payer, payee string, held treasury.Reservation) {
	t.Helper()
	b = books{t, s}
	payer, payee = b.open("alice", "prv_a", 10_000, 10_000)
	held, _, err := b.reserve(treasury.Reservation{TransferID: "t1", Owner: "alice", Payer: payer, Payee: payee,
		RunID: "run_1", JobID: "job_1", AmountMsats: 1000, TTL: time.Hour})
	wantCode(t, err, "")
	return b, payer, payee, held
}

// TestResolve settles once: repeating is harmless, contradicting is refused.
func TestResolve(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		how          treasury.Resolution
		status       string
		spent, again int64 // final figure of the payer, and what it has left
		contrary     []treasury.Resolution
	}{
		{"release", release, treasury.Released, 1000, 9000, []treasury.Resolution{
			withhold, {Reason: "price_integrity_failed", Passed: true},
		}},
		{"withhold", withhold, treasury.Withheld, 0, 10_000, []treasury.Resolution{
			release, {Reason: withhold.Reason, ExitCode: 102}, {Reason: "other", ExitCode: withhold.ExitCode},
			{Reason: withhold.Reason, ExitCode: withhold.ExitCode, Passed: true},
		}},
	}
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		for _, test := range tests {
			b := books{t, s}
			payer, payee := b.open("owner-"+test.name, "prv-"+test.name, 10_000, 10_000)
			held, _, err := b.reserve(treasury.Reservation{TransferID: test.name, Owner: "owner-" + test.name, Payer: payer, Payee: payee,
				RunID: "run_1", JobID: "job_" + test.name, AmountMsats: 1000})
			wantCode(t, err, "")
			_, _, err = b.resolve("rsv_none", test.how)
			wantCode(t, err, reason.NotFound)
			wrongJob := test.how
			wrongJob.JobID = "job_other"
			_, _, err = b.resolve(held.ID, wrongJob)
			wantCode(t, err, reason.SettlementConflict)
			first, changed, err := b.resolve(held.ID, test.how)
			if err != nil || !changed || first.Status != test.status || first.SettledAt == 0 || *first.Passed != test.how.Passed {
				t.Fatalf("%s: %+v, %v, %v", test.name, first, changed, err)
			}
			again, changed, err := b.resolve(held.ID, test.how)
			if err != nil || changed || again.ResolutionID != first.ResolutionID {
				t.Errorf("%s again: %+v, %v, %v", test.name, again, changed, err)
			}
			for _, how := range test.contrary {
				if _, changed, err := b.resolve(held.ID, how); changed || reason.CodeOf(err) != reason.SettlementConflict {
					t.Errorf("%s, then %+v: %v, %v", test.name, how, changed, err)
				}
			}
			if a := b.account(payer); a.DebitsPosted != test.spent || a.DebitsPending != 0 || a.Remaining() != test.again {
				t.Errorf("%s: payer %+v", test.name, a)
			}
			if a := b.account(payee); a.CreditsPosted != test.spent || a.CreditsPending != 0 {
				t.Errorf("%s: payee %+v", test.name, a)
			}
		}
		books{t, s}.balanced()
	})
}

// TestNoReleaseWithoutVerdict refuses to pay for what did not pass, and to
// withhold without saying why.
func TestNoReleaseWithoutVerdict(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		b, payer, _, held := ready(t, open())
		for _, how := range []treasury.Resolution{
			{Release: true},
			{Release: true, Passed: true, ExitCode: 1},
			{Release: true, ExitCode: 0, Reason: "because"},
			{Release: true, Passed: true, Reason: "because"},
			{},
			{Reason: "two\nlines"},
		} {
			if _, _, err := b.resolve(held.ID, how); reason.CodeOf(err) != reason.RequestInvalid {
				t.Errorf("%+v: %v", how, err)
			}
		}
		if a := b.account(payer); a.DebitsPending != 1000 {
			t.Errorf("payer %+v", a)
		}
	})
}

// TestExpiry: a late verdict is refused although no sweep ran, the sweep frees
// the money once, and the job can reserve again.
func TestExpiry(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		b, payer, payee, held := ready(t, open())
		clock.Advance(time.Hour - time.Millisecond)
		if list := b.reconcile(0, 0); len(list) != 0 {
			t.Fatalf("swept %+v before its time", list)
		}
		clock.Advance(time.Millisecond)
		for _, how := range []treasury.Resolution{release, withhold} {
			_, _, err := b.resolve(held.ID, how)
			wantCode(t, err, reason.ReservationExpired)
		}
		if a := b.account(payer); a.DebitsPending != 1000 {
			t.Fatalf("a refused verdict moved money: %+v", a)
		}
		list := b.reconcile(0, 0)
		if len(list) != 1 || list[0].ID != held.ID || list[0].Status != treasury.Withheld ||
			list[0].Reason != treasury.WithheldExpired || list[0].Passed != nil {
			t.Fatalf("swept %+v", list)
		}
		if list := b.reconcile(0, 0); len(list) != 0 {
			t.Fatalf("swept twice: %+v", list)
		}
		_, _, err := b.resolve(held.ID, release)
		wantCode(t, err, reason.ReservationExpired)
		if _, changed, err := b.cancel(held.ID, "provider_lost"); err != nil || changed {
			t.Fatalf("cancel after the sweep: %v, %v", changed, err)
		}
		if a := b.account(payer); a.Remaining() != 10_000 {
			t.Fatalf("the payer did not get its money back: %+v", a)
		}
		again := treasury.Reservation{TransferID: "t1", Owner: "alice", Payer: payer, Payee: payee, RunID: "run_1", JobID: "job_1",
			AmountMsats: 1000}
		if old, created, err := b.reserve(again); err != nil || created || old.Status != treasury.Withheld {
			t.Fatalf("the old id: %+v, %v, %v", old, created, err)
		}
		again.TransferID = "t2"
		if _, created, err := b.reserve(again); err != nil || !created {
			t.Fatalf("a new id for the job: %v, %v", created, err)
		}
		b.balanced()
	})
}

// TestCancel gives back without a verdict, whatever the clock says.
func TestCancel(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		b, payer, payee, held := ready(t, open())
		got, changed, err := b.cancel(held.ID, "provider_lost")
		if err != nil || !changed || got.Reason != "provider_lost" || got.Passed != nil {
			t.Fatalf("cancel: %+v, %v, %v", got, changed, err)
		}
		if _, changed, err := b.cancel(held.ID, "provider_lost"); err != nil || changed {
			t.Fatalf("cancel again: %v, %v", changed, err)
		}
		_, _, err = b.resolve(held.ID, release)
		wantCode(t, err, reason.SettlementConflict)
		_, _, err = b.cancel("rsv_none", "x")
		wantCode(t, err, reason.NotFound)
		_, _, err = b.cancel(held.ID, "")
		wantCode(t, err, reason.RequestInvalid)

		next := treasury.Reservation{TransferID: "t2", Owner: "alice", Payer: payer, Payee: payee, RunID: "run_1", JobID: "job_1",
			AmountMsats: 1000, TTL: time.Minute}
		held, _, err = b.reserve(next)
		wantCode(t, err, "")
		clock.Advance(time.Minute)
		if got, changed, err := b.cancel(held.ID, "provider_lost"); err != nil || !changed || got.Reason != treasury.WithheldExpired {
			t.Fatalf("cancel after the TTL: %+v, %v, %v", got, changed, err)
		}
		next.TransferID = "t3"
		held, _, err = b.reserve(next)
		wantCode(t, err, "")
		_, _, err = b.resolve(held.ID, release)
		wantCode(t, err, "")
		_, _, err = b.cancel(held.ID, "provider_lost")
		wantCode(t, err, reason.SettlementConflict)
		b.balanced()
	})
}

// TestReconcileIsBounded sweeps the oldest first, in pieces, and by age.
func TestReconcileIsBounded(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		b := books{t, open()}
		payer, payee := b.open("alice", "prv_a", 10_000, 10_000)
		var ids []string
		for _, name := range []string{"z", "m", "a", "k", "b"} {
			held, _, err := b.reserve(treasury.Reservation{TransferID: name, Owner: "alice", Payer: payer, Payee: payee,
				RunID: "run_1", JobID: name, AmountMsats: 10, TTL: time.Hour})
			wantCode(t, err, "")
			ids = append(ids, held.ID)
			clock.Advance(time.Minute)
		}
		// The ages are 5, 4, 3, 2 and 1 minutes.
		var swept []string
		for _, want := range []int{2, 1, 0} {
			list := b.reconcile(3*time.Minute, 2)
			if len(list) != want {
				t.Fatalf("swept %d, want %d", len(list), want)
			}
			for _, r := range list {
				swept = append(swept, r.ID)
			}
		}
		for i := range swept {
			if swept[i] != ids[i] {
				t.Fatalf("swept in the order %q, want %q", swept, ids)
			}
		}
		if a := b.account(payer); a.DebitsPending != 20 {
			t.Errorf("payer %+v", a)
		}
		for _, bad := range []struct {
			age time.Duration
			n   int
		}{{0, -1}, {0, treasury.MaxSweep + 1}, {-1, 1}} {
			err := b.update(func(tx *store.Tx) error { _, err := treasury.Reconcile(tx, tx.Now(), bad.age, bad.n); return err })
			wantCode(t, err, reason.RequestInvalid)
		}
		b.balanced()
	})
}

// TestSummary reads what one owner may see and nothing of others.
func TestSummary(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		b, payer, payee, held := ready(t, open())
		otherPayer, otherPayee := b.open("bob", "prv_b", 500, 500)
		_, _, err := b.resolve(held.ID, release)
		wantCode(t, err, "")
		for _, r := range []treasury.Reservation{
			{TransferID: "t2", Owner: "alice", Payer: payer, Payee: otherPayee, RunID: "run_1", JobID: "job_2", AmountMsats: 300},
			{TransferID: "t3", Owner: "alice", Payer: payer, Payee: payee, RunID: "run_1", JobID: "job_3", AmountMsats: 70},
			{TransferID: "t4", Owner: "bob", Payer: otherPayer, Payee: otherPayee, RunID: "run_2", JobID: "job_4", AmountMsats: 5},
		} {
			_, _, err := b.reserve(r)
			wantCode(t, err, "")
		}
		_, _, err = b.resolve(treasury.ReservationID("t3"), withhold)
		wantCode(t, err, "")
		var o treasury.Overview
		err = b.s.View(t.Context(), func(tx *store.Tx) (err error) { o, err = treasury.Summary(tx, "alice"); return err })
		wantCode(t, err, "")
		want := treasury.Totals{Jobs: 3, ReservedJobs: 1, ReleasedJobs: 1, WithheldJobs: 1, ReservedMsats: 300, ReleasedMsats: 1000,
			WithheldMsats: 70}
		if o.Totals != want {
			t.Errorf("totals %+v, want %+v", o.Totals, want)
		}
		if len(o.Recent) != 3 || len(o.Earnings) != 1 || o.Earnings[0] != (store.Earning{Payee: payee, Holder: "prv_a", Jobs: 1,
			AmountMsats: 1000}) {
			t.Errorf("overview %+v", o)
		}
		for _, a := range o.Accounts {
			if a.Owner != "alice" {
				t.Errorf("alice sees %+v", a)
			}
			if a.Kind == treasury.Budget && (a.Spent != 1000 || a.Reserved != 300 || a.Remaining != 8700) {
				t.Errorf("budget %+v", a)
			}
			if a.Kind == treasury.Earnings && a.Earned != 1000 {
				t.Errorf("earnings %+v", a)
			}
		}
		err = b.s.View(t.Context(), func(tx *store.Tx) error { _, err := treasury.Summary(tx, ""); return err })
		wantCode(t, err, reason.RequestInvalid)
	})
}
