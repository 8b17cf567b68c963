package verify

import (
	"context"

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
// out, which asks for the failures of others.
func (p *Plan) turnFailing(ctx context.Context, sb Sandbox, r *PhaseResult, s *suite, laid []tree.Change) error {
	s.leaveFailing(r)
	run := &twinRun{suite: s, views: map[int]*twinView{}, traced: true}
	for _, g := range r.proof.groups {
		turned := make(map[*suiteTest]twin.Order)
		main := make(map[*suiteTest]twin.Order)
		for _, f := range s.files {
			for _, t := range f.tests {
				if f.lang != langC || t.Outcome != results.Fail || t.Failing == nil || t.Broken {
					continue
				}
				if turned[t] = *t.Failing; t.name == "main" {
					main[t] = *t.Failing
					delete(turned, t)
				}
			}
		}
		if len(turned) == 0 {
			turned = main
		}
		if g.by == byExit && anyFailed(r.Commands[g.first:g.end]) && len(turned) > 0 {
			run.views[g.first] = newTwinView(g.view, r.Commands, turned)
		}
	}
	if len(run.views) == 0 {
		return nil
	}
	done, err := p.runAll(ctx, sb, []job{{PhaseBase, TreeTwin, len(r.twins()) + 1, laid, commandsOf(p), run}}, nil)
	if err != nil {
		return err
	}
	if done[0] == nil || done[0].Fault != nil {
		return nil
	}
	r.Runs = append(r.Runs, *done[0])
	for _, g := range r.proof.groups {
		if tv := run.views[g.first]; tv != nil && !anyFailed(done[0].Commands[g.first:g.end]) {
			for t, o := range tv.sabotage {
				t.Proved = union(t.Proved, []int{o.Site})
			}
		}
	}
	return nil
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
