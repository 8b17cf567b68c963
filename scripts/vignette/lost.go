package main

import (
	"context"
	"net/http"
	"strings"
)

// lost is the failure case "provider offline mid-run": provider A dies while it
// runs two jobs. One may only run there, and fails; the other falls back to B.
// A is marked for both, and gets nothing, whatever it hands in later.
func (v *vignette) lost(ctx context.Context, s *step) error {
	err := v.killed(ctx, s)
	if v.a.daemon.alive() {
		return err
	}
	// The other scenes need it, whatever came of this one.
	seen, _ := v.fleet.seen()
	online := v.startDaemon(v.a)
	if online == nil {
		online = v.awaitFresh(ctx, v.fleet, v.a, int64(len(seen)))
	}
	s.succeeds("restarted, provider A is online again", online)
	return err
}

// killed kills provider A at work, and follows its jobs.
func (v *vignette) killed(ctx context.Context, s *step) error {
	before, err := v.look(ctx, v.a)
	if err != nil {
		return err
	}
	pinned, err := v.begin(ctx, "lost", forLong, order{pin: v.a.id})
	if err != nil {
		return err
	}
	if err := v.fenced(ctx, s, pinned); err != nil {
		return err
	}
	free, err := v.begin(ctx, "fallback", shortly, order{})
	if err != nil {
		return err
	}
	err = v.a.daemon.kill() // at once: the second job is a short one
	s.ok(err != nil && strings.Contains(err.Error(), "signal: killed"), "provider A was killed while it ran two jobs (SIGKILL)", err)
	for _, w := range []*working{pinned, free} {
		s.succeeds("what job "+w.run.name+" ran has died with its daemon", w.dies(ctx))
	}
	if err := v.failsCleanly(ctx, s, pinned); err != nil {
		return err
	}
	if err := v.fallsBack(ctx, s, free); err != nil {
		return err
	}
	after, err := v.look(ctx, v.a)
	if err != nil {
		return err
	}
	s.equal("provider A has one strike for the outage that lost both jobs", after.Strikes.Failures-before.Strikes.Failures, int64(1))
	for _, w := range []*working{pinned, free} {
		if err := v.tooLate(ctx, s, w); err != nil {
			return err
		}
	}
	return nil
}

// failsCleanly follows the job that may run nowhere else.
func (v *vignette) failsCleanly(ctx context.Context, s *step, w *working) error {
	if _, err := w.run.await(ctx, "PaymentWithheld"); err != nil {
		return err
	}
	j, err := v.job(ctx, w.job.ID)
	if err != nil {
		return err
	}
	s.ok(j.State == "failed" && j.Reason == "offline_mid_run" && j.Payment == "withheld",
		"the job that may only run there has failed, unpaid", j.State, j.Reason, j.Payment)
	if err := v.nexus.refused(ctx, s, "there is nothing to settle", v.settle(j.ID, "settle-lost"), http.StatusConflict,
		"job_closed"); err != nil {
		return err
	}
	events, err := v.closeRun(ctx, s, w.run, "failed", union(createdKeys(), dispatchedKeys(v.a, j.Hash, 1),
		[]string{leasedKey(j.Hash, w.fence)},
		[]string{"job-failed:" + j.Hash, penaltyKey(j.ID, "failure", v.a)}, paidKeys(j.Hash, "withheld")))
	if err != nil {
		return err
	}
	s.receipts(events, []shape{
		{"JobFailed", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.a.id)}, {"state", is("failed")}, {"was", is("leased")},
			{"reason", is("offline_mid_run")}}},
		{"PaymentWithheld", []field{{"job_hash", is(j.Hash)}, {"amount_msats", is(0)}, {"reserved_msats", is(v.a.price)},
			{"provider_id", is(v.a.id)},
			{"reservation_id", is(w.job.ReservationID)}}},
		{"ProviderPenalized", []field{{"provider_id", is(v.a.id)}, {"job_id", is(j.ID)}, {"kind", is("failure")},
			{"reason", is("offline_mid_run")}}},
	})
	v.tally.withheld += v.a.price
	return nil
}

