//go:build !race

package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
	"remit/proof/record"
)

// roomy lets a machine have many jobs at a time.
func roomy() registry.Caps {
	caps := wide
	caps.Concurrency = 10
	return caps
}

// strikes is what counts against a provider.
func (h *house) strikes(p registry.Provider, failures int64, quarantined bool) {
	h.t.Helper()
	if now := h.find(p); now.Failures != failures || now.Quarantined() != quarantined {
		h.t.Errorf("%d failures, quarantined %v; want %d, %v", now.Failures, now.Quarantined(), failures, quarantined)
	}
}

// TestOutageIsOneStrike takes the power from a machine with five leased jobs,
// whose leases end at different times, and two that it was offered.
func TestOutageIsOneStrike(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 100, false, roomy())
		run := h.run()
		for i := range 5 {
			h.queued(run, fmt.Sprint("job ", i))
			get(h, func(tx *store.Tx) ([]jobs.Lease, error) {
				return jobs.TakeLeases(tx, daemon(a), jobs.LeaseRequest{TTL: time.Duration(10+5*i) * time.Second})
			})
			h.clock.Advance(time.Second)
		}
		h.beat(a)
		for i := range 2 {
			h.queued(run, fmt.Sprint("offer ", i))
		}
		lost := 0
		for range 60 { // it is silent
			h.clock.Advance(time.Second)
			s := h.sweep()
			lost += len(s.Failed)
		}
		if lost != 7 {
			t.Fatalf("%d jobs were lost", lost)
		}
		h.strikes(a, 1, false)
		penalties := h.receipts(authority.ProviderStream(a.ID))["ProviderPenalized"]
		counted := 0
		for _, p := range penalties {
			if p["counted"] == nil {
				counted++
			} else if p["counted"] != false || p["outage_of"] == "" {
				t.Errorf("%+v", p)
			}
		}
		if len(penalties) != 7 || counted != 1 {
			t.Errorf("%d receipts, %d count: %+v", len(penalties), counted, penalties)
		}
		if n := len(h.receipts(authority.RunStream(run.ID))["ProviderPenalized"]); n != 7 {
			t.Errorf("the run's log has %d", n)
		}
		if a := h.find(a); a.Conduct() == registry.Provisional {
			t.Error("one outage lowers the conduct as several do")
		}

		// It comes back, and is lost again: that is another one.
		h.beat(a)
		h.queued(run, "later")
		h.lease(a)
		h.clock.Advance(11 * time.Second)
		h.sweep()
		h.strikes(a, 2, false)
	})
}

// TestLossesOneByOne drops one job after the other while the machine works on
// at the others: each is a strike of its own, whatever it began with.
func TestLossesOneByOne(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 100, false, roomy())
		run := h.run()
		held := map[int]jobs.Lease{}
		for i := range registry.FailureLimit {
			h.queued(run, fmt.Sprint("job ", i))
			held[i] = h.lease(a)
		}
		for i := range registry.FailureLimit {
			delete(held, i) // not renewed any more
			for range 3 {
				h.clock.Advance(4 * time.Second)
				h.beat(a)
				for k, l := range held {
					held[k] = get(h, func(tx *store.Tx) (jobs.Lease, error) {
						return jobs.Renew(tx, daemon(a), l.Job.ID, jobs.RenewRequest{Fence: l.Fence})
					})
				}
			}
			h.sweep()
			h.clock.Advance(time.Second)
			for k, l := range held {
				held[k] = get(h, func(tx *store.Tx) (jobs.Lease, error) {
					return jobs.Renew(tx, daemon(a), l.Job.ID, jobs.RenewRequest{Fence: l.Fence})
				})
			}
			h.strikes(a, int64(i+1), i+1 == registry.FailureLimit)
		}
	})
}

// TestOffersNotTakenAreOneOutage has a machine die that only was offered jobs, and
// a daemon that lives and takes nothing: the second earns strike after strike.
func TestOffersNotTakenAreOneOutage(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 100, false, roomy())
		run := h.run()
		for i := range 5 {
			h.queued(run, fmt.Sprint("offer ", i))
			h.clock.Advance(2 * time.Second)
		}
		for range 45 {
			h.clock.Advance(time.Second)
			h.sweep()
		}
		h.strikes(a, 1, false)
		for i := range registry.FailureLimit - 1 {
			h.beat(a)
			h.queued(run, fmt.Sprint("again ", i))
			h.clock.Advance(jobs.OfferTTL)
			h.beat(a)
			h.sweep()
		}
		h.strikes(a, registry.FailureLimit, true)
	})
}

