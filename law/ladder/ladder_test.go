//test:plain-package It only computes: there is one goroutine.

package ladder

import (
	"slices"
	"strings"
	"testing"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// specified is the failure matrix as its specification has it.
var specified = []struct {
	name, status, code, event string
}{
	{"no-diff", "fail", "no_diff", "git.diff.checked"},
	{"disallowed-file", "fail", "disallowed_file_change", "git.diff.checked"},
	{"failed-tests", "fail", "verification_failed", "verification.completed"},
	{"missing-test-command", "blocked", "missing_test_command", "verification.completed"},
	{"missing-event", "fail", "missing_required_event", "run.completed"},
	{"reviewer-reject", "blocked", "reviewer_rejected", "verification.completed"},
	{"approval-denied", "blocked", "approval_denied", "approval.denied"},
	{"timeout", "blocked", "timeout", "run.completed"},
	{"dirty-starting-tree", "blocked", "dirty_starting_tree", "task.contract.created"},
	{"dirty-ending-tree", "fail", "dirty_ending_tree", "run.completed"},
	{"artifact-write-failure", "fail", "artifact_write_failure", "run.completed"},
	{"provider-unavailable", "blocked", "provider_unavailable", "run.completed"},
}

// TestRowsAreTheSpecification keeps the twelve rows to the letter, and every
// case of a row to the row's status.
func TestRowsAreTheSpecification(t *testing.T) {
	t.Parallel()
	all := Rows()
	if len(all) != len(specified) {
		t.Fatalf("%d rows, want %d", len(all), len(specified))
	}
	for i, want := range specified {
		r := all[i]
		if r.Name != want.name || string(r.Status) != want.status || string(r.Code) != want.code || r.Event != want.event {
			t.Errorf("row %d is %s %s %s %s, want %v", i, r.Name, r.Status, r.Code, r.Event, want)
		}
		if r.Trigger == "" || r.Evidence == "" || len(r.Cases) == 0 {
			t.Errorf("%s: no trigger, evidence or case", r.Name)
		}
		if want := map[reason.Status]int{reason.Fail: 2, reason.Blocked: 3}[r.Status]; r.ExitCode() != want {
			t.Errorf("%s: exit %d, want %d", r.Name, r.ExitCode(), want)
		}
		seen := map[string]bool{}
		for _, c := range r.Cases {
			if c.Name == "" || c.Trigger == "" || seen[c.Name] {
				t.Errorf("%s: case %q has no trigger or is there twice", r.Name, c.Name)
			}
			seen[c.Name] = true
			info, known := reason.Lookup(r.Expected(c))
			if !known || info.Status != r.Status {
				t.Errorf("%s/%s: code %s leads to %s, the row to %s", r.Name, c.Name, r.Expected(c), info.Status, r.Status)
			}
		}
		if found, ok := RowNamed(r.Name); !ok || found.Name != r.Name {
			t.Errorf("%s is not found by its name", r.Name)
		}
	}
	if _, ok := RowNamed("no-such-row"); ok {
		t.Error("a row that is not there was found")
	}
}

// TestStagesClimb keeps the six stages in order, each wider than the one below,
// with failure classes that exist.
func TestStagesClimb(t *testing.T) {
	t.Parallel()
	all := Stages()
	if len(all) != 6 {
		t.Fatalf("%d stages, want 6", len(all))
	}
	classes := append(RowNames(), FurtherClasses()...)
	for i, s := range all {
		// A report says no more of a fixture than the operator's word; the stage is
		// about one that is shipped.
		scope := evidence.MutationScope(s.Mode.String())
		if s.Mode == task.CopiedFixture {
			scope = "copied artificial fixture only"
		}
		if s.Number != i+1 || s.Mode != task.MutationModes()[i] || s.MutationScope != scope {
			t.Errorf("stage %d: number %d, mode %s, scope %q", i+1, s.Number, s.Mode, s.MutationScope)
		}
		names := s.CheckNames("codex")
		slices.Sort(names)
		for _, list := range [][]NamedCheck{s.EntryGates, s.RequiredArtifacts, s.Validator, s.Promotion} {
			if len(list) == 0 || slices.ContainsFunc(list, func(c NamedCheck) bool { return c.Name == "" || c.Means == "" }) {
				t.Errorf("stage %d: a list of checks is empty, or one has no name or no meaning", s.Number)
			}
		}
		if len(slices.Compact(names)) != len(s.CheckNames("codex")) || s.FailureClasses[0] != ClassGateMissing {
			t.Errorf("stage %d: a check is there twice, or a missing gate is no failure class", s.Number)
		}
		if s.Name == "" || len(s.Proves) == 0 || len(s.FailureClasses) == 0 {
			t.Errorf("stage %d is incomplete", s.Number)
		}
		for _, c := range s.FailureClasses {
			if !slices.Contains(classes, c) {
				t.Errorf("stage %d: failure class %q does not exist", s.Number, c)
			}
		}
	}
	if !slices.Equal(all[5].FailureClasses, append([]string{ClassGateMissing}, RowNames()...)) {
		t.Error("the last stage does not run the full matrix")
	}
}

// TestDataIsCopied keeps callers from changing the tables.
func TestDataIsCopied(t *testing.T) {
	t.Parallel()
	Rows()[0].Cases[0].Name = "changed"
	Stages()[0].FailureClasses[0] = "changed"
	if Rows()[0].Cases[0].Name == "changed" || Stages()[0].FailureClasses[0] == "changed" {
		t.Error("a caller changed the tables")
	}
}

// TestSummaryClaimsNothing holds the control summary to what evidence there is:
// no record, no check and no pass make a stage proven or an engine the default.
func TestSummaryClaimsNothing(t *testing.T) {
	t.Parallel()
	good := &MatrixRecord{Status: evidence.StatusPass, Held: 12, Total: 12, Current: true}
	old := *good
	old.Current = false
	tests := []struct {
		name    string
		records Records
		state   string // of stage 2
		next    string
	}{
		{"nothing", Records{Engine: "fake"}, NotProven, "run `remit ladder matrix --engine fake`"},
		{"failed matrix", Records{Engine: "fake", Matrix: &MatrixRecord{Status: "fail", Held: 11, Total: 12, Current: true}}, NotProven, "11 of 12"},
		{"matrix of another build", Records{Engine: "fake", Matrix: &old}, NotProven, "another build"},
		{"good matrix", Records{Engine: "fake", Matrix: good}, NotProven, "holds"},
		{"an unchecked proof", Records{Engine: "fake", Matrix: good, Proofs: map[int][]Record{2: {{Path: "p", SHA256: "s"}}}}, Unchecked, "holds"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := Summarize([]Records{test.records})
			e := s.Engines[0]
			if s.RuntimeDefaultActivation || s.CorePromotionStatus != NotPromoted || s.DecisionStatus != NotDecided || s.DefaultValidationLane != "fake" {
				t.Errorf("positions %+v", s)
			}
			if e.ProvenStage != 0 || e.CandidateStatus != NotCandidate || len(e.Stages) != 6 {
				t.Errorf("engine %+v", e)
			}
			if got := e.Stages[1].State; got != test.state {
				t.Errorf("stage 2 is %q, want %q", got, test.state)
			}
			if !strings.Contains(e.NextAction, test.next) {
				t.Errorf("next action %q lacks %q", e.NextAction, test.next)
			}
		})
	}
}
