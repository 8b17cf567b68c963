package verify

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"remit/proof/reason"
	"remit/work/tree"
)

// Base runs the commands on the baseline. It needs nothing of the patch, so it
// can run while the agent still works.
func Base(ctx context.Context, sb Sandbox, p Plan) (*PhaseResult, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	r := &PhaseResult{Phase: PhaseBase, Repeats: 1}
	for _, h := range p.HeldOut {
		r.heldOut = append(r.heldOut, h.Path)
	}
	if len(p.Commands) == 0 {
		return r, p.missing(r)
	}
	baseline := p
	baseline.Patch = nil
	o, err := lay(&baseline)
	if err != nil {
		return r.cannot(err)
	}
	if p.CacheDir != "" {
		if err := os.MkdirAll(p.CacheDir, 0o700); err != nil {
			return r, reason.Errorf(reason.ArtifactWriteFailure, "making a directory for build caches: %w", err)
		}
	}
	runs, err := p.runAll(ctx, sb, []job{{PhaseBase, TreeBase, 1, o.head, commandsOf(&p), nil}}, nil)
	if err != nil {
		return r, err
	}
	r.add(*runs[0])
	r.caches = p.caches
	if runs[0].Fault != nil {
		r.proof = &baseProof{reason: "the base could not be run"}
		return r, nil
	}
	if c := stoppedCommand(runs[0]); c != nil {
		r.proof = &baseProof{reason: fmt.Sprintf("the base did not come to its end: %q: %s", c.Command, endOf(*c))}
		return r, nil
	}
	if err := p.againAlone(ctx, sb, r, o.head); err != nil {
		return r, err
	}
	if err := p.tryTogether(ctx, sb, r, o.head); err != nil {
		return r, err
	}
	return r, p.proveBase(ctx, sb, r, o.head)
}

// stoppedCommand is the first command of a run that a limit has stopped before its
// tests were done, nil if there is none.
func stoppedCommand(r *RunResult) *CommandResult {
	for i := range r.Commands {
		if r.Commands[i].stopped() && r.Commands[i].unfinished() {
			return &r.Commands[i]
		}
	}
	return nil
}

// tryTogether notes which commands fail on the base alone and come out otherwise
// behind the others: each has a view of its own, and may need what another one
// makes.
func (p *Plan) tryTogether(ctx context.Context, sb Sandbox, r *PhaseResult, laid []tree.Change) error {
	views := p.views(len(p.Commands))
	later := func(v view) bool {
		return v.first > 0 && anyFailed(r.Commands[v.first:v.end])
	}
	if !slices.ContainsFunc(views, later) {
		return nil
	}
	together := *p
	together.Shared, together.OnEvent, together.CacheDir = true, nil, ""
	run, err := together.tryRun(ctx, sb, job{PhaseBase, TreeBase, 1, laid, commandsOf(p), nil}, io.Discard)
	if err != nil {
		return err
	}
	for i, c := range run.Commands {
		alone := &r.Commands[i]
		if run.Fault == nil && alone.ExitCode != 0 && (c.ExitCode != alone.ExitCode || (c.Tests == nil) != (alone.Tests == nil)) {
			r.needsGroup = append(r.needsGroup, i)
		}
	}
	return nil
}

