package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"remit/law/ladder"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine/faulty"
	"remit/work/harness"
	"remit/work/sandbox"
)

// trial is what a case is run with and held against.
type trial struct {
	broken bool // under its fault, else as its control
	asRow  bool // held against the row, else against a pass
}

var (
	underFault = trial{broken: true, asRow: true}
	asControl  = trial{}
)

// attempt runs one case and judges the session that it left.
func (o Options) attempt(parent context.Context, row ladder.Row, c ladder.Case, t trial) CaseResult {
	sc, err := scenarioOf(row.Name, c.Name)
	if err != nil {
		return untried(row, c, NotTried, err.Error())
	}
	ctx, cancel := context.WithTimeoutCause(parent, caseLimit, fmt.Errorf("the case did not end within %s", caseLimit))
	defer cancel()
	began := time.Now()
	res := newCaseResult(row, c)
	execute := func() error { return o.execute(ctx, sc, row, t, &res) }
	if sc.mounts {
		err = faulty.PrivateMounts(execute)
	} else {
		err = execute()
	}
	res.DurationMS = time.Since(began).Milliseconds()
	switch {
	case parent.Err() != nil:
		return untried(row, c, NotTried, context.Cause(parent).Error())
	case errors.Is(err, faulty.ErrNoMount):
		return untried(row, c, NotApplicable, err.Error())
	case err != nil:
		res.Verdict, res.Reason = NotTried, err.Error()
	default:
		res.Verdict = Held
		for _, check := range res.Checks {
			if !check.Held {
				res.Verdict, res.Reason = Broken, check.Name+": "+check.Detail
				break
			}
		}
	}
	return res
}

// execute makes the world of a case, runs the harness in it and judges. Its
// error says that the case could not be brought about; what the harness made of
// it is in the checks.
func (o Options) execute(ctx context.Context, sc scenario, row ladder.Row, t trial, res *CaseResult) error {
	dir, err := os.MkdirTemp(o.Dir, row.Name+"-")
	if err != nil {
		return fmt.Errorf("making a scratch directory: %w", err)
	}
	defer os.RemoveAll(dir)
	fx, err := newFixture(ctx, dir)
	if err != nil {
		return err
	}
	fx.contract.id = row.Name
	s := &setup{fixture: fx}
	defer func() {
		for _, undo := range s.undo {
			undo()
		}
	}()
	if err := sc.arrange(s, t.broken); err != nil {
		return fmt.Errorf("bringing the fault about: %w", err)
	}
	before, err := takeSnapshot(fx.repo())
	if err != nil {
		return err
	}
	began := time.Now().Truncate(time.Millisecond)
	runErr := o.run(ctx, s)
	after, err := takeSnapshot(fx.repo())
	if err != nil {
		return err
	}
	j := &judge{ctx: ctx, row: row, asRow: t.asRow, result: res, began: stamp(began), differs: before.differences(after)}
	j.judge(s, sc, runErr)
	return nil
}

// run is one run of the harness under the fault.
func (o Options) run(ctx context.Context, s *setup) error {
	inner, err := s.engine(o.Engine, o.Binary)
	if err != nil {
		return err
	}
	contract, err := s.contract.parse()
	if err != nil {
		return err
	}
	_, err = harness.Run(ctx, harness.Request{Home: s.home(), Repo: s.repo(), Contract: contract, Engine: &faulty.Engine{Inner: inner, Fault: s.fault},
		Sandbox: o.Sandbox, ExplicitNone: o.unconfined(), Approver: s.approver, Denier: s.denier, Repeat: 1, Build: o.Build})
	return err
}

// unconfined reports that the caller chose the driver that confines nothing.
func (o Options) unconfined() bool { return o.Sandbox.Describe().Driver == sandbox.DriverNone }

// wantedEnd is the end that a case, or its control, must have.
func (j *judge) wantedEnd() Expected {
	if j.asRow {
		return j.result.Expected
	}
	return Expected{Status: reason.Status(evidence.StatusPass), Event: evidence.StepRunCompleted}
}
