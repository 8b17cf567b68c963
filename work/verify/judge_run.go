package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/verify/results"
)

// run judges one run of the tree that counts against the base.
func (j *judgement) run(before, after *RunResult) {
	if j.stopped(after) {
		return
	}
	for i := range after.Commands {
		j.command(i, &before.Commands[i], &after.Commands[i])
	}
}

// stopped reports what kept a run from a result.
func (j *judgement) stopped(r *RunResult) bool {
	if r.Fault != nil {
		j.add(*r.Fault)
		return true
	}
	known := len(j.findings)
	for _, c := range r.Commands {
		if c.TimedOut {
			j.find(reason.Timeout, "%q did not end within the time limit", c.Command)
		}
		if c.OutputExceeded {
			j.find(reason.OutputLimit, "%q wrote more than the output limit", c.Command)
		}
	}
	if r.OOMKilled {
		// The exit status cannot be trusted: in a pipeline the killed process
		// need not be the one that is asked.
		j.find(reason.ResourceLimit, "a process was killed for lack of memory")
	}
	return len(j.findings) > known
}

// command judges one command that ran to its end.
func (j *judgement) command(i int, b, c *CommandResult) {
	lost := newTransitions()
	lost.compare(b, c)
	lost.settle()
	if c.ExitCode != 0 {
		j.add(reason.Finding{Code: reason.VerificationFailed, Path: logName, Hint: j.hint(i, b, c),
			Detail: fmt.Sprintf("%q exited with %d%s", c.Command, c.ExitCode, failedTests(b, c))})
		return
	}
	if c.idle != "" {
		j.add(reason.Finding{Code: reason.VerificationFailed, Path: logName, Detail: fmt.Sprintf("%q exits 0, but nothing ran: %s", c.Command, c.idle),
			Hint: idleHint})
		return
	}
	if c.Tests == nil && b.Tests != nil && b.Tests.Passed+b.Tests.Failed > 0 && j.rule != RuleFree {
		j.find(reason.VerifierTampering, "%q exits 0, and of the %d tests of the base nothing is reported", c.Command, b.Tests.Passed+b.Tests.Failed)
		return
	}
	j.consistent(b, c)
	if j.rule != RuleFree && len(lost.missing) > 0 {
		j.find(j.goneCode(lost.missing, c), "%q exits 0, but %d tests of the base did not run: %s", c.Command, len(lost.missing), some(list(lost.missing)))
	} else if j.rule != RuleFree && fewer(b, c) {
		j.find(reason.VerifierTampering, "%q exits 0 with %d tests run, %d on the base", c.Command, c.Tests.Passed+c.Tests.Failed, b.Tests.Passed+b.Tests.Failed)
	} else if c.Runner != "" && (c.Tests == nil || c.Tests.Passed+c.Tests.Failed == 0) {
		j.find(reason.VerificationFailed, "%q exits 0, but no test ran%s", c.Command, skippedTests(c))
	}
	if fresh := newFailures(b, c); len(fresh) > 0 {
		j.find(reason.VerificationFailed, "%q exits 0, but tests fail that did not fail on the base: %s", c.Command, some(fresh))
	}
}

// hint says what can be done about a command that failed.
func (j *judgement) hint(i int, b, c *CommandResult) string {
	if slices.Contains(j.needsGroup, i) {
		return "on the base it comes out otherwise when it shares a view with the commands before it: write these as one group, verification_commands: [[first, second]]"
	}
	return cmp.Or(MissingProgram(*c, c.tail, sandbox.SystemPath), FailsBefore(*b, *c))
}

// goneCode tells tests that the patch has taken out of the test files, as a
// rename does, from tests that were kept from running.
func (j *judgement) goneCode(missing map[string]bool, c *CommandResult) reason.Code {
	for id := range missing {
		if !j.edited || c.PerTest == nil || c.PerTest[id] == results.Skip {
			return reason.VerifierTampering
		}
	}
	return reason.BaseTestGone
}

