package verify

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// basePhase is a phase as Base returns it: a failing suite and its control.
func basePhase() *PhaseResult {
	command := CommandResult{Command: "go test ./...", Ran: "go test -json ./...", Runner: results.GoTest, ExitCode: 1, Started: true, DurationMS: 12,
		StdoutSHA256: canon.Digest([]byte("x")), StderrSHA256: canon.Digest(nil), StdoutBytes: 1, Tests: &Counts{Passed: 1, Failed: 1},
		PerTest: map[string]results.Outcome{"p.TestA": results.Pass, "p.TestB": results.Fail}, direct: true, complete: true, transient: map[string]bool{}}
	r := &PhaseResult{Phase: PhaseBase, Repeats: 1}
	r.add(RunResult{Tree: TreeBase, Repetition: 1, Commands: []CommandResult{command}, Caps: []sandbox.Cap{{Name: "pids", Limit: 9}}, Usage: sandbox.Usage{CPUMillis: 3}})
	r.Runs = append(r.Runs, RunResult{Tree: TreeTwin, Repetition: 1, Commands: []CommandResult{command}})
	f := &suiteFile{path: "p_test.go", lang: langGo, key: "f0", sha256: canon.Digest(nil), pkg: "p"}
	f.tests = []*suiteTest{
		{file: f, name: "TestA", baseFacts: baseFacts{Outcome: results.Pass, Proved: []int{2}, Reached: []int{1, 2}}},
		{file: f, name: "TestB", baseFacts: baseFacts{Outcome: results.Fail, Failing: &twin.Order{Site: 3, Evaluation: 4}}},
	}
	r.proof = &baseProof{suite: &suite{files: []*suiteFile{f}}, groups: []groupProof{{view{0, 1}, byTest, ""}}}
	return r
}

// TestRecordIsThePhase: what is read back is what was kept, down to what only
// the judgement sees.
func TestRecordIsThePhase(t *testing.T) {
	t.Parallel()
	want := basePhase()
	text, err := want.Record()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecord(text, []string{"go test ./..."})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !got.Same(want) {
		t.Error("not the same")
	}
}

// TestOnlySettledPhasesAreRecorded: what might come out otherwise is never kept.
func TestOnlySettledPhasesAreRecorded(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*PhaseResult){
		"head":             func(r *PhaseResult) { r.Phase = PhaseHead },
		"nothing ran":      func(r *PhaseResult) { r.Runs = nil },
		"a finding":        func(r *PhaseResult) { r.Findings = []reason.Finding{{Code: reason.InfrastructureFault}} },
		"a fault":          func(r *PhaseResult) { r.Runs[0].Fault = &reason.Finding{Code: reason.InfrastructureFault} },
		"out of memory":    func(r *PhaseResult) { r.Runs[0].OOMKilled = true },
		"rewritten tests":  func(r *PhaseResult) { r.Runs[0].Rewritten = []string{"a_test.go"} },
		"a time limit":     func(r *PhaseResult) { r.Runs[0].Commands[0].TimedOut = true },
		"an output limit":  func(r *PhaseResult) { r.Runs[0].Commands[0].OutputExceeded = true },
		"a signal":         func(r *PhaseResult) { r.Runs[0].Commands[0].Signal = "killed" },
		"not started":      func(r *PhaseResult) { r.Runs[0].Commands[0].Started = false },
		"no tests known":   func(r *PhaseResult) { r.Runs[0].Commands[0].Tests = nil },
		"an unclear end":   func(r *PhaseResult) { r.Runs[0].Commands[0].complete = false },
		"no test failed":   func(r *PhaseResult) { r.Runs[0].Commands[0].Tests = &Counts{Passed: 2} },
		"a package broken": func(r *PhaseResult) { r.Runs[0].Commands[0].transient = map[string]bool{"p.TestB": true} },
		"a twin timed out": func(r *PhaseResult) {
			r.Runs[1].Commands[0].TimedOut = true
		},
		"failed once":    func(r *PhaseResult) { r.Runs = r.Runs[:1] },
		"unstable tests": func(r *PhaseResult) { r.Unstable = []string{"p_test.go: TestB"} },
		"disagreement": func(r *PhaseResult) {
			again := r.Runs[0]
			again.Commands = slices.Clone(again.Commands)
			again.Commands[0].PerTest = maps.Clone(again.Commands[0].PerTest)
			again.Commands[0].PerTest["p.TestA"] = results.Fail
			again.Repetition = 2
			r.Runs = append(r.Runs, again)
		},
	}
	for name, change := range tests {
		r := basePhase()
		change(r)
		if _, err := r.Record(); err == nil {
			t.Errorf("%s: it was recorded", name)
		}
	}
	passing := basePhase()
	passing.Runs[0].Commands[0].Passed, passing.Runs[0].Commands[0].ExitCode, passing.Runs[0].Commands[0].Tests = true, 0, nil
	if _, err := passing.Record(); err != nil {
		t.Errorf("a command that passes without a known runner: %v", err)
	}
}

// TestForgedRecordsAreRefused: a record that Record would not have written.
func TestForgedRecordsAreRefused(t *testing.T) {
	t.Parallel()
	text, err := basePhase().Record()
	if err != nil {
		t.Fatal(err)
	}
	commands := []string{"go test ./..."}
	for name, forged := range map[string]string{
		"not JSON":           "{",
		"unknown key":        strings.Replace(string(text), `"runs"`, `"walks"`, 1),
		"empty":              `{"runs":[],"proof":null}`,
		"head":               strings.Replace(string(text), `"tree":"base"`, `"tree":"head"`, 1),
		"not started":        strings.Replace(string(text), `"started":true`, `"started":false`, 1),
		"another command":    strings.Replace(string(text), `"command":"go test ./..."`, `"command":"true"`, 1),
		"a group too far":    strings.Replace(string(text), `"end":1`, `"end":7`, 1),
		"a negative group":   strings.Replace(string(text), `"first":0`, `"first":-1`, 1),
		"more than a record": strings.Repeat(" ", MaxRecord+1),
	} {
		if forged == string(text) {
			t.Fatalf("%s: nothing was forged", name)
		}
		if _, err := ReadRecord([]byte(forged), commands); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := ReadRecord(text, []string{"true"}); err == nil {
		t.Error("the record of other commands is accepted")
	}
}

// FuzzReadRecord: what is accepted can be recorded, and judged, again.
func FuzzReadRecord(f *testing.F) {
	text, err := basePhase().Record()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ReadRecord(text, []string{"go test ./..."})
		if err != nil {
			return
		}
		again, err := r.Record()
		if err != nil || !json.Valid(again) {
			t.Errorf("accepted and not recorded: %v", err)
		}
		head := basePhase()
		head.Phase = PhaseHead
		head.Runs[0].Tree = TreeHead
		Judge(r, head, RuleExtend)
	})
}
