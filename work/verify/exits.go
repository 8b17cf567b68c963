package verify

import (
	"context"
	"fmt"
	"slices"

	"remit/proof/reason"
	"remit/work/tree"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// A change may have the tests pass and see to it that they are never again seen to
// fail: an exit hook, a TestMain or a setup file that makes the exit status 0. It shows
// where tests have to fail: a command whose exit status says so on the base has to
// say so with the change. The test files that a change brings are not part of the runs
// that judge the tests of the base, so the delivered tree is run once more with
// all of its tests edited to fail.

// exitTells says whether the exit status of a command tells of failed tests on the
// base: in each run of the control there that has some.
func (w *witness) exitTells(command int) bool {
	told := false
	for _, r := range w.base.twins() {
		if c := &r.Commands[command]; !c.unfinished() && namesFailed(c) {
			if c.ExitCode == 0 {
				return false
			}
			told = true
		}
	}
	return told
}

func namesFailed(c *CommandResult) bool {
	for _, o := range c.PerTest {
		if o == results.Fail {
			return true
		}
	}
	return false
}

// examineStatus compares the exit status of a command that names its tests with
// what it names.
func (w *witness) examineStatus(run int, v view, command int, c *CommandResult) []trouble {
	if c.ExitCode != 0 || !namesFailed(c) || !w.exitTells(command) {
		return nil
	}
	return []trouble{{run: run, view: v, command: command, kind: twin.Fail, status: true}}
}

// delivered is the run of the delivered tree in which all of its tests have to fail.
type delivered struct {
	run  *twinRun
	laid []tree.Change
}

// newDelivered plans that run, nil where the tests can not be read.
func (w *witness) newDelivered(ctx context.Context, sb Sandbox, laid []tree.Change) *delivered {
	s, err := w.plan.loadSuite(ctx, sb, laid, w.base.Commands)
	if err != nil {
		return nil
	}
	s.inTree, s.framework = w.suite.inTree, w.suite.framework
	d := &delivered{&twinRun{suite: s, views: map[int]*twinView{}}, laid}
	d.draw(w)
	return d
}

// draw chooses a failing statement of each test: one that a test which passes comes by.
func (d *delivered) draw(w *witness) {
	for _, g := range w.base.proof.groups {
		sabotage := make(map[*suiteTest]twin.Order)
		for _, f := range d.run.suite.files {
			for _, t := range f.tests {
				if sites := t.certain(twin.Fail); len(sites) > 0 {
					sabotage[t] = twin.Order{Site: pick(draw{}, sites)}
				}
			}
		}
		if g.by != "" && len(sabotage) > 0 {
			d.run.views[g.first] = newTwinView(g.view, w.base.Commands, sabotage)
		}
	}
}

// silent are the commands that exit with 0 although a test of theirs that passes in the
// plain run, and comes by a failing statement, is edited to fail.
func (d *delivered) silent(w *witness, r *RunResult) (commands []int) {
	plain := w.head.run(TreeHead, 1)
	for _, g := range w.base.proof.groups {
		tv := d.run.views[g.first]
		if tv == nil || anyFailed(r.Commands[g.first:g.end]) {
			continue
		}
		for c := g.first; c < g.end; c++ {
			runs := g.by == byTest && w.exitTells(c)
			if runs {
				passed := d.run.suite.outcomes(&plain.Commands[c])
				runs = false
				for t := range tv.sabotage {
					runs = runs || passed[t] == results.Pass
				}
			} else if g.by == byExit {
				runs = !w.cannotFail(c) && d.proves(w, tv)
			}
			if runs {
				commands = append(commands, c)
			}
		}
	}
	return commands
}

// proves says whether a test that is edited to fail is one that the base has shown
// to be run.
func (d *delivered) proves(w *witness, tv *twinView) bool {
	for t := range tv.sabotage {
		for _, f := range w.base.proof.suite.files {
			if was := f.test(t.name); f.path == t.file.path && was != nil && len(was.Proved) > 0 {
				return true
			}
		}
	}
	return false
}

// judgeDelivered says what it means that the delivered tree exits with 0 where its
// tests must fail, twice. A run that was lost says nothing.
func (w *witness) judgeDelivered(ctx context.Context, sb Sandbox, d *delivered, first *RunResult) error {
	if _, lost := lostRun(first); lost {
		return nil
	}
	suspects := d.silent(w, first)
	if len(suspects) == 0 {
		return nil
	}
	d.draw(w)
	again, err := w.plan.runAll(ctx, sb, w.jobs(d.laid, d.run), nil)
	if err != nil {
		return err
	}
	w.head.Runs = append(w.head.Runs, *again[0])
	if _, lost := lostRun(again[0]); lost {
		return nil
	}
	for _, c := range d.silent(w, again[0]) {
		if slices.Contains(suspects, c) {
			w.find(reason.Finding{Code: reason.VerifierTampering, Path: logName, Detail: fmt.Sprintf(
				"%q exits 0 on the changed tree with its tests edited to fail, and not on the base: a test file of the change, or its code, hides that tests fail", w.plan.Commands[c])})
		}
	}
	return nil
}
