//go:build !race

package jobs_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/metrics"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
	"remit/proof/record"
)

// The plain path: every step leaves its receipts, settling twice adds four
// events and no more, and the money is where the verdict says.
func TestHappyPath(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		h.provider("bob", "b", 10, true, wide) // cheaper, but of the pool
		run := get(h, func(tx *store.Tx) (jobs.Run, error) {
			return jobs.CreateRun(tx, alice, jobs.RunRequest{RepoRef: "fixture", IssueRef: "1"})
		})
		j := h.queued(run, "cargo test")
		if j.ProviderID != a.ID || j.Tier != registry.Owned || j.AmountMsats != 1000 || !strings.HasPrefix(j.ReservationID, "rsv_") {
			t.Fatalf("dispatched to %s %s for %d", j.ProviderID, j.Tier, j.AmountMsats)
		}
		h.expect(j.ID, jobs.Queued, 1000, 0)
		l := h.lease(a)
		h.clock.Advance(time.Second)
		done := h.complete(a, l, reply(j, job.Success, 0))
		if jobs.State(done.State) != jobs.Submitted {
			t.Fatalf("state %s", done.State)
		}
		stream := authority.RunStream(run.ID)
		before := h.log(stream)
		s := h.settle(j.ID)
		again := h.settle(j.ID)
		added := h.log(stream)[len(before):]
		want := []string{"verify:" + j.Hash, "verification:" + j.Hash, "payment:" + j.Hash + ":released", "receipt-payment:" + j.Hash +
			":released"}
		if !slices.Equal(added, want) {
			t.Errorf("two settlements added %q, want %q", added, want)
		}
		if s.Status != record.Released || !s.Passed || s.ExitCode != 0 || len(s.Violations) != 0 ||
			again.VerificationReceiptSHA256 != s.VerificationReceiptSHA256 || s.VerificationReceiptSHA256 == "" {
			t.Errorf("settlements %+v and %+v", s, again)
		}
		h.expect(j.ID, jobs.Settled, 0, 1000)
		if h.earned(a) != 1000 {
			t.Errorf("the provider earned %d", h.earned(a))
		}
		wantKeys := []string{"run-created", "issue-claimed", "run-started", "", "", "budget-reserved:" + j.Hash, "job-dispatched:" + j.Hash, "",
			"tool:oa.sandbox_run.v1:" + j.Hash, "job-completed:" + j.Hash, "caps-enforced:" + j.Hash}
		for i, key := range wantKeys {
			if key != "" && (i >= len(before) || before[i] != key) {
				t.Errorf("event %d of %q, want %q", i+1, before, key)
			}
		}
		for _, typ := range []string{"RunCreated", "IssueClaimed", "DeviceEnrolled", "CapsSet", "BudgetReserved", "JobDispatched",
			"JobCompleted", "CapsEnforced", "VerificationPassed", "PaymentReleased"} {
			if n := len(h.receipts(stream)[typ]); n != 1 {
				t.Errorf("%d receipts %s", n, typ)
			}
		}
		if v := h.receipts(stream)["VerificationPassed"][0]; v["verifier"] != job.VerifierVersion {
			t.Errorf("verification receipt %v", v)
		}
		if who := h.receipts(stream)["IssueClaimed"][0]["claim_identity"]; who != alice.ID {
			t.Errorf("claim identity %v", who)
		}
		if c := h.receipts(stream)["CapsEnforced"][0]; c["within"] != true {
			t.Errorf("caps receipt %v", c)
		}
		if p := h.find(a); p.Successes != 1 || p.Strikes() != 0 {
			t.Errorf("marks %+v", p.ProviderRow)
		}
		h.finish(run, jobs.RunSucceeded)
		m := metrics.Compute(h.events(stream))
		if *m.FillRate.BasisPoints != 10000 || m.ReleasedMsats != 1000 || *m.EffectiveCost.Value != 1000 || *m.ProviderBreadth.Value != 2 ||
			*m.PassRate.BasisPoints != 10000 ||
			m.PassRateByProvider[a.ID].Count != 1 || !*m.CapsEnforced.Holds || *m.DispatchLatencyMedian.Value != 1000 ||
			*m.ReworkRate.BasisPoints != 0 || m.Unreadable != 0 {
			t.Errorf("metrics %+v", m)
		}
		h.do(func(tx *store.Tx) error {
			return jobs.RecordOutcome(tx, alice, run.ID, jobs.OutcomeRequest{Kind: jobs.Reverted, Note: "it broke"})
		})
		if m := metrics.Compute(slices.Concat(h.events(stream),
			h.events(authority.AccountStream(alice.Owner)))); *m.ReworkRate.BasisPoints != 10000 {
			t.Errorf("rework %+v", m)
		}
	})
}

