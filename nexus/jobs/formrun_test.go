package jobs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/canon"
)

// TestEngineAsked: a program is called as the page for new runs asked for it; no other
// metadata takes the place of what the evidence says.
func TestEngineAsked(t *testing.T) {
	t.Parallel()
	form := map[string]string{jobs.MetadataForm: "x", "engine": "gofix"}
	for _, c := range []struct {
		metadata       map[string]string
		recorded, want string
	}{
		{form, "command", "gofix"}, {form, "codex", "codex"}, {map[string]string{"engine": "codex"}, "command", "command"},
		{map[string]string{jobs.MetadataForm: "x"}, "command", "command"}, {nil, "pi", "pi"}, {nil, "command", "command"},
	} {
		if got := jobs.EngineAsked(c.metadata, c.recorded); got != c.want {
			t.Errorf("%v, %s: %s", c.metadata, c.recorded, got)
		}
	}
}

// TestRunEndsWithItsJobs: a run of the page for new runs has no client. It ends together
// with its last job and with the same result, no matter who ends the job.
func TestRunEndsWithItsJobs(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		caps := wide
		caps.TimeoutSecs = 1800
		p := get(h, func(tx *store.Tx) (registry.Provider, error) {
			return registry.EnrolProvider(tx, alice, registry.ProviderRequest{Name: "a", Version: "1", Capabilities: []string{job.EngineRun}, PriceMsats: 1})
		})
		h.do(func(tx *store.Tx) (err error) {
			if _, err = registry.SetCaps(tx, alice, p.ID, caps, nil); err == nil {
				_, err = registry.Enable(tx, alice, p.ID, nil)
			}
			return err
		})
		h.beat(p)
		id := strings.Repeat("a", 40)
		dispatched := func(run jobs.Run, engine string) jobs.Job {
			request := fmt.Sprintf(`{"contract":"{}","contract_sha256":%q,"baseline":{"source":"/r","commit":%q,"tree":%[2]q},"engine":{"name":%q},"budget":{}}`,
				canon.Digest([]byte("{}")), id, engine)
			return get(h, func(tx *store.Tx) (jobs.Dispatched, error) {
				return jobs.Dispatch(tx, alice, run.ID, jobs.DispatchRequest{JobType: job.EngineRun, Request: json.RawMessage(request), Key: engine})
			}).Job
		}
		hand := func(status string, exit int) {
			l, zip := h.lease(p), canon.Digest([]byte("zip"))
			get(h, func(tx *store.Tx) (store.ArtifactRow, error) {
				return jobs.PutArtifact(tx, daemon(p), l.Job.ID, jobs.ArtifactRequest{Fence: l.Fence, Name: "bundle.zip", SHA256: zip, SizeBytes: 3})
			})
			h.complete(p, l, json.RawMessage(fmt.Sprintf(`{"status":%q,"exit_code":%d,"bundle_sha256":%q,"head_tree":%q,
				"verification":[{"command":"t","exit_code":%[2]d,"duration_ms":5}],"artifacts":[{"path":"bundle.zip","sha256":%[3]q,"size_bytes":3}]}`, status, exit, zip, id)))
		}
		settle := func(_ jobs.Run, j jobs.Job) { h.settle(j.ID) }
		overdue := func() { get(h, func(tx *store.Tx) ([]string, error) { return jobs.SettleOverdue(tx, 0, 0) }) }
		for name, c := range map[string]struct {
			form bool
			ends func(jobs.Run, jobs.Job)
			want jobs.RunState
			why  string
		}{
			"passed":               {true, func(r jobs.Run, j jobs.Job) { hand("success", 0); settle(r, j) }, jobs.RunSucceeded, ""},
			"failed":               {true, func(r jobs.Run, j jobs.Job) { hand("failed", 2); settle(r, j) }, jobs.RunFailed, "verification_failed"},
			"of a client":          {false, func(r jobs.Run, j jobs.Job) { hand("success", 0); settle(r, j) }, jobs.RunRunning, ""},
			"settled by the nexus": {true, func(jobs.Run, jobs.Job) { hand("success", 0); h.clock.Advance(jobs.SettleGrace); overdue() }, jobs.RunSucceeded, ""},
			"the job is canceled": {true, func(_ jobs.Run, j jobs.Job) {
				get(h, func(tx *store.Tx) (jobs.Job, error) { return jobs.Cancel(tx, alice, j.ID) })
			}, jobs.RunFailed, "cancelled"},
			"the run is canceled": {true, func(r jobs.Run, _ jobs.Job) {
				get(h, func(tx *store.Tx) (jobs.Run, error) { return jobs.CancelRun(tx, alice, r.ID, "") })
			}, jobs.RunCanceled, "cancelled"},
			"ended by its owner": {true, func(r jobs.Run, _ jobs.Job) { hand("success", 0); h.finish(r, jobs.RunCanceled) }, jobs.RunCanceled, ""},
			"two jobs": {true, func(r jobs.Run, j jobs.Job) {
				hand("success", 0)
				second := dispatched(r, "other")
				settle(r, j)
				if now := get(h, func(tx *store.Tx) (jobs.Run, error) { return tx.Run(r.ID) }); jobs.RunState(now.State).Final() {
					h.t.Errorf("the run is %s, and a job of it is open", now.State)
				}
				hand("failed", 3)
				settle(r, second)
			}, jobs.RunFailed, "verification_failed"},
		} {
			metadata := map[string]string{}
			if c.form {
				metadata[jobs.MetadataForm] = "x"
			}
			run := get(h, func(tx *store.Tx) (jobs.Run, error) {
				return jobs.CreateRun(tx, alice, jobs.RunRequest{RepoRef: "fixture", Metadata: metadata})
			})
			h.beat(p)
			c.ends(run, dispatched(run, "fake"))
			now := get(h, func(tx *store.Tx) (jobs.Run, error) { return tx.Run(run.ID) })
			if now.State != string(c.want) {
				t.Errorf("%s: the run is %s, want %s", name, now.State, c.want)
			}
			for _, e := range h.events(authority.RunStream(run.ID)) {
				if e.Type == jobs.EventFinished && !strings.Contains(string(e.Payload), fmt.Sprintf(`"reason":%q`, c.why)) {
					t.Errorf("%s: it says %s, want %s", name, e.Payload, c.why)
				}
			}
		}
	})
}
