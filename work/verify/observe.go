package verify

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/tree"
	"remit/work/verify/hunk"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// NewTests are the tests that a patch adds or edits, tried on the code of the
// base. Its fields are those of evidence.NewTests.
type NewTests struct {
	Tried       int      `json:"tried"`
	FailWithout []string `json:"fail_without"`
	PassWithout []string `json:"pass_without"`
	Skipped     string   `json:"skipped,omitempty"`
}

// Observation says which parts of a change no test notices. Its fields are those
// of evidence.Observation.
type Observation struct {
	Mode       string                 `json:"mode"`
	Hunks      int                    `json:"hunks"`
	Tried      int                    `json:"tried"`
	Unobserved []evidence.HunkOfPatch `json:"unobserved"`
	Skipped    string                 `json:"skipped,omitempty"`
}

// maxObserved is how many parts of a change are taken back in ObserveSample.
const maxObserved = 40

// extra does what is of use only for a change that passes: its new tests on the
// code of the base, and beside them its parts, within the time of Plan.Extra.
func (p *Plan) extra(ctx context.Context, sb Sandbox, r *PhaseResult, o *overlays) error {
	var limit time.Duration
	if p.Extra != nil {
		limit = p.Extra(time.Duration(r.headMillis()) * time.Millisecond)
	}
	var jobs []job
	if p.newTests(r, o, limit) {
		jobs = append(jobs, job{PhaseHead, TreeNewTests, 1, o.testsAlone, commandsOf(p), nil})
	}
	tests, parts, known := len(jobs), p.parts(r, o, limit), false
	for n, part := range parts {
		if known = r.Observation.Hunks == 1 && p.runs(part.laid, o, tests > 0); known {
			break
		}
		jobs = append(jobs, job{PhaseHead, TreeHunk, n + 1, part.laid, commandsOf(p), nil})
	}
	runs, err := p.runWithin(ctx, sb, jobs, nil, limit)
	if err != nil {
		return err
	}
	for i, run := range runs {
		if run != nil && (i < tests || run.Fault == nil) {
			r.Runs = append(r.Runs, *run)
		}
	}
	if tests > 0 {
		p.compareNewTests(r, runs[0], limit)
	}
	switch {
	case known && tests > 0:
	case known:
		runs = []*RunResult{p.Before.run(TreeBase, 1)}
	default:
		runs = runs[tests:]
	}
	r.observe(parts, runs, limit)
	return nil
}

// headMillis is the time of the first plain run of the patched tree.
func (r *PhaseResult) headMillis() (ms int64) {
	for _, c := range r.Commands {
		ms += c.DurationMS
	}
	return ms
}

// newTests says whether the patch's tests are to be run on the code of the base.
func (p *Plan) newTests(r *PhaseResult, o *overlays, limit time.Duration) bool {
	if len(o.tests) == 0 || p.Tests == RuleProtect || p.Before == nil {
		return false
	}
	r.NewTests = &NewTests{FailWithout: []string{}, PassWithout: []string{}}
	if limit <= 0 {
		r.NewTests.Skipped = "the time for it is 0 (verify.extra_seconds)"
	}
	return limit > 0
}

// compareNewTests says which of the patch's tests notice that its code is not there.
func (p *Plan) compareNewTests(r *PhaseResult, run *RunResult, limit time.Duration) {
	n := r.NewTests
	if run == nil {
		n.Skipped = fmt.Sprintf("they did not end within %d s", int(limit.Seconds()+0.5))
		return
	}
	if run.Fault != nil {
		n.Skipped = run.Fault.Detail
		return
	}
	if c := stoppedCommand(run); c != nil {
		n.Skipped = fmt.Sprintf("%q: %s", c.Command, endOf(*c))
		return
	}
	for i := range r.Commands {
		before, head, without := p.Before.Commands[i], r.Commands[i], run.Commands[i]
		if len(r.varying) > 0 {
			v := r.varying[i]
			before, head, without = v.grouped(before), v.grouped(head), v.grouped(without)
		}
		n.compare(&before, &head, &without)
	}
	if n.Tried == 0 && n.Skipped == "" {
		n.Skipped = "no command names a test that only the patch has"
	}
}

// compare files the new tests of one command. A test of the base that passes in
// both trees and fails with the patch's version on the base's code was edited,
// and notices the change.
func (n *NewTests) compare(base, head, without *CommandResult) {
	for _, id := range leavesOf(head.PerTest) {
		if head.PerTest[id] != results.Pass {
			continue
		}
		was, known := base.PerTest[id]
		is, ran := without.PerTest[id]
		failed := is == results.Fail || !ran && (containerFailed(without, id) || !without.Passed)
		switch {
		case known && (was != results.Pass || is != results.Fail):
			continue // it is the base's, or is among those that the change fixes
		case failed:
			n.FailWithout = append(n.FailWithout, id)
		default:
			n.PassWithout = append(n.PassWithout, id)
		}
		n.Tried++
	}
	slices.Sort(n.FailWithout)
	slices.Sort(n.PassWithout)
	n.FailWithout = slices.Clip(n.FailWithout[:min(len(n.FailWithout), MaxListed)])
	n.PassWithout = slices.Clip(n.PassWithout[:min(len(n.PassWithout), MaxListed)])
}

