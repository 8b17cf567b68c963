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
func (v *vignette) emergency(ctx context.Context, s *step) error {
	var shapes []string
	for _, name := range []string{"emergency-1", "emergency-2"} {
		shape, err := v.switchOff(ctx, s, name)
		if err != nil {
			return err
		}
		shapes = append(shapes, shape)
	}
	s.equal("done again, the same is recorded in the same order", shapes[1], shapes[0])
	return nil
}

// switchOff runs a job on provider A and switches A off. It returns what the log
// of the run says.
func (v *vignette) switchOff(ctx context.Context, s *step, name string) (string, error) {
	w, err := v.begin(ctx, name, forLong, order{})
	if err != nil {
		return "", err
	}
	seen, _ := v.fleet.seen()
	if _, err := v.nexus.repeated(ctx, s, "switched off twice with one key, provider A is switched off once", v.disable(v.a, name),
		http.StatusOK, nil); err != nil {
		return "", err
	}
	j, err := v.job(ctx, w.job.ID)
	if err != nil {
		return "", err
	}
	s.ok(j.State == "canceled" && j.Reason == "provider_disabled" && j.Payment == "withheld",
		"the job that it ran is canceled in the same moment, unpaid", j.State, j.Reason, j.Payment)
	v.tally.withheld += v.a.price
	if err := v.blocked(ctx, s, w, name); err != nil {
		return "", err
	}
	if err := v.tooLate(ctx, s, w); err != nil {
		return "", err
	}
	s.succeeds("what the job ran is killed", w.dies(ctx))
	if err := v.showsStop(ctx, s, int64(len(seen))); err != nil {
		return "", err
	}
	shape, err := v.switchedOffLog(ctx, s, w, j)
	if err != nil {
		return "", err
	}
	seen, _ = v.fleet.seen()
	if err := v.enable(ctx, v.a, name+"-on"); err != nil {
		return "", err
	}
	return shape, v.awaitFresh(ctx, v.fleet, v.a, int64(len(seen)))
}

// blocked tries to give provider A work while it is off, in every way that
// there is.
func (v *vignette) blocked(ctx context.Context, s *step, w *working, name string) error {
	pinned := v.dispatch(w.run, "dispatch-pinned-"+name, order{command: "true", pin: v.a.id})
	if err := v.nexus.refused(ctx, s, "a new job for it is refused", pinned, http.StatusForbidden, "provider_disabled"); err != nil {
		return err
	}
	cheap := v.dispatch(w.run, "dispatch-cheap-"+name, order{command: "true", maxPrice: v.a.price})
	if err := v.nexus.refused(ctx, s, "so is a job for anybody at its price", cheap, http.StatusConflict, "no_eligible_provider"); err != nil {
		return err
	}
	as, err := v.a.credential()
	if err != nil {
		return err
	}
	lease := request{as: as, method: http.MethodPost, path: "/v1/jobs/lease", key: newKey(), body: object{"max": 1}}
	a, err := v.nexus.send(ctx, lease)
	if err != nil {
		return err
	}
	s.ok(a.status == http.StatusForbidden && codeOf(a) == "provider_disabled", "its daemon gets no lease", a.status, string(a.raw))
	return nil
}

// showsStop waits for the stop on the presence lane.
func (v *vignette) showsStop(ctx context.Context, s *step, from int64) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	_, err := v.fleet.until(ctx, "the stop", shows(v.a.id, func(e event, p presence) bool {
		return e.Seq > from && !p.Enabled && p.Status == "stopped" && e.Type == "worker.stopped"
	}))
	s.succeeds("the presence lane shows the stop", err)
	return nil
}

// switchedOffLog records what the run says of it.
func (v *vignette) switchedOffLog(ctx context.Context, s *step, w *working, j job) (string, error) {
	soFar, err := v.nexus.log(ctx, v.alice, w.run.id)
	if err != nil {
		return "", err
	}
	var rejected []string
	for _, e := range soFar {
		if e.is("JobRejected") {
			rejected = append(rejected, e.Key)
		}
	}
	s.equal("both refusals are in the log", len(rejected), 2)
	events, err := v.closeRun(ctx, s, w.run, "canceled", union(createdKeys(), dispatchedKeys(v.a, j.Hash, 1),
		[]string{leasedKey(j.Hash, w.fence)},
		[]string{"job-canceled:" + j.Hash}, paidKeys(j.Hash, "withheld"), rejected))
	if err != nil {
		return "", err
	}
	s.receipts(events, []shape{
		{"JobFailed", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.a.id)}, {"state", is("canceled")}, {"was", is("leased")},
			{"reason", is("provider_disabled")}}},
		{"PaymentWithheld", []field{{"job_hash", is(j.Hash)}, {"amount_msats", is(0)}, {"reserved_msats", is(v.a.price)},
			{"reservation_id", is(j.ReservationID)}}},
	})
	return outline(events), nil
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