// A retry of a dispatch neither runs nor pays twice; another run is another job.
func TestDispatchRetry(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run, other := h.run(), h.run()
		j := h.queued(run, "x")
		again := h.dispatch(run, ask("x"))
		if again.Created || again.Job.ID != j.ID {
			t.Fatalf("the retry made %+v", again)
		}
		second := h.queued(other, "x")
		if second.ID == j.ID || second.Hash != j.Hash {
			t.Fatal("two runs share a job")
		}
		h.expect(j.ID, jobs.Queued, 2000, 0)
		l := h.lease(a)
		h.complete(a, l, reply(j, job.Success, 0))
		h.settle(l.Job.ID)
		if again := h.dispatch(run, ask("x")); again.Created || jobs.State(again.Job.State) != jobs.Settled {
			t.Fatalf("after the end: %+v", again)
		}
		h.expect(l.Job.ID, jobs.Settled, 1000, 1000)
		if n := len(h.receipts(authority.RunStream(run.ID))["JobDispatched"]); n != 1 {
			t.Errorf("%d receipts JobDispatched", n)
		}
	})
}

// A verdict against the job: no money, a penalty, and no strike for an honest
// provider. The run's log still grows by exactly four events.
func TestVerificationFails(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		j := h.queued(run, "x", "y")
		h.complete(a, h.lease(a), reply(j, job.Failed, 5))
		before := h.log(authority.RunStream(run.ID))
		s := h.settle(j.ID)
		h.settle(j.ID)
		added := h.log(authority.RunStream(run.ID))[len(before):]
		if len(added) != 4 || added[2] != "payment:"+j.Hash+":withheld" || added[3] != "receipt-payment:"+j.Hash+":withheld" {
			t.Errorf("added %q", added)
		}
		if s.Passed || s.Status != record.Withheld || s.ExitCode != 5 || s.Outcome != job.JobFailed ||
			s.Reason != string(reason.VerificationFailed) {
			t.Errorf("settlement %+v", s)
		}
		h.expect(j.ID, jobs.Failed, 0, 0)
		if h.earned(a) != 0 {
			t.Error("a failed job was paid")
		}
		p := h.find(a)
		if p.Unverified != 1 || p.Strikes() != 0 || p.Quarantined() {
			t.Errorf("marks %+v", p.ProviderRow)
		}
		h.finish(run, jobs.RunFailed)
		if n := len(h.receipts(authority.RunStream(run.ID))["ProviderPenalized"]); n != 1 {
			t.Errorf("%d penalties in the sealed log", n)
		}
	})
}