// fallsBack follows the job that B takes over.
func (v *vignette) fallsBack(ctx context.Context, s *step, w *working) error {
	if _, err := w.run.await(ctx, "JobCompleted"); err != nil {
		return err
	}
	j, err := v.job(ctx, w.job.ID)
	if err != nil {
		return err
	}
	s.ok(j.ProviderID == v.b.id && j.FallbackFrom == v.a.id && j.Attempt == 2 && j.Tier == "reserve_pool" && j.AmountMsats == v.b.price &&
		j.ReservationID != w.job.ReservationID,
		"the other job went to provider B of the reserve pool, at its price, under a reservation of its own", j)
	earned, err := v.earned(ctx, v.a, v.b)
	if err != nil {
		return err
	}
	var paid settlement
	if _, err := v.nexus.do(ctx, v.settle(j.ID, "settle-fallback"), http.StatusOK, &paid); err != nil {
		return err
	}
	v.tally.add(paid)
	v.tally.withheld += v.a.price
	now, err := v.earned(ctx, v.a, v.b)
	if err != nil {
		return err
	}
	s.ok(paid.Status == "released" && paid.ProviderID == v.b.id && now[v.b.id]-earned[v.b.id] == v.b.price && now[v.a.id] == earned[v.a.id],
		"B is paid, and A is not", paid, now, earned)
	return v.fallbackLog(ctx, s, w, j)
}

func (v *vignette) fallbackLog(ctx context.Context, s *step, w *working, j job) error {
	lostKeys := []string{leasedKey(j.Hash, w.fence), penaltyKey(j.ID, "failure", v.a)}
	for _, key := range append(paidKeys(j.Hash, "withheld"), "job-failed:"+j.Hash) {
		lostKeys = append(lostKeys, key+":lost-1")
	}
	events, err := v.closeRun(ctx, s, w.run, "succeeded", union(createdKeys(), dispatchedKeys(v.a, j.Hash, 1), lostKeys,
		dispatchedKeys(v.b, j.Hash, 2), []string{attempt("fallback", j.Hash, 2), leasedKey(j.Hash, j.Fence)},
		answeredKeys(j.Hash, "completed", 2), settledKeys(j.Hash, "released")))
	if err != nil {
		return err
	}
	s.receipts(events, []shape{
		{"JobFailed", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.a.id)}, {"attempt", is(1)}, {"was", is("leased")},
			{"reason", is("offline_mid_run")}}},
		{"PaymentWithheld", []field{{"provider_id", is(v.a.id)}, {"amount_msats", is(0)}, {"reservation_id", is(w.job.ReservationID)}}},
		{"FallbackProviderUsed", []field{{"job_hash", is(j.Hash)}, {"from", is(v.a.id)}, {"to", is(v.b.id)}, {"reason", is("offline_mid_run")},
			{"attempt", is(2)}}},
		{"JobCompleted", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.b.id)}, {"attempt", is(2)}}},
		{"PaymentReleased", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.b.id)}, {"amount_msats", is(v.b.price)},
			{"reservation_id", is(j.ReservationID)}}},
	})
	return nil
}

// handIn hands in a result for a job, as its provider, under a fence.
func (v *vignette) handIn(ctx context.Context, w *working, fence int64) (answer, error) {
	as, err := w.by.credential()
	if err != nil {
		return answer{}, err
	}
	return v.nexus.send(ctx, request{as: as, method: http.MethodPost, path: "/v1/jobs/" + w.job.ID + "/complete", key: newKey(), body: object{
		"fence": fence, "response": object{"env_info": object{"image_digest": "host"}, "runs": []any{}, "status": "success",
			"provenance": object{"model_id": "none", "sampling": object{"temperature": 0}}}}})
}

// fenced hands in a result under a fence that the provider does not have.
func (v *vignette) fenced(ctx context.Context, s *step, w *working) error {
	a, err := v.handIn(ctx, w, w.fence-1)
	if err != nil {
		return err
	}
	s.ok(a.status == http.StatusConflict && codeOf(a) == "stale_fence", "a result under another fence than that of the lease is refused",
		a.status, string(a.raw))
	return nil
}

// tooLate hands in a result under the fence that the provider had.
func (v *vignette) tooLate(ctx context.Context, s *step, w *working) error {
	a, err := v.handIn(ctx, w, w.fence)
	if err != nil {
		return err
	}
	code := codeOf(a)
	s.ok(a.status == http.StatusConflict && (code == "stale_fence" || code == "job_closed"),
		"what it hands in late for job "+w.run.name+" is refused", a.status, string(a.raw))
	return nil
}
