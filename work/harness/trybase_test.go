package harness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/session"
	"remit/work/verify"
	"remit/work/verify/results"
	"remit/work/workspace"
)

// TestTriedStatus: what is said of a base follows from its commands, and what kept
// them from a result has the status of its code.
func TestTriedStatus(t *testing.T) {
	t.Parallel()
	passed := verify.CommandResult{Command: "a", Started: true, Passed: true, Tests: &verify.Counts{Passed: 3}}
	failed := verify.CommandResult{Command: "b", Started: true, ExitCode: 1, Tests: &verify.Counts{Passed: 1, Failed: 2},
		PerTest: map[string]results.Outcome{"z": results.Fail, "c": results.Fail, "x": results.Pass}}
	empty := verify.CommandResult{Command: "c", Started: true, Tests: &verify.Counts{}}
	late := verify.CommandResult{Command: "d", Started: true, ExitCode: -1, TimedOut: true}
	fault := &reason.Finding{Code: reason.Timeout, Detail: "no time"}
	for name, c := range map[string]struct {
		phase  verify.PhaseResult
		status string
		why    string // of the last command
	}{
		"all pass":        {verify.PhaseResult{Commands: []verify.CommandResult{passed, passed}}, evidence.StatusPass, ""},
		"one fails":       {verify.PhaseResult{Commands: []verify.CommandResult{passed, failed}}, evidence.StatusFail, "exit code 1, 2 of 3 tests fail"},
		"no test ran":     {verify.PhaseResult{Commands: []verify.CommandResult{empty}}, evidence.StatusFail, "reports no test"},
		"no time":         {verify.PhaseResult{Commands: []verify.CommandResult{late}}, evidence.StatusFail, "it ran out of time"},
		"a limit":         {verify.PhaseResult{Commands: []verify.CommandResult{late}, Runs: []verify.RunResult{{Fault: fault}}}, evidence.StatusBlocked, "it ran out of time"},
		"nothing to run":  {verify.PhaseResult{Findings: []reason.Finding{{Code: reason.MissingTestCommand}}}, evidence.StatusBlocked, ""},
		"a verdict of it": {verify.PhaseResult{Findings: []reason.Finding{{Code: reason.VerificationFailed}}}, evidence.StatusFail, ""},
	} {
		got := triedOf(&c.phase)
		why := ""
		if n := len(got.Commands); n > 0 {
			why = got.Commands[n-1].Why
		}
		if got.Status != c.status || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: got %s, %q", name, got.Status, why)
		}
	}
	got := triedOf(&verify.PhaseResult{Commands: []verify.CommandResult{failed}}).Commands[0]
	if !slices.Equal(got.Failed, []string{"c", "z"}) || !got.Runs {
		t.Errorf("got %+v", got)
	}
}

// TestSaid: the result files of a runner are no part of what init shows of a failure.
func TestSaid(t *testing.T) {
	t.Parallel()
	const mark = "remit-results-0123456789abcdef01234567"
	for name, c := range map[string]struct{ tail, want string }{
		"none":              {"out\n\nerr\n\n", "out\n\nerr\n\n"},
		"whole":             {"out\n" + mark + " begin /workspace\n" + mark + " file a.json 2\n{}\n" + mark + " end\n\nerr\n", "out\n\nerr\n"},
		"begins in a file":  {"\"a\": 1}\n" + mark + " end\n\nerr\n", "\nerr\n"},
		"no end":            {"out\n" + mark + " begin /workspace\n", "out\n" + mark + " begin /workspace\n"},
		"a word of a test":  {"said " + mark + " end\nerr\n", "said " + mark + " end\nerr\n"},
		"nothing but files": {mark + " begin /workspace\n" + mark + " end", ""},
	} {
		if got := said(c.tail); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestAnOpenBaseIsNotSwept: a run beside it takes away what dead runs left, and an
// open base has no journal that says it lives.
func TestAnOpenBaseIsNotSwept(t *testing.T) {
	t.Parallel()
	home := session.Home{Dir: t.TempDir()}
	source, err := workspace.OpenSource(t.Context(), newRepo(t, map[string]string{"a.txt": "one\n"}))
	if err != nil {
		t.Fatal(err)
	}
	base, err := OpenBase(t.Context(), home, source, "")
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(base.work, long, long); err != nil {
		t.Fatal(err)
	}
	if err := home.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(base.work, "store.git")); err != nil {
		t.Errorf("a sweep took the work directory of an open base: %v", err)
	}
	if err := base.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(base.work); !os.IsNotExist(err) {
		t.Errorf("the work directory is left behind: %v", err)
	}
}
