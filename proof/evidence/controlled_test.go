//go:build !race

package evidence_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// Sessions of a verifier that states a control: every run of it is a step
// verify.run and a section of test.log.

// controlled is a run whose tests were shown to be able to fail.
func controlled(s *session) {
	s.control = &evidence.Control{Status: evidence.ControlMade, Scheme: "halves", Counting: 4, Proved: 3, Runs: 2,
		Commands: []evidence.CommandControl{{Command: "go test ./...", Status: evidence.ControlMade, By: "test", Counting: 4, Proved: 3}}}
	s.metered = true
	approved(s)
}

// uncontrolled is one whose command runs no test that can be edited, over what
// the operator calls a fixture.
func uncontrolled(s *session) {
	s.control = &evidence.Control{Status: evidence.ControlNone, Reason: "no test of `go test ./...` can be edited",
		Commands: []evidence.CommandControl{{Command: "go test ./...", Status: evidence.ControlNone, Reason: "no site"}}}
	s.mode = "copied-fixture"
	passing(s)
}

// feature is a run that fixes nothing that was there: its tests are new.
func feature(s *session) {
	s.control = &evidence.Control{Status: evidence.ControlMade, Scheme: "halves", Counting: 3, Proved: 3, Runs: 2,
		Commands: []evidence.CommandControl{{Command: "go test ./...", Status: evidence.ControlMade, By: "test", Counting: 3, Proved: 3}}}
	s.feature = true
	passing(s)
}

// testNames is what became of the tests of a scripted session: the base fails
// one of them, or knows one less where the change is a feature.
func (s *session) testNames(passes bool) (before, after map[string]string) {
	before = map[string]string{"calc.TestAdd": "fail", "calc.TestMul": "pass", "calc.TestNeg": "pass", "calc.TestSub": "pass"}
	after = map[string]string{"calc.TestAdd": "pass", "calc.TestMul": "pass", "calc.TestNeg": "pass", "calc.TestSub": "pass"}
	if s.feature {
		delete(before, "calc.TestAdd")
	}
	if !passes {
		after["calc.TestAdd"], after["calc.TestSub"] = "fail", "fail"
	}
	return before, after
}

// describe says where a test is from and why it failed, as a verifier does that
// states a control.
func (s *session) describe(t *evidence.TestResult) {
	if s.control == nil {
		return
	}
	t.Origin, t.File = "base", "calc/add_test.go"
	if s.feature && t.Test == "calc.TestAdd" {
		t.Origin = "new"
	}
	if t.Outcome == "fail" {
		t.Message = "Add(1, 2) = -1, want 3"
	}
}

// countsOf counts the outcomes of one phase, with the exit code of their runner.
func countsOf(tests map[string]string) (counts evidence.TestCounts, exit int) {
	for _, outcome := range tests {
		if outcome == "pass" {
			counts.Passed++
		} else {
			counts.Failed++
			exit = 1
		}
	}
	return counts, exit
}

// judgeTests adds what the verification states of its own tests.
func (s *session) judgeTests(out *evidence.VerificationCompleted) {
	if s.control == nil {
		return
	}
	out.Control = s.control
	if s.control.Status == evidence.ControlNone {
		out.Confidence = min(out.Confidence, 50)
		out.NewTests = &evidence.NewTests{Skipped: "the change adds and edits no test"}
		out.Observation = &evidence.Observation{Mode: "off", Skipped: "verify.observe is off"}
		return
	}
	out.Untracked = []string{"calc/new_test.go"}
	out.NewTests = &evidence.NewTests{Tried: 2, FailWithout: []string{"calc.TestAddTwo"}, PassWithout: []string{"calc.TestZero"}}
	if s.feature {
		out.NewTests = &evidence.NewTests{Tried: 1, FailWithout: []string{"calc.TestAdd"}}
	}
	out.Observation = &evidence.Observation{Mode: "sample", Hunks: 5, Tried: 4, Skipped: "the time was over",
		Unobserved: []evidence.HunkOfPatch{{Path: "calc/add.go", First: 3, Last: 4}, {Path: "calc/add.go", First: 9, Last: 9, Removed: true}}}
}