// Three responses that contradict themselves end in quarantine, whatever the
// owner does about it.
func TestProviderFaultAndQuarantine(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		for i, command := range []string{"1", "2", "3"} {
			j := h.queued(run, command)
			h.complete(a, h.lease(a), reply(j, job.Success, 1)) // success that failed
			if s := h.settle(j.ID); s.Outcome != job.ProviderFault || s.Status != record.Withheld || len(s.Violations) == 0 {
				t.Fatalf("settlement %+v", s)
			}
			h.settle(j.ID)
			if p := h.find(a); p.Violations != int64(i+1) || p.Quarantined() != (i == 2) {
				t.Fatalf("after %d violations: %+v", i+1, p.ProviderRow)
			}
		}
		if n := len(h.receipts(authority.ProviderStream(a.ID))["ProviderQuarantined"]); n != 1 {
			t.Errorf("%d receipts ProviderQuarantined", n)
		}
		wants(h, reason.ProviderQuarantined, func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, alice, a.ID, nil) })
		wants(h, reason.ProviderQuarantined, func(tx *store.Tx) ([]jobs.Lease, error) {
			return jobs.TakeLeases(tx, daemon(a), jobs.LeaseRequest{})
		})
		again := get(h, func(tx *store.Tx) (registry.Provider, error) {
			return jobs.Enrol(tx, alice, registry.ProviderRequest{ProviderID: a.ID, Name: "a", Version: "1",
				Capabilities: []string{job.SandboxRun}, PriceMsats: 5})
		})
		h.beat(a)
		if again.ID != a.ID || again.Violations != 3 || !again.Quarantined() {
			t.Errorf("enrolling again made %+v", again.ProviderRow)
		}
		if d := h.dispatch(run, ask("4")); d.Rejected == nil {
			t.Error("a quarantined provider was chosen")
		}
		lifted := get(h, func(tx *store.Tx) (registry.Provider, error) {
			return registry.Lift(tx, authority.Sweeper(), a.ID, "looked at it")
		})
		if lifted.Quarantined() || lifted.Strikes() != 0 || lifted.Enabled {
			t.Errorf("lifted %+v", lifted.ProviderRow)
		}
		h.finish(run, jobs.RunFailed)
		if n := len(h.receipts(authority.RunStream(run.ID))["ProviderQuarantined"]); n != 1 {
			t.Errorf("%d quarantines in the sealed log", n)
		}
	})
}

// A provider that is lost gets a strike and no money; the job goes to the next
// one, once, under a reservation of its own.
func TestLostProviderFallsBackOnce(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		b := h.provider("bob", "b", 1500, true, wide)
		run := h.run()
		j := h.queued(run, "x")
		lost := h.lease(a)
		if s := h.sweep(); s.Total() != 0 {
			t.Fatalf("swept too early: %+v", s)
		}
		h.clock.Advance(11 * time.Second)
		wants(h, reason.LeaseExpired, func(tx *store.Tx) (jobs.Lease, error) {
			return jobs.Renew(tx, daemon(a), j.ID, jobs.RenewRequest{Fence: lost.Fence})
		})
		if s := h.sweep(); !slices.Equal(s.FellBack, []string{j.ID}) {
			t.Fatalf("swept %+v", s)
		}
		if s := h.sweep(); s.Total() != 0 {
			t.Fatalf("the second sweep did %+v", s)
		}
		moved := h.expect(j.ID, jobs.Queued, 1500, 0)
		if moved.ProviderID != b.ID || moved.Tier != registry.Pool || moved.FallbackFrom != a.ID || moved.Attempt != 2 ||
			moved.ReservationID == j.ReservationID {
			t.Fatalf("moved to %+v", moved)
		}
		if p := h.find(a); p.Failures != 1 {
			t.Errorf("marks %+v", p.ProviderRow)
		}
		// Late: the work of the lost lease counts for nothing.
		wants(h, reason.StaleFence, func(tx *store.Tx) (jobs.Job, error) {
			return jobs.Complete(tx, daemon(a), j.ID, jobs.CompleteRequest{Fence: lost.Fence, Response: reply(j, job.Success, 0)})
		})
		wants(h, reason.StaleFence, func(tx *store.Tx) (int64, error) {
			return jobs.AppendLog(tx, daemon(a), j.ID, jobs.LogRequest{Fence: lost.Fence, Stream: "stdout", Text: "x"})
		})
		l := h.lease(b)
		before := len(h.log(authority.RunStream(run.ID)))
		h.complete(b, l, reply(l.Job, job.Success, 0))
		h.settle(j.ID)
		h.expect(j.ID, jobs.Settled, 0, 1500)
		if h.earned(a) != 0 || h.earned(b) != 1500 {
			t.Errorf("earned %d and %d", h.earned(a), h.earned(b))
		}
		if keys := h.log(authority.RunStream(run.ID))[before:]; !slices.Contains(keys, "payment:"+j.Hash+":released") {
			t.Errorf("keys %q", keys)
		}
		r := h.receipts(authority.RunStream(run.ID))
		if len(r["FallbackProviderUsed"]) != 1 || r["FallbackProviderUsed"][0]["from"] != a.ID || r["FallbackProviderUsed"][0]["to"] != b.ID ||
			len(r["ProviderPenalized"]) != 1 || len(r["PaymentWithheld"]) != 1 || len(r["PaymentReleased"]) != 1 ||
			len(r["BudgetReserved"]) != 2 || len(r["JobDispatched"]) != 2 {
			t.Errorf("receipts %v", r)
		}
		offers := h.events(authority.OfferStream(a.ID))
		if len(offers) != 2 || offers[1].Type != "job.cancel" {
			t.Errorf("lane of the lost provider: %v", offers)
		}
		// No other provider is left: the next loss is the end.
		second := h.queued(run, "y")
		h.lease(a)
		h.clock.Advance(11 * time.Second)
		h.sweep()
		h.lease(b)
		h.clock.Advance(11 * time.Second)
		if s := h.sweep(); !slices.Equal(s.Failed, []string{second.ID}) {
			t.Fatalf("swept %+v", s)
		}
		gone := h.expect(second.ID, jobs.Failed, 0, 1500)
		if gone.Reason != string(reason.OfflineMidRun) || gone.Payment != record.Withheld {
			t.Errorf("ended as %+v", gone)
		}
		wants(h, reason.JobClosed, func(tx *store.Tx) (jobs.Settlement, error) {
			s, _, err := jobs.Settle(tx, alice, second.ID)
			return s, err
		})
	})
}