// Head runs the commands on the patched tree, and under extend on the patched
// tree with the base's tests as well when the patch touches tests. The runs of
// the control go on beside them and count when these have passed.
func Head(ctx context.Context, sb Sandbox, p Plan) (*PhaseResult, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	r := &PhaseResult{Phase: PhaseHead, Repeats: p.Repeat}
	o, err := lay(&p)
	if err != nil {
		return r.cannot(err)
	}
	r.Dropped, r.TestFilesChanged, r.Findings = o.dropped, o.tests, o.findings
	r.deletedTests, r.editedTests, r.because = o.deleted, o.inBase, o.because
	if p.Before != nil {
		p.caches = p.Before.caches
	}
	r.addedTests, r.required, r.observed = o.fresh, p.Control == ControlRequired, p.Observed
	if len(p.Commands) == 0 {
		return r, p.missing(r)
	}
	jobs := headJobs(&p, o)
	plain := len(jobs)
	judged := o.head // the tree whose tests the control edits: the base's tests on the new code
	if o.edited {
		judged = o.unedited
	}
	w, why := p.newWitness(r, judged)
	if w != nil && len(r.Findings) == 0 {
		p.lend(ctx, sb, w.suite)
		jobs = append(jobs, w.jobs(w.laid, w.runs...)...)
	}
	var d *delivered
	if w != nil && len(r.Findings) == 0 && o.edited {
		if d = w.newDelivered(ctx, sb, o.head); d != nil {
			jobs = append(jobs, w.jobs(d.laid, d.run)...)
		}
	}
	passed, renamed := false, false
	runs, err := p.runAll(ctx, sb, jobs, func(done []*RunResult) bool {
		if slices.Contains(done[:plain], nil) {
			return false
		}
		passed = passed || r.plainly(&p, done[:plain])
		renamed = p.Before != nil && slices.ContainsFunc(done[:plain], func(run *RunResult) bool { return exchanged(p.Before.Commands, run) })
		return !passed && !renamed
	})
	r.Runs, r.Commands = nil, nil
	for _, run := range runs {
		if run == nil {
			continue
		}
		if run.Tree == TreeHead {
			r.add(*run)
		} else {
			r.Runs = append(r.Runs, *run)
		}
	}
	if err == nil && renamed {
		if err = p.learnNames(ctx, sb, r); err == nil {
			passed = r.plainly(&p, runs[:plain])
		}
	}
	if err != nil {
		return r, err
	}
	switch {
	case !passed:
		r.Control = noControl(p.Commands, "the change did not pass, so there was nothing to control")
	case w == nil:
		r.Control = noControl(p.Commands, why)
	default:
		w.results, w.plain = runs[plain:plain+len(w.runs)], runs[0]
		if o.edited {
			w.plain = r.run(TreeUnedited, 1)
		}
		if err := w.judge(ctx, sb); err != nil {
			return r, err
		}
		if d != nil && len(w.findings) == 0 {
			if err := w.judgeDelivered(ctx, sb, d, runs[len(runs)-1]); err != nil {
				return r, err
			}
		}
		w.finish()
	}
	if !passed || len(r.Control.Findings) > 0 {
		return r, nil
	}
	return r, p.extra(ctx, sb, r, o)
}

// headJobs are the runs of the patched tree, for each repetition.
func headJobs(p *Plan, o *overlays) []job {
	var jobs []job
	for n := range p.Repeat {
		jobs = append(jobs, job{PhaseHead, TreeHead, n + 1, o.head, commandsOf(p), nil})
		if o.edited {
			jobs = append(jobs, job{PhaseHead, TreeUnedited, n + 1, o.unedited, commandsOf(p), nil})
		}
	}
	return jobs
}

// plainly says whether the runs of the patched tree pass by themselves.
func (r *PhaseResult) plainly(p *Plan, done []*RunResult) bool {
	if p.Before == nil {
		return true
	}
	so := *r
	so.Runs, so.Commands = nil, nil
	for _, run := range done {
		if run.Tree == TreeHead {
			so.add(*run)
		} else {
			so.Runs = append(so.Runs, *run)
		}
	}
	return len(Judge(p.Before, &so, p.Tests).Findings) == 0
}

// add appends a run of the tree that counts; the first is the phase's result.
func (r *PhaseResult) add(run RunResult) {
	if r.Commands == nil {
		r.Commands, r.Caps, r.Usage = run.Commands, run.Caps, run.Usage
	}
	r.Runs = append(r.Runs, run)
}

// run finds a run by its tree and repetition.
func (r *PhaseResult) run(tree string, repetition int) *RunResult {
	for i := range r.Runs {
		if r.Runs[i].Tree == tree && r.Runs[i].Repetition == repetition {
			return &r.Runs[i]
		}
	}
	return nil
}

// missing records that there is nothing to run.
func (p *Plan) missing(r *PhaseResult) error {
	r.Findings = append(r.Findings, reason.Finding{Code: reason.MissingTestCommand, Path: logName, Detail: "the contract names no verification command"})
	return writeLog(p.Log, missingCommands)
}

// cannot turns an error that keeps the phase from running into its finding.
func (r *PhaseResult) cannot(err error) (*PhaseResult, error) {
	r.Findings = append(r.Findings, reason.Finding{Code: codeOr(err, reason.InfrastructureFault), Detail: err.Error()})
	return r, nil
}

// logName is where the findings of a run point to.
const logName = "test.log"
