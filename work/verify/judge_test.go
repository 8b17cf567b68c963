package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/verify/results"
)

// unittestOutput is what python -m unittest -v writes for the given outcomes.
func unittestOutput(outcomes map[string]string) string {
	var b strings.Builder
	failed, skipped := 0, 0
	for name, o := range outcomes {
		fmt.Fprintf(&b, "%s (t.C.%s) ... %s\n", name, name, o)
		switch {
		case o == "FAIL":
			failed++
		case strings.HasPrefix(o, "skipped"):
			skipped++
		}
	}
	fmt.Fprintf(&b, "\nRan %d tests in 0.001s\n\n", len(outcomes))
	switch {
	case failed > 0:
		fmt.Fprintf(&b, "FAILED (failures=%d)\n", failed)
	case skipped > 0:
		fmt.Fprintf(&b, "OK (skipped=%d)\n", skipped)
	default:
		b.WriteString("OK\n")
	}
	return b.String()
}

func unit(exit int, outcomes map[string]string) reply {
	return reply{exit: exit, stderr: unittestOutput(outcomes)}
}

const unitCommand = "python3 -m unittest"

// TestJudge runs whole verifications against a scripted sandbox. The head is
// recognised by the change of "code".
func TestJudge(t *testing.T) {
	t.Parallel()
	pass, fail := map[string]string{"a": "ok", "b": "ok"}, map[string]string{"a": "ok", "b": "FAIL"}
	timedOut := func(c *sandbox.CommandResult) { c.TimedOut = true }
	const notLoaded = "t (unittest.loader._FailedTest.t) ... ERROR\n"
	const notImported = notLoaded + "\nRan 1 test in 0.1s\n\nFAILED (errors=1)\n"
	partly, _, _ := strings.Cut(unittestOutput(fail), "\nRan ")
	plain := func(exit int) reply { return reply{exit: exit, stdout: "done\n"} }
	for _, tc := range []struct {
		name       string
		command    string
		rule       string
		base, head reply
		want       string // status and codes
		delta      int
		counts     Transitions
	}{
		{name: "fixed", base: unit(1, fail), head: unit(0, pass), want: "pass", delta: 1, counts: Transitions{FailToPass: 1, PassToPass: 1}},
		{name: "a test is added", base: unit(0, pass), head: unit(0, map[string]string{"a": "ok", "b": "ok", "c": "ok"}), want: "pass", counts: Transitions{PassToPass: 2, Added: 1}},
		{name: "still failing", base: unit(1, fail), head: unit(1, fail), want: "fail verification_failed", counts: Transitions{PassToPass: 1}},
		{name: "broken", base: unit(0, pass), head: unit(1, fail), want: "fail verification_failed", delta: -1, counts: Transitions{PassToPass: 1, PassToFail: 1}},
		{name: "gone", base: unit(0, pass), head: unit(0, map[string]string{"a": "ok"}), want: "fail verifier_tampering", counts: Transitions{PassToPass: 1, Missing: 1}},
		{name: "gone, protect", rule: RuleProtect, base: unit(0, pass), head: unit(0, map[string]string{"a": "ok"}), want: "fail verifier_tampering", counts: Transitions{PassToPass: 1, Missing: 1}},
		{name: "gone, free", rule: RuleFree, base: unit(0, pass), head: unit(0, map[string]string{"a": "ok"}), want: "pass", counts: Transitions{PassToPass: 1, Missing: 1}},
		{name: "skipped", base: unit(0, pass), head: unit(0, map[string]string{"a": "ok", "b": "skipped 'x'"}), want: "fail verifier_tampering", counts: Transitions{PassToPass: 1, Missing: 1}},
		{name: "a failing test is gone", base: unit(1, fail), head: unit(0, map[string]string{"a": "ok"}), want: "fail verifier_tampering", delta: 1, counts: Transitions{PassToPass: 1, Missing: 1}},
		{name: "a failing test is skipped", base: unit(1, fail), head: unit(0, map[string]string{"a": "ok", "b": "skipped 'x'"}), want: "fail verifier_tampering", delta: 1, counts: Transitions{PassToPass: 1, Missing: 1}},
		{name: "a failing test is gone, free", rule: RuleFree, base: unit(1, fail), head: unit(0, map[string]string{"a": "ok"}), want: "pass", delta: 1, counts: Transitions{PassToPass: 1, Missing: 1}},
		{name: "only skipped", rule: RuleFree, base: unit(0, pass), head: unit(0, map[string]string{"a": "skipped 'x'", "b": "skipped 'x'"}), want: "fail verification_failed", counts: Transitions{Missing: 2}},
		{name: "no test", rule: RuleFree, base: unit(0, nil), head: unit(0, nil), want: "fail verification_failed"},
		{name: "exit 0 with failures", rule: RuleFree, base: unit(1, fail), head: unit(0, fail), want: "fail verifier_tampering", counts: Transitions{PassToPass: 1}},
		{name: "exit 1 without a failure", base: unit(0, pass), head: unit(1, pass), want: "fail verification_failed", counts: Transitions{PassToPass: 2}},
		{name: "nothing reported", base: unit(0, pass), head: plain(0), want: "fail verifier_tampering", counts: Transitions{Missing: 2}},
		{name: "contradiction", base: unit(0, pass), head: reply{stderr: strings.Replace(unittestOutput(pass), "Ran 2", "Ran 3", 1)}, want: "fail verification_failed", counts: Transitions{PassToPass: 2}},
		{name: "could not be imported before", base: reply{exit: 1, stderr: notImported}, head: unit(0, pass), want: "pass", delta: 1, counts: Transitions{FailToPass: 2}},

		{name: "no runner, passes", command: "make lint", base: plain(0), head: plain(0), want: "pass"},
		{name: "no runner, fixed", command: "make lint", base: plain(2), head: plain(0), want: "pass", delta: 1},
		{name: "no runner, broken", command: "make lint", base: plain(0), head: plain(2), want: "fail verification_failed", delta: -1},
		{name: "runner inside, a failure is hidden", command: "make test; true", base: unit(0, pass), head: unit(0, fail), want: "fail verification_failed", delta: -1, counts: Transitions{PassToPass: 1, PassToFail: 1}},
		{name: "runner inside, an old failure", command: "make test; true", base: unit(0, fail), head: unit(0, fail), want: "pass", counts: Transitions{PassToPass: 1}},
		{name: "numbers only, fewer", command: "make test", base: reply{stderr: "Ran 5 tests in 0.1s\n\nOK\n"}, head: reply{stderr: "Ran 4 tests in 0.1s\n\nOK\n"}, want: "fail verifier_tampering"},
		{name: "numbers only, the same", command: "make test", base: reply{stderr: "Ran 5 tests in 0.1s\n\nOK\n"}, head: reply{stderr: "Ran 5 tests in 0.1s\n\nOK\n"}, want: "pass"},

		{name: "timeout", base: unit(0, pass), head: reply{exit: 137, result: func(c *sandbox.CommandResult) { c.TimedOut = true }}, want: "blocked timeout"},
		{name: "the base hung", base: reply{exit: 137, result: timedOut}, head: unit(0, pass), want: "blocked base_incomplete", counts: Transitions{Added: 2}},
		{name: "the base hung, free", rule: RuleFree, base: reply{exit: 137, result: timedOut}, head: unit(0, pass), want: "pass", delta: 1, counts: Transitions{Added: 2}},
		{name: "the base was at a test", base: reply{exit: 137, stderr: partly, result: timedOut}, head: unit(0, pass), want: "blocked base_incomplete"},
		{name: "the base was at a test, free", rule: RuleFree, base: reply{exit: 137, stderr: partly, result: timedOut}, head: unit(0, pass), want: "pass", counts: Transitions{PassToPass: 1, Added: 1}},
		{name: "the base was at a module, free", rule: RuleFree, base: reply{exit: 137, stderr: notLoaded, result: timedOut}, head: unit(0, pass), want: "pass", counts: Transitions{Added: 2}},
		{name: "the base wrote too much", base: reply{exit: 137, stderr: partly, result: func(c *sandbox.CommandResult) { c.OutputExceeded = true }}, head: unit(0, pass), want: "blocked base_incomplete", counts: Transitions{PassToPass: 1}},
		{name: "the base said everything and hung", base: reply{exit: 137, stderr: unittestOutput(fail), result: timedOut}, head: unit(0, pass), want: "pass", delta: 1, counts: Transitions{FailToPass: 1, PassToPass: 1}},
		{name: "a limit of its own", command: "timeout 5 make test", base: unit(124, fail), head: unit(0, pass), want: "pass", counts: Transitions{PassToPass: 1, Added: 1}},
		{name: "neither came to its end", base: reply{exit: 137, result: timedOut}, head: reply{exit: 137, result: timedOut}, want: "blocked base_incomplete"},
		{name: "output", base: unit(0, pass), head: reply{exit: 137, result: func(c *sandbox.CommandResult) { c.OutputExceeded = true }}, want: "fail output_limit"},
		{name: "not started", base: unit(0, pass), head: reply{result: func(c *sandbox.CommandResult) { c.Started = false }}, want: string(reason.StatusOf(reason.InfrastructureFault)) + " infrastructure_fault"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			sb := scripted(func(s sandbox.Spec) ([]reply, error) {
				if laid(s, "code") {
					return []reply{tc.head}, nil
				}
				return []reply{tc.base}, nil
			})
			command := tc.command
			if command == "" {
				command = unitCommand
			}
			v, err := Run(t.Context(), sb, Plan{Lower: t.TempDir(), Patch: files{"code": "x"}.changes(), Tests: tc.rule, Commands: []string{command}})
			if err != nil {
				t.Fatal(err)
			}
			// What a run that was cut short lost is not the point.
			if strings.HasPrefix(tc.want, "blocked") || strings.Contains(tc.want, "output") || strings.Contains(tc.want, "infrastructure") {
				v.Counts, v.Delta = tc.counts, tc.delta
			}
			if got := strings.TrimSpace(v.Status + " " + codes(v.Findings)); got != tc.want && !strings.HasPrefix(got, tc.want+" ") {
				t.Errorf("got %s, want %s", explain(v), tc.want)
			}
			if v.Delta != tc.delta || v.Counts != tc.counts {
				t.Errorf("delta %d %+v, want %d %+v", v.Delta, v.Counts, tc.delta, tc.counts)
			}
			// The tree has no test file that could be edited.
			if confident := v.Confidence == Uncontrolled; confident != (v.Status == StatusPass) {
				t.Errorf("confidence %d", v.Confidence)
			}
		})
	}
}

