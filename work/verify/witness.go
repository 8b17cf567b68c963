package verify

import (
	"fmt"
	"slices"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/tree"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// Control says whether the tests of a verification were shown to be able to
// fail. Its fields are those of evidence.Control.
type Control struct {
	Made     bool             `json:"made"`
	Reason   string           `json:"reason,omitempty"`
	Scheme   string           `json:"scheme,omitempty"`
	Counting int              `json:"counting"`
	Proved   int              `json:"proved"`
	Runs     int              `json:"runs"`
	Commands []CommandControl `json:"commands"`
	// NotRuledOut are the kinds of cheats that a control of this sort does not see.
	NotRuledOut []string `json:"not_ruled_out,omitempty"`

	// Findings are what the control has against the change.
	Findings []reason.Finding `json:"findings,omitempty"`
}

// CommandControl is the control of one command.
type CommandControl struct {
	Command  string `json:"command"`
	Made     bool   `json:"made"`
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	Counting int    `json:"counting"`
	Proved   int    `json:"proved"`
}

// noControl is the control of a run in which none was made.
func noControl(commands []string, why string) *Control {
	c := &Control{Reason: why, Commands: []CommandControl{}, NotRuledOut: nothingRuledOut()}
	for _, given := range commands {
		c.Commands = append(c.Commands, CommandControl{Command: given, Reason: why})
	}
	return c
}

// witness is the control of the head phase, while it goes on.
type witness struct {
	plan    *Plan
	base    *PhaseResult
	head    *PhaseResult
	suite   *suite
	tests   []held
	laid    []tree.Change
	runs    []*twinRun
	begun   int // runs with edited tests
	results []*RunResult
	plain   *RunResult // of the same tree, unedited by the control

	shown    map[shownKey]*showing
	findings []reason.Finding
}

// shownKey is one test under one command.
type shownKey struct {
	command int
	test    *suiteTest
}

// showing is what the runs have shown about a test: that it passed where it was
// neutral, and which of its sabotages made it fail.
type showing struct {
	neutral bool
	failed  int // sabotages that made it fail
	missed  int // sabotages of which no run says anything
}

// newWitness plans the control of the head phase, nil with the reason when there
// is nothing to hold the tests to.
func (p *Plan) newWitness(head *PhaseResult, laid []tree.Change) (*witness, string) {
	switch {
	case p.Control == ControlOff:
		return nil, "verify.control is off"
	case p.Before == nil || p.Before.proof == nil:
		return nil, "the base phase was made without a control"
	case p.Before.proof.reason != "":
		return nil, p.Before.proof.reason
	}
	t, err := openTree(p, laid)
	if err != nil {
		return nil, "the tests cannot be read: " + err.Error()
	}
	defer t.close()
	w := &witness{plan: p, base: p.Before, head: head, laid: laid, shown: make(map[shownKey]*showing)}
	w.suite = p.Before.proof.suite.at(t)
	w.tests = heldTests(w.suite, p.Before.Unstable)
	if len(w.tests) == 0 && len(w.suite.files) == 0 && len(w.suite.left) > 0 {
		return nil, "the change has other versions of the test files, so what the base has shown of them does not hold"
	}
	if len(w.tests) == 0 {
		return nil, "no test of the base can be edited so that it fails for sure"
	}
	w.arrange()
	return w, ""
}

// arrange draws which test is sabotaged in which run.
func (w *witness) arrange() {
	special := slices.ContainsFunc(w.tests, func(t held) bool { return t.special })
	n, keptToo := 2, true
	switch {
	case special && w.plan.Scheme == SchemeSingle:
		n, keptToo = 3, false
	case special:
		n = 4
	case w.plan.Scheme == SchemeHalves && slices.ContainsFunc(w.tests, func(t held) bool { return len(t.proved(draw{})) > 1 }):
		n = 3
	}
	d := draw{}
	for range n {
		w.runs = append(w.runs, &twinRun{suite: w.suite, views: map[int]*twinView{}})
	}
	for _, g := range w.base.proof.groups {
		if g.by == "" {
			continue
		}
		sabotage := exitOrders
		if g.by == byTest {
			sabotage = func(d draw, tests []held, n int) []map[*suiteTest]twin.Order { return orders(d, tests, n, keptToo) }
		}
		for i, s := range sabotage(d, w.tests, n) {
			w.runs[i].views[g.first] = newTwinView(g.view, w.base.Commands, s)
		}
	}
}

// jobs are the runs over a tree as jobs, numbered on.
func (w *witness) jobs(laid []tree.Change, runs ...*twinRun) []job {
	var out []job
	for _, r := range runs {
		w.begun++
		out = append(out, job{PhaseHead, TreeTwin, w.begun, laid, commandsOf(w.plan), r})
	}
	return out
}

// result makes the control of the phase from what was shown.
func (w *witness) result() *Control {
	c := &Control{Scheme: w.plan.Scheme, Commands: []CommandControl{}, Findings: w.findings, Runs: len(w.results)}
	for i, given := range w.plan.Commands {
		cc := w.command(i)
		cc.Command = given
		c.Counting, c.Proved, c.Made = c.Counting+cc.Counting, c.Proved+cc.Proved, c.Made || cc.Made
		c.Commands = append(c.Commands, cc)
	}
	for _, cc := range c.Commands {
		c.Made = c.Made && (cc.By != byTest || cc.Reason == "" || cc.Counting == 0)
	}
	if !c.Made {
		c.Reason = firstReason(c.Commands)
	}
	if len(w.findings) > 0 {
		c.Reason = fmt.Sprintf("%s, %d time(s): the reason of the run says what", evidence.ControlFound, len(w.findings))
	}
	c.NotRuledOut = w.notRuledOut(c)
	return c
}

func nothingRuledOut() []string { return []string{"any in the code under test"} }

// notRuledOut are the kinds of cheats that this control does not see, in the words
// of a person; docs/threat-model.md has each with its reason.
func (w *witness) notRuledOut(c *Control) []string {
	if !c.Made {
		return nothingRuledOut()
	}
	known := "code that knows the answers to the inputs of these tests, or behaves otherwise outside of them"
	if len(w.plan.HeldOut) > 0 {
		known = "code that knows the answers to the inputs of the visible tests, or behaves otherwise outside of the tests"
	}
	out := []string{known, "code that lies or tries answers only near to its own"}
	speaks := func(lang string) bool {
		return slices.ContainsFunc(w.tests, func(t held) bool { return t.file.lang == lang })
	}
	if speaks(langPython) {
		out = append(out, "Python code that reads the running test and knows each form of edit")
	}
	if speaks(langJavaScript) {
		out = append(out, "JavaScript code that reads the running test and knows each form of edit")
	}
	if speaks(langRust) {
		out = append(out, "Rust code that reads the sources of its tests, as they are built, and knows each form of edit")
	}
	if speaks(langRuby) {
		out = append(out, "Ruby code that reads the running test and knows each form of edit")
	}
	if speaks(langPHP) {
		out = append(out, "PHP code that reads the running test and knows each form of edit")
	}
	if speaks(langJava) {
		out = append(out, "Java code that reads the running test and knows each form of edit")
	}
	if speaks(langC) {
		out = append(out, "C code that reads the running test or its sources and knows each form of edit")
	}
	if speaks(langBats) || speaks(langShell) {
		out = append(out, "shell code, or a program that a test starts, that reads the running test and knows each form of edit")
	}
	if speaks(langGo) {
		out = append(out, "Go code that reads the running test out of memory")
		switch { // a visible test stands in the tree as its author wrote it
		case w.suite.inTree:
			out = append(out, "Go code that reads the sources of its tests")
		case w.suite.showing(w.base.proof.groups, w.tests):
			out = append(out, "Go code that reads the sources of visible tests")
		}
		if len(w.suite.framework.files) == 0 {
			out = append(out, "Go code that learns from what failed tests print")
		}
	}
	if w.plan.Scheme == SchemeSingle {
		out = append(out, "code that recognises the plain run")
	}
	if slices.ContainsFunc(c.Commands, func(cc CommandControl) bool { return cc.By == byExit }) {
		out = append(out, "a cheat for some tests only of a command whose exit status is all that is known")
	}
	if slices.ContainsFunc(c.Commands, func(cc CommandControl) bool { return !cc.Made }) {
		out = append(out, "a cheat in what a command without a control runs")
	}
	return out
}

func firstReason(commands []CommandControl) string {
	for _, c := range commands {
		if c.Reason != "" {
			return c.Reason
		}
	}
	return "no test was shown to be able to fail"
}

// command is the control of one command. A test that the change fixes counts as
// proved only when each of its witnesses was seen.
func (w *witness) command(i int) CommandControl {
	var g *groupProof
	for j := range w.base.proof.groups {
		if at := &w.base.proof.groups[j]; i >= at.first && i < at.end {
			g = at
		}
	}
	switch {
	case g == nil || g.by == "":
		cc := CommandControl{Reason: "it runs no test that Remit can edit"}
		if g != nil && g.reason != "" {
			cc.Reason = g.reason
		}
		return cc
	case g.by == byExit:
		return w.exits(g, i)
	}
	return w.named(i)
}

// exits is the control of a command of which only the exit status is known.
func (w *witness) exits(g *groupProof, i int) CommandControl {
	fails := func(first, end int) bool {
		return slices.ContainsFunc(w.results, func(r *RunResult) bool { return anyFailed(r.Commands[first:end]) })
	}
	s := w.shown[shownKey{g.first, nil}]
	switch {
	case !fails(g.first, g.end):
		return CommandControl{Reason: "its exit status does not say whether its tests pass"}
	case !fails(i, i+1): // others of the group run the tests
		return CommandControl{Reason: "it runs no test that Remit can edit"}
	case anyFailed(w.base.Commands[g.first:g.end]) && !slices.ContainsFunc(w.tests, func(t held) bool { return t.Outcome == results.Fail }):
		return CommandControl{By: byExit, Counting: 1, Reason: "it fails on the base in no test that Remit can edit, so nothing shows that what the change fixes is tested"}
	case s == nil || !s.neutral || s.failed == 0:
		return CommandControl{By: byExit, Counting: 1, Reason: "its exit status did not show that its tests can fail"}
	}
	return CommandControl{By: byExit, Counting: 1, Proved: 1, Made: true}
}

// named is the control of a command that names its tests. A test of the base
// that no edit reaches counts, and is not proved.
func (w *witness) named(i int) CommandControl {
	cc := CommandControl{By: byTest}
	var bare []string // fixed tests of which nothing shows that they can fail
	plain, before := &w.plain.Commands[i], &w.base.Commands[i]
	for t, o := range w.suite.outcomes(plain) {
		if o != results.Pass {
			continue
		}
		cc.Counting++
		s := w.shown[shownKey{i, t}]
		switch {
		case s != nil && (s.neutral || w.plan.Scheme == SchemeSingle) && s.failed > 0 && s.missed == 0:
			cc.Proved++
		case t.Outcome == results.Fail:
			bare = append(bare, t.String())
		}
	}
	for _, id := range leavesOf(plain.PerTest) {
		was, known := before.PerTest[id]
		if t := w.suite.test(id); !known || plain.PerTest[id] != results.Pass || t != nil && !t.unclear(id, plain.PerTest) {
			continue
		}
		cc.Counting++
		if was == results.Fail {
			bare = append(bare, id)
		}
	}
	slices.Sort(bare)
	switch {
	case len(bare) > 0:
		cc.Reason = "the change fixes tests that could not be shown to be able to fail: " + some(bare)
	case cc.Proved == 0:
		cc.Reason = "none of its tests was shown to be able to fail"
	}
	cc.Made = cc.Reason == ""
	return cc
}

// missing are tests that passed plainly and of which no run of the control has
// shown that they can fail, although the base has shown that the edits work. A
// fix whose own test is among them is not proved, and neither is a kept test that
// is skipped or gone in these runs alone.
func (w *witness) missing() []string {
	var out []string
	for _, t := range w.tests {
		for i := range w.plan.Commands {
			s := w.shown[shownKey{i, t.suiteTest}]
			if s == nil || !t.special && w.plan.Scheme == SchemeSingle {
				continue
			}
			if c := w.base.Commands[i]; results.EndsEarly(c.Runner) && !c.direct && t.Outcome == "" && s.failed == 0 {
				continue // it was not reached on the base, and is not reached here
			}
			if s.failed == 0 || s.missed > 0 || !s.neutral && w.plan.Scheme == SchemeHalves {
				out = append(out, t.String())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// finish closes the control of the head phase.
func (w *witness) finish() {
	w.head.Control = w.result()
	if lost := w.missing(); len(lost) > 0 && len(w.findings) == 0 {
		w.head.Control.Findings = append(w.head.Control.Findings, reason.Finding{Code: reason.VerificationFailed, Path: logName,
			Detail: "tests that pass in the plain run gave no result, twice, in runs with edited tests: " + some(lost)})
	}
}
