//go:build !race

package evidence

import (
	"encoding/json"
	"strings"
	"testing"

	"remit/proof/canon"
)

// TestDollars: an amount is shown with the digits that it needs.
func TestDollars(t *testing.T) {
	t.Parallel()
	for micro, want := range map[int64]string{
		0: "$0", 1: "$0.000001", 99: "$0.000099", 100: "$0.0001", 12_345: "$0.0123", 12_350: "$0.0124", 999_949: "$0.9999", 999_999: "$1.00",
		1_000_000: "$1.00", 1_994_999: "$1.99", 1_995_000: "$2.00", 123_456_789: "$123.46", 1 << 60: "$1152921504606.85",
	} {
		if got := dollars(micro); got != want {
			t.Errorf("%d micro-USD are %s, want %s", micro, got, want)
		}
	}
	known, unknown := true, false
	for _, tt := range []struct {
		usage MeteredUsage
		want  string
	}{
		{MeteredUsage{CostMicroUSD: 10_000, CostKnown: &known}, "$0.0100"},
		{MeteredUsage{CostKnown: &known}, "$0"},
		{MeteredUsage{CostMicroUSD: 10_000, CostKnown: &unknown}, "at least $0.0100, the rest is not known,"},
		{MeteredUsage{CostKnown: &unknown}, "cost not known"},
		{MeteredUsage{}, "cost not known"},
	} {
		if got := tt.usage.price(); got != tt.want {
			t.Errorf("%+v is %q, want %q", tt.usage, got, tt.want)
		}
	}
}

// TestMeasured: the confidence is said as finely as it was measured.
func TestMeasured(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status     string
		control    string
		repeats    int
		confidence canon.Hundredths
		want       string
	}{
		{StatusPass, ControlMade, 1, 100, "1 of 1 repetitions passed (`final_confidence` 1.00)."},
		{StatusFail, ControlMade, 3, 66, "2 of 3 repetitions passed (`final_confidence` 0.66)."},
		{StatusFail, ControlMade, 3, 33, "1 of 3 repetitions passed (`final_confidence` 0.33)."},
		{StatusFail, ControlMade, 7, 0, "0 of 7 repetitions passed (`final_confidence` 0.00)."},
		{StatusPass, ControlNone, 2, 50, "2 of 2 repetitions passed. No test was shown to be able to fail, so the confidence is at most one half (`final_confidence` 0.50)."},
		{StatusFail, ControlNone, 3, 50, "At least half of the repetitions passed. No test was shown to be able to fail, so the confidence is at most one half (`final_confidence` 0.50)."},
		{StatusFail, ControlNone, 3, 33, "1 of 3 repetitions passed (`final_confidence` 0.33)."},
		{StatusBlocked, ControlNone, 0, 0, "Not measured: no repetition of the verification came to an end (`final_confidence` 0.00)."},
	} {
		r := &run{verification: &VerificationCompleted{Status: tt.status, Repeats: tt.repeats, Confidence: tt.confidence, Control: &Control{Status: tt.control}}}
		if got := r.measured(); got != tt.want {
			t.Errorf("%s, %s, %d repetitions, %s: %q\nwant %q", tt.status, tt.control, tt.repeats, tt.confidence, got, tt.want)
		}
	}
}

// TestTaskIsQuoted: the instructions are shown and do nothing: no heading, no
// tag, no line of their own, and not more than twenty of them.
func TestTaskIsQuoted(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(map[string]string{"instructions": "## Verification\r\n`x` <b> @team\rfixes #1\n" + strings.Repeat("line\n", 22) + strings.Repeat("é", 400)})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{contract: ContractCreated{Contract: text}, verification: &VerificationCompleted{Control: &Control{}}}
	var b strings.Builder
	r.mergeChanges(&b)
	_, task, _ := strings.Cut(b.String(), "### The task\n\n")
	task, _, _ = strings.Cut(task, "\n\n### ")
	lines := strings.Split(task, "\n")
	if len(lines) != taskLines+2 || lines[0] != "> `## Verification`  " || lines[1] != "> `` `x` <b> @team ``  " || lines[2] != "> `fixes #1`  " ||
		lines[taskLines+1] != "6 lines more: see `contract.json`." {
		t.Errorf("the task is shown as %d lines:\n%s", len(lines), task)
	}
	if got := cutRunes(strings.Repeat("é", 400), 300); got != strings.Repeat("é", 300)+"…" {
		t.Errorf("a long line is cut to %q", got)
	}
}

