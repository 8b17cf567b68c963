package verify

import (
	"context"
	"fmt"
	"slices"

	"remit/work/tree"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// baseProof is what the runs of the base have shown about the tests: which of
// them can be held to fail, and how each command shows it.
type baseProof struct {
	suite  *suite
	groups []groupProof // one a view, in their order
	reason string       // why nothing can be controlled, "" when something can
	fault  bool         // a fault kept a run from its end, and both were made again
}

// The ways in which a view shows that a test failed.
const (
	byTest = "test" // its commands name each test
	byExit = "exit" // its exit status alone
)

// groupProof is what the base has shown about the commands of one view.
type groupProof struct {
	view
	by     string
	reason string // why there is no control
}

// proveBase tries the editors on the base, in two or three runs side by side. Each
// test that passes there is neutral in one of them and sabotaged in the others, in a
// way of its own each. One that fails where it is neutral is not held to anything
// later, and none is held to a sabotage that it passes: the editor, not the patch,
// is the cause.
func (p *Plan) proveBase(ctx context.Context, sb Sandbox, r *PhaseResult, laid []tree.Change) error {
	r.proof = &baseProof{}
	if p.Control == ControlOff {
		r.proof.reason = "verify.control is off"
		return nil
	}
	s, err := p.loadSuite(ctx, sb, laid, r.Commands)
	if cause := context.Cause(ctx); cause != nil {
		return stoppedBy(cause)
	}
	if err != nil {
		r.proof.reason = err.Error()
		return nil //nolint:nilerr // it is why there is no control
	}
	r.proof.suite = s
	s.leaveHelpers(p.views(len(p.Commands)), r.Commands)
	if !s.named(r.Commands) {
		s.leaveReaders()
	}
	if len(s.files) == 0 {
		r.proof.reason = noSuite(s, r.Commands)
		return nil
	}
	s.hide(p.views(len(p.Commands)), r.Commands)
	for tries := 1; ; {
		p.quieten(ctx, sb, s)
		again, err := p.tryProof(ctx, sb, r, s, laid)
		switch {
		case err != nil:
			return err
		case again:
		case tries < maxStatusTries && s.showsNothing(r):
			tries++
		default:
			return nil
		}
	}
}

// tryProof makes the runs. again says that they have to be made once more:
// the edits did not reach the tests through the Go command's overlay, so that the
// tree has to be edited, a test needs the sources that were gone, or there was a
// fault.
func (p *Plan) tryProof(ctx context.Context, sb Sandbox, r *PhaseResult, s *suite, laid []tree.Change) (again bool, err error) {
	s.foldOutcomes(r.Commands)
	views := p.views(len(p.Commands))
	var twins []*twinRun
	for _, v := range views {
		for i, sabotage := range s.trials(draw{}) {
			if i == len(twins) {
				twins = append(twins, &twinRun{suite: s, views: map[int]*twinView{}, traced: true})
			}
			twins[i].views[v.first] = newTwinView(v, r.Commands, sabotage)
		}
	}
	var jobs []job
	for i, t := range twins {
		jobs = append(jobs, job{PhaseBase, TreeTwin, len(r.twins()) + i + 1, laid, commandsOf(p), t})
	}
	runs, err := p.runAll(ctx, sb, jobs, nil)
	if err != nil {
		return false, err
	}
	for _, run := range runs {
		if run != nil {
			r.Runs = append(r.Runs, *run)
		}
		if why, lost := lostRun(run); lost {
			if !r.proof.fault { // a fault that passes must not weaken the control
				r.proof.fault = true
				return true, nil
			}
			r.proof.reason = "the base could not be run with edited tests" + why
			return false, nil
		}
	}
	if s.leaveUnbuilt(r.Commands, runs) {
		return len(s.files) > 0 || r.proof.without(noSuite(s, r.Commands)), nil
	}
	r.proof.groups = nil
	reached := false
	for _, v := range views {
		at := viewsOf(twins, v)
		for _, t := range s.settle(v, r.Commands, runs, at) {
			if !slices.Contains(r.Unstable, t.String()) {
				r.Unstable = append(r.Unstable, t.String())
			}
		}
		g := groupProof{view: v, by: s.shownBy(r.Commands[v.first:v.end], at)}
		if g.by == "" {
			g.reason = noTestOf(r.Commands[v.first:v.end])
		}
		reached = reached || g.by != ""
		r.proof.groups = append(r.proof.groups, g)
	}
	if !reached && len(views) == 1 {
		r.proof.reason = r.proof.groups[0].reason
	} else if !reached {
		r.proof.reason = "no command runs a test that Remit can edit"
	}
	s.leaveFailing(r)
	if err := p.holdFailing(ctx, sb, r, s, laid, twins[len(twins)-1]); err != nil {
		return false, err
	}
	if s.byStatus() && s.leaveAltered(twins, r.spoilt(runs[len(runs)-1])) {
		return len(s.files) > 0 || r.proof.without(noSuite(s, r.Commands)), nil
	}
	switch {
	case !s.inTree && s.unreached(langGo, r.Commands, twins...):
		s.inTree, s.framework, s.hides = true, framework{}, nil
	case s.missed(views, r.Commands, runs, twins...):
		s.hides = nil
	default:
		return false, nil
	}
	return true, nil
}

// without notes why nothing can be controlled. It is false, as the proof is not tried
// again.
func (b *baseProof) without(why string) bool {
	b.reason = why
	return false
}

// lostRun says whether a run shows nothing of its tests, and why.
func lostRun(r *RunResult) (why string, lost bool) {
	switch {
	case r == nil:
		return "", true
	case r.Fault != nil:
		return ": " + r.Fault.Detail, true
	}
	if c := stoppedCommand(r); c != nil {
		return fmt.Sprintf(": %q: %s", c.Command, endOf(*c)), true
	}
	return "", false
}

// noTestOf says why nothing is known of the tests that commands run. One that fails
// on the base may have ended before its tests, as "! grep … && pytest" does there.
func noTestOf(ran []CommandResult) string {
	for i := range ran {
		if ran[i].ExitCode > 0 {
			return fmt.Sprintf("on the base it exits with %d and comes by no test that Remit can edit: what its tests show there is not known", ran[i].ExitCode)
		}
	}
	return "it runs no test that Remit can edit"
}

// twins are the runs of the control so far.
func (r *PhaseResult) twins() []RunResult {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run RunResult) bool { return run.Tree != TreeTwin })
}

