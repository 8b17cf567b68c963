package matrix

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"remit/law/ladder"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// The functions of this file are the column "evidence" of the matrix: what a
// session must show beyond its status, code and event.

const (
	stdoutLog  = evidence.BackendDir + "/stdout.log"
	cleanProof = evidence.ProofsDir + "/workspace-clean.json"
)

func showsNoDiff(o *session) []Check {
	info, err := os.Stat(o.path(evidence.PatchFile))
	return []Check{
		claim("empty patch", err == nil && info.Size() == 0, "%s", evidence.PatchFile),
		claim("changed_files", len(o.report.ChangedFiles) == 0, "%v", o.report.ChangedFiles),
		claim("engine succeeded", o.report.BackendExitCode != nil && *o.report.BackendExitCode == 0, "the agent reported success"),
	}
}

func showsDisallowed(o *session) []Check {
	e := o.event("git.diff.checked")
	return []Check{
		claim("offending path", strings.Contains(e.field("offending"), outside), "%s", e.field("offending")),
		claim("allowed_writes_passed", !o.report.AllowedWritesPassed && e.field("allowed_writes_passed") == "false", "%v", o.report.AllowedWritesPassed),
		claim("patch captured", strings.Contains(o.text(evidence.PatchFile), outside) && slices.Contains(o.report.ChangedFiles, outside),
			"%s holds the change of %s", evidence.PatchFile, outside),
	}
}

func showsFailedTests(o *session) []Check {
	var exit *int
	for _, v := range o.report.Verification {
		if v.Phase == "head" && v.Command == check {
			exit = &v.ExitCode
		}
	}
	return []Check{
		claim("exit code", exit != nil && *exit == 1, "of %q on the changed tree", check),
		claim("test.log", strings.Contains(o.text(evidence.TestLogFile), "want hello, got hullo"), "has the output of the command"),
	}
}

func showsMissingCommand(o *session) []Check {
	return append(nothingStarted(o),
		claim("test.log", strings.Contains(o.text(evidence.TestLogFile), string(reason.MissingTestCommand)), "names the blocker"))
}

// nothingStarted is the evidence of a refusal before the engine.
func nothingStarted(o *session) []Check {
	return []Check{
		claim("no engine", !o.report.EngineProcessStarted && o.event("engine.started") == nil, "no engine was started"),
		claim("no mutation", len(o.report.ChangedFiles) == 0 && o.text(evidence.PatchFile) == "", "nothing was changed"),
	}
}

func showsAbsentEvent(o *session) []Check {
	missing := evidence.StepPlan
	return []Check{
		claim("event is absent", o.event(missing) == nil && !strings.Contains(o.text(evidence.JournalFile), `"name":"`+missing+`"`),
			"%s is neither in the events nor in the journal", missing),
		claim("validator names it", o.blockersName(string(reason.MissingRequiredEvent), missing), "%s", blockerTexts(o)),
	}
}

func showsUnorderedEvent(o *session) []Check {
	late, early := o.event(evidence.StepEligibility), o.event(evidence.StepPlan)
	return []Check{
		claim("event is late", late != nil && early != nil && late.Seq > early.Seq, "%s after %s", evidence.StepEligibility, evidence.StepPlan),
		claim("validator names it", o.blockersName(string(reason.MissingRequiredEvent), evidence.StepEligibility), "%s", blockerTexts(o)),
	}
}

func blockerTexts(o *session) string {
	var texts []string
	for _, b := range o.report.Blockers {
		texts = append(texts, string(b.Code)+": "+b.Message)
	}
	return strings.Join(texts, "; ")
}

func showsRejection(o *session) []Check {
	e := o.event(evidence.StepVerification)
	return []Check{
		claim("raw log kept", strings.Contains(o.text(stdoutLog), `"verdict":"rejected"`) && o.report.ArtifactDigests[stdoutLog] != "", "%s", stdoutLog),
		claim("event tells it", e.field("status") == evidence.StatusBlocked && strings.Contains(e.field("blockers"), string(reason.ReviewerRejected)),
			"%s is %s", evidence.StepVerification, e.field("status")),
		claim("work kept", slices.Contains(o.report.ChangedFiles, greeting) && o.text(evidence.PatchFile) != "", "the patch is captured"),
	}
}

func showsDenial(o *session) []Check {
	e := o.event(evidence.StepApprovalDenied)
	if e == nil {
		return []Check{claim("denial", false, "no event tells of it")}
	}
	_, err := time.Parse(time.RFC3339, e.Time)
	return append(nothingStarted(o),
		claim("actor", e.field("actor") == denier, "%s", e.field("actor")),
		claim("scope", e.field("scope") == "lib/**", "%s", e.field("scope")),
		claim("mode", e.field("mutation_mode") == o.report.MutationMode, "%s", e.field("mutation_mode")),
		claim("time", err == nil, "%s", e.Time),
		claim("requested first", o.event(evidence.StepApprovalRequested) != nil && o.event(evidence.StepApprovalGranted) == nil, "requested, and not granted"),
		claim("approval_status", o.report.ApprovalStatus == "denied", "%s", o.report.ApprovalStatus))
}

