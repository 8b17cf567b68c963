//go:build !race

package evidence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// edited are the entries of a golden case after an edit. Their chain is broken,
// which is the matter of another gate: the verdict is about what they say.
func edited(t testing.TB, name string, edit func(i int, s *journal.Step) (keep bool)) []journal.Entry {
	t.Helper()
	var out []journal.Entry
	for i, e := range entriesOf(t, name) {
		step := journal.Step{StepID: e.StepID, Name: e.Name, Status: e.Status, Inputs: e.Inputs, Outputs: e.Outputs}
		if !edit(i, &step) {
			continue
		}
		var err error
		e.Status = step.Status
		if e.Outputs, err = canon.Marshal(step.Outputs); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// drop leaves out the entries with this name and status.
func drop(name string, status journal.Status) func(testing.TB, *journal.Step) bool {
	return func(_ testing.TB, s *journal.Step) bool { return s.Name != name || s.Status != status }
}

// set changes one field of the outputs of a step that ended.
func set(name, field string, value any) func(testing.TB, *journal.Step) bool {
	return func(t testing.TB, s *journal.Step) bool {
		if s.Name == name && s.Status != journal.Started {
			s.Outputs = withField(t, s.Outputs, field, value)
		}
		return true
	}
}

func withField(t testing.TB, object any, field string, value any) map[string]any {
	t.Helper()
	raw, err := canon.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	m[field] = value
	return m
}

func status(name string, status journal.Status) func(testing.TB, *journal.Step) bool {
	return func(_ testing.TB, s *journal.Step) bool {
		if s.Name == name && s.Status != journal.Started {
			s.Status = status
		}
		return true
	}
}

// headRuns changes the runs of verify.head and leaves the verifier's own word
// as it was: a pass.
func headRuns(runs ...evidence.CommandRun) func(testing.TB, *journal.Step) bool {
	return set(evidence.StepVerifyHead, "runs", runs)
}

// TestVerdictNeedsEveryFact takes one fact from a passing journal, or turns it
// round, and leaves every claim of success in place.
func TestVerdictNeedsEveryFact(t *testing.T) {
	t.Parallel()
	run := evidence.CommandRun{Phase: "head", Command: "go test ./...", StdoutSHA256: canon.Digest(nil), StderrSHA256: canon.Digest(nil)}
	failed, lying, other := run, run, run
	failed.ExitCode = 1
	lying.ExitCode, lying.Passed = 1, true
	other.Command, other.Passed = "true", true
	tests := []struct {
		name string
		base string
		edit func(testing.TB, *journal.Step) bool
		code reason.Code
		text string
	}{
		{"no contract", "pass", drop(evidence.StepContract, journal.Completed), reason.MissingRequiredEvent, "event task.contract.created is missing"},
		{"no decision", "pass", drop(evidence.StepEligibility, journal.Completed), reason.MissingRequiredEvent, "event eligibility.decided is missing"},
		{"no plan", "pass", drop(evidence.StepPlan, journal.Completed), reason.MissingRequiredEvent, "event plan.updated is missing"},
		{"no workspace", "pass", drop(evidence.StepWorkspace, journal.Completed), reason.Interrupted, "the baseline was not copied"},
		{"engine not started", "pass", drop(evidence.StepEngine, journal.Started), reason.MissingRequiredEvent, "event engine.started is missing"},
		{"engine not finished", "pass", drop(evidence.StepEngine, journal.Completed), reason.MissingRequiredEvent, "event engine.finished is missing"},
		{"no process", "pass", set(evidence.StepEngine, "process_started", false), reason.Interrupted, "the engine did not finish"},
		{"no patch", "pass", drop(evidence.StepPatch, journal.Completed), reason.MissingRequiredEvent, "event patch.applied is missing"},
		{"empty patch", "pass", set(evidence.StepPatch, "files", []any{}), reason.NoDiff, "the patch has none"},
		{"paths not checked", "pass", drop(evidence.StepWrites, journal.Completed), reason.MissingRequiredEvent, "event git.diff.checked is missing"},
		{"paths refused", "pass", set(evidence.StepWrites, "allowed_writes_passed", false), reason.Interrupted, "the changed paths were not checked"},
		{"head not run", "pass", drop(evidence.StepVerifyHead, journal.Completed), reason.VerificationFailed, "was not run on the patched tree"},
		{"another command run", "pass", headRuns(other), reason.VerificationFailed, "was not run on the patched tree"},
		{"head fails", "pass", headRuns(failed), reason.VerificationFailed, "failed on the patched tree"},
		{"head passes with exit 1", "pass", headRuns(lying), reason.VerificationFailed, "failed on the patched tree"},
		{"verifier silent", "pass", drop(evidence.StepVerification, journal.Completed), reason.MissingRequiredEvent, "event verification.completed is missing"},
		{"verifier failed", "pass", set(evidence.StepVerification, "status", "fail"), reason.Interrupted, "the verifier did not pass"},
		{"source not looked at", "pass", drop(evidence.StepSourceChecked, journal.Completed), reason.Interrupted, "not proved untouched"},
		{"source mutated", "pass", set(evidence.StepSourceChecked, "mutated", true), reason.Interrupted, "not proved untouched"},
		{"approval not asked for", "approved", drop(evidence.StepApprovalRequested, journal.Completed), reason.MissingRequiredEvent, "event approval.requested is missing"},
		{"approval not granted", "approved", drop(evidence.StepApprovalGranted, journal.Completed), reason.ApprovalMissing, "none was granted"},
		{"a step failed without a reason", "pass", status(evidence.StepWorkspace, journal.Failed), reason.Interrupted, "step workspace.copy is failed"},
		{"a step was skipped", "pass", status(evidence.StepPlan, journal.Skipped), reason.Interrupted, "step plan.updated is skipped"},
		{"base not run", "pass", drop(evidence.StepVerifyBase, journal.Completed), reason.VerificationFailed, "was not run on the baseline"},
		{"engine exits 1", "pass", set(evidence.StepEngine, "exit_code", 1), reason.EngineFailed, "did not end well"},
		{"engine without an exit", "pass", set(evidence.StepEngine, "exit_code", nil), reason.EngineFailed, "did not end well"},
		{"its own reviewer rejected it", "pass", set(evidence.StepEngine, "rejected", "it is wrong"), reason.ReviewerRejected, "rejected the change"},
		{"engine timed out", "pass", set(evidence.StepEngine, "timed_out", true), reason.EngineFailed, "did not end well"},
		{"nothing allows that the engine was stopped", "stopped", drop(evidence.StepLifecycle, journal.Completed), reason.EngineFailed, "did not end well"},
		{"the contract does not allow it", "hung", forgiven, reason.EngineFailed, "did not end well"},
		{"it is allowed without a verdict", "stopped", set(evidence.StepLifecycle, "verified", false), reason.EngineFailed, "did not end well"},
		{"stopped, and it printed too much", "stopped", set(evidence.StepEngine, "output_exceeded", true), reason.EngineFailed, "did not end well"},
		{"stopped, and no exit", "stopped", set(evidence.StepEngine, "exit_code", nil), reason.EngineFailed, "did not end well"},
		{"something speaks against the engine's end", "pass", set(evidence.StepEngine, "ending", []any{map[string]any{"code": "agent_protocol_failed"}}), reason.EngineFailed, "did not end well"},
		{"engine left a refused file", "pass", set(evidence.StepPatch, "refused", []string{".git/hooks/x"}), reason.DirtyEndingTree, "cannot be part of a patch"},
		{"a repetition failed", "pass", set(evidence.StepVerification, "final_confidence", 0), reason.FlakyVerification, "not every repetition"},
		{"never repeated", "pass", set(evidence.StepVerification, "repeats", 0), reason.FlakyVerification, "not every repetition"},
		{"a test broke", "pass", set(evidence.StepVerification, "pass_to_fail", []string{"calc.TestSub"}), reason.VerificationFailed, "passed before"},
		{"a test is gone", "pass", set(evidence.StepVerification, "missing", []string{"calc.TestSub"}), reason.VerificationFailed, "passed before"},
		{"the verifier was denied", "pass", status(evidence.StepVerification, journal.Denied), reason.Interrupted, "step verification.completed is denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			entries := edited(t, tt.base, func(_ int, s *journal.Step) bool { return tt.edit(t, s) })
			v, err := evidence.Verdict(entries)
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Blockers) == 0 || v.Blockers[0].Code != tt.code || !strings.Contains(v.Blockers[0].Message, tt.text) {
				t.Fatalf("got %+v, want %s: …%s…", v, tt.code, tt.text)
			}
			if want := string(reason.StatusOf(tt.code)); v.Status != want {
				t.Errorf("status %s, want %s", v.Status, want)
			}
			if v.FailureReason == nil || !strings.HasPrefix(*v.FailureReason, string(tt.code)+": ") {
				t.Errorf("failure_reason is %v, want the root cause", v.FailureReason)
			}
		})
	}
}