// verifyRun writes one run of the verifier: a step with two ends, and for all
// but the plain run, which the phase logs, its section of test.log.
func (s *session) verifyRun(run evidence.CommandRun, tree string, repetition, expected int) {
	s.t.Helper()
	if s.control == nil || run.Cached {
		return
	}
	in := evidence.VerifyRunStarted{Phase: run.Phase, Tree: tree, Repetition: repetition, Commands: s.run.VerificationCommands}
	s.step(evidence.StepVerifyRun, fmt.Sprintf("verify.run-%s-%s-%d", run.Phase, tree, repetition), journal.Completed, in,
		evidence.VerifyRunEnded{Phase: run.Phase, Tree: tree, Repetition: repetition, Runs: []evidence.CommandRun{run},
			Usage: evidence.ResourceUsage{CPUMillis: 900, PeakMemoryBytes: 64 << 20, WallMillis: 1200}, Expected: expected, FailedAsExpected: expected})
	if tree != run.Phase {
		text := logOf(run, tree)
		s.log += strings.Replace(text, "tree="+run.Phase+" repetition=1", fmt.Sprintf("tree=%s repetition=%d", tree, repetition), 1)
	}
}

// furtherRuns are those that look at the tests: two halves, the new tests on
// the base's code, and a change without one of its parts.
func (s *session) furtherRuns(phase string) {
	s.t.Helper()
	if s.control == nil || s.control.Status == evidence.ControlNone || phase != "head" {
		return
	}
	for repetition, tree := range []string{"twin", "twin", "new-tests", "hunk"} {
		n, expected, failed := 1, 0, 1
		if tree == "twin" {
			n, expected, failed = repetition+1, 2, 2
		}
		s.verifyRun(evidence.CommandRun{Phase: "head", Command: "go test ./...", ExitCode: 1, DurationMS: 700, StdoutSHA256: canon.Digest([]byte(tree)),
			StderrSHA256: canon.Digest(nil), Tests: &evidence.TestCounts{Passed: 4 - failed, Failed: failed}}, tree, n, expected)
	}
}

// bothRefuse seals a session and says whether the audit's gates and the second
// verifier refuse it.
func bothRefuse(t *testing.T, dir string) (gate, python string) {
	t.Helper()
	if err := bundle.Seal(dir); err != nil {
		t.Fatal(err)
	}
	if rep := audit(t, dir); rep.Status != bundle.Pass {
		gate = findingsOf(rep)
	}
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("PYTHON3 IS NOT INSTALLED: the second verifier was not run")
	}
	out, err := exec.CommandContext(t.Context(), program, "-I", "-B", filepath.Join(vectorsDir, "verify.py"), dir).CombinedOutput()
	if err != nil {
		python = string(out)
	}
	return gate, python
}

