// Package matrix executes the failure matrix: each of its rows is brought
// about, really, around the real engine seam, and the session that is left on
// disk must end as the row says.
//
// A case makes a small git repository of its own, wraps the engine in
// [faulty.Engine], runs [harness.Run] through the sandbox, and then reads the
// session directory like a stranger: status, first blocker, exit code, the
// event, the artifacts with their digests and times, what the row wants to see
// in them, and the audit that anybody can make. The source repository is
// photographed before and after by this package; the harness's own word about
// it does not count.
//
// What cannot be tried on a machine is said, never passed over: a case that
// needs a privilege which is not there is not applicable, and a row without any
// case that was tried makes the whole matrix blocked.
//
// Every scenario has a control: the same run without its fault, which must
// pass. The tests of this package run it, so that no row can hold for the
// wrong reason.
package matrix

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"remit/law/ladder"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/sandbox"
)

// Engines are the names of the engines that the matrix can be run for.
func Engines() []string { return []string{fake.Name, command.Name} }

// caseLimit bounds one case, so that a hanging fault is a finding and not a
// hanging matrix.
const caseLimit = 3 * time.Minute

// Options say what to execute.
type Options struct {
	Engine  string         // one of Engines
	Binary  string         // the remit executable, which the fake engine starts in the sandbox
	Sandbox sandbox.Driver // nil when none works here: then nothing can be tried
	Rows    []string       // names; empty for all
	Dir     string         // where the scratch directory is made; "" for the system's
	Build   evidence.Build
	// OnCase gets every case that has ended, in the order of their
	// ends, from one goroutine at a time.
	OnCase func(row string, c CaseResult)
}

// Run executes the rows and judges them. The error is for options that make no
// sense and for a scratch directory that cannot be made.
func Run(ctx context.Context, opt Options) (*Report, error) {
	rows, err := selected(opt.Rows)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(opt.Dir, "remit-matrix-")
	if err != nil {
		return nil, fmt.Errorf("making a scratch directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // scratch: what stays lies in the temporary directory
	opt.Dir = dir
	identity, err := opt.identity(ctx)
	if err != nil {
		return nil, err
	}
	rep := &Report{Schema: Schema, Engine: identity, Remit: opt.Build, StartedAt: stamp(time.Now()), Complete: len(rows) == len(ladder.Rows())}
	if opt.Sandbox != nil {
		d := opt.Sandbox.Describe()
		rep.Sandbox = evidence.SandboxFacts{Driver: d.Driver, Version: d.Version, Layer: d.Layer, NotEnforced: d.NotEnforced}
	}
	for _, r := range rows {
		rep.Rows = append(rep.Rows, newRowResult(r))
	}
	opt.tryAll(ctx, rows, rep)
	rep.settle()
	rep.FinishedAt = stamp(time.Now())
	return rep, nil
}

// selected returns the named rows in the order of the matrix.
func selected(names []string) ([]ladder.Row, error) {
	if len(names) == 0 {
		return ladder.Rows(), nil
	}
	wanted := map[string]bool{}
	for _, name := range names {
		if _, ok := ladder.RowNamed(name); !ok {
			return nil, fmt.Errorf("the failure matrix has no row %q; its rows are %v", name, ladder.RowNames())
		}
		wanted[name] = true
	}
	var out []ladder.Row
	for _, r := range ladder.Rows() {
		if wanted[r.Name] {
			out = append(out, r)
		}
	}
	return out, nil
}

// identity is that of the engine without any fault.
func (o Options) identity(ctx context.Context) (evidence.EngineIdentity, error) {
	fx := &fixture{dir: o.Dir}
	if err := fx.writePatch(); err != nil {
		return evidence.EngineIdentity{}, err
	}
	inner, err := fx.engine(o.Engine, o.Binary)
	if err != nil {
		return evidence.EngineIdentity{}, err
	}
	return inner.Identity(ctx)
}

// atOnce is how many cases run beside each other: they wait for processes most
// of the time.
func atOnce() int { return min(4, runtime.NumCPU()+1) }

// tryAll tries every case of the rows and puts the results into the report.
func (o Options) tryAll(ctx context.Context, rows []ladder.Row, rep *Report) {
	var wait sync.WaitGroup
	var telling sync.Mutex
	places := make(chan struct{}, atOnce())
	for i, row := range rows {
		for j, c := range row.Cases {
			wait.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				res := o.try(ctx, row, c)
				telling.Lock()
				defer telling.Unlock()
				rep.Rows[i].Cases[j] = res
				if o.OnCase != nil {
					o.OnCase(row.Name, res)
				}
			})
		}
	}
	wait.Wait()
}

// try executes one case under its fault.
func (o Options) try(ctx context.Context, row ladder.Row, c ladder.Case) CaseResult {
	if o.Sandbox == nil {
		return untried(row, c, NotTried, fmt.Sprintf("%s: no confinement driver works on this machine", reason.SandboxUnavailable))
	}
	return o.attempt(ctx, row, c)
}

// stamp is a time as evidence writes it.
func stamp(t time.Time) string { return t.UTC().Format(journal.TimeFormat) }
