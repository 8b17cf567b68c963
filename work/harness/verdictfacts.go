package harness

import (
	"fmt"

	"remit/proof/evidence"
	"remit/work/verify"
)

// controlFacts is the control of a verdict as the journal has it.
func controlFacts(c *verify.Control) *evidence.Control {
	if c == nil {
		return nil
	}
	status := map[bool]string{true: evidence.ControlMade, false: evidence.ControlNone}
	out := &evidence.Control{Status: status[c.Made], Reason: c.Reason, Scheme: c.Scheme, Counting: c.Counting, Proved: c.Proved,
		Runs: c.Runs, Commands: []evidence.CommandControl{}, NotRuledOut: c.NotRuledOut}
	for _, cc := range c.Commands {
		out.Commands = append(out.Commands, evidence.CommandControl{Command: cc.Command, Status: status[cc.Made], Reason: cc.Reason,
			By: cc.By, Counting: cc.Counting, Proved: cc.Proved})
	}
	return out
}

// judged is the verdict over two phases. Of a change that passes and brings no test
// it says that there was none to look for.
func judged(base, head *verify.PhaseResult, rule string) *verify.Verdict {
	v := verify.Judge(base, head, rule)
	if v.NewTests == nil && v.Status == verify.StatusPass && len(head.TestFilesChanged) == 0 {
		v.NewTests = &verify.NewTests{FailWithout: []string{}, PassWithout: []string{}}
	}
	return v
}

func newTestFacts(n *verify.NewTests) *evidence.NewTests {
	if n == nil {
		return nil
	}
	return &evidence.NewTests{Tried: n.Tried, FailWithout: n.FailWithout, PassWithout: n.PassWithout, Skipped: n.Skipped}
}

func observationFacts(o *verify.Observation) *evidence.Observation {
	if o == nil {
		return nil
	}
	return &evidence.Observation{Mode: o.Mode, Hunks: o.Hunks, Tried: o.Tried, Skipped: o.Skipped, Unobserved: o.Unobserved}
}

// controlWords says for a person what the control has shown.
func controlWords(c *verify.Control) string {
	switch {
	case c == nil:
		return "no control was made"
	case !c.Made:
		return "control: none: " + c.Reason
	}
	return controlFacts(c).Sentence()
}

// eventLine is progress of the verifier for a person.
func eventLine(e verify.Event) string {
	what := e.Run
	switch what {
	case verify.TreeTwin:
		what = fmt.Sprintf("twin %d (tests edited, some so that they must fail)", e.Repetition)
	case verify.TreeNewTests:
		what = "new tests on the base's code"
	case verify.TreeHunk:
		what = fmt.Sprintf("without part %d of the change", e.Repetition)
	}
	if e.Kind == verify.CommandFinished {
		return fmt.Sprintf("verify %s: command %d exited with %d after %d ms", what, e.Command+1, e.ExitCode, e.DurationMS)
	}
	return fmt.Sprintf("verify %s: %s", what, e.Kind)
}

// commandRun is one command of a run.
func commandRun(phase string, c verify.CommandResult) evidence.CommandRun {
	run := evidence.CommandRun{Phase: phase, Command: c.Command, ExitCode: c.ExitCode, DurationMS: c.DurationMS,
		StdoutSHA256: c.StdoutSHA256, StderrSHA256: c.StderrSHA256, Passed: c.Passed}
	if c.Tests != nil {
		run.Tests = &evidence.TestCounts{Passed: c.Tests.Passed, Failed: c.Tests.Failed, Skipped: c.Tests.Skipped}
	}
	return run
}
