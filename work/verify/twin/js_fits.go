package twin

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// Assertions by what a value has to fit, with the way in which their arguments are
// altered, by number. One that has "…" takes all further ones as the last is.
var (
	jsAssertFits = map[string][]string{
		"isAbove": {"", "above"}, "isAtLeast": {"", "above"}, "isBelow": {"", "below"}, "isAtMost": {"", "below"},
		"closeTo": {"", "above"}, "approximately": {"", "above"}, "include": {"", "part"}, "includes": {"", "part"}, "match": {"", "match"},
		"throws": {"", "match"}, "rejects": {"", "match"},
		"calledWith": {"", "far", "…"}, "calledOnceWith": {"", "far", "…"},
		"calledWithExactly": {"", "far", "…"}, "calledOnceWithExactly": {"", "far", "…"},
		"oneOf": {"", "several"}, "notInclude": {"", "none"}, "notMatch": {"", "none"}, "doesNotMatch": {"", "none"},
	}
	jsMatchFits = map[string][]string{
		// jest and vitest
		"toBeGreaterThan": {"above"}, "toBeGreaterThanOrEqual": {"above"}, "toBeLessThan": {"below"}, "toBeLessThanOrEqual": {"below"},
		"toBeCloseTo": {"above"}, "toContain": {"part"}, "toMatch": {"match"}, "toThrow": {"match"}, "toThrowError": {"match"},
		"toHaveBeenCalledWith": {"far", "…"}, "toHaveBeenLastCalledWith": {"far", "…"}, "toHaveBeenNthCalledWith": {"", "far", "…"},
		"toBeCalledWith": {"far", "…"}, "lastCalledWith": {"far", "…"}, "toHaveBeenCalledExactlyOnceWith": {"far", "…"},
		// chai, sinon-chai and should
		"above": {"above"}, "gt": {"above"}, "greaterThan": {"above"}, "least": {"above"}, "gte": {"above"}, "greaterThanOrEqual": {"above"},
		"below": {"below"}, "lt": {"below"}, "lessThan": {"below"}, "most": {"below"}, "lte": {"below"}, "lessThanOrEqual": {"below"},
		"within": {"above", "below"}, "closeTo": {"above"}, "approximately": {"above"}, "include": {"part"}, "includes": {"part"},
		"contain": {"part"}, "contains": {"part"}, "string": {"part"}, "match": {"match"}, "matches": {"match"},
		"throw": {"match", "match"}, "throws": {"match", "match"}, "rejectedWith": {"match", "match"},
		"calledWith": {"far", "…"}, "calledWithExactly": {"far", "…"},
		"calledOnceWith": {"far", "…"}, "calledOnceWithExactly": {"far", "…"},
		"toBeOneOf": {"several"}, "oneOf": {"several"},
	}
	// Matchers that are asked for nothing where they must not match, and those that
	// look into the value itself.
	jsAbsent     = strings.Fields("toContain toMatch include includes contain contains string match matches")
	jsContain    = strings.Fields("toContain include includes contain contains")
	jsOperators  = strings.Fields("in instanceof as satisfies await typeof function async")
	jsTrue       = strings.Fields("ok isTrue isOk true assert")
	jsHolds      = form.Lazy(`^(?:has|contains?|includes?)(?:[A-Z_]|$)`)
	jsTrueChains = strings.Fields("toBeTruthy true ok")
)

// fits notes the arguments of an assertion that a value has to fit. It reports
// whether there is one.
func (b *jsBody) fits(i int, args []span, ways []string) (found bool) {
	p := b.p
	word := ""
	for n, a := range args {
		if n < len(ways) && ways[n] != "…" {
			word = ways[n]
		} else if !slices.Contains(ways, "…") {
			break
		}
		w := way(word)
		switch {
		case w == wayMatch && a.to == a.from+1 && !p.is(a.from, jsRegexp):
			w = wayPart // a text is looked for
		case w == wayPart && p.is(a.to-1, jsNumber):
			w = wayWord
		}
		if word == "several" {
			found = b.several(i, a) || found
		} else if w != wayNear {
			found = b.fit(i, a, w) || found
		}
	}
	return found
}

