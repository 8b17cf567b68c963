//go:build !race

package treasury_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// TestModel compares the ledger, command by command, with a model of a few
// maps: every answer, and every balance.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		var cases atomic.Int64
		// A case keeps its own accounts, so that the store is made once.
		property := func(rt *rapid.T) {
			m := newModel(rt, books{rt, s}, clock, cases.Add(1))
			for range rapid.IntRange(1, 15).Draw(rt, "steps") {
				m.step()
			}
			m.check()
		}
		rapid.Check(t, property)
		b := books{t, s}
		for len(b.reconcile(0, treasury.MaxSweep)) > 0 { // what the last cases left to expire
			continue
		}
		b.balanced()
	})
}

// held is a reservation as the model remembers it.
type held struct {
	treasury.Reservation
	passed *bool
	exit   int
}

type model struct {
	rt     *rapid.T
	b      books
	clock  *storetest.Clock
	prefix string
	owners []string // of the budgets
	limit  map[string]int64
	funded map[string]int64
	earned map[string]int64
	budget map[string]string // owner to account
	payees []string
	byID   map[string]*held // transfer id to reservation
	failed map[string]reason.Code

	fundings int
}

func newModel(rt *rapid.T, b books, clock *storetest.Clock, n int64) *model {
	m := &model{rt: rt, b: b, clock: clock, prefix: fmt.Sprintf("c%d-", n), limit: map[string]int64{}, funded: map[string]int64{},
		earned: map[string]int64{}, budget: map[string]string{}, byID: map[string]*held{}, failed: map[string]reason.Code{}}
	for i := range 2 {
		owner := fmt.Sprintf("%sowner%d", m.prefix, i)
		limit, funds := rapid.Int64Range(1, 300).Draw(rt, "limit"), rapid.Int64Range(1, 300).Draw(rt, "funds")
		payer, payee := b.open(owner, fmt.Sprintf("%sprv%d", m.prefix, i), limit, funds)
		m.owners, m.payees = append(m.owners, owner), append(m.payees, payee)
		m.limit[payer], m.funded[payer], m.budget[owner] = limit, funds, payer
	}
	return m
}

// used is what a budget has reserved, and spent.
func (m *model) used(payer string) (reserved, spent int64) {
	for _, h := range m.byID {
		if h.Payer == payer && h.Status == treasury.Reserved {
			reserved += h.AmountMsats
		}
		if h.Payer == payer && h.Status == treasury.Released {
			spent += h.AmountMsats
		}
	}
	return reserved, spent
}

func (m *model) step() {
	switch op := rapid.SampledFrom([]string{"reserve", "reserve", "reserve", "resolve", "resolve", "cancel", "fund", "sweep",
		"wait"}).Draw(m.rt, "op"); op {
	case "reserve":
		m.reserve()
	case "resolve":
		m.resolve()
	case "cancel":
		m.cancel()
	case "fund":
		m.fund()
	case "sweep":
		m.sweep()
	case "wait":
		m.clock.Advance(time.Duration(rapid.IntRange(1, 40).Draw(m.rt, "minutes")) * time.Minute)
	}
}

func (m *model) transfer() string {
	return m.prefix + "t" + fmt.Sprint(rapid.IntRange(0, 5).Draw(m.rt, "transfer"))
}

func (m *model) now() int64 { return m.clock.Now().UnixMilli() }

func (m *model) reserve() {
	owner := rapid.SampledFrom(m.owners).Draw(m.rt, "owner")
	r := treasury.Reservation{TransferID: m.transfer(), Owner: owner, Payer: m.budget[owner],
		Payee: rapid.SampledFrom(m.payees).Draw(m.rt, "payee"),
		RunID: m.prefix, JobID: fmt.Sprint("job", rapid.IntRange(0, 5).Draw(m.rt, "job")), AmountMsats: rapid.SampledFrom([]int64{1, 50,
			100}).Draw(m.rt, "amount"), TTL: time.Hour}
	var want reason.Code
	old, exists := m.byID[r.TransferID]
	reserved, spent := m.used(r.Payer)
	switch {
	case exists && (old.Owner != r.Owner || old.Payer != r.Payer || old.Payee != r.Payee):
		want = reason.OwnerMismatch
	case exists && old.AmountMsats != r.AmountMsats:
		want = reason.AmountMismatch
	case exists && old.JobID != r.JobID:
		want = reason.Conflict
	case exists:
	case m.failed[r.TransferID] != "":
		want = m.failed[r.TransferID]
	case m.jobTaken(r.JobID):
		want = reason.Conflict
	case r.AmountMsats > min(m.limit[r.Payer], m.funded[r.Payer])-reserved-spent:
		want = reason.InsufficientBudget
		m.failed[r.TransferID] = want
	}
	var got treasury.Reservation
	var created bool
	var failure error
	m.b.must(func(tx *store.Tx) error {
		got, created, failure = treasury.Reserve(tx, r)
		return nil // a refusal is recorded, nothing else was written
	})
	wantCode(m.rt, failure, want)
	if created != (want == "" && !exists) {
		m.rt.Fatalf("created %v, exists %v, error %v", created, exists, failure)
	}
	if created {
		if got.ReservedAt != m.now() || got.ExpiresAt != m.now()+time.Hour.Milliseconds() {
			m.rt.Fatalf("times of %+v at %d", got, m.now())
		}
		m.byID[r.TransferID] = &held{Reservation: got}
	}
}