// foldOutcomes notes what became of each test on the base, where commands name
// their tests. A test that two commands run has its worse outcome.
func (s *suite) foldOutcomes(ran []CommandResult) {
	for _, f := range s.files {
		for _, t := range f.tests {
			t.baseFacts = baseFacts{}
		}
	}
	for i := range ran {
		for t, o := range s.outcomes(&ran[i]) {
			if t.Outcome == "" || o == results.Fail {
				t.Outcome = o
			}
		}
	}
}

// viewsOf are the parts of some runs in one view.
func viewsOf(twins []*twinRun, v view) (out []*twinView) {
	for _, t := range twins {
		out = append(out, t.views[v.first])
	}
	return out
}

// settle takes over what the runs of one view have shown. It returns the tests that
// failed in the plain run and passed in one of these, where they are the same.
func (s *suite) settle(v view, plain []CommandResult, runs []*RunResult, views []*twinView) (unstable []*suiteTest) {
	named := s.named(plain[v.first:v.end])
	var seen []map[*suiteTest]results.Outcome
	for i, tv := range views {
		seen = append(seen, s.seen(v, runs[i], tv, named))
	}
	for _, f := range s.files {
		for _, t := range f.tests {
			was := t.Proved
			if t.settle(views, seen, named); f.byStatus() && !named {
				t.Proved = union(was, t.provedByExit(v, plain, runs, views))
			}
			passed := func(in map[*suiteTest]results.Outcome) bool { return in[t] == results.Pass }
			if named && t.Outcome == results.Fail && slices.ContainsFunc(seen, passed) {
				unstable = append(unstable, t)
			}
		}
	}
	return unstable
}

// seen is what became of the tests in one view of a run: by name where the
// commands name them, else by the trace.
func (s *suite) seen(v view, r *RunResult, tv *twinView, named bool) map[*suiteTest]results.Outcome {
	if named {
		return s.outcomesOf(r.Commands[v.first:v.end])
	}
	out := make(map[*suiteTest]results.Outcome)
	for _, f := range s.files {
		for _, t := range f.tests {
			if o := traced(tv.trace, t); o != "" {
				out[t] = o
			}
		}
	}
	return out
}