// TestVerdictScripts are whole runs.
func TestVerdictScripts(t *testing.T) {
	t.Parallel()
	blocker := func(code reason.Code) evidence.Blocker {
		return evidence.Blocker{Code: code, Message: "scripted", Evidence: evidence.JournalFile}
	}
	tests := []struct {
		name   string
		script func(*session)
		status string
		codes  []reason.Code
	}{
		{"pass", passing, evidence.StatusPass, nil},
		{"approved", approved, evidence.StatusPass, nil},
		{"verification fails", failing, evidence.StatusFail, []reason.Code{reason.VerificationFailed}},
		{"a closed gate", blocked, evidence.StatusBlocked, []reason.Code{reason.EngineNotEnabled, reason.GateMissing}},
		{"the first blocker decides: fail before blocked", func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			s.engine(1, blocker(reason.EngineFailed))
			s.note(evidence.StepStopped, "stop", journal.Failed, nil, map[string]any{"blockers": []evidence.Blocker{blocker(reason.Cancelled)}})
		}, evidence.StatusFail, []reason.Code{reason.EngineFailed, reason.Cancelled}},
		{"the first blocker decides: blocked before fail", func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			s.engine(137, blocker(reason.Timeout))
			s.patch()
			s.writes("/etc/passwd")
			s.source("HEAD")
		}, evidence.StatusBlocked, []reason.Code{reason.Timeout, reason.DisallowedFileChange, reason.SourceRepositoryMutated}},
		{"interrupted", cases["interrupted"], evidence.StatusBlocked, nil},
		{"a plan refined by the engine", func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			end := s.begin(evidence.StepEngine, evidence.PlanEngine, evidence.EngineStarted{Engine: "command"})
			s.plan()
			zero := 0
			end(journal.Completed, evidence.EngineFinished{ProcessStarted: true, ExitCode: &zero})
			s.patch()
			s.writes()
			s.verify(true)
			s.source()
		}, evidence.StatusPass, nil},
		{"verified before the engine ran", func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			s.verify(true)
			s.engine(0)
			s.patch()
			s.writes()
			s.source()
		}, evidence.StatusFail, nil},
		{"engine before the approval", func(s *session) {
			s.open(true)
			s.eligible()
			s.plan()
			s.workspace()
			s.engine(0)
			s.note(evidence.StepApprovalRequested, "approval", journal.Completed, nil, nil)
			s.note(evidence.StepApprovalGranted, "approval", journal.Completed, nil, nil)
			s.patch()
			s.writes()
			s.verify(true)
			s.source()
		}, evidence.StatusFail, []reason.Code{reason.MissingRequiredEvent, reason.MissingRequiredEvent}},
		{"a gate that was closed and passed by", func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.note(evidence.StepGate, "gate", journal.Denied, nil, evidence.GateBlocked{Backend: "command", Gate: "engine:enabled", Reason: reason.EngineNotEnabled})
			s.workspace()
			s.engine(0)
			s.patch()
			s.writes()
			s.verify(true)
			s.source()
		}, evidence.StatusBlocked, nil},
		{"an approval that was denied and not needed", func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.note(evidence.StepApprovalDenied, "approval", journal.Completed, nil, nil)
			s.workspace()
			s.engine(0)
			s.patch()
			s.writes()
			s.verify(true)
			s.source()
		}, evidence.StatusBlocked, []reason.Code{reason.ApprovalDenied}},
		{"an earlier verdict does not count", func(s *session) {
			failing(s)
			s.note(evidence.StepRunCompleted, "run", journal.Completed, nil, evidence.RunCompleted{Status: evidence.StatusPass})
		}, evidence.StatusFail, []reason.Code{reason.VerificationFailed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			tt.script(s)
			v, err := evidence.Verdict(s.w.Entries())
			s.must(err)
			if v.Status != tt.status {
				t.Errorf("status %s, want %s: %+v", v.Status, tt.status, v.Blockers)
			}
			var codes []reason.Code
			for _, b := range v.Blockers {
				codes = append(codes, b.Code)
			}
			if tt.codes != nil && !slices.Equal(codes, tt.codes) {
				t.Errorf("blockers %v, want %v", codes, tt.codes)
			}
			if (v.Status == evidence.StatusPass) != (len(v.Blockers) == 0 && v.FailureReason == nil) {
				t.Errorf("status and blockers contradict each other: %+v", v)
			}
		})
	}
}