func (m *model) jobTaken(job string) bool {
	for _, h := range m.byID {
		if h.JobID == job && h.Status != treasury.Withheld {
			return true
		}
	}
	return false
}

func (m *model) resolve() {
	id := m.transfer()
	how := rapid.SampledFrom([]treasury.Resolution{release, withhold, {Reason: "other", Passed: true}}).Draw(m.rt, "verdict")
	h := m.byID[id]
	var want reason.Code
	effect := false
	switch {
	case h == nil:
		want = reason.NotFound
	case h.Status != treasury.Reserved && h.passed == nil && h.Reason == treasury.WithheldExpired:
		want = reason.ReservationExpired
	case h.Status != treasury.Reserved:
		if h.passed == nil || *h.passed != how.Passed || h.exit != how.ExitCode || h.Reason != how.Reason ||
			(h.Status == treasury.Released) != how.Release {
			want = reason.SettlementConflict
		}
	case m.now() >= h.ExpiresAt:
		want = reason.ReservationExpired
	default:
		effect = true
		h.Status, h.Reason, h.passed, h.exit = treasury.Withheld, how.Reason, &how.Passed, how.ExitCode
		if how.Release {
			h.Status = treasury.Released
			m.earned[h.Payee] += h.AmountMsats
		}
	}
	_, changed, err := m.b.resolve(treasury.ReservationID(id), how)
	wantCode(m.rt, err, want)
	if changed != effect {
		m.rt.Fatalf("changed %v, want %v", changed, effect)
	}
}

func (m *model) cancel() {
	id := m.transfer()
	h := m.byID[id]
	var want reason.Code
	effect := false
	switch {
	case h == nil:
		want = reason.NotFound
	case h.Status == treasury.Released:
		want = reason.SettlementConflict
	case h.Status == treasury.Reserved:
		effect = true
		h.Status, h.Reason = treasury.Withheld, "lost"
		if m.now() >= h.ExpiresAt {
			h.Reason = treasury.WithheldExpired
		}
	}
	_, changed, err := m.b.cancel(treasury.ReservationID(id), "lost")
	wantCode(m.rt, err, want)
	if changed != effect {
		m.rt.Fatalf("changed %v, want %v", changed, effect)
	}
}

func (m *model) fund() {
	m.fundings++
	f := treasury.Funding{TransferID: fmt.Sprintf("%sfund%d", m.prefix, m.fundings),
		Account: m.budget[rapid.SampledFrom(m.owners).Draw(m.rt, "owner")],
		Amount:  rapid.Int64Range(1, 60).Draw(m.rt, "amount")}
	for _, want := range []bool{true, false} { // the second time is a repetition
		var created bool
		m.b.must(func(tx *store.Tx) (err error) { _, created, err = treasury.Fund(tx, f); return err })
		if created != want {
			m.rt.Fatalf("funding %+v: created %v, want %v", f, created, want)
		}
	}
	m.funded[f.Account] += f.Amount
}

func (m *model) sweep() {
	due := map[string]bool{}
	for _, h := range m.byID {
		if h.Status == treasury.Reserved && m.now() >= h.ExpiresAt {
			h.Status, h.Reason = treasury.Withheld, treasury.WithheldExpired
			due[h.ID] = true
		}
	}
	// Every case of the store is swept: what earlier ones left is not of interest.
	for _, r := range m.b.reconcile(0, treasury.MaxSweep) {
		if r.RunID == m.prefix && !due[r.ID] {
			m.rt.Fatalf("swept %+v before its time", r)
		}
		delete(due, r.ID)
	}
	if len(due) > 0 {
		m.rt.Fatalf("not swept: %v", due)
	}
}

// check compares all balances with the model.
func (m *model) check() {
	for _, payer := range m.budget {
		reserved, spent := m.used(payer)
		if a := m.b.account(payer); a.DebitsPending != reserved || a.DebitsPosted != spent || a.CreditsPosted != m.funded[payer] {
			m.rt.Fatalf("budget %+v, want reserved %d, spent %d, funded %d", a, reserved, spent, m.funded[payer])
		}
	}
	for _, payee := range m.payees {
		if a := m.b.account(payee); a.CreditsPosted != m.earned[payee] || a.DebitsPosted != 0 {
			m.rt.Fatalf("earnings %+v, want %d", a, m.earned[payee])
		}
	}
	m.b.must(treasury.Writable)
}
