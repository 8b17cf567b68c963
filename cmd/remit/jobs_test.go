package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"remit/law/job"
	"remit/nexus/api"
)

// TestCauseOfAJob: what made a job fail is shown without --json, bounded, and
// drives no terminal.
func TestCauseOfAJob(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, response, has, lacks string }{
		"a command":   {job.SandboxRun, `{"runs":[{"cmd":"true"},{"cmd":"make","exit_code":2,"stderr_preview":"l1\nl2\nl3\nl4\nl5\nno rule \u001b[2J"},{"cmd":"x","exit_code":1}]}`, "cause    make: exit 2|no rule", "l1|x: exit 1\n|\x1b"},
		"its output":  {job.SandboxRun, `{"runs":[{"cmd":"make","exit_code":2,"stdout_preview":"FAIL","stderr_preview":" "}]}`, "FAIL", ""},
		"a provider":  {job.SandboxRun, `{"runs":[],"error":"no such commit"}`, "no such commit", ""},
		"an engine":   {job.EngineRun, `{"verification":[{"command":"go test","exit_code":1}],"error":"verification_failed"}`, "go test: exit 1|verification_failed", ""},
		"a refusal":   {job.EngineRun, `{"refusal":{"code":"model_unknown","message":"no model m"}}`, "model_unknown: no model m", ""},
		"a pass":      {job.SandboxRun, `{"runs":[{"cmd":"true"}]}`, "true: exit 0", "cause"},
		"nothing":     {job.SandboxRun, `{}`, "job", "cause"},
		"not a reply": {job.SandboxRun, `[1]`, "job", "cause"},
	} {
		raw := json.RawMessage(test.response)
		var shown, settled strings.Builder
		j := api.Job{JobID: "job_x", JobType: test.kind, Response: &raw}
		if err := printJob(&shown, j); err != nil {
			t.Error(err)
		}
		if err := printSettlement(&settled, api.Settlement{}, j); err != nil {
			t.Error(err)
		}
		for has := range strings.SplitSeq(test.has, "|") {
			if !strings.Contains(strings.Join(strings.Fields(shown.String()), " "), strings.Join(strings.Fields(has), " ")) {
				t.Errorf("%s lacks %q:\n%s", name, has, shown.String())
			}
		}
		for lacks := range strings.SplitSeq(test.lacks, "|") {
			if lacks != "" && strings.Contains(shown.String(), lacks) {
				t.Errorf("%s has %q:\n%s", name, lacks, shown.String())
			}
		}
		if strings.Contains(shown.String(), "cause") != strings.Contains(settled.String(), "cause") {
			t.Errorf("%s, settled:\n%s", name, settled.String())
		}
	}
}

// TestDispatchAgain: a run that has the job already is not given another one, and the
// document says so.
func TestDispatchAgain(t *testing.T) {
	status := http.StatusCreated
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(api.Job{JobID: "job_1", RunID: "run_1", State: api.JobStateSettled, Request: []byte("{}"), DispatchedAt: api.TimeOf(0)})
	}))
	defer answers.Close()
	t.Setenv(envToken, "rmt_user_x_y")
	for _, want := range []bool{false, true} {
		var said dispatched
		code, out := inProcess(t, "jobs", "dispatch", "--nexus", answers.URL, "--run", "run_1", "--source", "/x", "--command", "true")
		if err := json.Unmarshal(out, &said); err != nil || code != 0 || said.Existing != want || said.Job.JobID != "job_1" ||
			!strings.Contains(string(out), `"existing"`) {
			t.Errorf("exit code %d, %v\n%s", code, err, out)
		}
		status = http.StatusOK
	}
}

// TestEndOfJobs: a run with a job that did not pass has not succeeded, unless someone
// says so.
func TestEndOfJobs(t *testing.T) {
	t.Parallel()
	ended := func(outcome string) api.Job { return api.Job{ClosedAt: new("now"), Outcome: api.Optional(outcome)} }
	for want, list := range map[string][][]api.Job{
		"succeeded": {nil, {ended("passed")}, {ended("passed"), {}}},
		"failed":    {{ended("job_failed")}, {ended("passed"), ended("provider_fault")}, {ended("")}},
	} {
		for _, jobs := range list {
			if got := endOfJobs(jobs); got != want {
				t.Errorf("%+v: %s, want %s", jobs, got, want)
			}
		}
	}
}