func showsEngineTimeout(o *session) []Check {
	p, ok := o.span(evidence.StepEngine)
	var f evidence.EngineFinished
	ok = ok && json.Unmarshal(p.Attributes, &f) == nil
	return []Check{
		claim("point in the trace", ok && p.EndedAt != nil && p.Status == "failed" && f.TimedOut && f.ProcessStarted, "%s is %s", evidence.StepEngine, p.Status),
		claim("killed", ok && f.Signal == "SIGKILL", "the agent ignored signals and ended by %q after %d ms", f.Signal, f.DurationMS),
		claim("marker", o.has(evidence.BackendDir+"/provider-timeout.txt"), "provider-timeout.txt"),
		claim("work kept", slices.Contains(o.report.ChangedFiles, greeting), "what was done before is in the patch: %v", o.report.ChangedFiles),
	}
}

func showsVerifierTimeout(o *session) []Check {
	engine, started := o.span(evidence.StepEngine)
	head, reached := o.span(evidence.StepVerifyHead)
	judged, ok := o.span(evidence.StepVerification)
	return []Check{
		claim("engine ended in time", started && engine.Status == "completed", "%s is %s", evidence.StepEngine, engine.Status),
		claim("point in the trace", reached && head.EndedAt != nil && head.DurationMS >= 1000, "%s took %d ms", evidence.StepVerifyHead, head.DurationMS),
		claim("verifier says so", ok && strings.Contains(string(judged.Attributes), string(reason.Timeout)), "%s is %s", evidence.StepVerification, judged.Status),
	}
}

func showsDirtyStart(o *session) []Check {
	return append(nothingStarted(o),
		claim("dirty path", o.blockersName(string(reason.DirtyStartingTree), outside), "%s", blockerTexts(o)))
}

func showsDirtyEnd(path string) func(*session) []Check {
	return func(o *session) []Check {
		var proof struct {
			EndedClean bool     `json:"ended_clean"`
			Refused    []string `json:"refused"`
		}
		err := json.Unmarshal([]byte(o.text(cleanProof)), &proof)
		inProof := slices.ContainsFunc(proof.Refused, func(p string) bool { return strings.HasPrefix(p, path) })
		inBlocker := slices.ContainsFunc(o.report.Blockers, func(b evidence.Blocker) bool { return strings.Contains(b.Message, path) })
		return []Check{
			claim("dirty path", inBlocker, "%s", blockerTexts(o)),
			claim("proof", err == nil && !proof.EndedClean && inProof, "%s refuses %v", cleanProof, proof.Refused),
			claim("work kept", slices.Contains(o.report.ChangedFiles, greeting), "the rest of the change is in the patch: %v", o.report.ChangedFiles),
		}
	}
}

func showsDirtyCopy(o *session) []Check {
	var proof struct {
		Intact bool `json:"baseline_intact"`
	}
	err := json.Unmarshal([]byte(o.text(cleanProof)), &proof)
	return []Check{
		claim("proof", err == nil && !proof.Intact, "%s says that the baseline is intact: %v", cleanProof, proof.Intact),
		claim("cause", o.blockersName(string(reason.InfrastructureFault), "baseline changed"), "%s", blockerTexts(o)),
	}
}

func showsFullDisk(o *session) []Check {
	info, err := os.Stat(o.path(stdoutLog))
	size := int64(-1)
	if err == nil {
		size = info.Size()
	}
	return append(showsFailedPath(o, stdoutLog, "no space left on device"),
		claim("disk was full", size > 0 && size < smallDisk, "%s has %d of %d bytes", stdoutLog, size, tooMuch),
		claim("work kept", slices.Contains(o.report.ChangedFiles, greeting), "the change is in the patch: %v", o.report.ChangedFiles))
}

func showsReadOnly(o *session) []Check {
	why := "read-only file system"
	if os.Geteuid() != 0 {
		why = "permission denied"
	}
	return append(showsFailedPath(o, stdoutLog, why), claim("no engine", !o.report.EngineProcessStarted, "no engine was started"))
}

func showsNoRoom(o *session) []Check {
	return append(showsFailedPath(o, evidence.PatchFile, "no space left on device"),
		claim("engine ended", o.report.EngineProcessStarted && o.event("engine.finished") != nil, "the agent had done its work"),
		claim("nothing half-written", o.text(evidence.PatchFile) == "", "no part of a patch passes for one"))
}

func showsFailedPath(o *session, path, why string) []Check {
	code := string(reason.ArtifactWriteFailure)
	return []Check{
		claim("failed path", o.blockersName(code, path), "%s", blockerTexts(o)),
		claim("cause", o.blockersName(code, why), "%s", why),
	}
}

func showsUnavailable(o *session) []Check {
	marker := evidence.BackendDir + "/provider-unavailable.txt"
	code, _, _ := strings.Cut(o.text(marker), "\n")
	return []Check{
		claim("marker", ladder.Says(reason.ProviderUnavailable, reason.Code(code)), "%s", marker),
		claim("no engine", !o.report.EngineProcessStarted, "no engine was started"),
		claim("no mutation", len(o.report.ChangedFiles) == 0 && o.text(evidence.PatchFile) == "", "nothing was changed"),
	}
}
