package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

// CompleteRequest hands in the response of a leased job.
type CompleteRequest struct {
	Fence    int64
	Response json.RawMessage
}

// Complete stores the response. It judges nothing yet, with one exception: a
// provider that gave the job up itself gets a strike, and the job is offered
// to another one if there is one. The same response again changes nothing,
// whatever has become of the job meanwhile; another one is a conflict.
func Complete(tx *store.Tx, p authority.Principal, id string, r CompleteRequest) (Job, error) {
	if err := p.Require(authority.ScopeWork); err != nil {
		return Job{}, err
	}
	if len(r.Response) > job.MaxResponseBytes {
		return Job{}, reason.Errorf(reason.RequestTooLarge, "a response is at most %d bytes", job.MaxResponseBytes)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, r.Response); err != nil {
		return Job{}, invalid("response", "is not JSON: %w", err)
	}
	j, err := lockLease(tx, p, id, r.Fence)
	if j.ResponseSHA256 != "" && p.ProviderID() == j.ProviderID && r.Fence == j.Fence {
		if j.ResponseSHA256 == canon.Digest(text.Bytes()) {
			return j, nil
		}
		return Job{}, reason.Errorf(reason.Conflict, "job %s has another response", id)
	}
	if err != nil {
		return Job{}, err
	}
	req, resp, err := read(j.Type, j.Request, text.Bytes())
	if err != nil {
		return Job{}, err
	}
	if who := providerOf(resp); who != "" && who != j.ProviderID {
		return Job{}, invalid("response.provider.id", "is %.80q; the lease is of %s", who, j.ProviderID)
	}
	if err := checkDelivered(tx, j, resp.Announced()); err != nil {
		return Job{}, err
	}
	j.Response, j.ResponseSHA256, j.ResponseStatus = text.Bytes(), canon.Digest(text.Bytes()), string(resp.Outcome())
	if gaveUp(req, resp) {
		if moved, err := fallBack(tx, &j, lost{why: reason.ProviderFailures, strike: true}); moved || err != nil {
			return j, err
		}
	}
	return submit(tx, p, j, resp)
}

// read parses the stored request and a response to it.
func read(jobType string, request, response []byte) (job.Request, job.Response, error) {
	req, err := job.Parse(jobType, request)
	if err != nil {
		return nil, nil, fmt.Errorf("read the stored request: %w", err)
	}
	resp, err := job.ParseResponse(jobType, response)
	return req, resp, err
}

func providerOf(resp job.Response) string {
	var info *job.ProviderInfo
	switch r := resp.(type) {
	case job.SandboxRunResponse:
		info = r.Provider
	case job.EngineRunResponse:
		info = r.Provider
	}
	if info == nil {
		return ""
	}
	return info.ID
}

// gaveUp reports whether the provider, and not the job, is why there is no
// result. A failing test is a result, and so is a job that used its time up.
func gaveUp(req job.Request, resp job.Response) bool {
	switch resp.Outcome() {
	case job.Errored, job.Cancelled, job.Timeout:
		return job.Check(req, resp).Outcome == job.ProviderFault
	}
	return false
}

// submit stores the response and writes what is known of the execution.
func submit(tx *store.Tx, p authority.Principal, j Job, resp job.Response) (Job, error) {
	if err := setState(&j, Submitted); err != nil {
		return Job{}, err
	}
	j.SubmittedAt = tx.Now()
	j, err := save(tx, j)
	if err != nil {
		return Job{}, err
	}
	if err := endAttempt(tx, j, string(Submitted)); err != nil {
		return Job{}, err
	}
	if err := event(tx, j.RunID, p, "tool", "tool:"+j.Type+":"+j.Hash, map[string]any{
		"tool": j.Type, "params_hash": "sha256:" + j.Hash, "output_hash": j.ResponseSHA256, "latency_ms": j.SubmittedAt - j.LeasedAt,
		"side_effects": []string{}, "ok": resp.Outcome() == job.Success, "job_id": j.ID,
	}); err != nil {
		return Job{}, err
	}
	receiptType, key := record.JobCompleted, keyOf("job-completed", j)
	payload := record.Response{
		JobID: j.ID, JobHash: j.Hash, ProviderID: j.ProviderID, Attempt: j.Attempt, Status: j.ResponseStatus,
		ResponseSHA256: j.ResponseSHA256, Artifacts: artifactsOf(resp), Runs: runsOf(resp), Environment: environmentOf(resp),
		DurationMS: j.SubmittedAt - j.LeasedAt,
	}
	if resp.Outcome() != job.Success {
		receiptType, key = record.JobFailed, keyOf("job-failed", j)
		payload.Reason = new(failureOf(resp))
	}
	if _, err := receipt(tx, j.RunID, p, receiptType, key, payload); err != nil {
		return Job{}, err
	}
	return j, capsEnforced(tx, p, j, resp)
}

// failureOf names why an execution failed, for the receipt.
func failureOf(resp job.Response) string {
	switch resp.Outcome() {
	case job.Timeout:
		return string(reason.Timeout)
	case job.Failed:
		if e, ok := resp.(job.EngineRunResponse); ok && e.Refusal != nil {
			return string(e.Refusal.Code)
		}
		return "command_failed"
	case job.Cancelled:
		return string(reason.Cancelled)
	}
	return string(reason.ProviderFailures)
}
