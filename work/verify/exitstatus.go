package verify

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/work/tree"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// What the exit status says of tests of C and of scripts, which have no names: a function
// that finds something wrong need not have a caller who asks.

// byStatus says whether the tests of a file have no names.
func (f *suiteFile) byStatus() bool { return f.lang == langC || f.lang == langShell }

// byStatus says whether there are such files.
func (s *suite) byStatus() bool { return slices.ContainsFunc(s.files, (*suiteFile).byStatus) }

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

// maxHolds is how often a base that fails runs with assertions that hold: one that ends
// the program has others behind it that fail as well.
const maxHolds = 6

// holdFailing runs a base that fails once more, with the assertions that have failed there
// holding whatever they ask: if it passes, they are what the exit status is about. Main is
// left out, which asks for the failures of others, unless it alone has failed.
func (p *Plan) holdFailing(ctx context.Context, sb Sandbox, r *PhaseResult, s *suite, laid []tree.Change, neutral *twinRun) error {
	for _, g := range r.proof.groups {
		if g.by != byExit || !anyFailed(r.Commands[g.first:g.end]) {
			continue
		}
		all := s.failing(neutral.views[g.first].trace)
		held, main := holds{}, holds{}
		for t, sites := range all {
			t.Failing = sites.first()
			if asksForOthers(t.name) {
				main[t] = sites
			} else {
				held[t] = sites
			}
		}
		if len(held) == 0 {
			held = main
		}
		for range maxHolds {
			if len(held) == 0 {
				break
			}
			tv := newTwinView(g.view, r.Commands, nil)
			tv.held = held
			run := &twinRun{suite: s, views: map[int]*twinView{g.first: tv}, traced: true}
			done, err := p.runAll(ctx, sb, []job{{PhaseBase, TreeTwin, len(r.twins()) + 1, laid, commandsOf(p), run}}, nil)
			if err != nil || done[0] == nil || done[0].Fault != nil {
				return err
			}
			r.Runs = append(r.Runs, *done[0])
			for _, f := range s.files {
				for _, t := range f.tests {
					t.Reached = union(t.Reached, t.reachedIn(tv))
				}
			}
			if !anyFailed(done[0].Commands[g.first:g.end]) {
				held.proved()
				break
			}
			if !held.join(s.failing(tv.trace)) {
				break
			}
		}
	}
	return nil
}

// holds are assertions by their tests.
type holds map[*suiteTest]failures

// failures are assertions of a test by their sites, each with the evaluation of it that
// failed first.
type failures map[int]int

// first is the one that stands first in the file.
func (f failures) first() *twin.Order {
	site := slices.Min(slices.Collect(maps.Keys(f)))
	return &twin.Order{Site: site, Evaluation: f[site]}
}

// failing are the assertions of tests without names that failed in a run.
func (s *suite) failing(tr *twin.Trace) holds {
	out := holds{}
	for _, f := range s.files {
		seen := fileTrace(tr, f)
		if !f.byStatus() || seen == nil {
			continue
		}
		for _, t := range f.tests {
			for _, site := range t.sites {
				if at := seen.Sites[site.ID]; at != nil && len(at.Failed) > 0 && site.Kind == twin.Flip && !t.Broken {
					if out[t] == nil {
						out[t] = failures{}
					}
					out[t][site.ID] = at.Failed[0]
				}
			}
		}
	}
	return out
}

// join takes in the assertions of another run but for those of main, and says whether there
// were new ones.
func (h holds) join(other holds) (more bool) {
	for t, sites := range other {
		if asksForOthers(t.name) {
			continue
		}
		for id, evaluation := range sites {
			if _, known := h[t][id]; known {
				continue
			}
			if h[t] == nil {
				h[t] = failures{}
			}
			h[t][id], more = evaluation, true
		}
	}
	return more
}

// of are the sites of one file.
func (h holds) of(f *suiteFile) map[int]bool {
	out := map[int]bool{}
	for t, sites := range h {
		if t.file != f {
			continue
		}
		for id := range sites {
			out[id] = true
		}
	}
	return out
}

// proved notes that the exit status is about these assertions.
func (h holds) proved() {
	for t, sites := range h {
		t.Proved, t.Outcome = union(t.Proved, slices.Collect(maps.Keys(sites))), results.Fail
		if t.Failing == nil {
			t.Failing = sites.first()
		}
	}
}

// asksForOthers says whether a test is one that asks for the failures of others.
func asksForOthers(name string) bool { return name == "main" || strings.HasPrefix(name, "main (") }

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

// maxStatusTries is how often a base that passes is tried with sabotaged tests that have
// no names, until one of them turns the exit status.
const maxStatusTries = 3

// longTry is how long commands take that are not tried again, in milliseconds.
const longTry = 20_000

// showsNothing says whether a command that passes has failed with none of the tests
// without names that were sabotaged, and there are more, or other places in them. Those
// that no run came by are not tried again.
func (s *suite) showsNothing(r *PhaseResult) bool {
	passes := func(g groupProof) bool { return g.by == byExit && !anyFailed(r.Commands[g.first:g.end]) }
	took := int64(0)
	for i := range r.Commands {
		took += r.Commands[i].DurationMS
	}
	if !slices.ContainsFunc(r.proof.groups, passes) || took > longTry {
		return false
	}
	more := false
	for _, f := range s.files {
		for _, t := range f.tests {
			if !f.byStatus() {
				continue
			}
			if t.asserts(t.Proved) {
				return false
			}
			useless := len(t.Reached) == 0 || t.Broken
			t.tried, more = t.tried || useless, more || !useless
		}
	}
	return more
}

// leaveAltered takes files out that tests of the kind that have no names read, or do not
// run. It reports whether the others have to be tried again: spoilt says that commands
// failed with edits that change nothing.
func (s *suite) leaveAltered(twins []*twinRun, spoilt bool) bool {
	left := s.leaveUnreached(twins)
	return spoilt && (left || s.leaveScripts())
}

// leaveUnreached takes files of C and scripts out of which no run came by an edit: they are data, or
// parts of programs that are not built or run, and an edit of them shows nothing. It reports
// whether there was one.
func (s *suite) leaveUnreached(twins []*twinRun) bool {
	before := len(s.files)
	s.files = slices.DeleteFunc(s.files, func(f *suiteFile) bool {
		if !f.byStatus() {
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

// reportsFailures says whether a function is called like one that is only called
// where something is wrong.
func reportsFailures(name string) bool {
	return failureName().MatchString(name) && !testWord().MatchString(name)
}

var (
	failureName = form.Lazy(`(?i)(?:^|_)(?:fail\w*|errors?|abort\w*|die|dump\w*|report\w*|panic|fatal)(?:_|$)`)
	testWord    = form.Lazy(`(?i)^tests?_|_tests?(?:_|$)|^TEST`)
)