// TestControlCannotBeClaimed edits what a verification says of its own tests,
// in a journal whose chain and projections are made anew: both verifiers refuse.
func TestControlCannotBeClaimed(t *testing.T) {
	t.Parallel()
	verification := func(edit func(*evidence.VerificationCompleted)) func(testing.TB, *journal.Step) {
		return func(t testing.TB, s *journal.Step) {
			editOutputs(t, evidence.StepVerification, edit)(0, s)
		}
	}
	runs := func(tree string, edit func(*evidence.VerifyRunEnded)) func(testing.TB, *journal.Step) {
		return func(t testing.TB, s *journal.Step) {
			editOutputs(t, evidence.StepVerifyRun, func(r *evidence.VerifyRunEnded) {
				if r.Tree == tree {
					edit(r)
				}
			})(0, s)
		}
	}
	for i, tt := range []struct {
		name, base string
		edit       func(testing.TB, *journal.Step)
	}{
		{"no test was shown", "controlled", verification(func(v *evidence.VerificationCompleted) { v.Control.Proved = 0 })},
		{"more were shown than count", "controlled", verification(func(v *evidence.VerificationCompleted) { v.Control.Proved = 5 })},
		{"none counts", "controlled", verification(func(v *evidence.VerificationCompleted) { v.Control.Counting, v.Control.Proved = 0, 0 })},
		{"another word", "controlled", verification(func(v *evidence.VerificationCompleted) { v.Control.Status = "maybe" })},
		{"none, full confidence", "uncontrolled", verification(func(v *evidence.VerificationCompleted) { v.Confidence = 100 })},
		{"none, less than it has", "uncontrolled", verification(func(v *evidence.VerificationCompleted) { v.Confidence = 49 })},
		{"none, no reason", "uncontrolled", verification(func(v *evidence.VerificationCompleted) { v.Control.Reason = "" })},
		{"made, its command none", "uncontrolled", verification(func(v *evidence.VerificationCompleted) {
			v.Control.Status, v.Control.Counting, v.Control.Proved, v.Confidence = evidence.ControlMade, 1, 1, 100
		})},
		{"made, without a run", "uncontrolled", verification(func(v *evidence.VerificationCompleted) {
			v.Control.Status, v.Control.Counting, v.Control.Proved, v.Confidence, v.Control.Commands = evidence.ControlMade, 1, 1, 100, nil
		})},
		{"a strange command", "controlled", verification(func(v *evidence.VerificationCompleted) { v.Control.Commands[0].Command = "true" })},
		{"left out, half confidence", "uncontrolled", verification(func(v *evidence.VerificationCompleted) { v.Control = nil })},
		{"more new tests than tried", "controlled", verification(func(v *evidence.VerificationCompleted) { v.NewTests.Tried = 1 })},
		{"a new test both ways", "controlled", verification(func(v *evidence.VerificationCompleted) { v.NewTests.PassWithout = v.NewTests.FailWithout })},
		{"more parts than there are", "controlled", verification(func(v *evidence.VerificationCompleted) { v.Observation.Hunks = 3 })},
		{"a part of another file", "controlled", verification(func(v *evidence.VerificationCompleted) { v.Observation.Unobserved[0].Path = "other.go" })},
		{"a plain run that ended otherwise", "controlled", runs("head", func(r *evidence.VerifyRunEnded) { r.Runs[0].DurationMS++ })},
		{"a plain run that failed", "controlled", runs("head", func(r *evidence.VerifyRunEnded) { r.Repetition, r.Runs[0].Passed = 2, false })},
		{"a run of the baseline with other output", "controlled", runs("base", func(r *evidence.VerifyRunEnded) { r.Runs[0].StdoutSHA256 = canon.Digest(nil) })},
		{"a twin that passed", "controlled", runs("twin", func(r *evidence.VerifyRunEnded) { r.Runs[0].ExitCode, r.Runs[0].Passed = 0, true })},
		{"a twin with other tests", "controlled", runs("twin", func(r *evidence.VerifyRunEnded) { r.Runs[0].Tests.Failed++ })},
		{"more failures than expected", "controlled", runs("twin", func(r *evidence.VerifyRunEnded) { r.FailedAsExpected++ })},
		{"a run of new tests that is not logged", "controlled", runs("new-tests", func(r *evidence.VerifyRunEnded) { r.Runs = append(r.Runs, r.Runs[0]) })},
		{"a tree that no verifier knows", "controlled", runs("hunk", func(r *evidence.VerifyRunEnded) { r.Tree = "control" })},
		{"a run of a strange command", "controlled", runs("hunk", func(r *evidence.VerifyRunEnded) { r.Runs[0].Command = "true" })},
		{"twins renamed away", "controlled", func(t testing.TB, s *journal.Step) {
			if s.Name == evidence.StepVerifyRun && strings.Contains(s.StepID, "twin") {
				s.Name = "other"
			}
		}},
		{"another scope", "uncontrolled", func(t testing.TB, s *journal.Step) {
			if s.Name == evidence.StepRunOpened {
				s.Inputs = withField(t, s.Inputs, "allowed_mutation_scope", "copied artificial fixture only")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, i, 3)
			files := forge(t, tt.base, func(_ int, s *journal.Step) bool { tt.edit(t, s); return true })
			dir := t.TempDir()
			if err := os.CopyFS(dir, files); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, evidence.ManifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			gate, python := bothRefuse(t, dir)
			if !strings.Contains(gate, "projections") {
				t.Errorf("the gate projections accepts it; found: %s", gate)
			}
			if python == "" {
				t.Error("the second verifier accepts it")
			}
		})
	}
}