// Without a provider to fall back to, the job fails cleanly and the money is back.
func TestLostWithoutFallback(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		for i := range registry.FailureLimit {
			j := h.queued(run, string(rune('a'+i)))
			h.lease(a)
			h.clock.Advance(11 * time.Second)
			h.sweep()
			h.expect(j.ID, jobs.Failed, 0, 0)
			h.beat(a)
		}
		if p := h.find(a); !p.Quarantined() || p.QuarantineReason != string(reason.ProviderFailures) || p.Failures != registry.FailureLimit {
			t.Errorf("after five losses: %+v", p.ProviderRow)
		}
	})
}

// An offer that is not taken is offered elsewhere; only an idle provider is to
// blame for that.
func TestOfferNotTaken(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		narrow := wide
		narrow.Concurrency = 1
		a := h.provider("alice", "a", 1000, false, narrow)
		run := h.run()
		first := h.queued(run, "1")
		l := h.lease(a)
		waiting := h.queued(run, "2")
		if got := h.leases(a, 5); len(got) != 0 {
			t.Fatalf("leased %d beyond the concurrency", len(got))
		}
		for range 4 {
			h.clock.Advance(8 * time.Second)
			l = get(h, func(tx *store.Tx) (jobs.Lease, error) {
				return jobs.Renew(tx, daemon(a), first.ID, jobs.RenewRequest{Fence: l.Fence})
			})
		}
		if s := h.sweep(); !slices.Equal(s.Extended, []string{waiting.ID}) {
			t.Fatalf("swept %+v", s)
		}
		if p := h.find(a); p.Failures != 0 {
			t.Error("a busy provider got a strike")
		}
		h.complete(a, l, reply(first, job.Success, 0))
		h.clock.Advance(jobs.OfferTTL)
		if got := h.leases(a, 1); len(got) != 0 {
			t.Fatal("an offer was taken after its end")
		}
		if s := h.sweep(); !slices.Equal(s.Failed, []string{waiting.ID}) {
			t.Fatalf("swept %+v", s)
		}
		if p := h.find(a); p.Failures != 1 {
			t.Error("an idle provider got no strike")
		}
		h.expect(waiting.ID, jobs.Failed, 1000, 0)
	})
}

