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
func (v *vignette) retry(ctx context.Context, s *step) error {
	r, err := v.newRun(ctx, "retry")
	if err != nil {
		return err
	}
	ask := v.dispatch(r, "dispatch-retry", order{command: v.verify, ref: "fixed"})
	first, err := v.atOnce(ctx, s, ask)
	if err != nil {
		return err
	}
	other := ask
	other.key = "dispatch-retry-2"
	var same job
	if _, err := v.nexus.do(ctx, other, http.StatusOK, &same); err != nil {
		return err
	}
	s.equal("the same job under another key is the same job", same.ID, first.job.ID)
	changed := v.dispatch(r, "dispatch-retry", order{command: "true"})
	if err := v.nexus.refused(ctx, s, "another job under the same key is refused", changed, http.StatusUnprocessableEntity,
		"idempotency_key_reused"); err != nil {
		return err
	}
	if _, err := r.await(ctx, "JobCompleted"); err != nil {
		return err
	}
	if err := v.replayed(ctx, s, "after it has run, the dispatch is answered with the stored answer", ask, first.answer); err != nil {
		return err
	}
	if err := v.settleOnce(ctx, s, r, first.job); err != nil {
		return err
	}
	j, err := v.job(ctx, first.job.ID)
	if err != nil {
		return err
	}
	keys := union(createdKeys(), dispatchedKeys(v.a, j.Hash, 1), []string{leasedKey(j.Hash, j.Fence)},
		answeredKeys(j.Hash, "completed", 1), settledKeys(j.Hash, "released"))
	if _, err := v.closeRun(ctx, s, r, "succeeded", keys); err != nil {
		return err
	}
	if err := v.replayed(ctx, s, "so it is after the end of the run", ask, first.answer); err != nil {
		return err
	}
	note := request{as: v.alice, method: http.MethodPost, path: "/v1/runs/" + r.id + "/events", key: "late",
		body: object{"event_type": "note", "payload": object{"text": "late"}}}
	return v.nexus.refused(ctx, s, "a run that has ended is sealed", note, http.StatusConflict, "run_closed")
}

// dispatched is a job and the answer that it came with.
type dispatched struct {
	job    job
	answer answer
}

// atOnce sends one dispatch several times at the same moment.
func (v *vignette) atOnce(ctx context.Context, s *step, ask request) (dispatched, error) {
	const times = 8
	answers, errs := make([]answer, times), make([]error, times)
	var sending sync.WaitGroup
	for i := range times {
		sending.Go(func() { answers[i], errs[i] = v.nexus.send(ctx, ask) })
	}
	sending.Wait()
	var out dispatched
	var err error
	// Now that all are through, this is the stored answer, whichever made it.
	if out.answer, err = v.nexus.do(ctx, ask, http.StatusCreated, &out.job); err != nil {
		return out, err
	}
	made := 0
	var odd []string
	for i, a := range answers {
		switch {
		case errs[i] != nil:
			return out, errs[i]
		case a.status == http.StatusConflict && bytes.Contains(a.raw, []byte(`"idempotency_in_flight"`)):
		case a.status != http.StatusCreated || !bytes.Equal(a.raw, out.answer.raw):
			odd = append(odd, fmt.Sprintf("%d %s", a.status, a.raw))
		case !a.replayed:
			made++
		}
	}
	s.ok(made == 1 && out.answer.replayed && len(odd) == 0,
		"one of 8 simultaneous dispatches makes the job, the others get its answer, byte for byte", made, odd)
	var list struct {
		Items []job `json:"items"`
	}
	if _, err := v.nexus.get(ctx, v.alice, "/v1/runs/"+out.job.RunID+"/jobs", &list); err != nil {
		return out, err
	}
	s.equal("the run has one job", len(list.Items), 1)
	return out, nil
}

// replayed records that a call is answered with the bytes of an earlier answer.
func (v *vignette) replayed(ctx context.Context, s *step, text string, ask request, first answer) error {
	again, err := v.nexus.send(ctx, ask)
	if err != nil {
		return err
	}
	s.ok(again.replayed && again.status == first.status && bytes.Equal(again.raw, first.raw), text, again.status, string(again.raw))
	return nil
}

// settleOnce settles a job three times: the second time with the same key, the
// third with another. Four events are written, once.
func (v *vignette) settleOnce(ctx context.Context, s *step, r *run, j job) error {
	before, err := v.nexus.log(ctx, v.alice, r.id)
	if err != nil {
		return err
	}
	spent, err := v.spent(ctx)
	if err != nil {
		return err
	}
	var paid settlement
	first, err := v.nexus.repeated(ctx, s, "settling twice with one key gets the stored answer", v.settle(j.ID, "settle-"+r.name),
		http.StatusOK, &paid)
	if err != nil {
		return err
	}
	v.tally.add(paid)
	third, err := v.nexus.do(ctx, v.settle(j.ID, "settle-"+r.name+"-again"), http.StatusOK, nil)
	if err != nil {
		return err
	}
	s.ok(bytes.Equal(first.raw, third.raw), "settling with another key gets the same settlement", string(third.raw))
	s.ok(paid.Status == "released" && paid.Passed && paid.ExitCode == 0 && len(paid.Violations) == 0 && paid.AmountMsats == v.a.price &&
		paid.ReservationID == j.ReservationID && paid.JobHash == j.Hash,
		"it is released at the provider's price, from the job's reservation", paid)
	after, err := v.nexus.log(ctx, v.alice, r.id)
	if err != nil {
		return err
	}
	s.exactly("three settlements have written four events in all", keysOf(after), union(keysOf(before), settledKeys(j.Hash, "released")))
	now, err := v.spent(ctx)
	if err != nil {
		return err
	}
	s.equal("and the budget has paid once", now-spent, v.a.price)
	return nil
}
