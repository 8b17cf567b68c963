package verify

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Judge compares the phases under the tests rule; "" is extend. It is a pure
// function of what the phases saw.
func Judge(base, head *PhaseResult, rule string) *Verdict {
	v := &Verdict{Status: StatusPass, TestsRule: cmp.Or(rule, RuleExtend)}
	j := &judgement{rule: v.TestsRule}
	if base == nil || head == nil {
		base, head = cmp.Or(base, &PhaseResult{}), cmp.Or(head, &PhaseResult{})
		j.find(reason.InfrastructureFault, "a phase of the verification did not run")
	}
	for _, f := range append(slices.Clone(base.Findings), head.Findings...) {
		j.add(f)
	}
	j.needsGroup = base.needsGroup
	v.Repeats = head.Repeats
	passed := j.repetitions(base, head)
	if len(head.Runs) > 0 {
		j.changes(base, head)
	}
	if c := head.Control; c != nil {
		v.Control = c
		for _, f := range c.Findings {
			j.add(f)
		}
	}
	if v.Control != nil && !v.Control.Made && head.required && len(j.findings) == 0 {
		j.find(reason.ControlMissing, "no test was shown to be able to fail: %s", v.Control.Reason)
	}
	if v.NewTests, v.Observation = head.NewTests, head.Observation; v.Observation != nil && head.observed && len(j.findings) == 0 {
		if f := v.Observation.observed(); f != nil {
			j.add(*f)
		}
	}
	v.transit(base, head)
	v.Dropped = []string{}
	for _, p := range head.Dropped[:min(len(head.Dropped), MaxListed)] {
		v.Dropped = append(v.Dropped, strings.ToValidUTF8(p, "?"))
	}
	v.conclude(j.findings, passed)
	return v
}

// judgement collects findings.
type judgement struct {
	rule   string
	edited bool // the patch changes test files of the base
	// needsGroup are commands that need what another one makes.
	needsGroup []int
	findings   []reason.Finding
}

func (j *judgement) add(f reason.Finding) {
	if !slices.Contains(j.findings, f) {
		j.findings = append(j.findings, f)
	}
}

func (j *judgement) find(code reason.Code, format string, args ...any) {
	j.add(reason.Finding{Code: code, Path: logName, Detail: fmt.Sprintf(format, args...)})
}

// repetitions judges every repetition by itself and returns how many passed.
// When some did and some did not, the failures are a flake.
func (j *judgement) repetitions(base, head *PhaseResult) int {
	before := base.run(TreeBase, 1)
	if before == nil || len(head.Runs) == 0 {
		if len(j.findings) == 0 {
			j.find(reason.InfrastructureFault, "a phase of the verification did not run")
		}
		return 0
	}
	if before.Fault != nil {
		j.add(*before.Fault)
		return 0
	}
	if !sameCommands(base.Commands, head.Commands) {
		j.find(reason.InfrastructureFault, "the phases did not run the same commands")
		return 0
	}
	j.comparable(before)
	passed := 0
	var first []reason.Finding
	for n := 1; n <= head.Repeats; n++ {
		one := &judgement{rule: j.rule, edited: head.editedTests, needsGroup: j.needsGroup}
		one.repetition(before.groupedBy(head.varying), head, n)
		if len(one.findings) == 0 {
			passed++
		} else if first == nil {
			first = one.findings
		}
	}
	if passed > 0 && passed < head.Repeats {
		j.find(reason.FlakyVerification, "%d of %d repetitions passed", passed, head.Repeats)
	}
	for _, f := range first {
		j.add(f)
	}
	return passed
}

// comparable reports commands that a limit has stopped on the base: tests that were
// not reached there may be gone now, and those it was at have not failed.
func (j *judgement) comparable(before *RunResult) {
	for _, c := range before.Commands {
		if c.stopped() && c.unfinished() && j.rule != RuleFree {
			j.find(reason.BaseIncomplete, "%q was stopped on the base, before the change: %s", c.Command, endOf(c))
		}
	}
}

func sameCommands(a, b []CommandResult) bool {
	return slices.EqualFunc(a, b, func(x, y CommandResult) bool { return x.Command == y.Command })
}

// repetition judges the delivered tree, and the unedited one where the rule
// has it.
func (j *judgement) repetition(before *RunResult, head *PhaseResult, n int) {
	after := head.run(TreeHead, n).groupedBy(head.varying)
	if after == nil {
		j.find(reason.InfrastructureFault, "repetition %d did not run", n)
		return
	}
	j.run(before, after)
	delivered := len(j.findings) == 0
	unedited := head.run(TreeUnedited, n).groupedBy(head.varying)
	if unedited == nil {
		return
	}
	own := &judgement{rule: j.rule, edited: j.edited, needsGroup: j.needsGroup}
	own.unedited(before, unedited, head)
	for _, f := range own.findings {
		switch {
		case f.Code != reason.VerificationFailed && f.Code != reason.VerifierTampering && f.Code != reason.BaseTestGone:
			j.add(f)
		case delivered:
			j.add(reason.Finding{Code: reason.VerifierTampering, Path: f.Path, Detail: fmt.Sprintf(
				"with the tests of the base as they were: %s; the patch changes %s%s", f.Detail, some(head.TestFilesChanged), inBrackets(head.because))})
		}
	}
}

// inBrackets are sentences that explain what stands in front of them.
func inBrackets(why []string) string {
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, "; ") + ")"
}

