package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/canon"
)

// TestFlights counts what requests cost on PostgreSQL: the round trips that they
// wait for, and the statements in them. A figure that changes here changes how long
// every requester waits.
func TestFlights(t *testing.T) {
	t.Parallel()
	dsn, wire := storetest.Tap(t, storetest.Postgres(t))
	f := newFleet(t, newWorld(t, storetest.Open(t, dsn, store.Options{Connections: 1}), Options{}))
	var run, job, complete string
	requests := []struct {
		what                string
		flights, statements int
		send                func() seen
	}{
		{"create a run", 4, 16, func() seen { return f.say(post("/v1/runs", f.alice, "", benchRun)) }},
		{"dispatch", 5, 33, func() seen {
			return f.say(post("/v1/runs/"+run+"/jobs", f.alice, "", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`))
		}},
		{"lease", 5, 19, func() seen { return f.say(post("/v1/jobs/lease", f.token, "", `{}`)) }},
		{"complete", 5, 20, func() seen { return f.say(post("/v1/jobs/"+job+"/complete", f.token, "", complete)) }},
		{"settle", 11, 37, func() seen { return f.say(post("/v1/jobs/"+job+"/settle", f.alice, "", "")) }},
		{"look at a job", 3, 8, func() seen { return f.do(call{method: "GET", path: "/v1/jobs/" + job, token: f.alice}) }},
	}
	for round := range 2 { // in the first one statements are prepared and accounts opened
		for _, r := range requests {
			wire.Take()
			got := r.send()
			flights := wire.Take()
			if n := storetest.Statements(flights); round > 0 && (len(flights) != r.flights || n != r.statements) {
				t.Errorf("%s: %d statements in %d flights, want %d in %d:\n%s", r.what, n, len(flights), r.statements, r.flights, shown(flights))
			}
			var leases api.LeaseList
			switch r.what {
			case "create a run":
				run = got.field(t, "run_id")
			case "dispatch":
				job = got.field(t, "job_id")
			case "lease":
				if err := json.Unmarshal([]byte(got.body), &leases); err != nil || len(leases.Leases) != 1 {
					t.Fatalf("%v: %s", err, got.body)
				}
				complete = handedIn(leases.Leases[0].Fence)
			}
		}
	}
}

// handedIn is what a daemon hands in.
func handedIn(fence int64) string {
	return fmt.Sprintf(`{"fence":%d,"response":{"env_info":{"image_digest":"host"},
		"runs":[{"cmd":"go test ./...","exit_code":0,"duration_ms":5,"stdout_sha256":%q,"stderr_sha256":%[2]q}],
		"artifacts":[],"status":"success","provenance":{"model_id":"none"}}}`, fence, canon.Digest(nil))
}

func shown(flights []storetest.Flight) string {
	var b strings.Builder
	for i, f := range flights {
		for _, s := range f {
			fmt.Fprintf(&b, "  %d  %.120s\n", i+1, strings.Join(strings.Fields(s), " "))
		}
	}
	return b.String()
}