// traced is what became of a test by the trace, "" if it did not run. A test
// that came by one of its sites and has no end has failed.
func traced(tr *twin.Trace, t *suiteTest) results.Outcome {
	f := fileTrace(tr, t.file)
	if f == nil {
		return ""
	}
	switch o := f.Tests[t.trace]; {
	case o.Fail > 0 || t.file.byStatus() && t.failedIn(f):
		return results.Fail
	case t.file.lang == langShell && slices.ContainsFunc(t.sites, func(s twin.Site) bool { return f.Sites[s.ID] != nil }):
		return results.Pass // each of its assertions is a test
	case o.Pass > 0:
		return results.Pass
	case o.Skip > 0:
		return results.Skip
	}
	for _, s := range t.sites {
		if f.Sites[s.ID] != nil {
			return results.Fail
		}
	}
	return ""
}

// fileTrace is what a file recorded in a run, nil if it was not run.
func fileTrace(tr *twin.Trace, f *suiteFile) *twin.FileTrace {
	if tr == nil {
		return nil
	}
	return tr.Files[f.key]
}

// settle takes over what the runs of a view have shown about one test.
func (t *suiteTest) settle(views []*twinView, seen []map[*suiteTest]results.Outcome, named bool) {
	neutral, altered := results.Outcome(""), false
	for i, tv := range views {
		t.Reached = union(t.Reached, t.reachedIn(tv))
		t.Broken = t.Broken || named && (t.Outcome == results.Pass || t.Outcome == results.Fail) && seen[i][t] == ""
		if _, sabotaged := tv.sabotage[t]; sabotaged {
			altered = true
		} else if (neutral == "" || neutral == results.Pass) && (named || !t.file.byStatus() || len(tv.sabotage) == 0) {
			neutral = seen[i][t] // of a test without a name another one may be the cause
		}
	}
	if !named && t.Outcome == "" {
		t.Outcome = neutral
	}
	if !t.file.byStatus() && (!altered || !named && neutral == results.Fail) { // of the others see holdFailing
		t.Failing = sameEvaluation(t, views)
	}
	for i, tv := range views {
		if order, sabotaged := tv.sabotage[t]; sabotaged && neutral == results.Pass && seen[i][t] == results.Fail {
			t.Proved = union(t.Proved, []int{order.Site})
		}
	}
}

// reachedIn are the sites of the test that a run came by.
func (t *suiteTest) reachedIn(tv *twinView) []int {
	f := fileTrace(tv.trace, t.file)
	if f == nil {
		return nil
	}
	var out []int
	for _, s := range t.sites {
		if f.Sites[s.ID] != nil {
			out = append(out, s.ID)
		}
	}
	return out
}

// sameEvaluation is an evaluation that failed on the base, in two runs at least. Where
// runs differ in its number every evaluation is turned later.
func sameEvaluation(t *suiteTest, views []*twinView) *twin.Order {
	for _, s := range t.sites {
		if s.Kind != twin.Flip {
			continue
		}
		var failed []int // the first evaluation that failed, of each run that has one
		for _, tv := range views {
			if f := fileTrace(tv.trace, t.file); f != nil && f.Sites[s.ID] != nil && len(f.Sites[s.ID].Failed) > 0 {
				failed = append(failed, f.Sites[s.ID].Failed[0])
			}
		}
		if len(failed) < 2 {
			continue
		}
		o := &twin.Order{Site: s.ID}
		if same := slices.Compact(failed); len(same) == 1 {
			o.Evaluation = same[0]
		}
		return o
	}
	return nil
}

// shownBy says how the commands of a view show a failed test, "" when they run
// none that is edited.
func (s *suite) shownBy(plain []CommandResult, views []*twinView) string {
	if s.named(plain) {
		return byTest
	}
	if slices.ContainsFunc(views, func(tv *twinView) bool { return len(tv.trace.Files) > 0 }) {
		return byExit
	}
	return ""
}

// named says whether a command among those names each test with its outcome. One
// that names only what failed does not. A result file names all of them: where every
// test fails on the base no passed one could say so, and by the exit status alone one
// failing test would speak for all.
func (s *suite) named(plain []CommandResult) bool {
	for i := range plain {
		direct := plain[i].direct && results.NamesTests(plain[i].Runner)
		if (direct || plain[i].filed) && len(plain[i].PerTest) > 0 {
			return true // also of a package that does not build: its tests have names later
		}
		for _, o := range s.outcomes(&plain[i]) {
			if o == results.Pass {
				return true
			}
		}
	}
	return false
}
