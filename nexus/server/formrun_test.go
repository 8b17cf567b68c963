package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/evidence"
)

// TestBundleOfTheOnlyJob: the bundle that an engine's job hands in for a run of the
// page for new runs is the run's. The run has what the bundle says, and its outcome is
// given like any other. One that is not a bundle, and one of a run with a client, is
// the job's alone.
func TestBundleOfTheOnlyJob(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	_, passed := sealedSession(t, "pass")
	_, failed := sealedSession(t, "fail")
	id := strings.Repeat("1", 40)
	contract, err := os.ReadFile("../../vectors/evidence/valid/pass/" + evidence.ContractFile)
	if err != nil {
		t.Fatal(err)
	}
	contract = bytes.TrimSpace(contract)
	for name, c := range map[string]struct {
		metadata, zip, status string
		commit                string // that the job is for
		exit                  int
		state                 api.RunStatus
		bundle                int    // status of the answer that has the run's bundle
		said                  string // of its summary
		taken                 int    // status of the answer to an acceptance
	}{
		"passed":      {`{"form":"x"}`, passed, "success", id, 0, api.RunStatusSucceeded, 200, `"status":"pass"`, 200},
		"failed":      {`{"form":"x"}`, failed, "failed", id, 2, api.RunStatusFailed, 200, `"status":"fail"`, 409},
		"no bundle":   {`{"form":"x"}`, "no zip", "success", id, 0, api.RunStatusSucceeded, 404, "", 200},
		"a liar":      {`{"form":"x"}`, passed, "success", id, 2, api.RunStatusFailed, 404, "", 409},
		"another's":   {`{"form":"x"}`, passed, "success", strings.Repeat("a", 40), 0, api.RunStatusSucceeded, 404, "", 200},
		"of a client": {`{}`, passed, "success", id, 0, api.RunStatusRunning, 404, "", 409},
	} {
		run := f.post("/v1/runs", f.alice, `{"repo_ref":"r","metadata":`+c.metadata+`}`, 201).field(t, "run_id")
		request := fmt.Sprintf(`{"contract":%q,"contract_sha256":%q,"baseline":{"source":"/r","commit":%q,"tree":%[3]q},"engine":{"name":"fake"},"budget":{"wall_secs":100,"memory_mb":512}}`, contract, canon.Digest(contract), c.commit)
		job := f.post("/v1/runs/"+run+"/jobs", f.alice, `{"job_type":"remit.engine_run.v1","request":`+request+`}`, 201).field(t, "job_id")
		var leases api.LeaseList
		if err := json.Unmarshal([]byte(f.post("/v1/jobs/lease", f.token, `{}`, 200).body), &leases); err != nil || len(leases.Leases) != 1 {
			t.Fatalf("%s: %+v, %v", name, leases, err)
		}
		digest, fence := canon.Digest([]byte(c.zip)), leases.Leases[0].Fence
		f.say(call{method: "PUT", path: fmt.Sprintf("/v1/jobs/%s/artifacts/%s?fence=%d&name=bundle.zip", job, digest, fence), token: f.token,
			contentType: "application/octet-stream", body: c.zip}, 201)
		f.post("/v1/jobs/"+job+"/complete", f.token, fmt.Sprintf(`{"fence":%d,"response":{"status":%q,"exit_code":%d,"bundle_sha256":%q,"head_tree":%q,
			"verification":[{"command":"t","exit_code":%[3]d,"duration_ms":5}],"artifacts":[{"path":"bundle.zip","sha256":%[4]q,"size_bytes":%[6]d}]}}`,
			fence, c.status, c.exit, digest, id, len(c.zip)), 200)
		f.post("/v1/jobs/"+job+"/settle", f.alice, "", 200)
		got := w.run(run)
		if got.Status != c.state || (c.said == "") != (got.Summary == nil) || got.Summary != nil && !strings.Contains(string(*got.Summary), c.said) {
			t.Errorf("%s: the run is %s, and says %s", name, got.Status, api.Value(got.Summary))
		}
		if kept := w.do(get("/v1/runs/"+run+"/bundle", w.alice)); kept.status != c.bundle || kept.status == 200 && kept.body != c.zip {
			t.Errorf("%s: the bundle of the run: %d with %d bytes", name, kept.status, len(kept.body))
		}
		if taken := w.do(post("/v1/runs/"+run+"/outcome", w.alice, "o"+run, `{"kind":"accepted","seal":true}`)); taken.status != c.taken {
			t.Errorf("%s: accepted with %d %s, want %d", name, taken.status, taken.problem.Code, c.taken)
		}
	}
}
