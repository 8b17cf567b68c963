package twin

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// rubyMatchers are matchers by the way in which what they expect is altered.
var rubyMatchers = map[string]way{
	"eq": wayNear, "eql": wayNear, "be": wayNear, "match_array": wayNear, "contain_exactly": wayNear, "have_attributes": wayNear, "raise_error": wayNear,
	"raise_exception": wayNear, "start_with": wayNear, "end_with": wayNear, "match": wayMatch, "include": wayFar, "output": wayNear,
}

// rubyWhole are matchers that compare with ==.
var rubyWhole = strings.Fields("eq eql be assert_equal must_equal")

// rubyOrders are the operators behind "be", with the way in which the bound is altered.
var rubyOrders = map[string]way{">": wayAbove, ">=": wayAbove, "<": wayBelow, "<=": wayBelow}

// rubyUnlike are assertions without an expected value that no other value meets: what
// they are given is altered instead. Only nil is nil, only what has nothing is empty,
// only nil and false are no.
var rubyUnlike = strings.Fields("assert_nil assert_empty refute must_be_nil must_be_empty be_nil be_empty be_falsey be_falsy")

// unlike notes the place of what such an assertion is given.
func (b *rubyBody) unlike(i int, name string, a span) {
	if !slices.Contains(rubyUnlike, name) || a.from >= a.to || slices.Contains([]string{"*", "**", "&"}, b.p.text(a.from)) || len(b.p.split(a, ",")) != 1 {
		return
	}
	s := b.value(i, a)
	s.whole = true
	b.add(s)
}

// given are the tokens of what a call is given, in parentheses or without them.
func (b *rubyBody) given(at int) span {
	p, from := b.p, at+1
	if p.text(from) == "(" && p.tokens[from].start == p.tokens[at].end {
		return span{from + 1, p.closing(from)}
	}
	return span{from, b.statementEnd(from)}
}

// matcher notes the places of what a matcher expects.
func (b *rubyBody) matcher(i, at int) {
	p := b.p
	name := p.text(at)
	if p.text(i+1) == "(" { // expect(…)
		b.unlike(i, name, span{i + 2, p.closing(i + 1)})
	}
	given := b.given(at)
	from, to := given.from, given.to
	if !p.is(at, scriptName) || from >= to {
		return
	}
	args := p.split(span{from, to}, ",")
	w, known := rubyMatchers[name]
	switch {
	case name == "be_within" && p.text(to+1) == "." && p.text(to+2) == "of" && p.text(to+3) == "(":
		b.literal(i, span{to + 4, p.closing(to + 3)}, wayAbove)
	case name == "be" && rubyOrders[p.text(from)] != wayNear:
		b.literal(i, span{from + 1, args[0].to}, rubyOrders[p.text(from)])
	case !known || p.text(from) == "*":
	case w == wayFar && len(args) == 1, w == wayMatch && p.is(from, scriptPattern), w == wayMatch && p.is(from, scriptString):
		b.literal(i, args[0], w)
	case strings.HasPrefix(name, "raise_") && p.is(args[len(args)-1].from, scriptPattern):
		b.literal(i, args[len(args)-1], wayMatch)
	case w == wayNear, w == wayMatch:
		b.expected(i, name, args)
	}
}

// rubyGrammar is how literals are written in Ruby.
var rubyGrammar = &grammar{yes: "true", no: "false", errors: rubyErrors(), text: rubyLiteral, pattern: rubyPattern}

var rubyLiteral = form.Lazy(`^()(?:'(?:[^'\\]|\\['\\])*'|"(?:[^"\\#\n]|\\[ntr\\"])*")$`)

// rubyPattern is a string or a regular expression.
var rubyPattern = form.Lazy(`^(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\#]|\\.)*)"|/((?:[^/\\#]|\\.)+)/[a-z]*)$`)

// rubyErrors are exceptions that a test can expect, and those that are expected in
// their place: none is above another one.
func rubyErrors() map[string][]string {
	out := map[string][]string{}
	all := strings.Fields("ArgumentError KeyError IndexError TypeError RangeError NameError NoMethodError RuntimeError ZeroDivisionError IOError EOFError FrozenError NotImplementedError StopIteration FloatDomainError RegexpError FiberError ThreadError")
	others := strings.Fields("TypeError RegexpError FiberError ThreadError")
	for _, name := range all {
		out[name] = slices.DeleteFunc(slices.Clone(others), func(o string) bool { return o == name })
	}
	return out
}

