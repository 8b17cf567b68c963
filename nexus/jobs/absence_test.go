//go:build !race

package jobs_test

import (
	"slices"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
	"remit/proof/record"
)

// small is a house on SQLite: the rules are the same on both databases.
func small(t *testing.T) *house {
	t.Helper()
	t.Parallel()
	clock := storetest.NewClock()
	return build(t, t.Context, clock, storetest.Open(t, storetest.SQLite(t), store.Options{Clock: clock.Now}))
}

// watch is the first thing that a sweep does.
func (h *house) watch() time.Duration {
	h.t.Helper()
	return get(h, jobs.Watch)
}

// goAway lets time pass without a sweep, as when the authority is restarted or
// its machine sleeps.
func (h *house) goAway(d time.Duration) {
	h.t.Helper()
	h.watch()
	h.clock.Advance(d)
}

// After an absence of the authority a lease that ran out meanwhile is good for
// one more TTL, whether the provider or the sweep comes first. Then it is lost
// like any other.
func TestLeaseOutlivesAnAbsence(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		first, second, third := h.queued(run, "x"), h.queued(run, "y"), h.queued(run, "z")
		leases := h.leases(a, 3)
		h.goAway(40 * time.Second)
		// The provider is back before any sweep.
		renewed := get(h, func(tx *store.Tx) (jobs.Lease, error) {
			return jobs.Renew(tx, daemon(a), first.ID, jobs.RenewRequest{Fence: leases[0].Fence})
		})
		if got := time.Duration(renewed.LeaseUntil-h.clock.Now().UnixMilli()) * time.Millisecond; got != 10*time.Second {
			t.Errorf("renewed for %s", got)
		}
		if away := h.watch(); away != 40*time.Second {
			t.Errorf("it was away for %s", away)
		}
		if away := h.watch(); away != 0 {
			t.Errorf("and again for %s", away)
		}
		if s := h.sweep(); !slices.Equal(slices.Sorted(slices.Values(s.Extended)), slices.Sorted(slices.Values([]string{second.ID,
			third.ID}))) || s.Total() != 2 {
			t.Fatalf("swept %+v", s)
		}
		if s := h.sweep(); s.Total() != 0 {
			t.Fatalf("the second sweep did %+v", s)
		}
		if p := h.find(a); p.Failures != 0 {
			t.Fatalf("marks %+v", p.ProviderRow)
		}
		h.clock.Advance(9 * time.Second)
		h.watch()
		h.complete(a, leases[1], reply(second, job.Success, 0))
		h.clock.Advance(2 * time.Second)
		h.watch()
		if s := h.sweep(); !slices.Equal(slices.Sorted(slices.Values(s.Failed)), slices.Sorted(slices.Values([]string{first.ID, third.ID}))) {
			t.Fatalf("swept %+v", s)
		}
		if p := h.find(a); p.Failures != 1 { // both were lost together
			t.Errorf("marks %+v", p.ProviderRow)
		}
		if h.settle(second.ID).Status != record.Released {
			t.Error("work that was handed in after the absence is not paid")
		}
	})
}

// A result that waited for the authority counts, even beyond the job's deadline.
func TestResultWaitsForTheAuthority(t *testing.T) {
	h := small(t)
	a := h.provider("alice", "a", 1000, false, wide)
	j := h.queued(h.run(), "x")
	l := h.lease(a)
	h.goAway(10 * time.Minute)
	h.complete(a, l, reply(j, job.Success, 0))
	h.settle(j.ID)
	h.expect(j.ID, jobs.Settled, 0, 1000)
}

// An offer that could not be taken is good for its time once more.
func TestOfferOutlivesAnAbsence(t *testing.T) {
	h := small(t)
	a := h.provider("alice", "a", 1000, false, wide)
	run := h.run()
	taken, left := h.queued(run, "x"), h.queued(run, "y")
	h.goAway(time.Minute)
	l := h.lease(a)
	if l.Job.ID != taken.ID {
		t.Fatalf("leased %s", l.Job.ID)
	}
	h.watch()
	if s := h.sweep(); !slices.Equal(s.Extended, []string{left.ID}) || s.Total() != 1 {
		t.Fatalf("swept %+v", s)
	}
	for range jobs.OfferTTL / jobs.AwayAfter { // it is there all the time
		h.clock.Advance(jobs.AwayAfter)
		h.watch()
	}
	h.sweep()
	if h.job(left.ID).State != string(jobs.Failed) {
		t.Errorf("the offer is %s", h.job(left.ID).State)
	}
	if p := h.find(a); p.Failures != 1 { // the offer and the lease since the return, lost together
		t.Errorf("marks %+v", p.ProviderRow)
	}
}

