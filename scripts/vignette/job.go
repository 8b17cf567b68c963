package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// jobType is what the vignette dispatches.
const jobType = "oa.sandbox_run.v1"

// waitTime is how long something may take that usually takes milliseconds.
const waitTime = 45 * time.Second

// job is a job as the API shows it.
type job struct {
	ID            string          `json:"job_id"`
	RunID         string          `json:"run_id"`
	Hash          string          `json:"job_hash"`
	State         string          `json:"state"`
	Reason        string          `json:"reason"`
	Attempt       int64           `json:"attempt"`
	ProviderID    string          `json:"provider_id"`
	Tier          string          `json:"tier"`
	FallbackFrom  string          `json:"fallback_from"`
	AmountMsats   int64           `json:"amount_msats"`
	ReservationID string          `json:"reservation_id"`
	Payment       string          `json:"payment"`
	Fence         int64           `json:"fence"`
	Request       json.RawMessage `json:"request"`
	Response      json.RawMessage `json:"response"`
	ResponseHash  string          `json:"response_sha256"`
}

// settlement is how a job was judged and paid.
type settlement struct {
	JobHash       string `json:"job_hash"`
	ProviderID    string `json:"provider_id"`
	ReservationID string `json:"reservation_id"`
	AmountMsats   int64  `json:"amount_msats"`
	Outcome       string `json:"outcome"`
	Passed        bool   `json:"verification_passed"`
	ExitCode      int64  `json:"exit_code"`
	Violations    []any  `json:"violations"`
	Status        string `json:"settlement_status"`
	ReceiptSHA256 string `json:"verification_receipt_sha256"`
}

// run is a run of the user's that the vignette steers itself, over the API.
type run struct {
	id, name string
	lane     *lane
}

// newRun claims an issue, makes a run of it and follows its log.
func (v *vignette) newRun(ctx context.Context, name string) *run {
	issue := object{"issue_ref": v.issueRef + ":" + name, "repo_ref": v.repoRef}
	v.nexus.do(ctx, v.alice.post("/v1/issues/claim", "claim-"+name, issue), http.StatusCreated, nil)
	made := v.nexus.do(ctx, v.alice.post("/v1/runs", "run-"+name, issue), http.StatusCreated, nil)
	r := &run{name: name, id: made.text("run_id")}
	r.lane = v.nexus.follow(ctx, v.alice, "run:"+r.id+":events")
	v.runs = append(v.runs, r)
	return r
}

// order is a job to dispatch.
type order struct {
	command  string
	ref      string // revision of the fixture; "" is the one with the bug
	pin      string // only this provider
	maxPrice int64
}

// dispatch is the request that dispatches an order.
func (v *vignette) dispatch(r *run, key string, o order) request {
	repo := object{"source": v.repo}
	if o.ref != "" {
		repo["git_ref"] = o.ref
	}
	body := object{"job_type": jobType, "request": object{
		"sandbox": object{"image_digest": "host", "provider": "local",
			"resources": object{"memory_mb": jobMemoryMB, "timeout_secs": jobTimeoutSecs}},
		"repo": repo, "commands": []object{{"cmd": o.command}},
	}}
	if o.pin != "" {
		body["provider_id"] = o.pin
	}
	if o.maxPrice > 0 {
		body["max_price_msats"] = o.maxPrice
	}
	return v.alice.post("/v1/runs/"+r.id+"/jobs", key, body)
}

// What each job of the vignette asks for; below the caps of its providers.
const (
	jobMemoryMB    = 512
	jobTimeoutSecs = 60
)

// await waits until the log of a run has a receipt.
func (r *run) await(ctx context.Context, types ...string) receipt {
	e, err := r.lane.until(ctx, fmt.Sprint(types), func(e event) bool { return e.is(types...) })
	if err != nil {
		giveUp("run %s: %w", r.name, err)
	}
	found, _ := e.receipt()
	return found
}

func (v *vignette) job(ctx context.Context, id string) (j job) {
	v.nexus.get(ctx, v.alice, "/v1/jobs/"+id, &j)
	return j
}

