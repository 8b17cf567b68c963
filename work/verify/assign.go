package verify

import (
	"maps"
	"slices"

	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// held is a test that the patched tree is held to.
type held struct {
	*suiteTest
	// special is a test that the change fixes or that is held out: it gets a
	// witness of every kind.
	special bool
}

// heldTests are the tests of a suite that count and can be sabotaged: those that
// passed on the base and were proved there, those that failed there, those that
// did not run there, and the held-out ones.
func heldTests(s *suite, unstable []string) []held {
	var out []held
	for _, f := range s.files {
		for _, t := range f.tests {
			switch {
			case len(t.sites) == 0 || t.Outcome == results.Skip || t.Broken || slices.Contains(unstable, t.String()):
			case f.lang == langRust && t.Outcome != "" && len(t.Reached) == 0: // it is not known that what ran is what was edited
			case t.Outcome == results.Fail || t.Outcome == "" || f.heldOut && t.Outcome == results.Pass:
				out = append(out, held{t, true})
			case t.Outcome == results.Pass && len(t.Proved) > 0 && (!f.byStatus() || t.asserts(t.Proved)):
				out = append(out, held{t, false})
			}
		}
	}
	return out
}

// witnesses are the sabotages of a special test, one of each kind that it has.
// An assertion that failed on the base is turned where it failed.
func (t *suiteTest) witnesses(d draw) []twin.Order {
	if t.file.byStatus() {
		return t.witnessesByStatus(d)
	}
	var out []twin.Order
	line := 0
	if t.Failing != nil {
		out = append(out, *t.Failing)
		line = t.site(t.Failing.Site).Line
	} else if flips := t.known(twin.Flip); len(flips) > 0 && t.Outcome == results.Pass {
		out = append(out, twin.Order{Site: pick(d, flips)})
	} else if id, ok := t.next(twin.Flip); ok {
		out = append(out, twin.Order{Site: id})
	}
	var there []int
	for _, id := range t.known(twin.Expect) {
		if t.site(id).Line == line {
			there = append(there, id)
		}
	}
	if t.Outcome == results.Pass {
		there = t.known(twin.Expect)
	}
	if id, ok := t.next(twin.Expect); ok && t.Failing == nil && len(there) == 0 {
		there = []int{id}
	}
	if len(there) > 0 {
		o := twin.Order{Site: pick(d, there)}
		if t.Failing != nil {
			o.Evaluation = t.Failing.Evaluation
		}
		out = append(out, o)
	}
	// What the bug ends before it is reached looks like the bug in every respect:
	// what hides the one hides the other.
	fails := t.certain(twin.Fail)
	if len(fails) == 0 {
		fails = t.known(twin.Fail)
	}
	if len(fails) == 0 {
		fails = t.ofKind(twin.Fail)
	}
	if len(fails) > 0 {
		out = append(out, twin.Order{Site: pick(d, fails)})
	}
	return out
}

// asserts says whether one of some sites is about an assertion, and not only a statement
// that fails.
func (t *suiteTest) asserts(sites []int) bool {
	return slices.ContainsFunc(sites, func(id int) bool { return t.site(id).Kind != twin.Fail })
}

// certain are the sites of a kind that a test which passes has come by.
func (t *suiteTest) certain(kind twin.Kind) []int {
	return slices.DeleteFunc(t.ofKind(kind), func(id int) bool { return !t.site(id).Certain })
}

// next is the certain site of a kind at which the base failed in another way than
// by an assertion that was false: the first that it did not come by, or the last.
func (t *suiteTest) next(kind twin.Kind) (id int, ok bool) {
	certain := slices.DeleteFunc(t.certain(kind), func(id int) bool { return t.site(id).Loose })
	for _, id := range certain {
		if !slices.Contains(t.Reached, id) {
			return id, true
		}
	}
	if len(certain) == 0 {
		return 0, false
	}
	return certain[len(certain)-1], true
}

// known are the sites of a kind that the runs of the base came by, without those of
// which only a base that passes shows something.
func (t *suiteTest) known(kind twin.Kind) []int {
	return slices.DeleteFunc(t.ofKind(kind), func(id int) bool { return t.site(id).Loose || !slices.Contains(t.Reached, id) })
}

// orders are the sabotages of each of n runs. A kept test is neutral in one of them
// at least, and meets another expected value in one where it has a place for that;
// a special test meets its witnesses in runs of their own, and is neutral in the
// rest. Each test has its runs in a random order of its own: what fails in a run
// does not tell which one it is.
func orders(d draw, tests []held, n int, keptToo bool) []map[*suiteTest]twin.Order {
	out := make([]map[*suiteTest]twin.Order, n)
	for i := range out {
		out[i] = make(map[*suiteTest]twin.Order)
	}
	for _, t := range tests {
		at := d.shuffled(n)
		if t.special {
			for i, o := range t.witnesses(d) {
				out[at[i%n]][t.suiteTest] = o
			}
			continue
		}
		if !keptToo {
			continue
		}
		ways := t.proved(d)
		times, literal := max(len(ways), n/2), 1+d.below(maxLiterals)
		if t.site(ways[0]).Literals > 0 {
			times++ // of several literals that it expects, another one
		}
		for i := range min(times, n-1) {
			out[at[i]][t.suiteTest] = twin.Order{Site: ways[i%len(ways)], Literal: literal + i/len(ways)}
		}
	}
	return out
}

// maxLiterals is more than an expected value has.
const maxLiterals = 1000

// exitOrders are the sabotages of n runs of a view whose exit status is all that
// it shows: one run is neutral, and in each of the others some test must fail.
// Those that the change fixes are sabotaged alone, by another kind each time.
func exitOrders(d draw, tests []held, n int) []map[*suiteTest]twin.Order {
	out := make([]map[*suiteTest]twin.Order, n)
	at := d.shuffled(n)
	out[at[0]] = map[*suiteTest]twin.Order{}
	var special, byStatus, kept []held
	for _, t := range tests {
		if t.Outcome == "" {
			continue // no run has shown that the command runs it
		}
		switch {
		case !t.special:
			kept = append(kept, t)
		case len(t.witnesses(d)) == 0:
		case t.file.byStatus():
			byStatus = append(byStatus, t)
		default:
			special = append(special, t)
		}
	}
	for i, run := range at[1:] {
		chosen := make(map[*suiteTest]twin.Order)
		switch {
		case len(special)+len(byStatus) > 0:
			for _, t := range special {
				all := t.witnesses(d)
				chosen[t.suiteTest] = all[i%len(all)]
			}
			if ways := waysByStatus(d, byStatus); len(ways) > 0 {
				maps.Copy(chosen, ways[i%len(ways)])
			}
		case len(kept) > 0:
			t := pick(d, kept)
			ways := t.proved(d)
			chosen[t.suiteTest] = twin.Order{Site: ways[i%len(ways)]}
		}
		out[run] = chosen
	}
	return out
}

// trials are the sabotages of the runs in which the base shows what its tests obey:
// each test is altered in the ways that it has, in runs of their own, and neutral in
// the rest. A test that is known to fail on the base is neutral: nothing can be
// shown by it there.
func (s *suite) trials(d draw) []map[*suiteTest]twin.Order {
	ways, n := make(map[*suiteTest][]int), leastTrials
	for _, f := range s.files {
		for _, t := range f.tests {
			if len(t.sites) == 0 || t.Outcome == results.Fail || t.Outcome == results.Skip {
				continue
			}
			ways[t] = t.ways(d)
			n = max(n, len(ways[t])+1)
		}
	}
	out := make([]map[*suiteTest]twin.Order, n)
	for i := range out {
		out[i] = make(map[*suiteTest]twin.Order)
	}
	for t, sites := range ways {
		at := d.shuffled(n)
		for i, id := range sites {
			out[at[i]][t] = twin.Order{Site: id}
		}
	}
	if s.byStatus() {
		for i := range out {
			oneSabotaged(d, out[i])
		}
		out = append(out, map[*suiteTest]twin.Order{}) // here every test is reached that the base reaches
	}
	return out
}

// leastTrials is how many runs show what a test obeys that is altered in one way.
const leastTrials = 2

// ways are the places at which a kept test is altered. The first expects another
// value, where the test has such a place: a change that hides wrong values from
// assertions, or whose values are equal to everything, does not hide a failing
// statement. The second is an assertion that is turned round, or now and then a
// failing statement, which is reached most surely: a change that hides what it
// knows to be wrong is silent there, whatever it makes of other values.
func (t *suiteTest) ways(d draw) []int {
	others, rest := t.certain(twin.Flip), t.ofKind(twin.Fail)
	if d.below(3) == 0 {
		others, rest = rest, others
	}
	if len(others) == 0 {
		others = rest
	}
	if out := pickEach(d, t.expected(), others); len(out) > 0 {
		return out
	}
	return []int{pick(d, t.sites).ID}
}

// proved are the ways in which the base has shown that a kept test can be altered,
// another expected value first.
func (t *suiteTest) proved(d draw) []int {
	var expected, others []int
	for _, id := range t.Proved {
		if t.site(id).Kind == twin.Expect {
			expected = append(expected, id)
		} else {
			others = append(others, id)
		}
	}
	return pickEach(d, expected, others)
}

// expected are the expected values that a test which passes comes by: those that are
// certain, or else those of an assertion that is.
func (t *suiteTest) expected() []int {
	if out := t.certain(twin.Expect); len(out) > 0 {
		return out
	}
	lines := make(map[int]bool)
	for _, id := range t.certain(twin.Flip) {
		lines[t.site(id).Line] = true
	}
	return slices.DeleteFunc(t.ofKind(twin.Expect), func(id int) bool { return !lines[t.site(id).Line] })
}

// pickEach draws one of each list that is not empty.
func pickEach(d draw, lists ...[]int) (out []int) {
	for _, from := range lists {
		if len(from) > 0 {
			out = append(out, pick(d, from))
		}
	}
	return out
}

// ofKind are the sites of a kind.
func (t *suiteTest) ofKind(kind twin.Kind) []int {
	var out []int
	for _, s := range t.sites {
		if s.Kind == kind {
			out = append(out, s.ID)
		}
	}
	return out
}

// site is the site of a number, nil if the test has none.
func (t *suiteTest) site(id int) *twin.Site {
	for i := range t.sites {
		if t.sites[i].ID == id {
			return &t.sites[i]
		}
	}
	return nil
}

// union joins lists of sites, sorted.
func union(lists ...[]int) []int {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}
