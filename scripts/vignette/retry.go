package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
)

// retry is the failure case "dispatch retry": however often a dispatch and a
// settlement are repeated, the job runs once and is paid once.
func (v *vignette) retry(ctx context.Context, s *step) {
	r := v.newRun(ctx, "retry")
	ask := v.dispatch(r, "dispatch-retry", order{command: v.verify, ref: "fixed"})
	first := v.atOnce(ctx, s, ask)
	other := ask
	other.key = "dispatch-retry-2"
	same := v.nexus.do(ctx, other, http.StatusOK, nil)
	s.equal("the same job under another key is the same job", same.text("job_id"), first.job.ID)
	changed := v.dispatch(r, "dispatch-retry", order{command: "true"})
	v.nexus.refused(ctx, s, "another job under the same key is refused", changed, http.StatusUnprocessableEntity,
		"idempotency_key_reused")
	r.await(ctx, "JobCompleted")
	v.replayed(ctx, s, "after it has run, the dispatch is answered with the stored answer", ask, first.answer)
	v.settleOnce(ctx, s, r, first.job)
	j := v.job(ctx, first.job.ID)
	v.closeRun(ctx, s, r, "succeeded", leasedKeys(v.a, j.Hash, 1, j.Fence), answeredKeys(j.Hash, "completed", 1),
		settledKeys(j.Hash, "released"))
	v.replayed(ctx, s, "so it is after the end of the run", ask, first.answer)
	note := v.alice.post("/v1/runs/"+r.id+"/events", "late", object{"event_type": "note", "payload": object{"text": "late"}})
	v.nexus.refused(ctx, s, "a run that has ended is sealed", note, http.StatusConflict, "run_closed")
}

// dispatched is a job and the answer that it came with.
type dispatched struct {
	job    job
	answer answer
}

// atOnce sends one dispatch several times at the same moment.
func (v *vignette) atOnce(ctx context.Context, s *step, ask request) dispatched {
	const times = 8
	answers, errs := make([]answer, times), make([]error, times)
	var sending sync.WaitGroup
	for i := range times {
		sending.Go(func() { answers[i], errs[i] = v.nexus.send(ctx, ask) })
	}
	sending.Wait()
	var out dispatched
	// Now that all are through, this is the stored answer, whichever made it.
	out.answer = v.nexus.do(ctx, ask, http.StatusCreated, &out.job)
	made := 0
	var odd []string
	for i, a := range answers {
		switch {
		case errs[i] != nil:
			must(errs[i])
		case a.status == http.StatusConflict && bytes.Contains(a.raw, []byte(`"idempotency_in_flight"`)):
		case a.status != http.StatusCreated || !bytes.Equal(a.raw, out.answer.raw):
			odd = append(odd, fmt.Sprintf("%d %s", a.status, a.raw))
		case !a.replayed:
			made++
		}
	}
	s.ok(made == 1 && out.answer.replayed && len(odd) == 0,
		"one of 8 simultaneous dispatches makes the job, the others get its answer, byte for byte", made, odd)
	s.equal("the run has one job", len(v.jobs(ctx, out.job.RunID)), 1)
	return out
}

// replayed records that a call is answered with the bytes of an earlier answer.
func (v *vignette) replayed(ctx context.Context, s *step, text string, ask request, first answer) {
	again := need(v.nexus.send(ctx, ask))
	s.ok(again.replayed && again.status == first.status && bytes.Equal(again.raw, first.raw), text, again.status, string(again.raw))
}

// settleOnce settles a job three times: the second time with the same key, the
// third with another. Four events are written, once.
func (v *vignette) settleOnce(ctx context.Context, s *step, r *run, j job) {
	before := v.nexus.log(ctx, v.alice, r.id)
	spent := v.spent(ctx)
	var paid settlement
	first := v.nexus.repeated(ctx, s, "settling twice with one key gets the stored answer", v.settle(j.ID, "settle-"+r.name),
		http.StatusOK, &paid)
	v.tally.add(paid)
	third := v.nexus.do(ctx, v.settle(j.ID, "settle-"+r.name+"-again"), http.StatusOK, nil)
	s.ok(bytes.Equal(first.raw, third.raw), "settling with another key gets the same settlement", string(third.raw))
	s.ok(paid.Status == "released" && paid.Passed && paid.ExitCode == 0 && len(paid.Violations) == 0 && paid.AmountMsats == v.a.price &&
		paid.ReservationID == j.ReservationID && paid.JobHash == j.Hash,
		"it is released at the provider's price, from the job's reservation", paid)
	after := v.nexus.log(ctx, v.alice, r.id)
	s.exactly("three settlements have written four events in all", keysOf(after), append(keysOf(before), settledKeys(j.Hash, "released")...))
	s.equal("and the budget has paid once", v.spent(ctx)-spent, v.a.price)
}
