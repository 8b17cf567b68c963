package main

import (
	"context"
	"net/http"
)

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