// forgiven has engine.lifecycle allow what the contract does not.
// TestVerdictOnSourceMeanwhile: that the source changed is no fault of a run
// whose sandbox kept it away from there, and of no other run.
func TestVerdictOnSourceMeanwhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		driver, says string
		pass         bool
	}{
		"as it was":                 {"bwrap", "bwrap", true},
		"nothing kept it out":       {"none", "none", false},
		"the record claims another": {"none", "bwrap", false},
		"the record claims none":    {"bwrap", "none", false},
		"an unknown driver":         {"bwrap2", "bwrap2", false},
	} {
		entries := entriesOf(t, "meanwhile")
		for i := range entries {
			e := &entries[i]
			e.Inputs = bytes.ReplaceAll(e.Inputs, []byte(`"driver":"bwrap"`), []byte(`"driver":"`+test.driver+`"`))
			e.Outputs = bytes.ReplaceAll(e.Outputs, []byte(`"kept_out_by":"bwrap"`), []byte(`"kept_out_by":"`+test.says+`"`))
		}
		v, err := evidence.Verdict(entries)
		if err != nil || (v.Status == evidence.StatusPass) != test.pass || !test.pass && v.Blockers[0].Code != reason.Interrupted {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// TestSourceSentence: a text for people names hooks and configuration, and not
// every file of a flood.
func TestSourceSentence(t *testing.T) {
	t.Parallel()
	s := evidence.SourceChange{KeptOutBy: "bwrap", Changes: []evidence.SourceDifference{{What: "index"}}}
	if text := s.Sentence(); strings.Contains(text, "start programs") || !strings.Contains(text, "index") {
		t.Error(text)
	}
	for range 50 {
		s.Changes = append(s.Changes, evidence.SourceDifference{What: "worktree: x"})
	}
	s.Changes = append(s.Changes, evidence.SourceDifference{What: "hooks: pre-commit"})
	if text := s.Sentence(); !strings.Contains(text, "start programs") || !strings.Contains(text, "hooks: pre-commit") || !strings.Contains(text, "and 47 more") {
		t.Error(text)
	}
}

func forgiven(t testing.TB, s *journal.Step) bool {
	if s.Name == evidence.StepLifecycle {
		s.Outputs = evidence.LifecycleJudged{Lifecycle: evidence.Lifecycle{Stopped: evidence.StoppedWall, AfterMS: 850,
			Rule: evidence.LifecycleAllow, Verified: true, Allowed: true}}
	}
	return true
}

// annotations are the entries of a passing journal that carry no fact which
// the verdict needs. Everything else must be there. The value says why.
var annotations = map[string]string{
	"workspace.copy started":      "its end says what was copied",
	"patch.captured started":      "its end carries the patch",
	"verify.head started":         "its end carries the runs",
	"verify.base started":         "its end carries the runs",
	"tool completed":              "a call that never returned: the patch says what the agent did",
	"tool denied":                 "the same for a refused call",
	"message.emitted completed":   "the agent's words are never evidence",
	"usage.metered completed":     "spending does not make a patch right",
	"model.request completed":     "as spending; without it less is asked of usage.metered",
	"model.request denied":        "as spending; what was refused did not leave",
	"authority.receipt completed": "the authority's book-keeping",
	"proof.recorded completed":    "a file that shows what a step has found; the projections gate compares the file",
	"artifact.recorded completed": "a digest; the projections gate demands patch.diff and test.log",
	"run.completed completed":     "the verdict itself; the journal gate demands it",
	"operator.outcome completed":  "comes after the verdict",
}

func annotation(e journal.Entry) bool {
	_, listed := annotations[e.Name+" "+string(e.Status)]
	return listed
}

// TestVerdictWithoutAnyOneEntry removes every single entry of a passing run.
func TestVerdictWithoutAnyOneEntry(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for _, name := range []string{"pass", "approved", "accepted", "stopped"} {
		entries := entriesOf(t, name)
		for i, e := range entries {
			kept := slices.Concat(entries[:i], entries[i+1:])
			v, err := evidence.Verdict(kept)
			passes := err == nil && v.Status == evidence.StatusPass
			if passes != annotation(e) {
				t.Errorf("%s without entry %d (%s %s): passes %t, listed as an annotation: %t", name, i, e.Name, e.Status, passes, annotation(e))
			}
			met[e.Name+" "+string(e.Status)] = true
		}
	}
	for key := range maps.Keys(annotations) {
		if !met[key] {
			t.Errorf("annotation %q does not occur in a passing run", key)
		}
	}
}

// TestVerdictWithoutSomeEntries: whatever else goes with it, a fact that is
// gone is gone.
func TestVerdictWithoutSomeEntries(t *testing.T) {
	t.Parallel()
	entries := entriesOf(t, "approved")
	var facts []int
	for i, e := range entries {
		if !annotation(e) && e.Name != evidence.StepTool { // a call can go together with its result
			facts = append(facts, i)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		gone := map[int]bool{rapid.SampledFrom(facts).Draw(rt, "fact"): true}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(entries)-1), 0, 6).Draw(rt, "more") {
			gone[i] = true
		}
		var kept []journal.Entry
		for i, e := range entries {
			if !gone[i] {
				kept = append(kept, e)
			}
		}
		if v, err := evidence.Verdict(kept); err == nil && v.Status == evidence.StatusPass {
			rt.Fatalf("passes without entries %v", slices.Sorted(maps.Keys(gone)))
		}
	})
}