// TestContractDemands: a pass needs what the contract asks of the tests, also
// where run.completed claims one.
func TestContractDemands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		script  func(*session)
		demands any
		code    reason.Code // "" is a pass
	}{
		{"control required, none", uncontrolled, map[string]any{"control": "required"}, reason.ControlMissing},
		{"control required, not stated", passing, map[string]any{"control": "required"}, reason.ControlMissing},
		{"control required, made", feature, map[string]any{"control": "required"}, ""},
		{"control preferred, none", uncontrolled, map[string]any{"control": "preferred", "require": 7}, ""},
		{"observed required, unobserved", feature, map[string]any{"require": []string{"observed"}}, reason.ChangeUnobserved},
		{"observed required, not stated", passing, map[string]any{"require": []string{"observed"}, "control": 1}, reason.ChangeUnobserved},
		{"another form", feature, "required", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			s.demands = tt.demands
			tt.script(s)
			v, err := evidence.Verdict(s.w.Entries())
			if err != nil {
				t.Fatal(err)
			}
			if got := firstCode(v); got != tt.code {
				t.Fatalf("the verdict is %s (%q), want %q", v.Status, got, tt.code)
			}
			if tt.code == "" {
				return
			}
			claimed := s.w.Entries()
			files := t.TempDir()
			if err := os.CopyFS(files, os.DirFS(s.dir)); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(files, evidence.JournalFile)); err != nil {
				t.Fatal(err)
			}
			writeProjections(t, files, rechain(t, files, claimed, func(_ int, s *journal.Step) bool {
				if s.Name == evidence.StepRunCompleted {
					s.Status, s.Outputs = journal.Completed, evidence.RunCompleted{Status: evidence.StatusPass}
				}
				return true
			}))
			gate, python := bothRefuse(t, files)
			if !strings.Contains(gate, "projections") || python == "" {
				t.Errorf("a claimed pass is accepted: audit %q, second verifier %q", gate, python)
			}
		})
	}
}

func firstCode(v evidence.RunCompleted) reason.Code {
	if len(v.Blockers) == 0 {
		return ""
	}
	return v.Blockers[0].Code
}

// TestMergeSummary: what a person reads says how much was shown, and no more.
func TestMergeSummary(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"controlled": {"`Make Add return the sum.`", "Model: `example-large-1` of `example`", "version `1`", "1 test: `calc.TestAdd` (verified)",
			"1 of 2 fail without the change: `calc.TestAddTwo`", "`calc/add.go:3-4`", "3 of 4 tests shown to be able to fail", "1 of 1 repetitions passed",
			"$0.0003 for 2 requests", "0.700 sat released", "What the agent says (self-reported, not verified)", "Limits of this verification: "},
		"feature":      {"no test that was there before was failing; 1 new test fails without the change and passes with it"},
		"uncontrolled": {"none was made: no test of", "at most one half (`final_confidence` 0.50)", "Model: none was given"},
	} {
		text, err := os.ReadFile(filepath.Join(golden(name), evidence.SummaryFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: the summary does not say %q", name, part)
			}
		}
		for _, wrong := range []string{"micro-USD", "msats", "0 fixed"} {
			if strings.Contains(string(text), wrong) {
				t.Errorf("%s: the summary says %q", name, wrong)
			}
		}
	}
}