// fit notes a literal, or a constant that is one, of which another one is altered in
// a way. It reports whether it is one.
func (b *jsBody) fit(i int, a span, w way) bool {
	p := b.p
	s := jsPlace{
		spot: spot{kind: Expect, value: true}, form: jsValue, start: p.tokens[a.from].start, end: p.tokens[a.to-1].end,
		statement: p.tokens[i].start, certain: b.certain(i), loose: w == wayWord || w == wayNone,
	}
	if l := (literal{s.start, p.src[s.start:s.end], jsGrammar, w}); l.changeable() {
		s.leaves = []literal{l}
	} else if a.to == a.from+1 && p.name(a.from) {
		for _, l := range p.origin(p.text(a.from)) {
			if l.way = w; l.changeable() {
				s.origin = append(s.origin, l)
			}
		}
	}
	if w == wayFar && len(s.leaves)+len(s.origin) == 0 {
		for _, l := range p.leaves(a) {
			if l.way = w; l.changeable() {
				s.leaves = append(s.leaves, l)
			}
		}
	}
	if n := len(s.leaves) + len(s.origin); n == 0 || n > 1 && w != wayFar {
		return false
	}
	b.add(s)
	return true
}

// several notes the values of which something has to be one, in a list, a set, or a
// constant that is one: each of them is altered. It reports whether all can be.
func (b *jsBody) several(i int, a span) bool {
	p := b.p
	s := jsPlace{
		spot: spot{kind: Expect, value: true, all: true}, form: jsValue, start: p.tokens[a.from].start, end: p.tokens[a.to-1].end,
		statement: p.tokens[i].start, certain: b.certain(i),
	}
	if s.leaves = p.members(a); len(s.leaves) == 0 && a.to == a.from+1 && p.name(a.from) {
		if value, ok := p.constant(p.text(a.from)); ok {
			s.origin = p.members(value)
		}
	}
	if len(s.leaves)+len(s.origin) == 0 {
		return false
	}
	b.add(s)
	return true
}

// members are the literals of a list or a set, none if something else is in it.
func (p *jsParser) members(a span) (out []literal) {
	if p.text(a.from) == "new" && p.text(a.from+1) == "Set" && p.closing(a.from+2) == a.to-1 {
		a = span{a.from + 3, a.to - 1}
	}
	if a.from >= a.to || p.text(a.from) != "[" || p.closing(a.from) != a.to-1 {
		return nil
	}
	parts, ok := p.arguments(a.from)
	for _, part := range parts {
		start := p.tokens[part.from].start
		l := literal{start, p.src[start:p.tokens[part.to-1].end], jsGrammar, wayFar}
		if !ok || !l.changeable() {
			return nil
		}
		out = append(out, l)
	}
	return out
}

// truth notes what is expected in a condition that has to be true, or false. It
// reports whether there is something.
func (b *jsBody) truth(i int, a span, negative bool) (found bool) {
	p := b.p
	for a.to-a.from > 2 && p.text(a.from) == "(" && p.closing(a.from) == a.to-1 {
		a = span{a.from + 1, a.to - 1}
	}
	joins := "&&"
	if negative {
		joins = "||"
	}
	from, order, count := a.from, -1, 0
	for at := a.from; at < a.to; at++ {
		if p.closing(at) > 0 {
			at = p.closing(at)
			continue
		}
		switch text := p.text(at); {
		case p.name(at) && slices.Contains(jsOperators, text):
			return found
		case !p.is(at, jsPunct), text == ".":
		case text == joins:
			found = b.part(i, span{from, at}, order, count, negative) || found
			from, order, count = at+1, -1, 0
		case slices.Contains([]string{"<", ">", "<=", ">="}, text):
			order, count = at, count+1
		case text == "!" && at == from, text == "-" || text == "+" || text == "*" || text == "/":
		default:
			return found
		}
	}
	return b.part(i, span{from, a.to}, order, count, negative) || found
}

