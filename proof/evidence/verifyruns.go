package evidence

import (
	"cmp"
	"fmt"
	"slices"

	"remit/proof/canon"
	"remit/proof/journal"
)

// A phase of the verifier is made of runs, each a step verify.run: the plain
// ones over the tree of the phase, of which the first is what verify.base and
// verify.head state, and those that look at the tests themselves. A run that
// was cut off has no outputs and says nothing.

// verifierRun is one verify.run that has ended.
type verifierRun struct {
	VerifyRunEnded
	started VerifyRunStarted
	seq     int64 // of its last entry
}

// The trees that a verifier's run may be over. control is that of older
// verifiers; a journal has none.
var verifierTrees = []string{"base", "head", "unedited", "twin", "new-tests", "hunk"}

// verifierRun folds a verify.run.
func (r *run) verifierRun(e *journal.Entry, final bool) error {
	v := verifierRun{seq: e.Seq}
	if err := decode(e.Inputs, &v.started); err != nil || !final {
		return err
	}
	if err := decode(e.Outputs, &v.VerifyRunEnded); err != nil {
		return err
	}
	r.verifierRuns = append(r.verifierRuns, v)
	return nil
}

// plain reports whether the run is one that its phase states.
func (v *verifierRun) plain() bool { return v.Tree == v.Phase && v.Repetition == 1 }

// lastRuns are the runs of the last attempt to verify: a run that is taken up
// again begins with the baseline.
func (r *run) lastRuns() []verifierRun {
	if r.phase("base") == nil {
		return nil
	}
	var out []verifierRun
	for _, v := range r.verifierRuns {
		if v.seq > r.baseBegan {
			out = append(out, v)
		}
	}
	return out
}

// contradictRuns holds the runs of the verifier against the phases and the
// verdict that they are part of.
func (r *run) contradictRuns(agree agreeFunc) {
	for _, v := range r.verifierRuns {
		agree((v.Phase == "base" || v.Phase == "head") && slices.Contains(verifierTrees, v.Tree) && v.Repetition >= 1,
			"%s over tree %q in phase %q, repetition %d", StepVerifyRun, v.Tree, v.Phase, v.Repetition)
		agree(v.started.Phase == v.Phase && v.started.Tree == v.Tree && v.started.Repetition == v.Repetition, "%s ends as another run than it began", StepVerifyRun)
		agree(v.Expected >= 0 && v.FailedAsExpected >= 0 && v.FailedAsExpected <= v.Expected, "%d of %d tests failed as they had to", v.FailedAsExpected, v.Expected)
		known := setOf(v.started.Commands)
		for _, c := range v.Runs {
			agree(c.Phase == v.Phase && !c.Cached && known[c.Command], "%s of phase %s has a run of %q that does not belong to it", StepVerifyRun, v.Phase, c.Command)
		}
	}
	last := r.lastRuns()
	passed := r.verification != nil && r.verification.Status == StatusPass
	stated := map[string]map[string]bool{"base": r.statedRuns("base"), "head": r.statedRuns("head")}
	twins := 0
	for _, v := range last {
		if v.Tree == "twin" {
			twins++
		}
		for _, c := range v.Runs {
			agree(!v.plain() || stated[v.Phase] == nil || stated[v.Phase][textOf(c)], "%s of %q is not what verify.%s states", StepVerifyRun, c.Command, v.Phase)
			agree(!passed || v.Phase != "head" || v.Tree != "head" || c.Passed, "repetition %d of %q failed on the patched tree, and the verifier passed", v.Repetition, c.Command)
		}
	}
	if r.stated() && len(last) > 0 {
		agree(r.verification.Control.Status != ControlMade || twins > 0, "a control is stated, and no run was made for it")
	}
}

// statedRuns are the runs that a phase states, nil if it states none.
func (r *run) statedRuns(phase string) map[string]bool {
	p := r.phase(phase)
	if p == nil {
		return nil
	}
	out := make(map[string]bool, len(p.Runs))
	for _, c := range p.Runs {
		out[textOf(c)] = true
	}
	return out
}

// textOf is all that a step says of one run.
func textOf(c CommandRun) string {
	text, err := canon.Marshal(c)
	if err != nil {
		return "" // not reached: it was read from canonical JSON
	}
	return string(text)
}

// furtherRun is one run that no phase states, as test.log shows it too.
type furtherRun struct {
	loggedTree
	command        string
	duration       int64
	passed, listed bool
	tests          TestCounts
	stdout, stderr string
}

