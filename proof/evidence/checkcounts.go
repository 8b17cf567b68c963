package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"remit/proof/form"
	"remit/proof/journal"
	"remit/proof/reason"
)

// The numbers of a report are claims about tests that are listed one by one in
// test-results.jsonl. Where they are, everything that a reader would conclude
// from the numbers is counted again.

// maxNamedTests is where the lists of a verdict are cut.
const maxNamedTests = 1000

// testOutcomes are the outcomes of one command by test.
type testOutcomes map[string]string

// checkCounts counts the tests again.
func (r *run) checkCounts(files fs.FS) []reason.Finding {
	if r.verification == nil || r.redacted() {
		return nil
	}
	var out []reason.Finding
	agree := func(path string) agreeFunc {
		return func(ok bool, format string, args ...any) {
			if !ok && len(out) < maxFileFindings {
				out = append(out, reason.Finding{Code: reason.TestCountMismatch, Path: path, Detail: fmt.Sprintf(format, args...)})
			}
		}
	}
	r.countDelta(agree(JournalFile))
	listed, err := readResults(files)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out
	case err != nil:
		return append(out, documentFinding(TestResultsFile, err))
	}
	for place := range listed {
		phase := r.phase(place[0])
		known := phase != nil && slices.ContainsFunc(phase.Runs, func(c CommandRun) bool { return c.Command == place[1] })
		agree(TestResultsFile)(known, "lists tests of %q in phase %q, which the journal does not have", place[1], place[0])
	}
	for _, phase := range []*VerifyPhase{r.phase("base"), r.phase("head")} {
		if phase == nil {
			continue
		}
		for _, c := range phase.Runs {
			if tests := listed[[2]string{c.Phase, c.Command}]; tests != nil && !r.commandTwice(c.Command) {
				countRun(tests, c, agree(TestResultsFile))
			}
		}
	}
	r.countTransitions(listed, agree(TestResultsFile))
	return out
}

// commandTwice reports whether two runs of a phase have the command: their
// tests cannot be distinguished in the list.
func (r *run) commandTwice(command string) bool {
	n := 0
	for _, c := range r.opened.VerificationCommands {
		if c == command {
			n++
		}
	}
	return n > 1
}

// countRun holds the counts of one command against its tests. A skipped test
// need not be listed.
func countRun(tests testOutcomes, c CommandRun, agree agreeFunc) {
	var n TestCounts
	for _, outcome := range tests {
		switch outcome {
		case "pass":
			n.Passed++
		case "fail":
			n.Failed++
		default:
			n.Skipped++
		}
	}
	agree(c.Tests != nil && n.Passed == c.Tests.Passed && n.Failed == c.Tests.Failed && n.Skipped <= c.Tests.Skipped,
		"lists %d passed, %d failed and %d skipped tests of %q in phase %s, which is not what the journal counts", n.Passed, n.Failed, n.Skipped, c.Command, c.Phase)
}

// countDelta computes verification_delta again.
func (r *run) countDelta(agree agreeFunc) {
	base, head := r.phase("base"), r.phase("head")
	if base == nil || head == nil {
		return
	}
	tests, commands, known := 0, 0, false
	for i := range min(len(base.Runs), len(head.Runs)) {
		b, h := &base.Runs[i], &head.Runs[i]
		if b.Tests != nil && h.Tests != nil {
			known = true
			tests += b.Tests.Failed - h.Tests.Failed
		}
		commands += failedRun(b) - failedRun(h)
	}
	switch {
	case known:
		agree(r.verification.Delta == tests, "verification_delta is %d, the failing tests give %d", r.verification.Delta, tests)
	case r.verification.Status == StatusPass:
		// A command that ran into a limit counts as failed whatever its exit
		// code; there is none in a pass.
		agree(r.verification.Delta == commands, "verification_delta is %d, the failing commands give %d", r.verification.Delta, commands)
	}
}

func failedRun(c *CommandRun) int {
	if c.ExitCode != 0 {
		return 1
	}
	return 0
}

// countTransitions holds what the verdict says of single tests against what
// became of them.
func (r *run) countTransitions(listed map[[2]string]testOutcomes, agree agreeFunc) {
	v := r.verification
	became := map[string][][2]string{} // test: before and after, for each command
	for _, command := range r.opened.VerificationCommands {
		before, after := listed[[2]string{"base", command}], listed[[2]string{"head", command}]
		if r.commandTwice(command) || r.phase("base") == nil || r.phase("head") == nil {
			return
		}
		for test, outcome := range before {
			became[test] = append(became[test], [2]string{outcome, after[test]})
		}
		for test, outcome := range after {
			if _, known := before[test]; !known {
				became[test] = append(became[test], [2]string{"", outcome})
			}
		}
	}
	if len(became) == 0 {
		return
	}
	some := func(tests []string, what string, ok func(before, after string) bool) map[string]bool {
		named := map[string]bool{}
		for _, test := range tests {
			named[test] = true
			agree(slices.ContainsFunc(became[test], func(b [2]string) bool { return ok(b[0], b[1]) }), "does not show that %q is %s", test, what)
		}
		return named
	}
	fixed := some(v.FailToPass, "fixed", func(before, after string) bool { return before != "pass" && after == "pass" })
	broken := some(v.PassToFail, "broken", func(before, after string) bool { return before == "pass" && after != "pass" })
	missing := some(v.Missing, "missing", func(before, after string) bool { return before != "" && after != "pass" && after != "fail" })
	if max(len(fixed), len(broken), len(missing)) >= maxNamedTests {
		return // the lists may be cut
	}
	kept := 0
	for test, all := range became {
		if !fixed[test] && !broken[test] && !missing[test] && slices.Contains(all, [2]string{"pass", "pass"}) {
			kept++
		}
	}
	agree(kept == v.PassToPass, "shows %d tests that pass before and after, the journal says %d", kept, v.PassToPass)
}