// TestVerdictErrors: a journal that is not of this kind has no verdict.
func TestVerdictErrors(t *testing.T) {
	t.Parallel()
	noFirst := edited(t, "pass", func(i int, _ *journal.Step) bool { return i > 0 })
	badPayload := edited(t, "pass", func(_ int, s *journal.Step) bool {
		return set(evidence.StepEngine, "exit_code", "zero")(t, s)
	})
	orphan := edited(t, "pass", func(_ int, s *journal.Step) bool { return s.Name != evidence.StepTool || s.Status != journal.Started })
	for name, tt := range map[string]struct {
		entries []journal.Entry
		code    reason.Code
	}{
		"empty":                   {nil, reason.JournalUnfinished},
		"another first entry":     {noFirst, reason.JournalOrder},
		"payload of another form": {badPayload, reason.JournalSyntax},
		"result without a call":   {orphan, reason.JournalSyntax},
	} {
		if _, err := evidence.Verdict(tt.entries); reason.CodeOf(err) != tt.code {
			t.Errorf("%s: error %v, want %s", name, err, tt.code)
		}
		if _, err := evidence.Project(tt.entries); reason.CodeOf(err) != tt.code {
			t.Errorf("%s: Project: error %v, want %s", name, err, tt.code)
		}
	}
}

// TestBaselineVerifiedAgain: a run that was killed while the patched tree was
// verified does both again when it is taken up. Its report has the baseline once.
func TestBaselineVerifiedAgain(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.open(false)
	s.phase(evidence.StepVerifyBase, "base", 1, evidence.TestCounts{Passed: 2, Failed: 2})
	s.step(evidence.StepVerifyHead, "verify.head", journal.Skipped, nil, nil)
	s.verify(true)
	rep, err := evidence.ReportOf(s.w.Entries())
	s.must(err)
	var got []string
	for _, c := range rep.Verification {
		got = append(got, fmt.Sprint(c.Phase, " ", c.Tests.Passed))
	}
	if want := []string{"base 3", "head 4"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