// part is one of the conditions that truth is made of, with its operator of an
// order, if it has one.
func (b *jsBody) part(i int, a span, order, count int, negative bool) bool {
	p := b.p
	switch {
	case a.from >= a.to || count > 1:
		return false
	case p.text(a.from) == "!" && count == 0:
		return b.truth(i, span{a.from + 1, a.to}, !negative)
	case p.text(a.from) == "(" && p.closing(a.from) == a.to-1:
		return b.truth(i, a, negative)
	case count == 0:
		return b.asked(i, a, negative)
	case order == a.from || order == a.to-1:
		return false
	}
	left, right := wayBelow, wayAbove
	if strings.HasPrefix(p.text(order), "<") != negative {
		left, right = wayAbove, wayBelow
	}
	if right == wayBelow && b.near(i, span{a.from, order}) {
		return true
	}
	if b.fit(i, span{order + 1, a.to}, right) || b.fit(i, span{a.from, order}, left) {
		return true
	}
	b.add(jsPlace{
		spot: spot{kind: Expect}, form: jsCompare, start: p.tokens[a.from].start, end: p.tokens[a.to-1].end, statement: p.tokens[i].start,
		certain: b.certain(i), loose: true, operator: span{p.tokens[order].start, p.tokens[order].end}, above: right == wayAbove,
	})
	return true
}

// near notes the number from which Math.abs(a - b) says how far a value is.
func (b *jsBody) near(i int, a span) bool {
	p := b.p
	if a.to-a.from < 7 || p.text(a.from) != "Math" || p.text(a.from+2) != "abs" || p.closing(a.from+3) != a.to-1 {
		return false
	}
	minus := -1
	for at := a.from + 4; at < a.to-1; at++ {
		switch {
		case p.closing(at) > 0:
			at = p.closing(at)
		case !p.is(at, jsPunct) || p.text(at) == ".":
		case p.text(at) == "-" && minus < 0 && at > a.from+4:
			minus = at
		default:
			return false
		}
	}
	return minus > 0 && (b.fit(i, span{minus + 1, a.to - 1}, wayAbove) || b.fit(i, span{a.from + 4, minus}, wayAbove))
}

// asked notes the argument of a method that says whether a value fits it, or must
// not, or the values of which it says whether the argument is one.
func (b *jsBody) asked(i int, a span, negative bool) bool {
	p := b.p
	open := p.tokens[a.to-1].mate
	if p.text(a.to-1) != ")" || open < a.from+3 || p.text(open-2) != "." {
		return false
	}
	args, ok := p.arguments(open)
	if !ok || len(args) == 0 {
		return false
	}
	arg, value, ways := args[0], span{a.from, open - 2}, map[bool]way{false: wayNear, true: wayNone}
	switch name := p.text(open - 1); {
	case name == "startsWith", name == "endsWith":
		return p.is(arg.from, jsString) && b.fit(i, arg, ways[negative])
	case name == "match":
		ways[false] = wayMatch
		return p.is(arg.from, jsRegexp) && b.fit(i, arg, ways[negative])
	case name == "test":
		ways[false] = wayMatch
		return p.is(a.from, jsRegexp) && open == a.from+3 && b.fit(i, value, ways[negative])
	case negative:
		return name == "includes" && p.is(arg.from, jsString) && b.fit(i, arg, wayNone)
	case (name == "includes" || name == "has") && b.several(i, value):
		return true
	case jsHolds().MatchString(name) && p.is(arg.from, jsString):
		return b.fit(i, arg, wayPart)
	case jsHolds().MatchString(name) && len(args) == 1:
		return p.is(arg.to-1, jsNumber) && b.fit(i, arg, wayWord)
	}
	return false
}