// readResults reads test-results.jsonl by phase and command.
func readResults(files fs.FS) (map[[2]string]testOutcomes, error) {
	f, err := files.Open(TestResultsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[[2]string]testOutcomes{}
	var bad error
	n := 0
	err = eachLine(f, func(line []byte) bool {
		var t TestResult
		if n++; json.Unmarshal(line, &t) != nil {
			bad = reason.Errorf(reason.SchemaInvalid, "line %d is not a test result", n)
			return false
		}
		place := [2]string{t.Phase, t.Command}
		if out[place] == nil {
			out[place] = testOutcomes{}
		}
		if _, twice := out[place][t.Test]; twice {
			bad = reason.Errorf(reason.TestCountMismatch, "line %d lists a test again", n)
			return false
		}
		out[place][t.Test] = t.Outcome
		return true
	})
	return out, errors.Join(bad, err)
}

// Times are claims: only the machine that made a run has seen its clock.
// What no clock can have shown is a sign of a journal that was made up all the
// same. Steps run side by side, and a clock that is being set jumps, so that
// small differences say nothing.
const (
	clockSlack = time.Minute
	firstYear  = 2000
	lastYear   = 2200
)

var sessionTime = form.Lazy(`^([0-9]{8}T[0-9]{6}Z)-`)

// checkTimes looks at the times of a journal: they are in a sane range, go
// forward, begin when the session's id says, and leave the durations that are
// recorded inside them room.
func checkTimes(entries []journal.Entry) []reason.Finding {
	var out []reason.Finding
	add := func(line int, format string, args ...any) {
		if len(out) < maxFileFindings {
			out = append(out, reason.Finding{Code: reason.TimeImplausible, Path: JournalFile, Line: line, Detail: fmt.Sprintf(format, args...)})
		}
	}
	var latest time.Time
	for i := range entries {
		began, ended := spanOf(&entries[i])
		for _, at := range []time.Time{began, ended} {
			if at.Year() < firstYear || at.Year() > lastYear {
				add(i+1, "%s is at %s: no run of this program was then", entries[i].Name, at.Format(journal.TimeFormat))
			}
		}
		if i == 0 {
			if m := sessionTime().FindStringSubmatch(entries[0].SessionID); m != nil {
				if named, err := time.Parse("20060102T150405Z", m[1]); err != nil || began.Sub(named).Abs() > clockSlack {
					add(1, "the run began at %s, and its session is of %s", entries[0].StartedAt, m[1])
				}
			}
		} else if began.Before(entryStart(entries).Add(-clockSlack)) {
			add(i+1, "%s began at %s, before the run", entries[i].Name, entries[i].StartedAt)
		}
		if ended.Before(latest.Add(-clockSlack)) {
			add(i+1, "%s is at %s, and the entries before it reach to %s", entries[i].Name, ended.Format(journal.TimeFormat), latest.Format(journal.TimeFormat))
		}
		if ended.After(latest) {
			latest = ended
		}
		if spent := durationOf(&entries[i]); spent > ended.Sub(began)+clockSlack {
			add(i+1, "%s took %s, and what it records took %s", entries[i].Name, ended.Sub(began), spent)
		}
		var a ArtifactRecorded
		if entries[i].Name == StepArtifact && decode(entries[i].Outputs, &a) == nil {
			if checked, err := time.Parse(journal.TimeFormat, a.CheckedAt); err == nil && checked.After(ended.Add(clockSlack)) {
				add(i+1, "%s was checked at %s, after its entry was written", a.Path, a.CheckedAt)
			}
		}
	}
	return out
}

func entryStart(entries []journal.Entry) time.Time {
	began, _ := spanOf(&entries[0])
	return began
}

// spanOf is when a step began and when its entry's fact became true. The
// journal has accepted only times of the one form.
func spanOf(e *journal.Entry) (began, ended time.Time) {
	began, _ = time.Parse(journal.TimeFormat, e.StartedAt)
	ended, _ = time.Parse(journal.TimeFormat, entryTime(e))
	return began, ended
}

// durationOf is what a finished step records of the time that its commands
// took, one after the other.
func durationOf(e *journal.Entry) time.Duration {
	if e.Status == journal.Started {
		return 0
	}
	var spent int64
	switch e.Name {
	case StepEngine:
		var f EngineFinished
		if decode(e.Outputs, &f) == nil {
			spent = f.DurationMS
		}
	case StepVerifyBase, StepVerifyHead:
		var p VerifyPhase
		if decode(e.Outputs, &p) == nil {
			spent = madeIn(p.Runs)
		}
	case StepVerifyRun:
		var v VerifyRunEnded
		if decode(e.Outputs, &v) == nil {
			spent = madeIn(v.Runs)
		}
	}
	return time.Duration(min(max(spent, 0), 1<<40)) * time.Millisecond
}

// madeIn is the time of the runs that were not taken from the cache, in
// milliseconds.
func madeIn(runs []CommandRun) int64 {
	var spent int64
	for _, c := range runs {
		if !c.Cached {
			spent = counted(spent, min(c.DurationMS, 1<<40))
		}
	}
	return spent
}