// part is a part of the change, and the change without it.
type part struct {
	what evidence.HunkOfPatch
	laid []tree.Change
}

// prose finds documentation, which no test has to notice.
var prose = form.Lazy(`(?i)^(?:(?:docs?/.*|[^/]*)\.(?:md|markdown|rst|adoc)|(?:readme|changelog|changes|history|news|licen[cs]e|copying|authors|contributors|contributing|notice)(?:\.txt)?)$`)

// parts are the parts of the change that are taken back, one at a time, to see whether
// a test notices.
func (p *Plan) parts(r *PhaseResult, o *overlays, limit time.Duration) []part {
	ob := &Observation{Mode: p.Observe, Unobserved: []evidence.HunkOfPatch{}}
	r.Observation = ob
	if p.Observe == ObserveOff {
		ob.Skipped = "verify.observe is off"
		return nil
	}
	root, err := os.OpenRoot(p.Lower)
	if err != nil {
		ob.Skipped = err.Error()
		return nil
	}
	defer root.Close()
	split, err := hunk.Split(root, o.head, func(path string) bool {
		return slices.Contains(o.tests, path) && !slices.Contains(o.mixed, path) || p.isHeldOut(path) || prose().MatchString(path)
	}, twin.SameCode)
	if err != nil {
		ob.Skipped = err.Error()
		return nil
	}
	all := split.Hunks()
	if ob.Hunks = len(all); len(all) == 0 {
		ob.Skipped = "the change has only tests, comments and documentation"
	}
	if limit <= 0 && len(all) > 0 {
		ob.Skipped = fmt.Sprintf("no time was left for it: 0 of %d parts were tried (verify.extra_seconds)", len(all))
		return nil
	}
	chosen := draw{}.shuffled(len(all))
	if p.Observe == ObserveSample {
		chosen = chosen[:min(len(chosen), maxObserved)]
	}
	var out []part
	for _, i := range chosen {
		rest, err := split.Without(i)
		if err != nil {
			ob.Skipped = err.Error()
			return nil
		}
		out = append(out, part{all[i], tree.Sorted(rest)})
	}
	return out
}

// runs says whether there is a run of the base with some changes: a change of one part
// is without it the base, or the base with the patch's tests where these are run.
func (p *Plan) runs(laid []tree.Change, o *overlays, tests bool) bool {
	same := func(a, b tree.Change) bool { return a.Path == b.Path && a.Kind == b.Kind }
	if tests {
		return slices.EqualFunc(laid, tree.Sorted(o.testsAlone), same)
	}
	return p.Before != nil && !slices.ContainsFunc(laid, func(c tree.Change) bool { return !p.isHeldOut(c.Path) })
}

// observe says which parts no test notices: those without which the commands still
// pass.
func (r *PhaseResult) observe(parts []part, runs []*RunResult, limit time.Duration) {
	ob := r.Observation
	if ob.Skipped != "" {
		return
	}
	plain := r.run(TreeHead, 1).groupedBy(r.varying)
	for n, run := range runs {
		if run == nil || run.Fault != nil {
			continue
		}
		ob.Tried++
		if run.groupedBy(r.varying).allPassed(plain) {
			ob.Unobserved = append(ob.Unobserved, parts[n].what)
		}
	}
	slices.SortFunc(ob.Unobserved, func(a, b evidence.HunkOfPatch) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.First, b.First))
	})
	if ob.Tried < ob.Hunks {
		ob.Skipped = fmt.Sprintf("%d of %d parts were tried", ob.Tried, ob.Hunks)
		if ob.Tried < len(parts) {
			ob.Skipped += fmt.Sprintf(" within %d s (verify.extra_seconds)", max(1, int(limit.Seconds()+0.5)))
		}
	}
}

// allPassed says whether a run passes like the phase's own: every command, and
// every test that passed there.
func (run *RunResult) allPassed(r *RunResult) bool {
	for i := range run.Commands {
		c := &run.Commands[i]
		if c.Passed != r.Commands[i].Passed || c.TimedOut || c.OutputExceeded {
			return false
		}
		for id, o := range r.Commands[i].PerTest {
			if o == results.Pass && c.PerTest[id] != results.Pass {
				return false
			}
		}
	}
	return !run.OOMKilled
}

func (p *Plan) isHeldOut(path string) bool {
	return slices.ContainsFunc(p.HeldOut, func(c tree.Change) bool { return c.Path == path })
}

// observed is what is wrong with a change whose parts have to be noticed.
func (ob *Observation) observed() *reason.Finding {
	switch {
	case len(ob.Unobserved) > 0:
		first := ob.Unobserved[0]
		return &reason.Finding{Code: reason.ChangeUnobserved, Path: first.Path, Line: first.First,
			Detail: fmt.Sprintf("of the %d parts of the change that were taken back, in all its files, no test notices %d; this is the first", ob.Tried, len(ob.Unobserved))}
	case ob.Tried < ob.Hunks:
		return &reason.Finding{Code: reason.ChangeUnobserved, Path: logName, Detail: "not every part of the change was taken back: " + ob.Skipped}
	}
	return nil
}
