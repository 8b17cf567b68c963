package shell

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// called follows what the shells of the tests call themselves, and not for its output.
func (c *change) called() string {
	var next []string
	all := maps.Clone(c.base.functions)
	maps.Copy(all, c.head.functions)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if c.scripts.calls[name] || c.scripts.dynamic && c.scripts.mentions[name] || c.scripts.computed {
			next = append(next, name)
		}
	}
	seen := map[string]bool{}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		now := c.head.functions[name]
		if c.base.texts[name] != c.head.texts[name] {
			if why := c.within(name); why != "" {
				return why
			}
		}
		for _, callee := range slices.Sorted(maps.Keys(c.usesOf(now).calls)) {
			if c.head.functions[callee] != nil {
				next = append(next, callee)
			} else if c.base.functions[callee] != nil {
				return callee + ": the function is gone"
			}
		}
	}
	return ""
}

// asserts finds names of functions that tell a test that it failed.
var asserts = form.Lazy(`(?i)^(?:assert|expect|check|verify|ensure|fail|should|must|describe)|(?:^|[_.:-])(?:assert|expect|check|test|verify|fail|pass|ok|same|equals?|eq|should|must|ensure|report|spec|suite|die|abort|tap)s?(?:$|[_.:-])` +
	`|^(?:is|isnt|it|run|diff|compare|like|t|cmp|match|contains|done|finish|summary)$|^test[A-Z]|[a-z](?:Equals?|Test|Fail(?:ed|s)?|Passed)$`)

// within says why a function that the shells of the tests call is not changed within
// what it may do.
func (c *change) within(name string) string {
	now, before := c.head.functions[name], c.base.functions[name]
	switch {
	case now == nil:
		return name + ": the function is gone"
	case asserts().MatchString(name):
		return fmt.Sprintf("line %d: %s may be an assertion, and the tests call it themselves", now.Pos().Line(), name)
	}
	if c.scripts.leaves || c.scripts.trapEnds {
		return fmt.Sprintf("line %d: the tests call %s, and may end with success in more than one place", now.Pos().Line(), name)
	}
	was := hazards{}
	if before != nil {
		was = c.hazardsOf(before)
		for what := range was {
			if c.sets[strings.TrimPrefix(what, setsPrefix)] {
				return fmt.Sprintf("line %d: %s sets a variable of the tests (%s)", now.Pos().Line(), name, what)
			}
		}
	}
	is := c.hazardsOf(now)
	for _, what := range slices.Sorted(maps.Keys(is)) {
		kept := was[what] != nil && strings.HasPrefix(what, setsPrefix) || before != nil && c.calculatesAlike(was, what, before, now)
		if !kept || c.evaluates {
			return fmt.Sprintf("line %d: %s has %s, in a shell of the tests", is[what][0], name, what)
		}
	}
	return c.newCalls(name)
}

// newCalls says why a function may not make a call that it did not make before, or with
// other arguments: one of a function that may do more than it.
func (c *change) newCalls(name string) string {
	before := map[string]bool{}
	if f := c.base.functions[name]; f != nil {
		calls(f.Body, func(call *syntax.CallExpr, _ string) { before[printed(call)] = true })
	}
	why := ""
	line := c.head.functions[name].Pos().Line()
	calls(c.head.functions[name].Body, func(call *syntax.CallExpr, callee string) {
		switch {
		case why != "":
		case c.head.functions[callee] == nil && c.scripts.defines[callee]:
			why = fmt.Sprintf("line %d: %s calls %s of the tests", line, name, callee)
		case before[printed(call)] && !strings.Contains(printed(call), "$"):
		default:
			for _, inner := range c.reached(map[string]bool{callee: true}) {
				if f := c.head.functions[inner]; f != nil && why == "" {
					for _, what := range slices.Sorted(maps.Keys(c.hazardsOf(f))) {
						why = fmt.Sprintf("line %d: %s calls %s, which has %s", line, name, inner, what)
					}
				}
			}
		}
	})
	return why
}

// calls visits the commands of a function that are not only run for their output.
func calls(n syntax.Node, visit func(call *syntax.CallExpr, name string)) {
	walk(n, func(n syntax.Node, output bool) {
		if call, name, plain := commandOf(n); plain && !output {
			visit(call, name)
		}
	})
}
