package main

import (
	"context"
	"net/http"
	"strings"
)

// lost is the failure case "provider offline mid-run": provider A dies while it
// runs two jobs. One may only run there, and fails; the other falls back to B.
// A is marked for both, and gets nothing, whatever it hands in later.
func (v *vignette) lost(ctx context.Context, s *step) {
	defer v.revive(ctx, s)
	v.killed(ctx, s)
}

// revive starts provider A again if it is dead: the other scenes need it,
// whatever came of this one.
func (v *vignette) revive(ctx context.Context, s *step) {
	if v.a.daemon.alive() {
		return
	}
	seen, _ := v.fleet.seen()
	online := v.startDaemon(v.a)
	if online == nil {
		online = v.awaitFresh(ctx, v.fleet, v.a, int64(len(seen)))
	}
	s.succeeds("restarted, provider A is online again", online)
}

// killed kills provider A at work, and follows its jobs.
func (v *vignette) killed(ctx context.Context, s *step) {
	before := v.look(ctx, v.a)
	pinned := v.begin(ctx, "lost", forLong, order{pin: v.a.id})
	v.fenced(ctx, s, pinned)
	free := v.begin(ctx, "fallback", shortly, order{})
	err := v.a.daemon.kill() // at once: the second job is a short one
	s.ok(err != nil && strings.Contains(err.Error(), "signal: killed"), "provider A was killed while it ran two jobs (SIGKILL)", err)
	for _, w := range []*working{pinned, free} {
		s.succeeds("what job "+w.run.name+" ran has died with its daemon", w.dies(ctx))
	}
	v.failsCleanly(ctx, s, pinned)
	v.fallsBack(ctx, s, free)
	after := v.look(ctx, v.a)
	s.equal("provider A has one strike for the outage that lost both jobs", after.Strikes.Failures-before.Strikes.Failures, int64(1))
	for _, w := range []*working{pinned, free} {
		v.tooLate(ctx, s, w)
	}
}

// failsCleanly follows the job that may run nowhere else.
func (v *vignette) failsCleanly(ctx context.Context, s *step, w *working) {
	w.run.await(ctx, "PaymentWithheld")
	j := v.job(ctx, w.job.ID)
	s.ok(j.State == "failed" && j.Reason == "offline_mid_run" && j.Payment == "withheld",
		"the job that may only run there has failed, unpaid", j.State, j.Reason, j.Payment)
	v.nexus.refused(ctx, s, "there is nothing to settle", v.settle(j.ID, "settle-lost"), http.StatusConflict, "job_closed")
	events := v.closeRun(ctx, s, w.run, "failed", leasedKeys(v.a, j.Hash, 1, w.fence),
		[]string{"job-failed:" + j.Hash, penaltyKey(j.ID, "failure", v.a)}, paidKeys(j.Hash, "withheld"))
	s.receipts(events, []shape{
		one("JobFailed", "job_hash", j.Hash, "provider_id", v.a.id, "state", "failed", "was", "leased", "reason", "offline_mid_run"),
		one("PaymentWithheld", "job_hash", j.Hash, "amount_msats", 0, "reserved_msats", v.a.price, "provider_id", v.a.id,
			"reservation_id", w.job.ReservationID),
		one("ProviderPenalized", "provider_id", v.a.id, "job_id", j.ID, "kind", "failure", "reason", "offline_mid_run"),
	})
	v.tally.withheld += v.a.price
}

// fallsBack follows the job that B takes over.
func (v *vignette) fallsBack(ctx context.Context, s *step, w *working) {
	w.run.await(ctx, "JobCompleted")
	j := v.job(ctx, w.job.ID)
	s.ok(j.ProviderID == v.b.id && j.FallbackFrom == v.a.id && j.Attempt == 2 && j.Tier == "reserve_pool" && j.AmountMsats == v.b.price &&
		j.ReservationID != w.job.ReservationID,
		"the other job went to provider B of the reserve pool, at its price, under a reservation of its own", j)
	earned := v.earned(ctx, v.a, v.b)
	var paid settlement
	v.nexus.do(ctx, v.settle(j.ID, "settle-fallback"), http.StatusOK, &paid)
	v.tally.add(paid)
	v.tally.withheld += v.a.price
	now := v.earned(ctx, v.a, v.b)
	s.ok(paid.Status == "released" && paid.ProviderID == v.b.id && now[v.b.id]-earned[v.b.id] == v.b.price && now[v.a.id] == earned[v.a.id],
		"B is paid, and A is not", paid, now, earned)
	v.fallbackLog(ctx, s, w, j)
}