// Emergency: from the commit on no lease, what runs is canceled, what was
// offered goes elsewhere, and what comes late is refused.
func TestDisable(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		handed := h.queued(run, "handed in")
		h.complete(a, h.lease(a), reply(handed, job.Success, 0))
		running := h.queued(run, "running")
		l := h.lease(a)
		b := h.provider("alice", "b", 3000, false, wide)
		offered := h.queued(run, "offered")
		d := get(h, func(tx *store.Tx) (jobs.Disabled, error) { return jobs.Disable(tx, alice, a.ID, "fire") })
		if !d.Changed || !slices.Equal(d.Canceled, []string{running.ID}) || d.Provider.Enabled || d.Provider.Leased != 0 ||
			d.Provider.Queued != 0 {
			t.Fatalf("disabled %+v", d)
		}
		if again := get(h, func(tx *store.Tx) (jobs.Disabled, error) { return jobs.Disable(tx, alice, a.ID, "fire") }); again.Changed {
			t.Error("disabled twice")
		}
		wants(h, reason.ProviderDisabled, func(tx *store.Tx) ([]jobs.Lease, error) {
			return jobs.TakeLeases(tx, daemon(a), jobs.LeaseRequest{})
		})
		wants(h, reason.JobClosed, func(tx *store.Tx) (jobs.Job, error) {
			return jobs.Complete(tx, daemon(a), running.ID, jobs.CompleteRequest{Fence: l.Fence, Response: reply(running, job.Success, 0)})
		})
		h.settle(handed.ID)
		if j := h.expect(running.ID, jobs.Canceled, 3000, 1000); j.Reason != string(reason.ProviderDisabled) || j.Payment != record.Withheld {
			t.Errorf("running job ended as %+v", j)
		}
		if j := h.job(offered.ID); j.ProviderID != b.ID || jobs.State(j.State) != jobs.Queued || j.Attempt != 2 {
			t.Errorf("offered job is with %+v", j)
		}
		if p := h.find(a); p.Strikes() != 0 {
			t.Error("switching off cost a strike")
		}
		cancels := 0
		for _, e := range h.events(authority.OfferStream(a.ID)) {
			if e.Type == "job.cancel" {
				cancels++
			}
		}
		if cancels != 2 {
			t.Errorf("%d cancels on the lane", cancels)
		}
		account := h.receipts(authority.AccountStream("alice"))
		if len(account["ProviderDisabled"]) != 1 || len(account["ProviderEnabled"]) != 2 || len(account["CapsSet"]) != 2 {
			t.Errorf("account receipts %v", account)
		}
		get(h, func(tx *store.Tx) (jobs.Disabled, error) { return jobs.Disable(tx, alice, b.ID, "") })
		if j := h.job(offered.ID); jobs.State(j.State) != jobs.Canceled {
			t.Errorf("with no provider left the offered job is %s", j.State)
		}
		dispatched := h.dispatch(run, ask("more"))
		if dispatched.Rejected == nil || dispatched.Job.ID != "" {
			t.Fatalf("dispatched %+v", dispatched)
		}
		if r := h.receipts(authority.RunStream(run.ID))["JobRejected"]; len(r) != 2 {
			t.Errorf("rejections %v", r)
		}
		h.finish(run, jobs.RunSucceeded)
	})
}

// Naming a provider that is off says so.
func TestDispatchToADisabledProvider(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		get(h, func(tx *store.Tx) (jobs.Disabled, error) { return jobs.Disable(tx, alice, a.ID, "") })
		run := h.run()
		d := get(h, func(tx *store.Tx) (jobs.Dispatched, error) {
			return jobs.Dispatch(tx, alice, run.ID, jobs.DispatchRequest{JobType: job.SandboxRun, Request: ask("x"), ProviderID: a.ID})
		})
		if d.Rejected == nil || d.Rejected.Code != reason.ProviderDisabled {
			t.Fatalf("rejected with %v", d.Rejected)
		}
		r := h.receipts(authority.RunStream(run.ID))["JobRejected"]
		if len(r) != 1 || r[0]["reason"] != string(reason.ProviderDisabled) {
			t.Errorf("receipts %v", r)
		}
		m := metrics.Compute(h.events(authority.RunStream(run.ID)))
		if m.FillRate.Of != 1 || m.FillRate.Count != 0 || m.CapsEnforced.Holds != nil {
			t.Errorf("metrics %+v", m)
		}
	})
}