// leaf is the literal that a range of tokens is, without text if it is none.
func (p *rubyParser) leaf(a span, w way) literal {
	if a.from >= a.to {
		return literal{}
	}
	l := literal{at: p.tokens[a.from].start, text: p.src[p.tokens[a.from].start:p.tokens[a.to-1].end], in: rubyGrammar, way: w}
	signed := w != wayNear && a.to == a.from+2 && p.text(a.from) == "-" && p.is(a.from+1, scriptNumber)
	if a.to != a.from+1 && !signed || !l.changeable() {
		return literal{}
	}
	return l
}

// leaves are the literals of a value that can be changed: itself, or what is in its
// arrays and hashes.
func (p *rubyParser) leaves(a span, depth int) (out []literal) {
	if l := p.leaf(a, wayNear); l.text != "" {
		return []literal{l}
	}
	if depth > maxScriptDepth || a.to-a.from < 2 {
		return nil
	}
	if text := p.text(a.from); strings.HasSuffix(text, ":") && p.is(a.from, scriptName) {
		return p.leaves(span{a.from + 1, a.to}, depth+1)
	}
	if pair := p.split(a, "=>"); len(pair) == 2 {
		return p.leaves(pair[1], depth+1)
	}
	if p.text(a.from) == "-" && a.to == a.from+2 {
		return p.leaves(span{a.from + 1, a.to}, depth+1)
	}
	if p.closing(a.from) != a.to-1 || p.text(a.from) != "[" && p.text(a.from) != "{" {
		return nil
	}
	for _, part := range p.split(span{a.from + 1, a.to - 1}, ",") {
		out = append(out, p.leaves(part, depth+1)...)
	}
	return out
}

// value is the place of an expected value.
func (b *rubyBody) value(i int, a span) scriptPlace {
	p := b.p
	return scriptPlace{spot: spot{kind: Expect, value: true}, form: scriptValue, start: p.tokens[a.from].start, end: p.tokens[a.to-1].end,
		statement: p.tokens[i].start, certain: b.certain(i)}
}

// literal notes a literal, or a variable that is one, of which another one is altered
// in a way.
func (b *rubyBody) literal(i int, a span, w way) {
	if a.from >= a.to {
		return
	}
	s := b.value(i, a)
	if l := b.p.leaf(a, w); l.text != "" {
		s.leaves = []literal{l}
	} else if l := b.p.leaf(b.origin(a), w); l.text != "" {
		s.origin = []literal{l}
	} else {
		return
	}
	b.add(s)
}

// expected notes an expected value.
func (b *rubyBody) expected(i int, name string, args []span) {
	first := args[0]
	if pair := b.p.split(first, "=>"); len(pair) == 2 { // of a key the value is handed on
		first = pair[1]
	} else if text := b.p.text(first.from); strings.HasSuffix(text, ":") && b.p.is(first.from, scriptName) {
		first.from++
	}
	if first.from >= first.to || slices.Contains([]string{"*", "**", "&"}, b.p.text(first.from)) {
		return
	}
	s := b.value(i, first)
	s.whole = slices.Contains(rubyWhole, name)
	for _, a := range args {
		s.leaves = append(s.leaves, b.p.leaves(a, 0)...)
	}
	for _, l := range s.leaves {
		b.p.file.pooled(l)
	}
	if len(s.leaves) == 0 {
		s.origin = b.p.leaves(b.origin(args[0]), 0)
	}
	// Where no literal is seen the value itself is altered when it is there, whatever gives it.
	if len(s.leaves)+len(s.origin) == 0 && (len(args) != 1 || !s.whole) {
		return
	}
	b.add(s)
}

// assigned is the token of a variable that gets its value in a statement of the
// example, -1 if there is none or more than one.
func (b *rubyBody) assigned(name string) (at, uses int) {
	at = -1
	for i := b.from; i < b.end; i++ {
		if b.p.text(i) != name || b.p.text(i-1) == "." {
			continue
		}
		if uses++; b.p.text(i+1) == "=" && b.certain(i) {
			if at >= 0 {
				return -1, uses
			}
			at = i
		}
	}
	return at, uses
}

// origin is the value that a variable gets in a statement of the example, when it is
// used in one other place only.
func (b *rubyBody) origin(a span) span {
	p := b.p
	if a.to != a.from+1 || !p.is(a.from, scriptName) {
		return span{}
	}
	at, uses := b.assigned(p.text(a.from))
	text := p.src[p.tokens[b.open].start:p.tokens[b.end].end]
	if at < 0 || uses != 2 || strings.Contains(text, "#{") || strings.Contains(text, "binding") {
		return span{}
	}
	return span{at + 2, b.statementEnd(at)}
}
