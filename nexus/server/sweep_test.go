package server

import (
	"testing"
	"time"

	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// TestSweepEndsLostJobs lets a provider fall silent in the middle of a job.
func TestSweepEndsLostJobs(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{Sweep: Sweep{Retention: 24 * time.Hour}})
		f := &flow{world: w}
		f.join()
		run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).field(t, "run_id")
		dispatch := post("/v1/runs/"+run+"/jobs", w.alice, "j", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)
		job := w.do(dispatch).want(t, 201, "").field(t, "job_id")
		w.do(post("/v1/jobs/lease", f.token, "l", `{}`)).want(t, 200, "")
		clock.Advance(jobs.DefaultLease)
		for range 2 { // the second one finds nothing
			if err := w.server.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := w.do(get("/v1/jobs/"+job, w.alice)).want(t, 200, "")
			if got.field(t, "state") != "failed" || got.field(t, "reason") != "offline_mid_run" || got.field(t, "payment") != "withheld" {
				t.Errorf("got %s", got.body)
			}
		}
		if err := w.server.Audit(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Stored answers are forgotten at last; what they did is not done again.
		clock.Advance(25 * time.Hour)
		if err := w.server.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := w.do(post("/v1/runs/"+run+"/jobs", w.mint(personGrant("alice")), "j", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)).want(t, 200, "")
		if again.replayed || again.field(t, "job_id") != job {
			t.Errorf("got %s", again.body)
		}
	})
}