func (v *vignette) fallbackLog(ctx context.Context, s *step, w *working, j job) {
	lostKeys := []string{attempt("fallback", j.Hash, 2), penaltyKey(j.ID, "failure", v.a)}
	for _, key := range append(paidKeys(j.Hash, "withheld"), "job-failed:"+j.Hash) {
		lostKeys = append(lostKeys, key+":lost-1")
	}
	events := v.closeRun(ctx, s, w.run, "succeeded", leasedKeys(v.a, j.Hash, 1, w.fence), lostKeys,
		leasedKeys(v.b, j.Hash, 2, j.Fence), answeredKeys(j.Hash, "completed", 2), settledKeys(j.Hash, "released"))
	s.receipts(events, []shape{
		one("JobFailed", "job_hash", j.Hash, "provider_id", v.a.id, "attempt", 1, "was", "leased", "reason", "offline_mid_run"),
		one("PaymentWithheld", "provider_id", v.a.id, "amount_msats", 0, "reservation_id", w.job.ReservationID),
		one("FallbackProviderUsed", "job_hash", j.Hash, "from", v.a.id, "to", v.b.id, "reason", "offline_mid_run", "attempt", 2),
		one("JobCompleted", "job_hash", j.Hash, "provider_id", v.b.id, "attempt", 2),
		one("PaymentReleased", "job_hash", j.Hash, "provider_id", v.b.id, "amount_msats", v.b.price, "reservation_id", j.ReservationID),
	})
}

// handIn hands in a result for a job, as its provider, under a fence.
func (v *vignette) handIn(ctx context.Context, w *working, fence int64) answer {
	return need(v.nexus.send(ctx, w.by.credential().post("/v1/jobs/"+w.job.ID+"/complete", newKey(), object{
		"fence": fence, "response": object{"env_info": object{"image_digest": "host"}, "runs": []any{}, "status": "success",
			"provenance": object{"model_id": "none", "sampling": object{"temperature": 0}}}})))
}

// fenced hands in a result under a fence that the provider does not have.
func (v *vignette) fenced(ctx context.Context, s *step, w *working) {
	a := v.handIn(ctx, w, w.fence-1)
	s.ok(a.status == http.StatusConflict && a.text("code") == "stale_fence", "a result under another fence than that of the lease is refused",
		a.status, string(a.raw))
}

// tooLate hands in a result under the fence that the provider had.
func (v *vignette) tooLate(ctx context.Context, s *step, w *working) {
	a := v.handIn(ctx, w, w.fence)
	code := a.text("code")
	s.ok(a.status == http.StatusConflict && (code == "stale_fence" || code == "job_closed"),
		"what it hands in late for job "+w.run.name+" is refused", a.status, string(a.raw))
}

// stop is what an operator does every day, at an unlucky moment: provider A is
// stopped (SIGTERM) while it runs a job that takes longer than its grace. It
// says so, takes nothing more, hands the job back, and ends well. It stays away.
func (v *vignette) stop(ctx context.Context, s *step) {
	before := v.look(ctx, v.a)
	w := v.begin(ctx, "stopped", forLong, order{pin: v.a.id})
	seen, _ := v.fleet.seen()
	s.succeeds("provider A ends at SIGTERM, without an error", v.a.daemon.stop())
	v.showsDrain(ctx, s, int64(len(seen)))
	s.succeeds("what the job ran is killed", w.dies(ctx))
	after := v.look(ctx, v.a)
	s.ok(after.Status == "stopped" && after.Enabled, "the registry has it as stopped, and as enabled still", after)
	s.ok(after.Strikes.Failures == before.Strikes.Failures && after.Strikes.Violations == before.Strikes.Violations &&
		after.Strikes.Unverified == before.Strikes.Unverified+1,
		"it has no strike, and a lower rank", after.Strikes)
	pinned := v.dispatch(w.run, "dispatch-after-stop", order{command: "true", pin: v.a.id})
	v.nexus.refused(ctx, s, "it is not offered anything more", pinned, http.StatusConflict, "no_eligible_provider")
	v.tooLate(ctx, s, w)
	v.stoppedLog(ctx, s, w)
}

// showsDrain waits for both signs on the presence lane.
func (v *vignette) showsDrain(ctx context.Context, s *step, from int64) {
	sign := func(word string, from int64) (event, error) {
		return v.fleet.until(ctx, "the sign "+word, shows(v.a.id, func(e event, p presence) bool {
			return e.Seq > from && e.Type == "worker."+word && p.Status == word && p.Enabled
		}))
	}
	stopping, err := sign("stopping", from)
	if err == nil {
		_, err = sign("stopped", stopping.Seq)
	}
	s.succeeds("the presence lane shows that it stops, and then that it has stopped", err)
	must(err)
}

// stoppedLog holds what the run says of it against what happened.
func (v *vignette) stoppedLog(ctx context.Context, s *step, w *working) {
	j := v.job(ctx, w.job.ID)
	s.ok(j.State == "failed" && j.Reason == "handed_back" && j.Payment == "withheld",
		"the job that may only run there was handed back, unpaid", j.State, j.Reason, j.Payment)
	v.tally.withheld += v.a.price
	rejected := w.run.await(ctx, "JobRejected")
	events := v.closeRun(ctx, s, w.run, "failed", leasedKeys(v.a, j.Hash, 1, w.fence),
		[]string{"job-failed:" + j.Hash, penaltyKey(j.ID, "unverified", v.a), rejected.Key}, paidKeys(j.Hash, "withheld"))
	s.receipts(events, []shape{
		one("JobFailed", "job_hash", j.Hash, "provider_id", v.a.id, "state", "failed", "was", "leased", "reason", "handed_back"),
		one("PaymentWithheld", "job_hash", j.Hash, "amount_msats", 0, "reserved_msats", v.a.price, "reservation_id", w.job.ReservationID),
		one("ProviderPenalized", "provider_id", v.a.id, "job_id", j.ID, "kind", "unverified", "reason", "handed_back"),
	})
}
