package requester

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
)

// TestWaitsForAProvider: a run and its proof are refused at once for the lack of a
// provider, unless they are to wait for one; they wait for nothing else.
func TestWaitsForAProvider(t *testing.T) {
	t.Parallel()
	claim := job.Claim{Key: "s", Proof: job.Needs{Capability: job.SandboxRun, MemoryMB: 2048, TimeoutSecs: 300}}
	n, q := newNexus(t)
	n.refuse["runs"] = reason.NoProvider
	if _, err := q.Open(t.Context(), claim); reason.CodeOf(err) != reason.NoProvider || n.asked["runs"] != 1 {
		t.Errorf("%v after %d requests", err, n.asked["runs"])
	}
	heard := 0
	came := func(step string) func(time.Duration, error) {
		return func(most time.Duration, err error) {
			if heard++; most != time.Hour || reason.CodeOf(err) != reason.NoProvider {
				t.Errorf("waits %s for %v", most, err)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.refuse[step] = ""
		}
	}
	q.Wait, q.Waiting = time.Hour, came("runs")
	if _, err := q.Open(t.Context(), claim); err != nil || n.asked["runs"] != 3 {
		t.Errorf("%v after %d requests", err, n.asked["runs"])
	}
	n.refuse["jobs"], q.Waiting = reason.NoProvider, came("jobs")
	if s, _, err := q.Prove(t.Context(), proofOf(nil)); err != nil || !s.Passed || n.asked["jobs"] != 2 || heard != 2 {
		t.Errorf("%+v, %v after %d requests", s, err, n.asked["jobs"])
	}
	var sent api.DispatchRequest
	if err := json.Unmarshal(n.bodies["jobs"], &sent); err != nil || api.Value(sent.WaitSecs) != 20 {
		t.Errorf("dispatched with %s", n.bodies["jobs"])
	}
	n.refuse["jobs"], n.asked["jobs"] = reason.InsufficientBudget, 0
	if _, _, err := q.Prove(t.Context(), proofOf(nil)); reason.CodeOf(err) != reason.InsufficientBudget || n.asked["jobs"] != 1 {
		t.Errorf("%v after %d requests", err, n.asked["jobs"])
	}
	n.refuse["jobs"] = reason.NoProvider
	ctx, stop := context.WithCancel(t.Context())
	q.Waiting = func(time.Duration, error) { stop() }
	if _, _, err := q.Prove(ctx, proofOf(nil)); err == nil || ctx.Err() == nil {
		t.Errorf("a caller that gives up waits on: %v", err)
	}
}