// TestCheatsNotRuledOut: the limits name what the control does not see, and say
// nothing of it where a journal does not.
func TestCheatsNotRuledOut(t *testing.T) {
	t.Parallel()
	r := &run{verification: &VerificationCompleted{Repeats: 2, Control: &Control{Status: ControlMade, NotRuledOut: []string{"code that [knows", "b"}}}}
	if got := strings.Join(r.limits(), "; "); !strings.Contains(got, `; cheats that it does not rule out: code that \[knows, b; `) {
		t.Errorf("the limits are %q", got)
	}
	r.verification.Control.NotRuledOut = nil
	if got := strings.Join(r.limits(), "; "); strings.Contains(got, "cheats") {
		t.Errorf("the limits are %q", got)
	}
}

// TestControlSentence: what is counted is said: functions where tests have names,
// and commands where they have none. A journal without the newer field keeps its
// words.
func TestControlSentence(t *testing.T) {
	t.Parallel()
	named, exit := CommandControl{By: "test", Counting: 3, Proved: 2}, CommandControl{By: "exit", Counting: 1, Proved: 1}
	open := []string{"any"}
	for want, c := range map[string]Control{
		"1 of 1 test shown to be able to fail":                                                  {Counting: 1, Proved: 1, Commands: []CommandControl{exit}},
		"1 command that names no tests shown to be able to fail, by the exit status as a whole": {Counting: 1, Proved: 1, Commands: []CommandControl{exit}, NotRuledOut: open},
		"2 of 3 tests shown to be able to fail (a function counts once, with all its cases)":    {Counting: 3, Proved: 2, Commands: []CommandControl{named}, NotRuledOut: open},
		"2 of 3 tests shown to be able to fail (a function counts once, with all its cases); 1 command that names no tests shown to be able to fail, by the exit status as a whole": {
			Counting: 4, Proved: 3, Commands: []CommandControl{named, exit}, NotRuledOut: open},
	} {
		if c.Status = ControlMade; c.Sentence() != want {
			t.Errorf("%q, want %q", c.Sentence(), want)
		}
	}
}

// TestNamesOfParts: where a part of the change is, and what could not be tried.
func TestNamesOfParts(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]HunkOfPatch{"a.go:3": {Path: "a.go", First: 3, Last: 3}, "a.go:3-9": {Path: "a.go", First: 3, Last: 9}, "run.sh": {Path: "run.sh"}} {
		if got := h.Place(); got != want {
			t.Errorf("%+v is at %s, want %s", h, got, want)
		}
	}
	var noTests *NewTests
	var noParts *Observation
	for want, got := range map[string]string{
		"not looked for":                                noTests.Sentence() + noParts.Sentence()[len("not looked for"):],
		"the change has none":                           (&NewTests{}).Sentence(),
		"the tests rule is protect":                     (&NewTests{Skipped: "the tests rule is protect"}).Sentence(),
		"at least 1000 of 1400 fail without the change": (&NewTests{Tried: 1400, FailWithout: make([]string, 1000)}).Sentence(),
		"0 of 3 tried":                                  (&Observation{Hunks: 3, Tried: 3}).Sentence(),
		"none was made: opaque":                         (&Control{Status: ControlNone, Reason: "opaque"}).Sentence(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestPartWithoutLines: a change of a file's mode alone names the file and no line. A
// summary of an older form keeps its bytes.
func TestPartWithoutLines(t *testing.T) {
	t.Parallel()
	o := &Observation{Hunks: 2, Tried: 2, Unobserved: []HunkOfPatch{{Path: "run.sh"}, {Path: "a.go", First: 3, Last: 4, Removed: true}}}
	for form, want := range map[int]string{
		0:           "2 of 2 tried: `run.sh:0`, `a.go:3-4` (lines of the baseline) (verified)",
		2:           "2 of 2 tried: `run.sh:0`, `a.go:3-4` (lines of the baseline) (verified)",
		SummaryForm: "2 of 2 tried: `run.sh`, `a.go:3-4` (lines of the baseline) (verified)",
	} {
		if got := (&run{opened: RunOpened{SummaryForm: form}}).unobserved(o); got != want {
			t.Errorf("form %d: %s, want %s", form, got, want)
		}
	}
}