// Sweeps that are only late excuse no provider, and neither does an absence that
// began when the lease was over.
func TestNoAbsence(t *testing.T) {
	h := small(t)
	a := h.provider("alice", "a", 1000, false, wide)
	run := h.run()
	late, over := h.queued(run, "x"), h.queued(run, "y")
	l := h.lease(a)
	h.goAway(jobs.AwayAfter)
	wants(h, reason.LeaseExpired, func(tx *store.Tx) (jobs.Lease, error) {
		return jobs.Renew(tx, daemon(a), late.ID, jobs.RenewRequest{Fence: l.Fence})
	})
	if away := h.watch(); away != 0 {
		t.Errorf("away for %s", away)
	}
	if s := h.sweep(); !slices.Equal(s.Failed, []string{late.ID}) {
		t.Fatalf("swept %+v", s)
	}
	if got := h.lease(a); got.Job.ID != over.ID {
		t.Fatalf("leased %s", got.Job.ID)
	}
	h.clock.Advance(10 * time.Second)
	h.goAway(time.Hour)
	h.watch()
	if s := h.sweep(); !slices.Equal(s.Failed, []string{over.ID}) {
		t.Fatalf("swept %+v", s)
	}
	if p := h.find(a); p.Failures != 2 {
		t.Errorf("marks %+v", p.ProviderRow)
	}
}

// A provider that ends hands back what it runs, which goes to the next one or
// fails at once, unpaid and without a strike, and is not offered anything more.
func TestProviderEnds(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		alone := h.queued(run, "x")
		l := h.lease(a)
		release := func(by registry.Provider, l jobs.Lease) func(tx *store.Tx) (jobs.Job, error) {
			return func(tx *store.Tx) (jobs.Job, error) { return jobs.Release(tx, daemon(by), l.Job.ID, l.Fence) }
		}
		stale := l
		stale.Fence--
		wants(h, reason.StaleFence, release(a, stale))
		if j := get(h, release(a, l)); jobs.State(j.State) != jobs.Failed || j.Reason != string(reason.HandedBack) {
			t.Fatalf("handed back: %s %s", j.State, j.Reason)
		}
		wants(h, reason.JobClosed, release(a, l))
		h.expect(alone.ID, jobs.Failed, 0, 0)

		moves, stays := h.queued(run, "y"), h.queued(run, "z")
		l = h.lease(a)
		b := h.provider("bob", "b", 1500, true, wide)
		wants(h, reason.NotFound, release(b, l))
		if j := get(h, release(a, l)); jobs.State(j.State) != jobs.Queued || j.ProviderID != b.ID || j.FallbackFrom != a.ID {
			t.Fatalf("handed back: %+v", j)
		}
		end := func(status registry.Status) registry.Provider {
			return get(h, func(tx *store.Tx) (registry.Provider, error) {
				return jobs.Heartbeat(tx, daemon(a), a.ID, registry.HeartbeatRequest{Version: "1", Status: status})
			})
		}
		if p := end(registry.Stopping); registry.Status(p.Status) != registry.Stopping || !p.Enabled {
			t.Errorf("stopping: %+v", p.ProviderRow)
		}
		for _, j := range []jobs.Job{moves, stays} {
			if got := h.job(j.ID); got.ProviderID != b.ID {
				t.Errorf("job %s is with %s", j.ID, got.ProviderID)
			}
		}
		// No other provider is left for these two: they wait, should the daemon be back soon.
		if p := end(registry.Stopped); registry.Status(p.Status) != registry.Stopped {
			t.Errorf("stopped: %+v", p.ProviderRow)
		}
		if d := h.dispatch(run, ask("w")); d.Rejected == nil && d.Job.ProviderID == a.ID {
			t.Error("a provider that has stopped was offered a job")
		}
		if p := h.find(a); p.Strikes() != 0 || p.Unverified != 2 {
			t.Errorf("marks %+v", p.ProviderRow)
		}
	})
}

// What only the provider itself could do stays offered to it while it restarts.
func TestOfferWaitsForARestart(t *testing.T) {
	h := small(t)
	a := h.provider("alice", "a", 1000, false, wide)
	j := h.queued(h.run(), "x")
	h.do(func(tx *store.Tx) error {
		_, err := jobs.Heartbeat(tx, daemon(a), a.ID, registry.HeartbeatRequest{Version: "1", Status: registry.Stopped})
		return err
	})
	if got := h.job(j.ID); jobs.State(got.State) != jobs.Queued || got.ProviderID != a.ID {
		t.Fatalf("the offer is %s", got.State)
	}
	h.beat(a)
	if l := h.lease(a); l.Job.ID != j.ID {
		t.Errorf("leased %s", l.Job.ID)
	}
}

// Work that a provider had to give up because the authority was away does not
// count against it.
func TestHandedBackAfterAnAbsence(t *testing.T) {
	h := small(t)
	a := h.provider("alice", "a", 1000, false, wide)
	j := h.queued(h.run(), "x")
	l := h.lease(a)
	h.goAway(time.Minute)
	h.do(func(tx *store.Tx) error { _, err := jobs.Release(tx, daemon(a), j.ID, l.Fence); return err })
	h.expect(j.ID, jobs.Failed, 0, 0)
	if p := h.find(a); p.Strikes() != 0 || p.Unverified != 0 {
		t.Errorf("marks %+v", p.ProviderRow)
	}
}
