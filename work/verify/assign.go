package verify

import (
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
			case t.Outcome == results.Fail || t.Outcome == "" || f.heldOut && t.Outcome == results.Pass:
				out = append(out, held{t, true})
			case t.Outcome == results.Pass && len(t.Proved) > 0:
				out = append(out, held{t, false})
			}
		}
	}
	return out
}

// witnesses are the sabotages of a special test, one of each kind that it has.
// An assertion that failed on the base is turned where it failed.
func (t *suiteTest) witnesses(d draw) []twin.Order {
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

// certain are the sites of a kind that a test which passes has come by.
func (t *suiteTest) certain(kind twin.Kind) []int {
	return slices.DeleteFunc(t.ofKind(kind), func(id int) bool { return !t.site(id).Certain })
}

// next is the certain site of a kind at which the base failed in another way than
// by an assertion that was false: the first that it did not come by, or the last.
func (t *suiteTest) next(kind twin.Kind) (id int, ok bool) {
	certain := t.certain(kind)
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

// known are the sites of a kind that the runs of the base came by.
func (t *suiteTest) known(kind twin.Kind) []int {
	return slices.DeleteFunc(t.ofKind(kind), func(id int) bool { return !slices.Contains(t.Reached, id) })
}

// orders are the sabotages of each of n runs. A test that is kept is neutral in
// one run of each pair and sabotaged in the other, by a coin; a special test
// meets its witnesses in runs of their own, in random order, and is neutral in
// the rest.
func orders(d draw, tests []held, n int, keptToo bool) []map[*suiteTest]twin.Order {
	out := make([]map[*suiteTest]twin.Order, n)
	for i := range out {
		out[i] = make(map[*suiteTest]twin.Order)
	}
	for _, t := range tests {
		if t.special {
			at := d.shuffled(n)
			for i, o := range t.witnesses(d) {
				out[at[i%n]][t.suiteTest] = o
			}
			continue
		}
		for pair := 0; keptToo && pair+1 < n; pair += 2 {
			i := pair
			if d.coin() {
				i++
			}
			out[i][t.suiteTest] = twin.Order{Site: pick(d, t.Proved)}
		}
	}
	return out
}

// exitOrders are the sabotages of n runs of a view whose exit status is all that
// it shows: one run is neutral, and in each of the others some test must fail.
// Those that the change fixes are sabotaged alone, by another kind each time.
func exitOrders(d draw, tests []held, n int) []map[*suiteTest]twin.Order {
	out := make([]map[*suiteTest]twin.Order, n)
	at := d.shuffled(n)
	out[at[0]] = map[*suiteTest]twin.Order{}
	var special, kept []held
	for _, t := range tests {
		if t.Outcome == "" {
			continue // no run has shown that the command runs it
		}
		if t.special && len(t.witnesses(d)) > 0 {
			special = append(special, t)
		} else if !t.special {
			kept = append(kept, t)
		}
	}
	for i, run := range at[1:] {
		chosen := make(map[*suiteTest]twin.Order)
		switch {
		case len(special) > 0:
			for _, t := range special {
				all := t.witnesses(d)
				chosen[t.suiteTest] = all[i%len(all)]
			}
		case len(kept) > 0:
			t := pick(d, kept)
			chosen[t.suiteTest] = twin.Order{Site: pick(d, t.Proved)}
		}
		out[run] = chosen
	}
	return out
}

// halves sabotages each test in one of two runs, but for those that are known
// to fail on the base: nothing can be shown by these there.
func (s *suite) halves(d draw) (a, b map[*suiteTest]twin.Order) {
	a, b = make(map[*suiteTest]twin.Order), make(map[*suiteTest]twin.Order)
	for _, f := range s.files {
		for _, t := range f.tests {
			if len(t.sites) == 0 || t.Outcome == results.Fail || t.Outcome == results.Skip {
				continue
			}
			o := twin.Order{Site: t.anySite(d)}
			if d.coin() {
				a[t] = o
			} else {
				b[t] = o
			}
		}
	}
	return a, b
}

// anySite prefers another expected value, at a place that a test which passes comes
// by: a change that hides wrong values from assertions, or whose values are equal to
// everything, does not hide a failing statement. A statement that fails is reached most
// surely, and is drawn now and then, as is an assertion that is turned round.
func (t *suiteTest) anySite(d draw) int {
	of := t.certain(twin.Expect)
	switch n := d.below(10); {
	case n < 1:
		of = t.ofKind(twin.Fail)
	case n < 3:
		of = t.ofKind(twin.Flip)
	}
	if len(of) == 0 {
		of = t.ofKind(twin.Fail)
	}
	if len(of) == 0 {
		return pick(d, t.sites).ID
	}
	return pick(d, of)
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