// jobs are those of a run.
func (v *vignette) jobs(ctx context.Context, runID string) []job {
	var list struct {
		Items []job `json:"items"`
	}
	v.nexus.get(ctx, v.alice, "/v1/runs/"+runID+"/jobs", &list)
	return list.Items
}

// settle is the request that settles a job.
func (v *vignette) settle(id, key string) request {
	return v.alice.post("/v1/jobs/"+id+"/settle", key, nil)
}

// closeRun finishes a run, and records that its log is whole, sealed and what
// the lane has delivered, and that it holds exactly these keys besides those of
// every run.
func (v *vignette) closeRun(ctx context.Context, s *step, r *run, status string, keys ...[]string) []event {
	v.nexus.do(ctx, v.alice.post("/v1/runs/"+r.id+"/finish", "finish-"+r.name, object{"status": status}), http.StatusOK, nil)
	events := v.nexus.log(ctx, v.alice, r.id)
	need(r.lane.until(ctx, "run-finished", func(e event) bool { return e.Key == "run-finished" }))
	s.none("the log has no gap, and every payload and receipt has the digest of its content", integrity(events))
	s.exactly("the log holds exactly the events that the scenario makes, by key", keysOf(events),
		slices.Concat(append(keys, createdKeys(), []string{"run-finished"})...))
	delivered, gaps := r.lane.seen()
	s.ok(len(gaps) == 0 && sameEvents(delivered, events), "the lane has delivered that log, event by event", gaps, len(delivered), "of",
		len(events))
	r.lane.close()
	return events
}

// sameEvents reports whether two lists hold the same events.
func sameEvents(a, b []event) bool {
	return slices.EqualFunc(a, b, func(a, b event) bool {
		return a.ID == b.ID && a.Seq == b.Seq && a.Key == b.Key && a.PayloadSHA256 == b.PayloadSHA256
	})
}

// The log of a run says what happened by its keys: one for each thing that can
// happen once. A scenario therefore knows the whole set beforehand.

// createdKeys begin every run that is made from an issue.
func createdKeys() []string { return []string{"run-created", "issue-claimed", "run-started"} }

// standingKeys are the copies of what a dispatch relied on: who the provider's
// device is and which caps it has.
func (p *provider) standingKeys() []string {
	enrolled := object{"device_id": p.device, "name": p.name, "owner": p.owner.name, "roles": []any{"provider"}}
	return []string{
		"device-enrolled:" + p.device + ":" + bareDigest(canonical(nil, enrolled))[:16],
		"caps-set:" + p.id + ":1",
	}
}

// attempt names what belongs to one attempt of a job.
func attempt(word, hash string, number int) string {
	if number > 1 {
		return fmt.Sprintf("%s:%s:%d", word, hash, number)
	}
	return word + ":" + hash
}

// leasedKeys are written when a job is offered, and when the provider takes it
// under a fence.
func leasedKeys(p *provider, hash string, number int, fence int64) []string {
	return append(p.standingKeys(), attempt("budget-reserved", hash, number), attempt("job-dispatched", hash, number),
		fmt.Sprintf("job-leased:%s:%d", hash, fence))
}

// answeredKeys are written when the provider hands its result in; how is
// completed or failed.
func answeredKeys(hash, how string, number int) []string {
	return []string{"tool:" + jobType + ":" + hash, "job-" + how + ":" + hash, attempt("caps-enforced", hash, number)}
}

// settledKeys are the four events of a settlement.
func settledKeys(hash, status string) []string {
	return append([]string{"verify:" + hash, "verification:" + hash}, paidKeys(hash, status)...)
}

// paidKeys say how the money of a job ended.
func paidKeys(hash, status string) []string {
	return []string{"payment:" + hash + ":" + status, "receipt-payment:" + hash + ":" + status}
}

// penaltyKey is the copy of a mark against a provider.
func penaltyKey(jobID, kind string, p *provider) string {
	return "provider-penalized:" + jobID + ":" + kind + ":" + p.id
}
