package verify

import (
	"maps"
	"slices"

	"remit/work/verify/twin"
)

// How tests that have no names, those of C and of scripts, are sabotaged.

// witnessesByStatus are those of a test of C or of a script. Whether the exit status has
// anything to do with an assertion is not in the text: one that is turned round, and what
// it compares with, count if the base has passed with it holding. A trap ends a program of
// C anyhow; a script may be one that its caller does not ask.
func (t *suiteTest) witnessesByStatus(d draw) (out []twin.Order) {
	if t.Failing != nil && slices.Contains(t.Proved, t.Failing.Site) {
		out = append(out, *t.Failing)
		for _, id := range t.known(twin.Expect) {
			if t.site(id).Line == t.site(t.Failing.Site).Line {
				out = append(out, twin.Order{Site: id, Evaluation: t.Failing.Evaluation})
				break
			}
		}
	}
	if fails := t.certain(twin.Fail); len(fails) > 0 && !reportsFailures(t.name) && (t.file.lang == langC || len(out) > 0) {
		out = append(out, twin.Order{Site: pick(d, fails)})
	}
	return out
}

// endOfScript is main of the script that an assertion is in, nil where that has no end
// that is reached for sure.
func (t *suiteTest) endOfScript() *suiteTest {
	at := slices.IndexFunc(t.file.tests, func(m *suiteTest) bool { return m.name == "main" && len(m.certain(twin.Fail)) > 0 })
	if t.file.lang != langShell || at < 0 {
		return nil
	}
	return t.file.tests[at]
}

// waysByStatus are the sabotages of tests of C and of scripts that the change mends. Which of
// the assertions that failed on the base the exit status is about is not known, only that
// it was about one: they are turned together, or expect other values together. The end of
// one function fails alone, since it ends the program.
func waysByStatus(d draw, tests []held) (out []map[*suiteTest]twin.Order) {
	flips, expects, ends := make(map[*suiteTest]twin.Order), make(map[*suiteTest]twin.Order), make(map[*suiteTest]twin.Order)
	var ending []*suiteTest
	for _, t := range tests {
		if m := t.endOfScript(); m != nil && len(t.witnesses(d)) > 0 {
			ends[m] = twin.Order{Site: pick(d, m.certain(twin.Fail))}
			ending = append(ending, m)
		}
		for _, o := range t.witnesses(d) {
			switch t.site(o.Site).Kind {
			case twin.Flip:
				flips[t.suiteTest] = o
			case twin.Expect:
				expects[t.suiteTest] = o
			default:
				ends[t.suiteTest] = o
				ending = append(ending, t.suiteTest)
			}
		}
	}
	if len(flips) > 0 {
		out = append(out, flips)
	}
	if len(flips) > 0 && len(expects) == len(flips) {
		out = append(out, expects)
	}
	if len(ending) > 0 {
		t := pick(d, ending)
		out = append(out, map[*suiteTest]twin.Order{t: ends[t]})
	}
	return out
}

// oneSabotaged leaves one test of C or of scripts: a failed assertion may end the program,
// and with it the tests behind it, and what the exit status says is said of this one.
func oneSabotaged(d draw, run map[*suiteTest]twin.Order) {
	var mine []*suiteTest
	for t := range run {
		if t.file.byStatus() {
			mine = append(mine, t)
		}
	}
	if len(mine) == 0 {
		return
	}
	if fresh := slices.DeleteFunc(slices.Clone(mine), func(t *suiteTest) bool { return t.tried }); len(fresh) > 0 {
		mine = fresh
	}
	one := pick(d, mine)
	one.tried = true
	maps.DeleteFunc(run, func(t *suiteTest, _ twin.Order) bool { return t.file.byStatus() && t != one })
}
