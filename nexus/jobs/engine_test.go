//go:build !race

package jobs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/metrics"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/canon"
)

// An engine run takes the same way, and its verdicts are counted by engine.
func TestEngineRun(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.provider("alice", "cheap, and without engines", 1, false, wide)
		a := get(h, func(tx *store.Tx) (registry.Provider, error) {
			return registry.EnrolProvider(tx, alice, registry.ProviderRequest{Name: "a", Version: "1", Capabilities: []string{job.EngineRun},
				PriceMsats: 700})
		})
		caps := wide
		caps.TimeoutSecs = 1800
		h.do(func(tx *store.Tx) (err error) {
			if _, err = registry.SetCaps(tx, alice, a.ID, caps, nil); err == nil {
				_, err = registry.Enable(tx, alice, a.ID, nil)
			}
			return err
		})
		h.beat(a)
		run := h.run()
		id := strings.Repeat("a", 40)
		request := fmt.Sprintf(`{"contract":"{}","contract_sha256":%q,"baseline":{"source":"/r","commit":%q,"tree":%[2]q},"engine":{"name":"fake","model":"m"},"budget":{"micro_usd":9}}`,
			canon.Digest([]byte("{}")), id)
		d := get(h, func(tx *store.Tx) (jobs.Dispatched, error) {
			return jobs.Dispatch(tx, alice, run.ID, jobs.DispatchRequest{JobType: job.EngineRun, Request: json.RawMessage(request)})
		})
		if !d.Created || d.Job.ProviderID != a.ID {
			t.Fatalf("dispatched %+v", d)
		}
		l := h.lease(a)
		bundle := canon.Digest([]byte("zip"))
		get(h, func(tx *store.Tx) (store.ArtifactRow, error) {
			return jobs.PutArtifact(tx, daemon(a), d.Job.ID, jobs.ArtifactRequest{Fence: l.Fence, Name: "bundle.zip", SHA256: bundle, SizeBytes: 3})
		})
		h.complete(a, l, json.RawMessage(fmt.Sprintf(`{"status":"success","exit_code":0,"bundle_sha256":%q,"head_tree":%q,"micro_usd":9,
			"verification":[{"command":"go test ./...","exit_code":0,"duration_ms":5}],"artifacts":[{"path":"bundle.zip","sha256":%[1]q,"size_bytes":3}]}`, bundle, id)))
		if s := h.settle(d.Job.ID); !s.Passed || s.ReservedMsats != 700 {
			t.Errorf("settlement %+v", s)
		}
		for _, e := range h.events(authority.RunStream(run.ID)) {
			if e.Type == "verification" && !strings.Contains(string(e.Payload), `"command":"go test ./..."`) {
				t.Errorf("verification %s", e.Payload)
			}
		}
		m := metrics.Compute(h.events(authority.RunStream(run.ID)))
		if m.PassRateByEngine["fake"].Count != 1 || m.PassRateByModel["m"].Count != 1 || *m.ProviderBreadth.Value != 1 {
			t.Errorf("metrics %+v", m)
		}
	})
}

// Verify has no effect and gives the verdict of a settlement.
func TestVerify(t *testing.T) {
	t.Parallel()
	r, err := job.ParseSandboxRun(ask("x"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jobs.Verify(job.SandboxRun, ask("x"), reply(jobs.Job{Request: r.Canonical(), ProviderID: "p"}, job.Failed, 4))
	if err != nil || v.Outcome != job.JobFailed || v.ExitCode != 4 {
		t.Errorf("verdict %+v, %v", v, err)
	}
}

// An owner who lowers the caps after an offer was made is not to blame for it.
func TestOfferThatNoLongerFits(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		j := h.queued(h.run(), "x")
		narrow := wide
		narrow.MemoryMB = 16
		get(h, func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, alice, a.ID, narrow, nil) })
		if list := h.leases(a, 1); len(list) != 0 {
			t.Fatal("leased beyond the caps")
		}
		h.clock.Advance(jobs.OfferTTL)
		h.sweep()
		h.expect(j.ID, jobs.Failed, 0, 0)
		if p := h.find(a); p.Strikes() != 0 {
			t.Errorf("marks %+v", p.ProviderRow)
		}
	})
}
