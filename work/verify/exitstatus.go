package verify

import (
	"context"
	"errors"
	"slices"

	"remit/proof/form"
	"remit/work/tree"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// What the exit status says of tests of C, which have no names: a function that finds
// something wrong need not have a caller who asks.

// provedByExit are the sites with which the command has failed that passes on the base.
func (t *suiteTest) provedByExit(v view, plain []CommandResult, runs []*RunResult, views []*twinView) (out []int) {
	for i, tv := range views {
		order, sabotaged := tv.sabotage[t]
		if sabotaged && t.Outcome == results.Pass && !anyFailed(plain[v.first:v.end]) && anyFailed(runs[i].Commands[v.first:v.end]) {
			out = append(out, order.Site)
		}
	}
	return out
}

// turnFailing runs a base that fails once more, with the assertions of C turned round that
// have failed there: if it passes, they are what the exit status is about. main is left
// out, which asks for the failures of others, unless it alone has failed.
func (p *Plan) turnFailing(ctx context.Context, sb Sandbox, r *PhaseResult, s *suite, laid []tree.Change) error {
	turned, main := make(map[*suiteTest]twin.Order), make(map[*suiteTest]twin.Order)
	for _, f := range s.files {
		for _, t := range f.tests {
			switch {
			case f.lang != langC || t.Outcome != results.Fail || t.Failing == nil || t.Broken:
			case t.name == "main":
				main[t] = *t.Failing
			default:
				turned[t] = *t.Failing
			}
		}
	}
	if len(turned) == 0 {
		turned = main
	}
	run := &twinRun{suite: s, views: map[int]*twinView{}, traced: true}
	for _, g := range r.proof.groups {
		if g.by == byExit && anyFailed(r.Commands[g.first:g.end]) && len(turned) > 0 {
			run.views[g.first] = newTwinView(g.view, r.Commands, turned)
		}
	}
	if len(run.views) == 0 {
		return nil
	}
	done, err := p.runAll(ctx, sb, []job{{PhaseBase, TreeTwin, len(r.twins()) + 1, laid, commandsOf(p), run}}, nil)
	if err != nil || done[0] == nil || done[0].Fault != nil {
		return err
	}
	r.Runs = append(r.Runs, *done[0])
	for _, g := range r.proof.groups {
		if run.runs(g.view) && !anyFailed(done[0].Commands[g.first:g.end]) {
			for t, o := range turned {
				t.Proved = union(t.Proved, []int{o.Site})
			}
		}
	}
	return nil
}

// leaveFailing leaves tests out that fail by the trace although the command, which names
// none, passes: what they find wrong is no failure there.
func (s *suite) leaveFailing(r *PhaseResult) {
	for _, g := range r.proof.groups {
		if g.by != byExit || anyFailed(r.Commands[g.first:g.end]) {
			continue
		}
		for _, f := range s.files {
			for _, t := range f.tests {
				t.Broken = t.Broken || t.Outcome == results.Fail
			}
		}
	}
}

// leaveUnreached takes files of C out of which no run came by an edit: they are data, or
// parts of programs that are not built, and an edit of them shows nothing. It reports
// whether there was one.
func (s *suite) leaveUnreached(twins []*twinRun) bool {
	before := len(s.files)
	s.files = slices.DeleteFunc(s.files, func(f *suiteFile) bool {
		if f.lang != langC {
			return false
		}
		reached := slices.ContainsFunc(twins, func(r *twinRun) bool {
			for _, tv := range r.views {
				if fileTrace(tv.trace, f) != nil {
					return true
				}
			}
			return false
		})
		if !reached {
			s.leave(f.path, errors.New("no test that the commands run is in it"))
		}
		return !reached
	})
	s.index()
	return len(s.files) < before
}

// spoilt says whether commands that pass fail in a run in which no test is to fail.
func (r *PhaseResult) spoilt(neutral *RunResult) bool {
	return slices.ContainsFunc(r.proof.groups, func(g groupProof) bool {
		return g.by != byTest && !anyFailed(r.Commands[g.first:g.end]) && anyFailed(neutral.Commands[g.first:g.end])
	})
}

// failedIn says whether an assertion of a test has failed: it may have ended the program.
func (t *suiteTest) failedIn(f *twin.FileTrace) bool {
	return slices.ContainsFunc(t.sites, func(s twin.Site) bool { return f.Sites[s.ID] != nil && len(f.Sites[s.ID].Failed) > 0 })
}

// reportsFailures says whether a function of C is called like one that is only called
// where something is wrong.
func reportsFailures(name string) bool {
	return failureName().MatchString(name) && !testWord().MatchString(name)
}

var (
	failureName = form.Lazy(`(?i)(?:^|_)(?:fail\w*|errors?|abort\w*|die|dump\w*|report\w*|panic|fatal)(?:_|$)`)
	testWord    = form.Lazy(`(?i)^tests?_|_tests?(?:_|$)|^TEST`)
)
