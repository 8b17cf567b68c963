package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/work/verify/results"
)

// Some tests have a name that is made while they run: of an address, a time, a
// random number, a counter. It is another one in each run, so that the test seems to
// be gone from the next run, and another one to be new. Where a run of the change
// lacks names of the base and has others, the base is run once more. A name that only
// one of the two runs has is compared by its group: by the same name with a * for each
// number, or by what holds it. A group has to have as many tests as it had on the
// base, and counts as passed if they all passed. None of its tests is called fixed.

// varying is what two runs of the base have shown about the names of one command.
type varying struct {
	stable map[string]bool // names of both runs
	flaky  map[string]bool // of these, those that failed in the first run alone
	shapes map[string]bool // names that vary, with a * for each number
	within map[string]bool // what holds names that vary and have no shape in common
	count  map[string]int  // the tests of a group: the smaller number of the two runs
}

// varies finds the number that a name was made with.
var varies = form.Lazy(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0[xX][0-9a-fA-F]+|\b[0-9a-f]*[0-9][0-9a-f]{5,}\b|[0-9]+`)

// holders are the names of what holds a test, from the outermost to the innermost.
func holders(id string) (out []string) {
	for i := range id {
		if i > 0 && (id[i] == '/' || id[i] == '[' || id[i] == '.' || strings.HasPrefix(id[i:], "::") || strings.HasPrefix(id[i:], " > ")) {
			out = append(out, id[:i])
		}
	}
	return out
}

// learn compares two runs of one command on the base; nil where no name varies.
func learn(a, b map[string]results.Outcome) *varying {
	v := &varying{stable: make(map[string]bool), flaky: make(map[string]bool), count: make(map[string]int)}
	var onlyA, onlyB []string
	for id, o := range a {
		again, both := b[id]
		switch {
		case !both:
			onlyA = append(onlyA, id)
		case o == results.Fail && again == results.Pass:
			v.flaky[id] = true
		}
		v.stable[id] = both
	}
	for id := range b {
		if _, both := a[id]; !both {
			onlyB = append(onlyB, id)
		}
	}
	if len(onlyA) == 0 || len(onlyB) == 0 {
		if len(v.flaky) == 0 {
			return nil
		}
		return v
	}
	v.shapes = shared(shapeOf, onlyA, onlyB)
	shaped := func(id string) bool { return v.shapes[shapeOf(id)] }
	v.within = shared(holderOf, slices.DeleteFunc(onlyA, shaped), slices.DeleteFunc(onlyB, shaped))
	delete(v.within, "")
	second := v.groups(b)
	for group, ids := range v.groups(a) {
		v.count[group] = min(ranOf(ids, a), ranOf(second[group], b))
	}
	return v
}

// shared are the keys that names of both lists have.
func shared(key func(id string) string, a, b []string) map[string]bool {
	inA, both := make(map[string]bool), make(map[string]bool)
	for _, id := range a {
		inA[key(id)] = true
	}
	for _, id := range b {
		if inA[key(id)] {
			both[key(id)] = true
		}
	}
	return both
}

// holderOf is what holds a test by its name, "" where nothing does.
func holderOf(id string) string {
	if all := holders(id); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

func shapeOf(id string) string { return varies().ReplaceAllString(id, "*") }

// group is the group of a name that varies, "" for any other.
func (v *varying) group(id string) string {
	if v == nil || v.stable[id] {
		return ""
	}
	if shape := shapeOf(id); v.shapes[shape] {
		return shape
	}
	for _, holder := range holders(id) {
		if v.within[holder] {
			return holder + " *"
		}
	}
	return ""
}

// groups are the names that vary by their group.
func (v *varying) groups(perTest map[string]results.Outcome) map[string][]string {
	out := make(map[string][]string)
	for id := range perTest {
		if g := v.group(id); g != "" {
			out[g] = append(out[g], id)
		}
	}
	return out
}

// ranOf is how many of some tests were not skipped.
func ranOf(ids []string, perTest map[string]results.Outcome) (n int) {
	for _, id := range ids {
		if perTest[id] != results.Skip {
			n++
		}
	}
	return n
}

// grouped is a command with its groups in the place of the names that vary: each with
// as many tests as ran on the base, where so many run, and with its worst outcome.
func (v *varying) grouped(c CommandResult) CommandResult {
	if v == nil || c.PerTest == nil {
		return c
	}
	groups := v.groups(c.PerTest)
	c.PerTest, c.transient = maps.Clone(c.PerTest), maps.Clone(c.transient)
	for group, ids := range groups {
		worst, transient, ran := results.Skip, true, ranOf(ids, c.PerTest)
		for _, id := range ids {
			switch o := c.PerTest[id]; {
			case o == results.Fail:
				worst = o
			case o == results.Pass && worst == results.Skip:
				worst = o
			}
			transient = transient && c.transient[id]
			delete(c.PerTest, id)
			delete(c.transient, id)
		}
		for n := range max(min(ran, v.count[group]), 1) {
			name := group
			if n > 0 {
				name = fmt.Sprintf("%s (%d)", group, n+1)
			}
			c.PerTest[name] = worst
			if transient && c.transient != nil {
				c.transient[name] = true
			}
		}
	}
	return c
}

// groupedBy is a run by the groups of its commands.
func (r *RunResult) groupedBy(names []*varying) *RunResult {
	if r == nil || len(names) != len(r.Commands) {
		return r
	}
	out := *r
	out.Commands = slices.Clone(r.Commands)
	for i := range out.Commands {
		out.Commands[i] = names[i].grouped(out.Commands[i])
	}
	return &out
}

// exchanged says whether a run lacks names of the base and has others.
func exchanged(before []CommandResult, r *RunResult) bool {
	for i := range min(len(before), len(r.Commands)) {
		t := newTransitions()
		t.compare(&before[i], &r.Commands[i])
		if len(t.missing) == 0 {
			continue
		}
		for id := range r.Commands[i].PerTest {
			if _, known := before[i].PerTest[id]; !known {
				return true
			}
		}
	}
	return false
}

// learnNames runs the base once more and notes which names of its tests vary. Runs
// that say nothing leave the names as they are.
func (p *Plan) learnNames(ctx context.Context, sb Sandbox, r *PhaseResult) error {
	baseline := *p
	baseline.Patch = nil
	o, err := lay(&baseline)
	if err != nil {
		return nil //nolint:nilerr // the base was laid before: what is wrong with it has been said
	}
	runs, err := p.runAll(ctx, sb, []job{{PhaseHead, TreeBase, 2, o.head, commandsOf(p), nil}}, nil)
	if err != nil {
		return err
	}
	r.Runs = append(r.Runs, *runs[0])
	if _, lost := lostRun(runs[0]); lost {
		return nil
	}
	for i := range p.Before.Commands {
		r.varying = append(r.varying, learn(p.Before.Commands[i].PerTest, runs[0].Commands[i].PerTest))
	}
	return nil
}
