package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
	Type          string          `json:"job_type"`
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
	RunID         string `json:"run_id"`
	ProviderID    string `json:"provider_id"`
	ReservationID string `json:"reservation_id"`
	AmountMsats   int64  `json:"amount_msats"`
	Outcome       string `json:"outcome"`
	Passed        bool   `json:"verification_passed"`
	ExitCode      int64  `json:"exit_code"`
	Violations    []any  `json:"violations"`
	Status        string `json:"settlement_status"`
	Reason        string `json:"reason"`
	ReceiptSHA256 string `json:"verification_receipt_sha256"`
}

// run is a run of the user's that the vignette steers itself, over the API.
type run struct {
	id, name, issue string
	claim           string
	lane            *lane
}

// newRun claims an issue, makes a run of it and follows its log.
func (v *vignette) newRun(ctx context.Context, name string) (*run, error) {
	r := &run{name: name, issue: v.issueRef + ":" + name}
	var claim struct {
		ID string `json:"claim_id"`
	}
	ask := request{as: v.alice, method: http.MethodPost, path: "/v1/issues/claim", key: "claim-" + name,
		body: object{"issue_ref": r.issue, "repo_ref": v.repoRef}}
	if _, err := v.nexus.do(ctx, ask, http.StatusCreated, &claim); err != nil {
		return nil, err
	}
	var made struct {
		ID string `json:"run_id"`
	}
	ask = request{as: v.alice, method: http.MethodPost, path: "/v1/runs", key: "run-" + name,
		body: object{"issue_ref": r.issue, "repo_ref": v.repoRef}}
	if _, err := v.nexus.do(ctx, ask, http.StatusCreated, &made); err != nil {
		return nil, err
	}
	r.id, r.claim = made.ID, claim.ID
	var err error
	if r.lane, err = v.nexus.follow(ctx, v.alice, "run:"+r.id+":events"); err != nil {
		return nil, err
	}
	v.runs = append(v.runs, r)
	return r, nil
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
	return request{as: v.alice, method: http.MethodPost, path: "/v1/runs/" + r.id + "/jobs", key: key, body: body}
}

// What each job of the vignette asks for; below the caps of its providers.
const (
	jobMemoryMB    = 512
	jobTimeoutSecs = 60
)

// await waits until the log of a run has a receipt.
func (r *run) await(ctx context.Context, types ...string) (receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	e, err := r.lane.until(ctx, fmt.Sprint(types), func(e event) bool { return e.is(types...) })
	if err != nil {
		return receipt{}, fmt.Errorf("run %s: %w", r.name, err)
	}
	found, _ := e.receipt()
	return found, nil
}

// awaitKey waits until the log of a run has an event with a key.
func (r *run) awaitKey(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	_, err := r.lane.until(ctx, key, func(e event) bool { return e.Key == key })
	return err
}

func (v *vignette) job(ctx context.Context, id string) (job, error) {
	var j job
	_, err := v.nexus.get(ctx, v.alice, "/v1/jobs/"+id, &j)
	return j, err
}

// settle is the request that settles a job.
func (v *vignette) settle(id, key string) request {
	return request{as: v.alice, method: http.MethodPost, path: "/v1/jobs/" + id + "/settle", key: key}
}

// finish ends a run and takes its log, which is sealed by then, into the books of
// the vignette.
func (v *vignette) finish(ctx context.Context, r *run, status string) ([]event, error) {
	ask := request{as: v.alice, method: http.MethodPost, path: "/v1/runs/" + r.id + "/finish", key: "finish-" + r.name,
		body: object{"status": status}}
	if _, err := v.nexus.do(ctx, ask, http.StatusOK, nil); err != nil {
		return nil, err
	}
	return v.nexus.log(ctx, v.alice, r.id)
}

// closeRun finishes a run, and records that its log is whole, sealed and what
// the lane has delivered, and that it holds exactly these keys.
func (v *vignette) closeRun(ctx context.Context, s *step, r *run, status string, keys []string) ([]event, error) {
	events, err := v.finish(ctx, r, status)
	if err != nil {
		return nil, err
	}
	if err := r.awaitKey(ctx, "run-finished"); err != nil {
		return nil, err
	}
	s.none("the log has no gap, and every payload and receipt has the digest of its content", integrity(events))
	s.exactly("the log holds exactly the events that the scenario makes, by key", keysOf(events), append(keys, "run-finished"))
	delivered, gaps := r.lane.seen()
	s.ok(len(gaps) == 0 && sameEvents(delivered, events), "the lane has delivered that log, event by event", gaps, len(delivered), "of",
		len(events))
	r.lane.close()
	return events, nil
}

// sameEvents reports whether two lists hold the same events.
func sameEvents(a, b []event) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || a[i].Seq != b[i].Seq || a[i].Key != b[i].Key || a[i].PayloadSHA256 != b[i].PayloadSHA256 {
			return false
		}
	}
	return true
}
