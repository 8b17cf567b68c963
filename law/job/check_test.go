package job_test

import (
	"strings"
	"testing"

	"remit/law/job"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"

	"pgregory.net/rapid"
)

func request(t testing.TB, commands ...job.Command) job.SandboxRunRequest {
	t.Helper()
	if len(commands) == 0 {
		commands = []job.Command{{Cmd: "a"}, {Cmd: "b"}}
	}
	r, err := job.SandboxRunRequest{Sandbox: job.Sandbox{ImageDigest: "host"}, Commands: commands}.Filled()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func response(status job.Status, exits ...int32) job.SandboxRunResponse {
	r := job.SandboxRunResponse{EnvInfo: job.EnvInfo{ImageDigest: "host"}, Status: status}
	for i, exit := range exits {
		r.Runs = append(r.Runs, job.Run{Cmd: string(rune('a' + i)), ExitCode: exit, DurationMS: 5,
			StdoutSHA256: canon.Digest(nil), StderrSHA256: canon.Digest(nil)})
	}
	return r
}

// Each row of the rule table is a case.
func TestVerdict(t *testing.T) {
	t.Parallel()
	text := func(r job.SandboxRunResponse, s string) job.SandboxRunResponse { r.Error = &s; return r }
	change := func(r job.SandboxRunResponse, f func(*job.SandboxRunResponse)) job.SandboxRunResponse {
		f(&r)
		return r
	}
	long := strings.Repeat("x", job.MaxPreviewBytes+1)
	tests := []struct {
		name string
		resp job.SandboxRunResponse
		want job.Outcome
		exit int
		code string // of the first violation
	}{
		{"all good", response(job.Success, 0, 0), job.Passed, 0, ""},
		{"honest failure", response(job.Failed, 0, 7), job.JobFailed, 7, ""},
		{"honest early stop", response(job.Failed, 3), job.JobFailed, 3, ""},
		{"first failure counts", response(job.Failed, 3, 4), job.JobFailed, 3, ""},
		{"other image", change(response(job.Success, 0, 0), func(r *job.SandboxRunResponse) { r.EnvInfo.ImageDigest = "x" }), job.ProviderFault, 1, "image_digest"},
		{"a run is missing", response(job.Success, 0), job.ProviderFault, 1, "run_count"},
		{"nothing ran", response(job.Success), job.ProviderFault, 1, "run_count"},
		{"a run too many", response(job.Success, 0, 0, 0), job.ProviderFault, 1, "run_count"},
		{"other command", change(response(job.Success, 0, 0), func(r *job.SandboxRunResponse) { r.Runs[1].Cmd = "true" }), job.ProviderFault, 1, "command"},
		{"no digest", change(response(job.Success, 0, 0), func(r *job.SandboxRunResponse) { r.Runs[1].StdoutSHA256 = "" }), job.ProviderFault, 1, "stream_digest"},
		{"long preview after a failure", change(response(job.Failed, 1, 0), func(r *job.SandboxRunResponse) { r.Runs[1].StderrPreview = &long }), job.ProviderFault, 1, "preview"},
		{"artifacts", change(response(job.Success, 0, 0), func(r *job.SandboxRunResponse) { r.Artifacts = make([]job.Artifact, 129) }), job.ProviderFault, 1, "artifact_count"},
		{"artifact path", change(response(job.Success, 0, 0), func(r *job.SandboxRunResponse) {
			r.Artifacts = []job.Artifact{{Path: "../x", SHA256: canon.Digest(nil)}}
		}), job.ProviderFault, 1, "artifact_path"},
		{"artifact digest", change(response(job.Success, 0, 0), func(r *job.SandboxRunResponse) {
			r.Artifacts = []job.Artifact{{Path: "x", SHA256: "abc"}}
		}), job.ProviderFault, 1, "artifact_digest"},
		{"success with a failure", response(job.Success, 0, 1), job.ProviderFault, 1, "status"},
		{"success with a text", text(response(job.Success, 0, 0), ""), job.ProviderFault, 1, "error_text"},
		{"failed without a failure", response(job.Failed, 0, 0), job.ProviderFault, 1, "status"},
		{"failed with a text", text(response(job.Failed, 0, 1), "x"), job.ProviderFault, 1, "error_text"},
		{"timeout too early", response(job.Timeout, 0), job.ProviderFault, 1, "timeout"},
		{"timeout after its time", change(response(job.Timeout, 0, 137), func(r *job.SandboxRunResponse) { r.Runs[1].DurationMS = 60000 }), job.JobFailed, 137, "timeout"},
		{"timeout by the clock of the job", change(response(job.Timeout), func(r *job.SandboxRunResponse) { r.Usage = &job.Usage{WallMillis: 60001} }), job.JobFailed, 1, "timeout"},
		{"cancelled", response(job.Cancelled, 0), job.ProviderFault, 1, "cancelled"},
		{"error", text(response(job.Errored), "no image"), job.ProviderFault, 1, "error"},
		{"error without a text", response(job.Errored), job.ProviderFault, 1, "error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			v := job.Check(request(t), test.resp)
			if v.Outcome != test.want || v.ExitCode != test.exit || v.Passed != (test.want == job.Passed) {
				t.Errorf("got %+v, want %s with exit %d", v, test.want, test.exit)
			}
			if got := append(v.Violations, record.Violation{})[0].Code; got != test.code {
				t.Errorf("first violation %q, want %q", got, test.code)
			}
			if (v.Reason == "") != v.Passed {
				t.Errorf("reason %q", v.Reason)
			}
		})
	}
}

func TestEarlyStopNeedsAReason(t *testing.T) {
	t.Parallel()
	going := request(t, job.Command{Cmd: "a", ContinueOnFail: true}, job.Command{Cmd: "b"})
	if v := job.Check(going, response(job.Failed, 1)); v.Outcome != job.ProviderFault {
		t.Errorf("a command that continues on failure stopped the job: %+v", v)
	}
}

// What has not passed is not paid, and what has not passed never
// reports 0.
func TestVerdictInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		req := job.SandboxRunRequest{Sandbox: job.Sandbox{ImageDigest: "host"}, Commands: []job.Command{{Cmd: "a"}, {Cmd: "b", ContinueOnFail: true}}}
		req, err := req.Filled()
		if err != nil {
			t.Fatal(err)
		}
		exits := rapid.SliceOfN(rapid.Int32Range(-2, 2), 0, 3).Draw(t, "exits")
		status := rapid.SampledFrom([]job.Status{job.Success, job.Failed, job.Timeout, job.Cancelled, job.Errored}).Draw(t, "status")
		v := job.Check(req, response(status, exits...))
		if v.Passed != (v.Outcome == job.Passed) || v.Passed != (v.ExitCode == 0) || v.Passed && (len(v.Violations) > 0 || status != job.Success || len(exits) != 2) {
			t.Fatalf("%s %v: %+v", status, exits, v)
		}
		if v.Outcome == job.ProviderFault && len(v.Violations) == 0 {
			t.Fatalf("blame without a violation: %+v", v)
		}
		if v.Outcome == job.ProviderFault && v.Reason != reason.ProviderViolations {
			t.Fatalf("reason %q", v.Reason)
		}
	})
}
