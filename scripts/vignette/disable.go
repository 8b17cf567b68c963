package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// emergency is the failure case "emergency disable": the owner switches provider
// A off while it runs a job. It is done twice, and both times the log says the
// same, because the outcome depends on the order of commits and on nothing else.
func (v *vignette) emergency(ctx context.Context, s *step) {
	var shapes []string
	for _, name := range []string{"emergency-1", "emergency-2"} {
		shapes = append(shapes, v.switchOff(ctx, s, name))
	}
	s.equal("done again, the same is recorded in the same order", shapes[1], shapes[0])
}

// switchOff runs a job on provider A and switches A off. It returns what the log
// of the run says.
func (v *vignette) switchOff(ctx context.Context, s *step, name string) string {
	w := v.begin(ctx, name, forLong, order{})
	seen, _ := v.fleet.seen()
	v.nexus.repeated(ctx, s, "switched off twice with one key, provider A is switched off once", v.disable(v.a, name),
		http.StatusOK, nil)
	j := v.job(ctx, w.job.ID)
	s.ok(j.State == "canceled" && j.Reason == "provider_disabled" && j.Payment == "withheld",
		"the job that it ran is canceled in the same moment, unpaid", j.State, j.Reason, j.Payment)
	v.tally.withheld += v.a.price
	v.blocked(ctx, s, w, name)
	v.tooLate(ctx, s, w)
	s.succeeds("what the job ran is killed", w.dies(ctx))
	v.showsStop(ctx, s, int64(len(seen)))
	shape := v.switchedOffLog(ctx, s, w, j)
	seen, _ = v.fleet.seen()
	v.enable(ctx, v.a, name+"-on")
	must(v.awaitFresh(ctx, v.fleet, v.a, int64(len(seen))))
	return shape
}

// blocked tries to give provider A work while it is off, in every way that
// there is.
func (v *vignette) blocked(ctx context.Context, s *step, w *working, name string) {
	pinned := v.dispatch(w.run, "dispatch-pinned-"+name, order{command: "true", pin: v.a.id})
	v.nexus.refused(ctx, s, "a new job for it is refused", pinned, http.StatusForbidden, "provider_disabled")
	cheap := v.dispatch(w.run, "dispatch-cheap-"+name, order{command: "true", maxPrice: v.a.price})
	v.nexus.refused(ctx, s, "so is a job for anybody at its price", cheap, http.StatusConflict, "no_eligible_provider")
	a := need(v.nexus.send(ctx, v.a.credential().post("/v1/jobs/lease", newKey(), object{"max": 1})))
	s.ok(a.status == http.StatusForbidden && a.text("code") == "provider_disabled", "its daemon gets no lease", a.status, string(a.raw))
}

// showsStop waits for the stop on the presence lane.
func (v *vignette) showsStop(ctx context.Context, s *step, from int64) {
	_, err := v.fleet.until(ctx, "the stop", shows(v.a.id, func(e event, p presence) bool {
		return e.Seq > from && !p.Enabled && p.Status == "stopped" && e.Type == "worker.stopped"
	}))
	s.succeeds("the presence lane shows the stop", err)
}

// switchedOffLog records what the run says of it.
func (v *vignette) switchedOffLog(ctx context.Context, s *step, w *working, j job) string {
	var rejected []string
	for _, e := range v.nexus.log(ctx, v.alice, w.run.id) {
		if e.is("JobRejected") {
			rejected = append(rejected, e.Key)
		}
	}
	s.equal("both refusals are in the log", len(rejected), 2)
	events := v.closeRun(ctx, s, w.run, "canceled", leasedKeys(v.a, j.Hash, 1, w.fence),
		[]string{"job-canceled:" + j.Hash}, paidKeys(j.Hash, "withheld"), rejected)
	s.receipts(events, []shape{
		one("JobFailed", "job_hash", j.Hash, "provider_id", v.a.id, "state", "canceled", "was", "leased", "reason", "provider_disabled"),
		one("PaymentWithheld", "job_hash", j.Hash, "amount_msats", 0, "reserved_msats", v.a.price, "reservation_id", j.ReservationID),
	})
	return outline(events)
}

// outline reduces a log to what happened, without names and times.
func outline(events []event) (text string) {
	for _, e := range events {
		var is struct {
			Type    string `json:"receipt_type"`
			Status  string `json:"status"`
			Payload struct {
				State  string `json:"state"`
				Was    string `json:"was"`
				Reason string `json:"reason"`
				Amount int64  `json:"amount_msats"`
			} `json:"payload"`
		}
		_ = json.Unmarshal(e.Payload, &is) // other events have other members
		text += fmt.Sprintf("%d %s %s %s %+v\n", e.Seq, e.Type, is.Type, is.Status, is.Payload)
	}
	return text
}
