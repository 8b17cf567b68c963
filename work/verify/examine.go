package verify

import (
	"context"
	"fmt"
	"slices"

	"remit/proof/reason"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// judge holds the runs against what they had to show. What contradicts it is
// tried once more, with other edits, before it counts; a test that fails where it
// is as it was, a third time and beside another plain run: it may fail now and
// then. One finding is reason enough, so the rest is not tried then.
func (w *witness) judge(ctx context.Context, sb Sandbox) error {
	troubles := w.examine(w.runs, w.results)
	for len(troubles) > 0 && len(w.findings) == 0 {
		var now []trouble
		now, troubles = nextRuns(troubles)
		if err := w.tryAgain(ctx, sb, now); err != nil {
			return err
		}
	}
	return nil
}

// nextRuns takes out the troubles of the run that is tried again first: one in
// which a test passed that cannot, or else two runs.
func nextRuns(troubles []trouble) (now, later []trouble) {
	runs := []int{troubles[0].run}
	clear := slices.IndexFunc(troubles, func(t trouble) bool { return t.kind != "" && !t.lost && !t.skipped })
	other := slices.IndexFunc(troubles, func(t trouble) bool { return t.run != runs[0] })
	switch {
	case clear >= 0:
		runs = []int{troubles[clear].run}
	case other >= 0:
		runs = append(runs, troubles[other].run)
	}
	for _, t := range troubles {
		if slices.Contains(runs, t.run) {
			now = append(now, t)
		} else {
			later = append(later, t)
		}
	}
	return now, later
}

// tryAgain makes the runs of some troubles again and says what these mean.
func (w *witness) tryAgain(ctx context.Context, sb Sandbox, troubles []trouble) error {
	again, of := w.retry(troubles)
	second, err := w.repeat(ctx, sb, again)
	if err != nil {
		return err
	}
	doubts := w.conclude(troubles, second, of)
	if len(doubts) == 0 || len(w.findings) > 0 {
		return nil
	}
	again, of = w.retry(doubts)
	third, err := w.repeat(ctx, sb, again)
	if err != nil {
		return err
	}
	plain, err := w.plan.runAll(ctx, sb, []job{{PhaseHead, w.plain.Tree, w.plan.Repeat + 1, w.laid, commandsOf(w.plan), nil}}, nil)
	if err != nil {
		return err
	}
	w.head.Runs = append(w.head.Runs, *plain[0])
	w.settleDoubts(doubts, third, of, plain[0])
	return nil
}

// repeat makes runs of the control and compares them with what they had to show.
func (w *witness) repeat(ctx context.Context, sb Sandbox, runs []*twinRun) ([]trouble, error) {
	done, err := w.plan.runAll(ctx, sb, w.jobs(w.laid, runs...), nil)
	if err != nil {
		return nil, err
	}
	for _, r := range done {
		w.head.Runs = append(w.head.Runs, *r)
	}
	w.runs, w.results = append(w.runs, runs...), append(w.results, done...)
	return w.examine(runs, done), nil
}

// settleDoubts says what it means that tests failed twice where nothing in them
// was changed.
func (w *witness) settleDoubts(doubts, third []trouble, of []int, plain *RunResult) {
	for _, t := range doubts {
		again := slices.ContainsFunc(third, func(s trouble) bool { return s.like(t) && of[s.run] == t.run })
		failed := plain.Commands[t.command].ExitCode != 0
		if t.test != nil {
			failed = w.suite.outcomes(&plain.Commands[t.command])[t.test] != results.Pass
		}
		switch {
		case !again || failed || plain.Fault != nil:
			w.find(reason.Finding{Code: reason.FlakyVerification, Path: logName, Detail: w.plainly(t) + " in some runs and not in others with the same test"})
		case (t.test == nil || t.test.Outcome != results.Pass) && !w.showing(t.command, t.test).neutral:
			// Of a command as a whole it may be one test among many, and of a test that the
			// base fails it is not known whether it passes with edited sources.
			do := "check the sources by a test of its own that the change does not have to mend, or say verify.control: off"
			if t.test == nil {
				do = "use a command that names its tests (go test -v, python3 -m unittest -v, pytest -v), which leaves such a test out, or say verify.control: off"
			}
			w.find(reason.Finding{Code: reason.VerificationFailed, Path: logName, Detail: w.plainly(t) +
				" in every run of the control, which edits the test files, and passes in the plain run: it reads the sources or the output of tests " +
				"(the length of lines, their format, names; in Go the file itself, which is gone there), or the code does, or it behaves for the plain run alone. If it is the test, " + do})
		default:
			w.find(reason.Finding{Code: reason.VerifierTampering, Path: logName, Detail: w.accuse(t), Hint: accusedHint})
		}
	}
}

// trouble is a result that contradicts what a run had to show.
type trouble struct {
	run     int // index of the run
	view    view
	command int
	test    *suiteTest // nil where the exit status is all that is known
	order   twin.Order
	kind    twin.Kind // of the sabotage, "" when the test was neutral
	lost    bool      // nothing is known of the test
	skipped bool      // the test was skipped
	fault   *reason.Finding
	status  bool // the exit status is 0 beside failed tests
	slow    bool // the fault is that a limit has stopped it, which counts the second time
}

// like says whether two troubles are of the same test, sabotaged or neutral.
func (t trouble) like(other trouble) bool {
	return t.fault == nil && t.command == other.command && t.test == other.test && t.status == other.status && (t.kind == "") == (other.kind == "")
}

// examine compares runs with what they had to show, and notes what they did.
func (w *witness) examine(runs []*twinRun, done []*RunResult) []trouble {
	var out []trouble
	for i, r := range done {
		if r.Fault != nil {
			out = append(out, trouble{run: i, fault: r.Fault})
			continue
		}
		if c := stoppedCommand(r); c != nil { // what it was at is not what failed
			out = append(out, trouble{run: i, slow: true, fault: &reason.Finding{Code: reason.Timeout, Path: logName,
				Detail: fmt.Sprintf("%q was stopped in a run with edited tests, twice: %s", c.Command, endOf(*c))}})
			continue
		}
		if c, why := w.notBuilt(r); c != nil {
			out = append(out, trouble{run: i, slow: true, fault: &reason.Finding{Code: reason.VerificationFailed, Path: logName,
				Detail: fmt.Sprintf("the edited tests of %q are built on the base, and with the change they are not, twice: %q. What the change defines takes some values only, "+
					"so it is not seen whether the tests can fail. If it is honest, name the types in these tests in a change of its own", c.Command, why)}})
			continue
		}
		for _, g := range w.base.proof.groups {
			tv := runs[i].views[g.first]
			switch {
			case tv == nil:
			case g.by == byExit:
				out = append(out, w.examineExit(i, g, tv, r)...)
			default:
				out = append(out, w.examineTests(i, g, tv, r)...)
			}
		}
	}
	return out
}

// examineTests compares a view whose commands name their tests.
func (w *witness) examineTests(run int, g groupProof, tv *twinView, r *RunResult) []trouble {
	var out []trouble
	for c := g.first; c < g.end; c++ {
		plain, now := w.suite.outcomes(&w.plain.Commands[c]), w.suite.outcomes(&r.Commands[c])
		for _, t := range w.tests {
			if plain[t.suiteTest] != results.Pass {
				continue // it fails without any edit, and is no reason to pass
			}
			s := w.showing(c, t.suiteTest)
			order, sabotaged := tv.sabotage[t.suiteTest]
			outcome := now[t.suiteTest]
			tr := trouble{run: run, view: g.view, command: c, test: t.suiteTest, order: order}
			if sabotaged {
				tr.kind = t.site(order.Site).Kind
			}
			if sabotaged && tr.kind == twin.Fail && t.site(order.Site).Certain && outcome == results.Fail && w.suite.passesInPart(&r.Commands[c], t.suiteTest) {
				outcome = results.Pass
			}
			switch {
			case sabotaged && outcome == results.Fail:
				s.failed++
			case !sabotaged && outcome == results.Pass:
				s.neutral = true
			case outcome == "":
				tr.lost = true
				out = append(out, tr)
			default:
				tr.skipped = outcome == results.Skip
				out = append(out, tr)
			}
		}
		out = append(out, w.examineStatus(run, g.view, c, &r.Commands[c])...)
	}
	return out
}

// examineExit compares a view of which only the exit status is known. The test
// is nil in what it notes.
func (w *witness) examineExit(run int, g groupProof, tv *twinView, r *RunResult) []trouble {
	failed, unknown := anyFailed(r.Commands[g.first:g.end]), anyUnfinished(r.Commands[g.first:g.end])
	s := w.showing(g.first, nil)
	must := len(tv.sabotage) > 0
	switch {
	case must && failed && !unknown:
		s.failed++
	case !must && !failed:
		s.neutral = true
	default:
		tr := trouble{run: run, view: g.view, command: g.first, lost: unknown}
		for t, o := range tv.sabotage {
			tr.kind, tr.order = t.site(o.Site).Kind, o
		}
		return []trouble{tr}
	}
	return nil
}

func (w *witness) showing(command int, t *suiteTest) *showing {
	k := shownKey{command, t}
	if w.shown[k] == nil {
		w.shown[k] = new(showing)
	}
	return w.shown[k]
}

// retry makes the troubled runs once more. A flip is turned at every evaluation,
// and where a whole package was lost its kept tests get a failing statement,
// which takes no other test with it.
func (w *witness) retry(troubles []trouble) (again []*twinRun, of []int) {
	for i, r := range w.runs {
		var mine []trouble
		for _, t := range troubles {
			if t.run == i {
				mine = append(mine, t)
			}
		}
		if len(mine) == 0 {
			continue
		}
		next := &twinRun{suite: r.suite, views: map[int]*twinView{}}
		for first, tv := range r.views {
			sabotage := make(map[*suiteTest]twin.Order, len(tv.sabotage))
			for t, o := range tv.sabotage {
				if t.site(o.Site).Kind == twin.Flip {
					o.Evaluation = 0
				}
				if fails := t.known(twin.Fail); len(fails) > 0 && t.Outcome == results.Pass && lostNear(mine, t) && !contradicts(mine, t) {
					o.Site = pick(draw{}, fails)
				}
				sabotage[t] = o
			}
			next.views[first] = &twinView{sabotage: sabotage, limit: tv.limit}
		}
		again, of = append(again, next), append(of, i)
	}
	return again, of
}

// contradicts says whether a test gave a result that it cannot have.
func contradicts(troubles []trouble, t *suiteTest) bool {
	return slices.ContainsFunc(troubles, func(tr trouble) bool { return !tr.lost && tr.test == t })
}

// lostNear says whether a test of the same directory was lost.
func lostNear(troubles []trouble, t *suiteTest) bool {
	return slices.ContainsFunc(troubles, func(tr trouble) bool {
		return tr.lost && tr.test != nil && tr.test.file.pkg == t.file.pkg && tr.test.file.lang == t.file.lang
	})
}

// conclude says what the troubles mean. One that came twice is what the change
// did; one that came once is a test that does not always give the same result.
// It returns those that need a third look.
func (w *witness) conclude(first, second []trouble, of []int) (doubts []trouble) {
	for _, t := range first {
		if t.fault != nil {
			if !t.slow {
				w.find(*t.fault)
			}
			continue
		}
		twice := slices.ContainsFunc(second, func(s trouble) bool { return s.like(t) && of[s.run] == t.run })
		switch {
		case t.lost || twice && w.lostAgain(t, second, of):
			if s := w.showing(t.command, t.test); twice {
				s.missed++
			}
		case twice && t.kind == "" && !t.skipped:
			doubts = append(doubts, t)
		case twice && t.test == nil && !t.status && w.cannotFail(t.command):
			w.find(reason.Finding{Code: reason.VerificationFailed, Path: logName, Detail: w.plainly(t) + " where its tests must fail, on the base as well: its exit status " +
				"does not say whether they pass. Leave out what hides it, such as || true, a pipe or a further command behind them"})
		case twice:
			w.find(reason.Finding{Code: reason.VerifierTampering, Path: logName, Detail: w.accuse(t), Hint: accusedHint})
		case t.kind != twin.Flip || t.order.Evaluation == 0:
			w.find(reason.Finding{Code: reason.FlakyVerification, Path: logName, Detail: w.plainly(t) + " in one run and not in the next with the same test"})
		}
	}
	for _, t := range second {
		if t.fault != nil {
			w.find(*t.fault)
		}
	}
	return doubts
}

// cannotFail says whether a command of which only the exit status is known exits
// with 0 on the base, without the change, also where its tests are edited to fail.
func (w *witness) cannotFail(command int) bool {
	twins := w.base.twins()
	return len(twins) > 0 && !slices.ContainsFunc(twins, func(r RunResult) bool { return anyFailed(r.Commands[command : command+1]) })
}

// lostAgain says whether the second try says nothing about the test.
func (w *witness) lostAgain(t trouble, second []trouble, of []int) bool {
	return slices.ContainsFunc(second, func(s trouble) bool {
		return s.lost && of[s.run] == t.run && s.command == t.command && s.test == t.test
	})
}

func (w *witness) find(f reason.Finding) {
	if !slices.Contains(w.findings, f) && len(w.findings) < maxControlFindings {
		w.findings = append(w.findings, f)
	}
}

// maxControlFindings bounds what the control lists: the first are reason enough.
const maxControlFindings = 20

// accusedHint is what to do about a result that a test cannot have.
const accusedHint = "read what the change does while that test runs: whether it ends the test or its runner, turns failures off, or has assertions do nothing; `remit logs SESSION` shows the runs. " +
	"If it is honest, verify.control: off in remit.yaml of the base leaves the control out"

// accuse says what a test did that it cannot do honestly.
func (w *witness) accuse(t trouble) string {
	how := map[twin.Kind]string{twin.Flip: "with an assertion turned round", twin.Expect: "with another expected value", twin.Fail: "with a failing statement in it"}
	text := w.plainly(t)
	if t.status {
		return text + " although tests of it fail, and does not on the base: the change turns the exit status"
	}
	if t.skipped {
		return text + " in runs with edited tests and passes in the plain run: its result depends on who is looking"
	}
	if t.kind != "" {
		text += ", " + how[t.kind] + ", so it cannot: the results of this run are not those of its tests"
	} else {
		text += " where nothing in it was changed, and passes in the run of the change: its result depends on who is looking"
	}
	return text
}

// plainly says what happened, without what it means.
func (w *witness) plainly(t trouble) string {
	name, did := fmt.Sprintf("%q", w.plan.Commands[t.command]), "exits 0"
	if t.test != nil {
		name, did = t.test.String(), "passes"
	}
	if t.kind == "" {
		did = "fails"
	}
	if t.skipped {
		did = "is skipped"
	}
	return name + " " + did
}
