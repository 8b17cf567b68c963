//go:build !race

package jobs_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
	"remit/proof/record"
)

// The table of the job is what the package comment draws.
func TestJobTable(t *testing.T) {
	t.Parallel()
	want := map[jobs.State]string{
		jobs.Queued: "queued leased failed canceled expired ", jobs.Leased: "queued submitted failed canceled expired ",
		jobs.Submitted: "verified expired ", jobs.Verified: "settled failed ",
		jobs.Settled: "", jobs.Failed: "", jobs.Canceled: "", jobs.Expired: "",
	}
	for _, from := range jobs.States {
		got := ""
		for _, to := range jobs.States {
			if jobs.CanMove(from, to) {
				got += string(to) + " "
			}
		}
		if got != want[from] || from.Final() != (got == "") {
			t.Errorf("%s may become %q, want %q", from, got, want[from])
		}
	}
}

var lives = flag.Int("lives", 4, "random lives of TestRandomLife, at most rapid.checks")

// A random life: whatever is called in whatever order, the books balance, the
// log has no gap, every job ends once, and no provider is paid without a verdict.
func TestRandomLife(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	shared := build(t, t.Context, clock, storetest.Open(t, storetest.SQLite(t), store.Options{Clock: clock.Now}))
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > *lives {
			return // a database is slow under the race detector
		}
		h := *shared
		h.t = rt
		h.fund("alice", funds*int64(n)) // a new transfer id each time, and enough
		before, spent := h.money()      // what an earlier life left when it failed
		l := &life{h: &h, held: map[string]held{}, run: h.run(), spent: spent, reserved: before}
		for i, price := range []int64{1000, 1500} {
			l.providers = append(l.providers, h.provider("alice", fmt.Sprint(n, "-", i), price, false, wide))
		}
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			l.step(rt)
		}
		l.check(rt)
		for _, p := range l.providers { // the next life has its own
			known(rt, h.try(func(tx *store.Tx) error { _, err := jobs.Disable(tx, alice, p.ID, ""); return err }))
		}
	})
}

type held struct {
	by registry.Provider
	l  jobs.Lease
}

type life struct {
	h         *house
	run       jobs.Run
	providers []registry.Provider
	jobs      []string
	spent     int64           // before this life
	reserved  int64           // same
	held      map[string]held // the newest lease of each job, maybe lost since
}

func (l *life) step(rt *rapid.T) {
	h := l.h
	p := l.providers[rapid.IntRange(0, len(l.providers)-1).Draw(rt, "provider")]
	id := ""
	if len(l.jobs) > 0 {
		id = rapid.SampledFrom(l.jobs).Draw(rt, "job")
	}
	lease := l.held[id]
	switch what := rapid.SampledFrom([]string{"dispatch", "dispatch", "lease", "lease", "complete", "complete", "renew", "settle",
		"cancel", "wait", "sweep", "reconcile", "disable", "enable"}).Draw(rt, "what"); {
	case what == "dispatch":
		d := h.dispatch(l.run, ask(fmt.Sprint(rapid.IntRange(0, 4).Draw(rt, "request"))))
		if d.Created {
			l.jobs = append(l.jobs, d.Job.ID)
		}
	case what == "lease":
		list, err := attempt(h, func(tx *store.Tx) ([]jobs.Lease, error) {
			return jobs.TakeLeases(tx, daemon(p), jobs.LeaseRequest{Max: 2, TTL: 20 * time.Second})
		})
		known(rt, err)
		for _, got := range list {
			l.held[got.Job.ID] = held{p, got}
		}
	case what == "wait":
		h.clock.Advance(time.Duration(rapid.IntRange(1, 40).Draw(rt, "seconds")) * time.Second)
		for _, p := range l.providers {
			h.beat(p)
		}
	case what == "sweep":
		h.sweep()
		known(rt, h.try(func(tx *store.Tx) error { _, err := jobs.SettleOverdue(tx, time.Minute, 0); return err }))
	case what == "reconcile":
		known(rt, h.try(func(tx *store.Tx) error {
			_, err := jobs.Reconcile(tx, authority.Sweeper(), 5*time.Minute, 0)
			return err
		}))
	case what == "disable":
		known(rt, h.try(func(tx *store.Tx) error { _, err := jobs.Disable(tx, alice, p.ID, ""); return err }))
	case what == "enable":
		known(rt, h.try(func(tx *store.Tx) error { _, err := registry.Enable(tx, alice, p.ID, nil); return err }))
	case id == "":
	case what == "complete" && lease.l.Fence > 0:
		r := rapid.SampledFrom([]job.Status{job.Success, job.Failed, job.Errored}).Draw(rt, "status")
		exits := map[job.Status][]int{job.Success: {0}, job.Failed: {1}}[r]
		known(rt, h.try(func(tx *store.Tx) error {
			_, err := jobs.Complete(tx, daemon(lease.by), id, jobs.CompleteRequest{Fence: lease.l.Fence, Response: reply(lease.l.Job, r, exits...)})
			return err
		}))
	case what == "renew":
		known(rt, h.try(func(tx *store.Tx) error {
			_, err := jobs.Renew(tx, daemon(p), id, jobs.RenewRequest{Fence: lease.l.Fence})
			return err
		}))
	case what == "settle":
		known(rt, h.try(func(tx *store.Tx) error { _, _, err := jobs.Settle(tx, alice, id); return err }))
	case what == "cancel":
		known(rt, h.try(func(tx *store.Tx) error { _, err := jobs.Cancel(tx, alice, id); return err }))
	}
}

// known lets refusals pass and nothing else.
func known(rt *rapid.T, err error) {
	if err != nil && reason.CodeOf(err) == "" {
		rt.Fatalf("not a refusal: %v", err)
	}
}

func (l *life) check(rt *rapid.T) {
	h := l.h
	h.finish(l.run, jobs.RunFailed)
	h.log(authority.RunStream(l.run.ID))
	h.log(authority.FleetStream("alice"))
	var paid int64
	for _, id := range l.jobs {
		j := h.job(id)
		if !jobs.State(j.State).Final() {
			rt.Fatalf("job is %s after the end of its run", j.State)
		}
		if (j.Payment == record.Released) != (j.Outcome == string(job.Passed)) {
			rt.Fatalf("job %s was %s with the outcome %q", id, j.Payment, j.Outcome)
		}
		if j.Payment == record.Released {
			paid += j.AmountMsats
		}
		h.log(authority.OfferStream(j.ProviderID))
	}
	if reserved, spent := h.money(); reserved != l.reserved || spent-l.spent != paid {
		rt.Fatalf("reserved %d, spent %d, jobs were paid %d", reserved, spent, paid)
	}
	ends := map[string]int{}
	for _, e := range h.events(authority.RunStream(l.run.ID)) {
		if r, ok := authority.ReadReceipt(e); ok && (r.Type == record.PaymentReleased || r.Type == record.PaymentWithheld) {
			ends[r.Type]++
		}
	}
	reserved := len(h.receipts(authority.RunStream(l.run.ID))[record.BudgetReserved])
	if ends[record.PaymentReleased]+ends[record.PaymentWithheld] != reserved {
		rt.Fatalf("%d reservations ended as %v", reserved, ends)
	}
}
