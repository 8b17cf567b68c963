package verify

import (
	"context"

	"remit/proof/reason"
)

// Base runs the commands on the baseline. It needs nothing of the patch, so it
// can run while the agent still works.
func Base(ctx context.Context, sb Sandbox, p Plan) (*PhaseResult, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	r := &PhaseResult{Phase: PhaseBase, Repeats: 1}
	if len(p.Commands) == 0 {
		return r, p.missing(r)
	}
	baseline := p
	baseline.Patch = nil
	o, err := lay(&baseline)
	if err != nil {
		return r.cannot(err)
	}
	run, err := p.tryRun(ctx, sb, PhaseBase, TreeBase, 1, o.head, commandsOf(&p))
	if err != nil {
		return r, err
	}
	r.add(run)
	return r, p.controlled(ctx, sb, r, o.head)
}

// Head runs the commands on the patched tree, and under extend on the patched
// tree with the base's tests as well when the patch touches tests.
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
	r.deletedTests, r.editedTests = o.deleted, o.inBase
	if len(p.Commands) == 0 {
		return r, p.missing(r)
	}
	for repetition := range p.Repeat {
		if o.edited {
			run, err := p.tryRun(ctx, sb, PhaseHead, TreeUnedited, repetition+1, o.unedited, commandsOf(&p))
			if err != nil {
				return r, err
			}
			r.Runs = append(r.Runs, run)
		}
		run, err := p.tryRun(ctx, sb, PhaseHead, TreeHead, repetition+1, o.head, commandsOf(&p))
		if err != nil {
			return r, err
		}
		r.add(run)
	}
	if len(r.Findings) > 0 || !r.passed() {
		return r, nil // it fails already: nothing is left to control
	}
	return r, p.controlled(ctx, sb, r, o.head)
}

// add appends a run of the tree that counts; the first is the phase's result.
func (r *PhaseResult) add(run RunResult) {
	if r.Commands == nil {
		r.Commands, r.Caps, r.Usage = run.Commands, run.Caps, run.Usage
	}
	r.Runs = append(r.Runs, run)
}

// passed says whether every command of the phase's result passed by itself.
func (r *PhaseResult) passed() bool {
	for _, c := range r.Commands {
		if !c.Passed {
			return false
		}
	}
	return true
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
