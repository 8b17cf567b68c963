package main

import (
	"context"
	"net/http"
)

// stop is what an operator does every day, at an unlucky moment: provider A is
// stopped (SIGTERM) while it runs a job that takes longer than its grace. It
// says so, takes nothing more, hands the job back, and ends well. It stays away.
func (v *vignette) stop(ctx context.Context, s *step) error {
	before, err := v.look(ctx, v.a)
	if err != nil {
		return err
	}
	w, err := v.begin(ctx, "stopped", forLong, order{pin: v.a.id})
	if err != nil {
		return err
	}
	seen, _ := v.fleet.seen()
	s.succeeds("provider A ends at SIGTERM, without an error", v.a.daemon.stop())
	if err := v.showsDrain(ctx, s, int64(len(seen))); err != nil {
		return err
	}
	s.succeeds("what the job ran is killed", w.dies(ctx))
	after, err := v.look(ctx, v.a)
	if err != nil {
		return err
	}
	s.ok(after.Status == "stopped" && after.Enabled, "the registry has it as stopped, and as enabled still", after)
	s.ok(after.Strikes.Failures == before.Strikes.Failures && after.Strikes.Violations == before.Strikes.Violations &&
		after.Strikes.Unverified == before.Strikes.Unverified+1,
		"it has no strike, and a lower rank", after.Strikes)
	pinned := v.dispatch(w.run, "dispatch-after-stop", order{command: "true", pin: v.a.id})
	if err := v.nexus.refused(ctx, s, "it is not offered anything more", pinned, http.StatusConflict, "no_eligible_provider"); err != nil {
		return err
	}
	if err := v.tooLate(ctx, s, w); err != nil {
		return err
	}
	return v.stoppedLog(ctx, s, w)
}

// showsDrain waits for both signs on the presence lane.
func (v *vignette) showsDrain(ctx context.Context, s *step, from int64) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
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
	return err
}

// stoppedLog holds what the run says of it against what happened.
func (v *vignette) stoppedLog(ctx context.Context, s *step, w *working) error {
	j, err := v.job(ctx, w.job.ID)
	if err != nil {
		return err
	}
	s.ok(j.State == "failed" && j.Reason == "handed_back" && j.Payment == "withheld",
		"the job that may only run there was handed back, unpaid", j.State, j.Reason, j.Payment)
	v.tally.withheld += v.a.price
	rejected, err := w.run.await(ctx, "JobRejected")
	if err != nil {
		return err
	}
	events, err := v.closeRun(ctx, s, w.run, "failed", union(createdKeys(), dispatchedKeys(v.a, j.Hash, 1),
		[]string{leasedKey(j.Hash, w.fence),
			"job-failed:" + j.Hash, penaltyKey(j.ID, "unverified", v.a), rejected.Key}, paidKeys(j.Hash, "withheld")))
	if err != nil {
		return err
	}
	s.receipts(events, []shape{
		{"JobFailed", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.a.id)}, {"state", is("failed")}, {"was", is("leased")},
			{"reason", is("handed_back")}}},
		{"PaymentWithheld", []field{{"job_hash", is(j.Hash)}, {"amount_msats", is(0)}, {"reserved_msats", is(v.a.price)},
			{"reservation_id", is(w.job.ReservationID)}}},
		{"ProviderPenalized", []field{{"provider_id", is(v.a.id)}, {"job_id", is(j.ID)}, {"kind", is("unverified")},
			{"reason", is("handed_back")}}},
	})
	return nil
}