// consistent holds the runner against itself.
func (j *judgement) consistent(b, c *CommandResult) {
	if c.direct && c.Tests != nil && c.Tests.Failed > 0 {
		j.find(reason.VerifierTampering, "%q exits 0 although its runner reports %d failed tests", c.Command, c.Tests.Failed)
	}
	if c.filed && !c.direct && c.Tests != nil && c.Tests.Failed > 0 && b.ExitCode != 0 {
		j.find(reason.VerificationFailed, "%q exits 0, and not on the base, although its runner writes of %d failed tests", c.Command, c.Tests.Failed)
	}
	if b.filed && !c.filed && j.rule != RuleFree {
		j.find(reason.VerifierTampering, "%q exits 0, and its runner has not written the result file that it wrote on the base", c.Command)
	}
	// A format that does not add up on the base either is one that this
	// reader does not fully know.
	if c.Runner != "" && !c.complete && (b.complete || b.Tests == nil) {
		j.find(reason.VerificationFailed, "%q exits 0, but its report contradicts itself: %s", c.Command, strings.Join(c.Problems, "; "))
	}
}

// fewer compares the numbers where the runner does not list its tests.
func fewer(b, c *CommandResult) bool {
	if b.Tests == nil || c.Tests == nil || b.PerTest != nil && c.PerTest != nil {
		return false
	}
	return c.Tests.Passed+c.Tests.Failed < b.Tests.Passed+b.Tests.Failed
}

// newFailures are failing tests that did not fail on the base.
func newFailures(b, c *CommandResult) []string {
	if c.PerTest == nil && c.Tests != nil && c.Tests.Failed > 0 && (b.Tests == nil || c.Tests.Failed > b.Tests.Failed) {
		return []string{fmt.Sprintf("%d without a name", c.Tests.Failed)}
	}
	var fresh []string
	for id, o := range c.PerTest {
		if o == results.Fail && b.PerTest[id] != results.Fail {
			fresh = append(fresh, id)
		}
	}
	slices.Sort(fresh)
	return fresh
}

// some names a few of many.
func some(ids []string) string {
	const few = 5
	if len(ids) <= few {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:few], ", "), len(ids)-few)
}

// failedTests says which tests failed, by what became of them: those that the
// change broke come first. A test that holds others is left out where one of
// these is named.
func failedTests(before, c *CommandResult) string {
	if c.Tests == nil {
		return ""
	}
	if c.unfinished() {
		return ", as the program timeout does when it stops another"
	}
	if c.Tests.Failed == 0 {
		return " without a failed test"
	}
	var broken, still, other []string
	for _, id := range leaves(c.PerTest) {
		switch was, known := before.PerTest[id]; {
		case was == results.Pass:
			broken = append(broken, id)
		case known && was == results.Fail:
			still = append(still, id)
		default:
			other = append(other, id)
		}
	}
	if len(broken)+len(still)+len(other) == 0 {
		return fmt.Sprintf(", %d failed tests", c.Tests.Failed)
	}
	text := ""
	for _, part := range []struct {
		ids []string
		how string
	}{{broken, "passed before and fail now"}, {still, "failed before and still fail"}, {other, "fail, and the base did not run them"}} {
		if len(part.ids) > 0 {
			text += fmt.Sprintf("; %d %s: %s", len(part.ids), part.how, some(part.ids))
		}
	}
	return text
}

// leaves are the failed tests that hold no other failed test, sorted.
func leaves(perTest map[string]results.Outcome) []string {
	failed := make(map[string]results.Outcome)
	for id, o := range perTest {
		if o == results.Fail {
			failed[id] = o
		}
	}
	return leavesOf(failed)
}

// leavesOf are the tests that hold no other of them, sorted.
func leavesOf(tests map[string]results.Outcome) []string {
	holds := make(map[string]bool)
	for id := range tests {
		for i := range id {
			if id[i] == '/' || id[i] == '.' || strings.HasPrefix(id[i:], "::") || strings.HasPrefix(id[i:], " > ") {
				holds[id[:i]] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(tests)), func(id string) bool { return holds[id] })
}

func skippedTests(c *CommandResult) string {
	if c.Tests != nil && c.Tests.Skipped > 0 {
		return fmt.Sprintf(", %d skipped", c.Tests.Skipped)
	}
	return ""
}
