package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
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

// allowance is what stands with a job from its lease on. An owner may change the
// caps while it runs, and the provider is judged by the caps of the lease.
type allowance struct {
	Owner    registry.Caps   `json:"owner"`
	Revision int64           `json:"caps_revision"`
	Granted  job.CapsApplied `json:"granted"` // the owner's, within what the job asks for
}

// allow writes the allowance of a job that a provider leases now.
func allow(by registry.Provider, n job.Needs) (json.RawMessage, error) {
	text, err := canon.Marshal(allowance{by.Caps, by.CapsRevision, by.Caps.Grant(n)})
	if err != nil {
		return nil, fmt.Errorf("note what a job may use: %w", err)
	}
	return text, nil
}

// allowanceOf reads it; nil for a job without a lease, and for one of before
// there were allowances.
func allowanceOf(j Job) (*allowance, error) {
	if len(j.Caps) == 0 {
		return nil, nil
	}
	a := new(allowance)
	if err := json.Unmarshal(j.Caps, a); err != nil {
		return nil, fmt.Errorf("read what job %s may use: %w", j.ID, err)
	}
	return a, nil
}

// capsEnforced writes the proof that the caps held: what the sandbox enforced
// beside what it observed, and what the owner allows. Without what was enforced
// and observed there is no receipt, and the metrics say so.
func capsEnforced(tx *store.Tx, p authority.Principal, j Job, resp job.Response) error {
	caps, usage := resp.Enforced(), resp.Observed()
	if caps == nil || usage == nil {
		return nil
	}
	a, err := allowanceOf(j)
	if err != nil {
		return err
	}
	if a == nil {
		now, err := registry.Lock(tx, j.ProviderID)
		if err != nil {
			return err
		}
		a = &allowance{Owner: now.Caps, Revision: now.CapsRevision}
	}
	exceeded, missing := exceeds(*caps, *usage, a.Owner), unenforced(*caps)
	payload := map[string]any{
		"job_id": j.ID, "job_hash": j.Hash, "provider_id": j.ProviderID, "caps": caps, "observed": usage, "owner_caps": a.Owner,
		"caps_revision": a.Revision, "within": len(exceeded) == 0 && len(missing) == 0, "exceeded": exceeded, "not_enforced": missing,
	}
	_, err = receipt(tx, j.RunID, p, record.CapsEnforced, attemptKey("caps-enforced", j), payload)
	return err
}

// Tolerances of the comparison of usage with caps.
const (
	wallSlack   = 10_000  // milliseconds that stopping a job may take beyond its time
	cpuSlack    = 1_000   // milliseconds by which a job may be ahead of its share
	memorySlack = 1 << 20 // bytes that the kernel may charge to be done with something
)

// exceeds names what was larger than allowed: use above the enforced caps, and
// enforced caps above those that the owner had set. Disk is not compared with its
// use: the cap bounds what is there at one time, and what is observed of an
// engine run is all that its commands wrote.
func exceeds(caps job.CapsApplied, use job.Usage, owner registry.Caps) []string {
	list := []string{}
	for _, rule := range []struct {
		name        string
		value, most int64
	}{
		{"memory", use.PeakMemoryBytes, caps.MemoryBytes() + memorySlack},
		{"wall", use.WallMillis, caps.TimeoutSecs*1000 + wallSlack},
		// A thousandth of a processor is a millisecond of it in every second.
		{"cpu", use.CPUMillis, (use.WallMillis+cpuSlack)*max(caps.CPUMillis, 1)/1000 + cpuSlack},
		{"caps.cpu_millis", caps.CPUMillis, owner.CPUMillis},
		{"caps.memory_mb", caps.MemoryMB, owner.MemoryMB},
		{"caps.disk_mb", caps.DiskMB, max(owner.DiskMB, 1)}, // as it is granted
		{"caps.timeout_secs", caps.TimeoutSecs, owner.TimeoutSecs},
	} {
		if rule.value > rule.most {
			list = append(list, rule.name)
		}
	}
	if owner.Pids > 0 && caps.Pids > owner.Pids {
		list = append(list, "caps.pids")
	}
	if caps.Network != "" && !owner.Within(caps.Network) {
		list = append(list, "caps.network")
	}
	if caps.Network == job.NetworkNone && use.NetworkBytes > 0 {
		list = append(list, "network")
	}
	return list
}

// unenforced names the caps that nothing held: of those a job can take as much as
// the machine has.
func unenforced(caps job.CapsApplied) []string {
	list := []string{}
	for _, c := range []struct {
		name string
		held bool
	}{
		{"cpu_millis", caps.CPUMillis > 0}, {"memory_mb", caps.MemoryMB > 0}, {"disk_mb", caps.DiskMB > 0},
		{"pids", caps.Pids > 0}, {"timeout_secs", caps.TimeoutSecs > 0}, {"network", caps.Network != ""},
	} {
		if !c.held {
			list = append(list, c.name)
		}
	}
	return list
}
