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
	"remit/proof/reason"
	"remit/work/tree"
	"remit/work/verify/hunk"
	"remit/work/verify/results"
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
// code of the base, then its parts, within the time of Plan.Extra.
func (p *Plan) extra(ctx context.Context, sb Sandbox, r *PhaseResult, o *overlays) error {
	var limit time.Duration
	if p.Extra != nil {
		limit = p.Extra(time.Duration(r.headMillis()) * time.Millisecond)
	}
	began := time.Now()
	if err := p.tryNewTests(ctx, sb, r, o, limit); err != nil {
		return err
	}
	return p.observe(ctx, sb, r, o, limit-time.Since(began))
}

// headMillis is the time of the first plain run of the patched tree.
func (r *PhaseResult) headMillis() (ms int64) {
	for _, c := range r.Commands {
		ms += c.DurationMS
	}
	return ms
}

// tryNewTests runs the patch's tests on the code of the base.
func (p *Plan) tryNewTests(ctx context.Context, sb Sandbox, r *PhaseResult, o *overlays, limit time.Duration) error {
	if len(o.tests) == 0 || p.Tests == RuleProtect || p.Before == nil {
		return nil
	}
	n := &NewTests{FailWithout: []string{}, PassWithout: []string{}}
	r.NewTests = n
	if limit <= 0 {
		n.Skipped = "the time for it is 0 (verify.extra_seconds)"
		return nil
	}
	runs, err := p.runWithin(ctx, sb, []job{{PhaseHead, TreeNewTests, 1, o.testsAlone, commandsOf(p), nil}}, nil, limit)
	switch {
	case err != nil:
		return err
	case runs[0] == nil:
		n.Skipped = fmt.Sprintf("they did not end within %d s", int(limit.Seconds()+0.5))
		return nil
	}
	r.Runs = append(r.Runs, *runs[0])
	if runs[0].Fault != nil {
		n.Skipped = runs[0].Fault.Detail
		return nil
	}
	if c := stoppedCommand(runs[0]); c != nil {
		n.Skipped = fmt.Sprintf("%q: %s", c.Command, endOf(*c))
		return nil
	}
	for i := range r.Commands {
		before, head, without := p.Before.Commands[i], r.Commands[i], runs[0].Commands[i]
		if len(r.varying) > 0 {
			v := r.varying[i]
			before, head, without = v.grouped(before), v.grouped(head), v.grouped(without)
		}
		n.compare(&before, &head, &without)
	}
	if n.Tried == 0 && n.Skipped == "" {
		n.Skipped = "no command names a test that only the patch has"
	}
	return nil
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

// observe takes back one part of the change at a time and runs the commands: a
// part without which they still pass is one that no test notices.
func (p *Plan) observe(ctx context.Context, sb Sandbox, r *PhaseResult, o *overlays, limit time.Duration) error {
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
	split, err := hunk.Split(root, o.head, func(path string) bool { return slices.Contains(o.tests, path) || p.isHeldOut(path) })
	if err != nil {
		ob.Skipped = err.Error()
		return nil
	}
	parts := split.Hunks()
	ob.Hunks = len(parts)
	if limit <= 0 && len(parts) > 0 {
		ob.Skipped = fmt.Sprintf("no time was left for it: 0 of %d parts were tried (verify.extra_seconds)", len(parts))
		return nil
	}
	chosen := draw{}.shuffled(len(parts))
	if p.Observe == ObserveSample {
		chosen = chosen[:min(len(chosen), maxObserved)]
	}
	var jobs []job
	for n, i := range chosen {
		rest, err := split.Without(i)
		if err != nil {
			ob.Skipped = err.Error()
			return nil
		}
		jobs = append(jobs, job{PhaseHead, TreeHunk, n + 1, tree.Sorted(rest), commandsOf(p), nil})
	}
	runs, err := p.runWithin(ctx, sb, jobs, nil, limit)
	if err != nil {
		return err
	}
	plain := r.run(TreeHead, 1).groupedBy(r.varying)
	for n, run := range runs {
		if run == nil || run.Fault != nil {
			continue
		}
		r.Runs = append(r.Runs, *run)
		ob.Tried++
		if run.groupedBy(r.varying).allPassed(plain) {
			ob.Unobserved = append(ob.Unobserved, parts[chosen[n]])
		}
	}
	slices.SortFunc(ob.Unobserved, func(a, b evidence.HunkOfPatch) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.First, b.First))
	})
	if ob.Tried < ob.Hunks {
		ob.Skipped = fmt.Sprintf("%d of %d parts were tried", ob.Tried, ob.Hunks)
		if ob.Tried < len(chosen) {
			ob.Skipped += fmt.Sprintf(" within %d s (verify.extra_seconds)", max(1, int(limit.Seconds()+0.5)))
		}
	}
	return nil
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
			Detail: fmt.Sprintf("no test notices %d of the %d parts of the change that were taken back", len(ob.Unobserved), ob.Tried)}
	case ob.Tried < ob.Hunks:
		return &reason.Finding{Code: reason.ChangeUnobserved, Path: logName, Detail: "not every part of the change was taken back: " + ob.Skipped}
	}
	return nil
}
