package twin

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// minitestTurned are assertions that have a contrary: assert_ and refute_, must_ and wont_.
var minitestTurned = form.Lazy(`^(?:(?:assert|refute)(?:_(?:equal|nil|includes|in_delta|in_epsilon|match|empty|kind_of|instance_of|respond_to|operator|predicate|same|path_exists))?|` +
	`(?:must|wont)_(?:equal|be|be_nil|include|match|be_empty|be_kind_of|be_instance_of|be_a|be_an|respond_to|be_same_as|be_close_to|be_within_delta|be_within_epsilon|path_exist))$`)

// contraryOf is the assertion that passes where another one fails.
func contraryOf(name string) string {
	for _, pair := range [][2]string{{"assert", "refute"}, {"must", "wont"}} {
		for n := range pair {
			if rest, found := strings.CutPrefix(name, pair[n]); found {
				return pair[1-n] + rest
			}
		}
	}
	return ""
}

// minitestValues are what assertions expect: the place among their arguments, and the way
// in which it is altered.
var minitestValues = map[string]struct {
	at int
	way
}{
	"assert_equal": {0, wayNear}, "must_equal": {0, wayNear}, "assert_includes": {1, wayFar}, "must_include": {0, wayFar},
	"assert_in_delta": {0, wayAbove}, "assert_in_epsilon": {0, wayAbove}, "must_be_close_to": {0, wayAbove}, "must_be_within_delta": {0, wayAbove},
	"assert_match": {0, wayMatch}, "must_match": {0, wayMatch}, "assert_raises": {0, wayNear}, "must_raise": {0, wayNear}, "assert_output": {0, wayNear}, "must_output": {0, wayNear},
}

// minitestAssertion notes the places of assert_…, refute_… and of _(…).must_….
func (b *rubyBody) minitestAssertion(i int) {
	p := b.p
	name := p.text(i)
	member := p.text(i-1) == "."
	if !p.is(i, scriptName) || p.text(i-1) == "&." || p.text(i-1) == "::" {
		return
	}
	switch {
	case !member && slices.Contains([]string{"_", "value", "expect"}, name):
		last := i + 1
		if p.text(last) != "(" || p.closing(last) < 0 {
			return
		}
		last = p.closing(last)
		if asked := p.text(last + 2); p.text(last+1) == "." && minitestWord().MatchString(asked) && minitestTurned().MatchString(asked) {
			b.add(scriptPlace{spot: spot{kind: Flip}, form: scriptAsked, start: p.tokens[i].start, end: p.tokens[last].end, statement: p.tokens[i].start,
				certain: b.certain(i), name: asked, contrary: contraryOf(asked)})
		}
	case !member && (strings.HasPrefix(name, "assert") || strings.HasPrefix(name, "refute")):
		args := b.arguments(i)
		if len(args) == 0 {
			return
		}
		if minitestTurned().MatchString(name) {
			at := p.tokens[i].start
			b.add(scriptPlace{spot: spot{kind: Flip}, form: scriptAsk, start: at, end: at, statement: at, certain: b.certain(i), name: name, contrary: contraryOf(name)})
		}
		b.unlike(i, name, args[0])
		b.minitestValue(i, name, args)
	case member && minitestWord().MatchString(name):
		first := i
		if p.text(i-2) == ")" {
			first = p.tokens[i-2].mate - 1 // _(…)
			b.unlike(first, name, span{first + 2, i - 2})
		}
		if args := b.arguments(i); len(args) > 0 {
			b.minitestValue(first, name, args)
		}
	}
}

// arguments are those of a call, without its block.
func (b *rubyBody) arguments(i int) []span {
	p, given := b.p, b.given(i)
	bare := p.text(given.from-1) != "("
	if given.from >= given.to || bare && (p.breaks(i) || p.text(given.from) == "{") {
		return nil
	}
	args := p.split(given, ",")
	for n, a := range args { // assert_raises E { … }
		for at := a.from + 1; at < a.to; at++ {
			if p.text(at) == "{" && bare && p.is(at-1, scriptName) {
				args[n].to = at
				return args[:n+1]
			}
		}
	}
	return args
}

// minitestValue notes the place of what an assertion expects.
func (b *rubyBody) minitestValue(i int, name string, args []span) {
	p := b.p
	if name == "assert" { // assert got == want
		if sides := p.split(args[0], "=="); len(sides) == 2 && !b.joined(args[0]) {
			b.expected(i, "assert_equal", sides[1:])
		}
		return
	}
	order, at := "", 1
	if name == "assert_operator" && len(args) > 2 {
		order, at = p.text(args[1].from), 2
	} else if name == "must_be" && len(args) == 2 {
		order = p.text(args[0].from)
	}
	if w := rubyOrders[strings.TrimPrefix(order, ":")]; w != wayNear {
		b.literal(i, args[at], w)
		return
	}
	v, known := minitestValues[name]
	if !known || v.at >= len(args) || slices.ContainsFunc(args[:v.at+1], func(a span) bool { return p.text(a.from) == "*" }) {
		return
	}
	a := args[v.at]
	switch {
	case v.way == wayFar, v.way == wayAbove, v.way == wayMatch && (p.is(a.from, scriptPattern) || p.is(a.from, scriptString)):
		b.literal(i, a, v.way)
	case v.way == wayNear:
		b.expected(i, name, []span{a})
	}
}

// joined says whether an expression has an operator that binds less than a comparison, so
// that what is right of "==" is no value by itself.
func (b *rubyBody) joined(a span) bool {
	for i := a.from; i < a.to; i++ {
		if slices.Contains([]string{"&&", "||", "?", "and", "or", "not", "=", "..", "...", "if", "unless", "rescue", "do"}, b.p.text(i)) {
			return true
		}
	}
	return false
}