// furtherRuns are the runs that the journal has beside those that a phase
// states, with their exit codes, and how many there are of each place in
// test.log.
func (r *run) furtherRuns() (runs map[furtherRun]map[int]bool, places map[loggedTree]int) {
	runs, places = map[furtherRun]map[int]bool{}, map[loggedTree]int{}
	for _, v := range r.lastRuns() {
		if v.plain() || v.Fault != "" {
			continue
		}
		at := loggedTree{v.Phase, v.Tree, v.Repetition}
		places[at] += len(v.Runs)
		for _, c := range v.Runs {
			key := furtherRun{at, oneLogLine(c.Command), c.DurationMS, c.Passed, c.Tests != nil, TestCounts{}, c.StdoutSHA256, c.StderrSHA256}
			if c.Tests != nil {
				key.tests = *c.Tests
			}
			if runs[key] == nil {
				runs[key] = map[int]bool{}
			}
			runs[key][c.ExitCode] = true
		}
	}
	return runs, places
}

// loggedTree is where the sections of one run stand in test.log.
type loggedTree struct {
	phase, tree string
	repetition  int
}

// logCheck is test.log against the journal, section by section.
type logCheck struct {
	r          *run
	base, head *VerifyPhase
	seen       map[loggedPlace]bool
	shown      map[loggedTree]int          // sections of each run
	further    map[furtherRun]map[int]bool // runs that no phase states
	places     map[loggedTree]int          // how many of them each place has
}

// section says in what a section is not what the journal has, "" if it is.
func (c *logCheck) section(l *loggedRun) string {
	place := loggedPlace{l.run(), l.number}
	if c.seen[place] {
		return fmt.Sprintf("shows command %d of the %s phase twice", l.number, l.phase)
	}
	c.seen[place] = true
	c.shown[l.run()]++
	p := map[string]*VerifyPhase{"base": c.base, "head": c.head}[l.phase]
	if l.tree == l.phase && l.repetition == 1 {
		if why := l.differs(p); why != "" {
			return fmt.Sprintf("command %d of the %s phase: %s", l.number, l.phase, why)
		}
	} else if why := cmp.Or(l.contradicts(), c.stranger(l)); why != "" {
		return fmt.Sprintf("command %d of the %s phase, tree %s: %s", l.number, l.phase, l.tree, why)
	}
	if l.phase == "head" && l.tree == "head" && c.r.verification.Status == StatusPass && (!l.passed || l.exit != 0) {
		return fmt.Sprintf("repetition %d of command %d failed on the patched tree, and the verifier passed", l.repetition, l.number)
	}
	return ""
}

// missing says what the journal has and the log does not show, "" for nothing.
func (c *logCheck) missing(log *logReader) string {
	for place, runs := range c.places {
		if c.shown[place] < runs {
			return fmt.Sprintf("does not show repetition %d of tree %s in the %s phase", place.repetition, place.tree, place.phase)
		}
	}
	v := c.r.verification
	for _, p := range []*VerifyPhase{c.base, c.head} {
		name := p.Runs[0].Phase
		for i := range p.Runs {
			for n := 1; n == 1 || name == "head" && v.Status == StatusPass && n <= min(v.Repeats, maxRepeats); n++ {
				if !c.seen[loggedPlace{loggedTree{name, name, n}, i + 1}] {
					return fmt.Sprintf("does not show repetition %d of %q in the %s phase", n, p.Runs[i].Command, name)
				}
			}
		}
		if first := p.Runs[0]; first.Cached != (log.key != "" && name == "base") || first.Cached && (first.CacheKey != log.key || first.CachedAt != log.madeAt) {
			return fmt.Sprintf("does not say of the %s phase what the journal says: whether it was run or taken from the cache", name)
		}
	}
	return ""
}

// stranger says why a section is none of the runs that the journal has of its
// place, "" if it is one, or if the journal has none.
func (c *logCheck) stranger(l *loggedRun) string {
	if c.places[l.run()] == 0 {
		return ""
	}
	key := furtherRun{l.run(), l.command, l.duration, l.passed, l.tests != nil, TestCounts{}, l.stdout.sha256, l.stderr.sha256}
	if l.tests != nil {
		key.tests = *l.tests
	}
	exits, known := c.further[key]
	if known && (!l.started || exits[l.exit]) {
		return ""
	}
	return fmt.Sprintf("is not a run of %q that the journal has", l.command)
}
