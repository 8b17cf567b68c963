package job_test

import (
	"strings"
	"testing"

	"remit/law/job"
	"remit/proof/canon"
	"remit/proof/reason"
)

// A run that could not begin for a reason of its request costs nothing;
// the same words cannot hide a result, or a fault of the machine.
func TestRefusal(t *testing.T) {
	t.Parallel()
	req := job.EngineRunRequest{Budget: job.EngineBudget{WallSecs: 60}}
	refused := func(change func(*job.EngineRunResponse)) job.EngineRunResponse {
		r := job.EngineRunResponse{Status: job.Failed, ExitCode: 3, Refusal: &job.Refusal{Code: reason.EngineUnknown, Message: "no engine"}}
		if change != nil {
			change(&r)
		}
		return r
	}
	for name, test := range map[string]struct {
		change func(*job.EngineRunResponse)
		want   job.Outcome
		code   string // of the first violation
	}{
		"refused":             {nil, job.JobFailed, ""},
		"neither":             {func(r *job.EngineRunResponse) { r.Refusal = nil }, job.ProviderFault, "bundle"},
		"for its own fault":   {func(r *job.EngineRunResponse) { r.Refusal.Code = reason.SandboxUnavailable }, job.ProviderFault, "refusal"},
		"for a made up code":  {func(r *job.EngineRunResponse) { r.Refusal.Code = "no_time" }, job.ProviderFault, "refusal"},
		"without a word":      {func(r *job.EngineRunResponse) { r.Refusal.Message = " \n" }, job.ProviderFault, "refusal"},
		"with too many words": {func(r *job.EngineRunResponse) { r.Refusal.Message = strings.Repeat("x", job.MaxCmdBytes+1) }, job.ProviderFault, "refusal"},
		"with a bundle":       {func(r *job.EngineRunResponse) { r.BundleSHA256 = canon.Digest(nil) }, job.ProviderFault, "refusal"},
		"with a tree":         {func(r *job.EngineRunResponse) { r.HeadTree = strings.Repeat("1", 40) }, job.ProviderFault, "refusal"},
		"with a result":       {func(r *job.EngineRunResponse) { r.Verification = []job.Verified{{}} }, job.ProviderFault, "refusal"},
		"with a model":        {func(r *job.EngineRunResponse) { r.MicroUSD, r.CostKnown = 1, new(bool) }, job.JobFailed, ""},
		"with a cost":         {func(r *job.EngineRunResponse) { r.MicroUSD = 1 }, job.ProviderFault, "refusal"},
		"with exit code 0":    {func(r *job.EngineRunResponse) { r.ExitCode = 0 }, job.ProviderFault, "status"},
		"as a success":        {func(r *job.EngineRunResponse) { r.Status = job.Success }, job.ProviderFault, "bundle"},
		"as a timeout": {func(r *job.EngineRunResponse) {
			r.Status, r.Usage = job.Timeout, &job.Usage{WallMillis: 60_000}
		}, job.ProviderFault, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := job.Check(req, refused(test.change))
			code := ""
			if len(v.Violations) > 0 {
				code = v.Violations[0].Code
			}
			if v.Outcome != test.want || code != test.code || v.Passed || v.ExitCode == 0 {
				t.Errorf("got %+v, want %s for %q", v, test.want, test.code)
			}
		})
	}
	read, err := job.ParseEngineRunResponse([]byte(`{"status":"failed","exit_code":3,"bundle_sha256":"","head_tree":"","verification":[],"artifacts":[],
		"refusal":{"code":"engine_unknown","message":"no engine"},"micro_usd":0}`))
	if err != nil || read.Refusal == nil || job.Check(req, read).Outcome != job.JobFailed {
		t.Errorf("%+v, %v", read, err)
	}
}