// unedited judges the base's tests on the new code. Only a command that says of
// itself that it has no test to run, on the base as here, has nothing to answer,
// and one that names a test file which only the patch brings. What cannot be
// read is no reason to pass.
func (j *judgement) unedited(before, run *RunResult, head *PhaseResult) {
	if j.stopped(run) {
		return
	}
	for i := range run.Commands {
		b, c := &before.Commands[i], &run.Commands[i]
		alike := b.ExitCode == c.ExitCode && !head.editedTests
		if alike && (b.ranNothing() && c.ranNothing() || namesOneOf(c.Command, head.addedTests)) {
			continue
		}
		j.command(i, b, c)
	}
}

// ranNothing says whether a known runner reports that it had no test to run.
func (c *CommandResult) ranNothing() bool {
	return c.Runner != "" && c.emptyRun
}

// namesOneOf says whether a word of a command is one of the files.
func namesOneOf(command string, files []string) bool {
	return slices.ContainsFunc(splitWords().Split(command, -1), func(w string) bool {
		return w != "" && slices.Contains(files, path.Clean(w))
	})
}

// changes judges what the runs did to the tests, and test files that are gone
// where identities cannot tell.
func (j *judgement) changes(base, head *PhaseResult) {
	var ofBase []string
	for _, r := range base.Runs {
		ofBase = append(ofBase, r.Rewritten...)
	}
	for _, r := range head.Runs {
		for _, p := range r.Rewritten {
			if !slices.Contains(ofBase, p) {
				j.add(reason.Finding{Code: reason.VerifierTampering, Path: p, Detail: "the run of the patched tree rewrote the tests or their runner's configuration"})
			}
		}
	}
	listed := slices.ContainsFunc(base.Commands, func(c CommandResult) bool { return c.PerTest != nil })
	if j.rule == RuleExtend && !listed {
		for _, p := range head.deletedTests[:min(len(head.deletedTests), MaxListed)] {
			j.add(reason.Finding{Code: reason.VerifierTampering, Path: p, Detail: "the patch deletes a test file of the base, and no runner says whether its tests still exist"})
		}
	}
}

// severity orders codes: what makes every other result worthless comes first,
// then what kept the verifier from a result, then the result.
var severity = []reason.Code{
	reason.MissingTestCommand, reason.PatchInvalid, reason.VerifierTampering, reason.BaseTestGone,
	reason.SandboxUnavailable, reason.ArtifactWriteFailure,
	reason.InfrastructureFault, reason.BaseIncomplete, reason.Timeout, reason.OutputLimit, reason.ResourceLimit,
	reason.ServiceEndedByChange, reason.FlakyVerification, reason.VerificationFailed, reason.ControlMissing, reason.ChangeUnobserved,
}

func rank(code reason.Code) int {
	if i := slices.Index(severity, code); i >= 0 {
		return i
	}
	return slices.Index(severity, reason.InfrastructureFault)
}

// Uncontrolled is the most confidence, in hundredths, that a pass has whose tests
// were not shown to be able to fail.
const Uncontrolled = 50

// conclude sets status and confidence. Only a flake leaves some confidence in
// a verdict that is not a pass.
func (v *Verdict) conclude(findings []reason.Finding, passed int) {
	slices.SortStableFunc(findings, func(a, b reason.Finding) int { return cmp.Compare(rank(a.Code), rank(b.Code)) })
	v.Findings = append([]reason.Finding{}, findings...)
	for i := range v.Findings { // paths are the patch's own bytes
		v.Findings[i].Path = strings.ToValidUTF8(v.Findings[i].Path, "?")
		v.Findings[i].Detail = strings.ToValidUTF8(v.Findings[i].Detail, "?")
	}
	if len(findings) > 0 {
		v.Status = string(reason.StatusOf(findings[0].Code))
	}
	if len(findings) == 0 || findings[0].Code == reason.FlakyVerification {
		v.Confidence = canon.Hundredths(100 * passed / max(v.Repeats, 1))
		if v.Control == nil || !v.Control.Made {
			v.Confidence = min(v.Confidence, Uncontrolled)
		}
	}
}

// transit fills the lists from the first repetition.
func (v *Verdict) transit(base, head *PhaseResult) {
	t := newTransitions()
	vary := func(id string, _ bool) bool {
		return slices.ContainsFunc(head.varying, func(v *varying) bool { return v.group(id) != "" })
	}
	for i := range min(len(base.Commands), len(head.Commands)) {
		t.compare(&base.Commands[i], &head.Commands[i])
	}
	t.settle()
	maps.DeleteFunc(t.missing, vary)
	maps.DeleteFunc(t.failToPass, func(id string, _ bool) bool { return vary(id, true) || base.unstable(id) || head.flaky(id) })
	v.Delta = delta(base.Commands, head.Commands)
	v.FailToPass, v.PassToPass = list(t.failToPass), list(t.passToPass)
	v.PassToFail, v.Missing = list(t.passToFail), list(t.missing)
	v.Counts = Transitions{len(t.failToPass), len(t.passToPass), len(t.passToFail), len(t.missing), len(t.added)}
}

// flaky says whether a test has failed and passed in runs of the base.
func (r *PhaseResult) flaky(id string) bool {
	return slices.ContainsFunc(r.varying, func(v *varying) bool { return v != nil && v.flaky[id] })
}

// unstable says whether a test of the base has failed and passed there.
func (r *PhaseResult) unstable(id string) bool {
	if len(r.Unstable) == 0 {
		return false
	}
	if slices.Contains(r.Unstable, id) {
		return true
	}
	if r.proof == nil || r.proof.suite == nil {
		return false
	}
	t := r.proof.suite.test(id)
	return t != nil && slices.Contains(r.Unstable, t.String())
}
