package job

import (
	"fmt"
	"strings"

	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

// VerifierVersion names the rules of Check. It stands in every verification
// receipt and changes whenever a verdict could change.
const VerifierVersion = "remit.objective/2"

// Limits of a response; breaking one is a violation, not a reading error.
const (
	MaxArtifacts         = 128
	MaxPreviewBytes      = 16384
	maxArtifactPathBytes = 1024
	maxViolations        = 64 // what is recorded of a hostile response
)

// Outcome is one of three: what a provider earns depends on it.
type Outcome string

// The outcomes.
const (
	Passed        Outcome = "passed"         // paid
	JobFailed     Outcome = "job_failed"     // not paid; the job is to blame
	ProviderFault Outcome = "provider_fault" // not paid, and a violation strike
)

// Verdict is what a response is worth.
type Verdict struct {
	Outcome    Outcome            `json:"outcome"`
	Passed     bool               `json:"passed"`
	ExitCode   int                `json:"exit_code"` // first non-zero exit in order; never 0 unless passed
	Reason     reason.Code        `json:"reason"`    // "" when passed
	Violations []record.Violation `json:"violations"`
}

// verdict collects violations.
type verdict struct{ violations []record.Violation }

func (v *verdict) add(code string, provider bool, format string, args ...any) {
	if len(v.violations) < maxViolations {
		v.violations = append(v.violations, record.Violation{Code: code, Detail: fmt.Sprintf(format, args...), Provider: provider})
	}
}

func (v *verdict) fault(code, format string, args ...any) { v.add(code, true, format, args...) }

// close decides. An exit code of 0 means that nothing failed; it is raised to
// 1 when there is a violation, since a refused result never reports 0.
func (v *verdict) close(exit int) Verdict {
	out := Verdict{Outcome: JobFailed, ExitCode: exit, Reason: reason.VerificationFailed, Violations: v.violations}
	if out.Violations == nil {
		out.Violations = []record.Violation{}
	}
	switch {
	case len(v.violations) == 0 && exit == 0:
		out.Outcome, out.Passed, out.Reason = Passed, true, ""
	case v.blamesProvider():
		out.Outcome, out.Reason = ProviderFault, reason.ProviderViolations
	case len(v.violations) > 0:
		out.Reason = reason.Timeout // the one rule that a job can break itself
	}
	if !out.Passed && out.ExitCode == 0 {
		out.ExitCode = 1
	}
	return out
}

func (v *verdict) blamesProvider() bool {
	for _, violation := range v.violations {
		if violation.Provider {
			return true
		}
	}
	return false
}

func checkSandboxRun(req SandboxRunRequest, resp SandboxRunResponse) Verdict {
	var v verdict
	if got := resp.EnvInfo.ImageDigest; got != req.Sandbox.ImageDigest {
		v.fault("image_digest", "ran in %.80q, not in %.80q", got, req.Sandbox.ImageDigest)
	}
	v.checkEnvironment(req, resp)
	v.checkRuns(req.Commands, resp)
	v.checkArtifacts(resp.Artifacts)
	exit := firstFailure(resp.Runs)
	v.checkStatus(req, resp, exit)
	return v.close(exit)
}

// checkRuns compares what ran with what was asked for. Runs may be a proper
// prefix of the commands when the last one failed and its command does not say
// continue_on_fail, or when the job was stopped from outside.
func (v *verdict) checkRuns(commands []Command, resp SandboxRunResponse) {
	runs := resp.Runs
	if len(runs) > len(commands) {
		v.fault("run_count", "%d runs for %d commands", len(runs), len(commands))
		runs = runs[:len(commands)]
	}
	stopped := resp.Status == Timeout || resp.Status == Cancelled || resp.Status == Errored
	if n := len(runs); n < len(commands) && !stopped {
		if n == 0 || runs[n-1].ExitCode == 0 || commands[n-1].ContinueOnFail {
			v.fault("run_count", "%d runs for %d commands, and nothing had stopped the job", n, len(commands))
		}
	}
	for i, run := range runs {
		if run.Cmd != commands[i].Cmd {
			v.fault("command", "run %d is of another command", i)
		}
		if !canon.ValidDigest(run.StdoutSHA256) || !canon.ValidDigest(run.StderrSHA256) {
			v.fault("stream_digest", "run %d lacks a digest of stdout or stderr", i)
		}
		if previewTooLong(run.StdoutPreview) || previewTooLong(run.StderrPreview) {
			v.fault("preview", "run %d has a preview of more than %d bytes", i, MaxPreviewBytes)
		}
	}
}

func previewTooLong(s *string) bool { return s != nil && len(*s) > MaxPreviewBytes }

func (v *verdict) checkArtifacts(artifacts []Artifact) {
	if len(artifacts) > MaxArtifacts {
		v.fault("artifact_count", "%d artifacts, may be %d", len(artifacts), MaxArtifacts)
		artifacts = artifacts[:MaxArtifacts]
	}
	seen := map[string]bool{}
	for i, a := range artifacts {
		switch {
		case !ArtifactName(a.Path):
			v.fault("artifact_path", "artifact %d has no clean, printable, relative path of at most %d bytes", i, maxArtifactPathBytes)
		case seen[a.Path]:
			v.fault("artifact_path", "artifact %d has a path that stands there twice", i)
		case !canon.ValidDigest(a.SHA256):
			v.fault("artifact_digest", "artifact %d has no digest", i)
		}
		seen[a.Path] = true
	}
}

// firstFailure returns the first exit code that is not 0.
func firstFailure(runs []Run) int {
	for _, run := range runs {
		if run.ExitCode != 0 {
			return int(run.ExitCode)
		}
	}
	return 0
}

// checkStatus holds the status against the exits and the error text.
func (v *verdict) checkStatus(req SandboxRunRequest, resp SandboxRunResponse, exit int) {
	text := ""
	if resp.Error != nil {
		text = strings.TrimSpace(*resp.Error)
	}
	switch resp.Status {
	case Success:
		if exit != 0 {
			v.fault("status", "success with exit code %d", exit)
		}
		if resp.Error != nil {
			v.fault("error_text", "success with an error text")
		}
	case Failed:
		if exit == 0 {
			v.fault("status", "failed without a failing command")
		}
		if resp.Error != nil {
			v.fault("error_text", "failed with an error text: a failing command speaks for itself")
		}
	case Timeout:
		// A provider that stops a job before its time was up gave up on it.
		used, granted := wall(resp), uint64(req.Sandbox.Resources.TimeoutSecs)*1000
		v.add("timeout", used < granted, "stopped after %d of %d ms", used, granted)
		if resp.Error != nil {
			v.fault("error_text", "timeout with an error text")
		}
	case Cancelled:
		v.fault("cancelled", "the provider stopped a job that was not canceled")
		if resp.Error != nil {
			v.fault("error_text", "cancelled with an error text")
		}
	default:
		v.fault("error", "the provider could not run the job")
		if text == "" {
			v.fault("error_text", "error without saying which")
		}
	}
}

// wall is how long the job ran as far as the response shows.
func wall(resp SandboxRunResponse) uint64 {
	var total uint64
	for _, run := range resp.Runs {
		total += min(run.DurationMS, MaxTimeoutSecs*1000*10)
	}
	if resp.Usage != nil && resp.Usage.WallMillis > 0 {
		total = max(total, uint64(resp.Usage.WallMillis))
	}
	return total
}