func TestMissingCommands(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	sb := scripted(func(sandbox.Spec) ([]reply, error) { t.Error("something ran"); return nil, nil })
	v, err := Run(t.Context(), sb, Plan{Lower: t.TempDir(), Log: &log})
	if err != nil || v.Status != StatusBlocked || codes(v.Findings) != string(reason.MissingTestCommand) {
		t.Errorf("%v %s", err, explain(v))
	}
	if !strings.HasPrefix(log.String(), missingCommands) {
		t.Errorf("log: %q", log.String())
	}
}

func TestFlaky(t *testing.T) {
	t.Parallel()
	heads := 0
	sb := scripted(func(s sandbox.Spec) ([]reply, error) {
		if laid(s, "code") {
			heads++
		}
		if heads == 2 {
			return []reply{unit(1, map[string]string{"a": "FAIL"})}, nil
		}
		return []reply{unit(0, map[string]string{"a": "ok"})}, nil
	})
	v, err := Run(t.Context(), sb, Plan{Lower: t.TempDir(), Patch: files{"code": "x"}.changes(), Commands: []string{unitCommand}, Repeat: 4})
	if err != nil {
		t.Fatal(err)
	}
	if v.Status != StatusFail || codes(v.Findings) != "flaky_verification verification_failed" || v.Confidence != Uncontrolled || v.Repeats != 4 {
		t.Errorf("%s%d", explain(v), v.Confidence)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	plan := Plan{Lower: t.TempDir(), Patch: files{"code": "x"}.changes(), Commands: []string{"make"}}
	t.Run("the sandbox fails", func(t *testing.T) {
		t.Parallel()
		for code, err := range map[reason.Code]error{
			reason.SandboxUnavailable:  reason.Errorf(reason.SandboxUnavailable, "no bwrap"),
			reason.InfrastructureFault: errors.New("mount: no space left"),
		} {
			v, got := Run(t.Context(), scripted(func(sandbox.Spec) ([]reply, error) { return nil, err }), plan)
			if got != nil || v.Status != string(reason.StatusOf(code)) || v.Findings[0].Code != code || v.Confidence != 0 {
				t.Errorf("%v %s", got, explain(v))
			}
		}
	})
	t.Run("out of memory", func(t *testing.T) {
		t.Parallel()
		v, err := Run(t.Context(), oom{}, plan)
		if err != nil || codes(v.Findings) != string(reason.ResourceLimit) || v.Status != StatusFail {
			t.Errorf("%v %s", err, explain(v))
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		sb := scripted(func(sandbox.Spec) ([]reply, error) {
			cancel(reason.Errorf(reason.Cancelled, "the user said so"))
			return []reply{{exit: 137, stdout: "half a test\n"}}, context.Canceled
		})
		var log bytes.Buffer
		p := plan
		p.Log = &log
		if v, err := Run(ctx, sb, p); reason.CodeOf(err) != reason.Cancelled || v != nil {
			t.Errorf("%v %v", v, err)
		}
		if !strings.Contains(log.String(), "half a test") {
			t.Errorf("log: %s", log.String())
		}
	})
	t.Run("the log cannot be written", func(t *testing.T) {
		t.Parallel()
		p := plan
		p.Log = full{}
		_, err := Run(t.Context(), scripted(func(sandbox.Spec) ([]reply, error) { return []reply{{}}, nil }), p)
		if reason.CodeOf(err) != reason.ArtifactWriteFailure {
			t.Error(err)
		}
	})
	t.Run("no baseline", func(t *testing.T) {
		t.Parallel()
		p := plan
		p.Lower = "/nonexistent"
		v, err := Run(t.Context(), scripted(func(sandbox.Spec) ([]reply, error) { return []reply{{}}, nil }), p)
		if err != nil || codes(v.Findings) != string(reason.InfrastructureFault) {
			t.Errorf("%v %s", err, explain(v))
		}
	})
	t.Run("bad plans", func(t *testing.T) {
		t.Parallel()
		for _, p := range []Plan{{Tests: "none"}, {Repeat: -1}, {Repeat: MaxRepeat + 1}} {
			if _, err := Base(t.Context(), nil, p); reason.CodeOf(err) != reason.ContractValue {
				t.Error(err)
			}
		}
	})
	t.Run("phases missing or of different plans", func(t *testing.T) {
		t.Parallel()
		one := &PhaseResult{Repeats: 1, Commands: []CommandResult{{Command: "a"}}, Runs: []RunResult{{Tree: TreeBase, Repetition: 1}}}
		two := &PhaseResult{Repeats: 1, Commands: []CommandResult{{Command: "b"}}, Runs: []RunResult{{Tree: TreeHead, Repetition: 1}}}
		for _, v := range []*Verdict{Judge(nil, nil, ""), Judge(one, nil, ""), Judge(nil, two, ""), Judge(one, two, "")} {
			if v.Status == StatusPass || v.Findings[0].Code != reason.InfrastructureFault {
				t.Error(explain(v))
			}
		}
	})
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

type oom struct{}

func (oom) Run(context.Context, sandbox.Spec) (*sandbox.Result, error) {
	return &sandbox.Result{OOMKilled: true, Commands: []sandbox.CommandResult{{Started: true}}}, nil
}

func TestTransitionsOfTwoCommands(t *testing.T) {
	t.Parallel()
	with := func(m map[string]results.Outcome) *CommandResult { return &CommandResult{PerTest: m} }
	tr := newTransitions()
	tr.compare(with(map[string]results.Outcome{"p.A": results.Pass, "p.B": results.Pass}), with(map[string]results.Outcome{"p.A": results.Pass, "p.B": results.Pass}))
	tr.compare(with(map[string]results.Outcome{"p.A": results.Pass, "p.B": results.Pass}), with(map[string]results.Outcome{"p.A": results.Fail}))
	tr.settle()
	if got := fmt.Sprint(list(tr.passToPass), list(tr.passToFail), list(tr.missing)); got != "[] [p.A] [p.B]" {
		t.Error(got)
	}
	built := newTransitions()
	built.compare(with(map[string]results.Outcome{"p.A": results.Pass}), with(map[string]results.Outcome{"p": results.Fail}))
	if len(built.passToFail) != 1 || len(built.missing) != 0 {
		t.Errorf("%+v", built)
	}
	tap := func(m map[string]results.Outcome) *CommandResult {
		return &CommandResult{PerTest: m, Runner: results.TAP}
	}
	detailed := newTransitions()
	detailed.compare(tap(map[string]results.Outcome{"add: got -1": results.Fail, "sum (want 3)": results.Fail, "sum (want 4)": results.Fail, "gone: got 1": results.Fail}),
		tap(map[string]results.Outcome{"add": results.Pass, "sum": results.Pass, "more": results.Pass}))
	detailed.settle()
	if got := fmt.Sprint(list(detailed.failToPass), list(detailed.missing), list(detailed.added)); got != "[add sum] [gone: got 1 sum (want 4)] [more]" {
		t.Error(got)
	}
	many := map[string]bool{}
	for i := range MaxListed + 10 {
		many[fmt.Sprint(i)] = true
	}
	if len(list(many)) != MaxListed {
		t.Error(len(list(many)))
	}
}