// Reconcile frees what outlived its time, ends the job and is a no-op after.
func TestReconcile(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		handed := h.queued(run, "1")
		h.complete(a, h.lease(a), reply(handed, job.Success, 0))
		queued := h.queued(run, "2")
		h.clock.Advance(2 * time.Hour)
		wants(h, reason.ReservationExpired, func(tx *store.Tx) (jobs.Settlement, error) {
			s, _, err := jobs.Settle(tx, alice, handed.ID)
			return s, err
		})
		wants(h, reason.ScopeMissing, func(tx *store.Tx) (int, error) { l, err := jobs.Reconcile(tx, alice, 0, 0); return len(l), err })
		before := len(h.log(authority.RunStream(run.ID)))
		for i, want := range []int{2, 0} {
			if n := get(h, func(tx *store.Tx) (int, error) {
				l, err := jobs.Reconcile(tx, authority.Sweeper(), 0, 0)
				return len(l), err
			}); n != want {
				t.Errorf("reconcile %d freed %d, want %d", i+1, n, want)
			}
		}
		h.expect(handed.ID, jobs.Expired, 0, 0)
		h.expect(queued.ID, jobs.Expired, 0, 0)
		if n := len(h.log(authority.RunStream(run.ID))) - before; n != 6 {
			t.Errorf("%d events", n)
		}
		withheld := h.receipts(authority.RunStream(run.ID))["PaymentWithheld"]
		if len(withheld) != 2 || withheld[0]["reason"] != string(reason.ReservationExpired) {
			t.Errorf("receipts %v", withheld)
		}
		wants(h, reason.ReservationExpired, func(tx *store.Tx) (jobs.Settlement, error) {
			s, _, err := jobs.Settle(tx, alice, handed.ID)
			return s, err
		})
	})
}

// Work that was handed in is paid even if its requester never settles.
func TestSettleOverdue(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		j := h.queued(h.run(), "1")
		h.complete(a, h.lease(a), reply(j, job.Success, 0))
		overdue := func() []string {
			return get(h, func(tx *store.Tx) ([]string, error) { return jobs.SettleOverdue(tx, 0, 0) })
		}
		if list := overdue(); len(list) != 0 {
			t.Fatalf("settled %v at once", list)
		}
		h.clock.Advance(jobs.SettleGrace)
		if list := overdue(); !slices.Equal(list, []string{j.ID}) {
			t.Fatalf("settled %v", list)
		}
		if list := overdue(); len(list) != 0 {
			t.Fatalf("settled %v again", list)
		}
		h.expect(j.ID, jobs.Settled, 0, 1000)
	})
}

// A provider that gives up gets a strike, and the job another provider. When
// there is none, its answer is judged like any other.
func TestProviderGivesUp(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		b := h.provider("alice", "b", 1500, false, wide)
		run := h.run()
		j := h.queued(run, "x")
		moved := h.complete(a, h.lease(a), reply(j, job.Errored))
		if moved.ProviderID != b.ID || jobs.State(moved.State) != jobs.Queued || moved.ResponseSHA256 != "" {
			t.Fatalf("job is %+v", moved)
		}
		last := h.complete(b, h.lease(b), reply(moved, job.Errored))
		if jobs.State(last.State) != jobs.Submitted {
			t.Fatalf("job is %+v", last)
		}
		if s := h.settle(j.ID); s.Outcome != job.ProviderFault || s.ProviderID != b.ID {
			t.Errorf("settlement %+v", s)
		}
		h.expect(j.ID, jobs.Failed, 0, 0)
		if pa, pb := h.find(a), h.find(b); pa.Failures != 1 || pb.Violations != 1 {
			t.Errorf("marks %+v %+v", pa.ProviderRow, pb.ProviderRow)
		}
	})
}