// TestStrikesFade lets failures count for a week and violations for a month, and
// a quarantine until it is lifted.
func TestStrikesFade(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 100, false, wide)
		mark := func(id string, kind registry.Kind) registry.Marked {
			return get(h, func(tx *store.Tx) (registry.Marked, error) { return registry.Mark(tx, a.ID, id, kind, reason.Timeout) })
		}
		fade := func() int {
			return get(h, func(tx *store.Tx) (int, error) { return registry.Fade(tx, 0, 0, 100) })
		}
		mark("f1", registry.Failure)
		mark("v1", registry.Violation)
		mark("u1", registry.Unverified)
		mark("s1", registry.Success)
		h.clock.Advance(registry.FailureFade - time.Second)
		if n := fade(); n != 0 {
			t.Errorf("%d faded too early", n)
		}
		mark("f2", registry.Failure)
		h.clock.Advance(2 * time.Second)
		if n := fade(); n != 1 || fade() != 0 {
			t.Errorf("%d faded, or it fades twice", n)
		}
		if p := h.find(a); p.Failures != 1 || p.Violations != 1 || p.Unverified != 1 || p.Successes != 1 {
			t.Errorf("%+v", p.ProviderRow)
		}
		h.clock.Advance(registry.ViolationFade)
		if n := fade(); n != 2 {
			t.Errorf("%d faded", n)
		}
		if m := mark("f1", registry.Failure); m.New {
			t.Error("a job that struck a month ago strikes again")
		}
		for i := range registry.ViolationLimit {
			mark(fmt.Sprint("w", i), registry.Violation)
		}
		h.clock.Advance(registry.ViolationFade + time.Second)
		fade()
		if p := h.find(a); p.Violations != 0 || !p.Quarantined() {
			t.Errorf("a quarantine ended by itself: %+v", p.ProviderRow)
		}
		// What was lifted fades no second time.
		for i := range registry.ViolationLimit {
			mark(fmt.Sprint("x", i), registry.Violation)
		}
		get(h, func(tx *store.Tx) (registry.Provider, error) { return registry.Lift(tx, alice, a.ID, "repaired") })
		mark("y", registry.Violation)
		h.clock.Advance(registry.ViolationFade)
		fade()
		if p := h.find(a); p.Violations != 1 {
			t.Errorf("%d violations, want the one of after the lifting", p.Violations)
		}
	})
}

// TestWhoLiftsAQuarantine: the owner with a reason, which is recorded with who it
// was; of a machine that works for others only an administrator; never the
// machine itself, nor another owner.
func TestWhoLiftsAQuarantine(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		for _, pool := range []bool{false, true} {
			a := h.provider("alice", fmt.Sprint("pool ", pool), 100, pool, wide)
			for i := range registry.ViolationLimit {
				get(h, func(tx *store.Tx) (registry.Marked, error) {
					return registry.Mark(tx, a.ID, fmt.Sprint(i), registry.Violation, reason.ProviderViolations)
				})
			}
			lift := func(p authority.Principal, why string) func(tx *store.Tx) (registry.Provider, error) {
				return func(tx *store.Tx) (registry.Provider, error) { return registry.Lift(tx, p, a.ID, why) }
			}
			wants(h, reason.ScopeMissing, lift(daemon(a), "I am well"))
			wants(h, reason.NotFound, lift(person("bob"), "let it"))
			wants(h, reason.RequestInvalid, lift(alice, ""))
			reader := alice
			reader.Scopes = []string{authority.ScopeRead, authority.ScopeEnrol}
			wants(h, reason.ScopeMissing, lift(reader, "please"))
			by, why := alice, "the memory was replaced"
			if pool {
				wants(h, reason.ScopeMissing, lift(alice, why))
				by = authority.Sweeper()
			}
			if p := get(h, lift(by, why)); p.Quarantined() || p.Enabled || p.Strikes() != 0 {
				t.Errorf("%+v", p.ProviderRow)
			}
			receipts := h.receipts(authority.ProviderStream(a.ID))["QuarantineLifted"]
			if len(receipts) != 1 || receipts[0]["reason"] != why {
				t.Errorf("%+v", receipts)
			}
			for _, e := range h.events(authority.ProviderStream(a.ID)) {
				if r, ok := authority.ReadReceipt(e); ok && r.Type == record.QuarantineLifted && r.Principal != by.ID {
					t.Errorf("lifted by %s", r.Principal)
				}
			}
		}
	})
}
