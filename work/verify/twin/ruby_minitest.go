package twin

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// Minitest: methods test_… of classes, tests that Rails names by a text, and groups of
// Minitest::Spec. A test is named as its result is: "Class#test_adds", or "group::inner#title".

// minitestFile says whether a file is one of Minitest, and not of RSpec. What is one of
// test-unit is neither.
func (p *rubyParser) minitestFile(name string) (is, other bool) {
	is = minitestName().MatchString(name)
	for i := range p.tokens {
		switch text := p.text(i); {
		case p.is(i, scriptName) && text == "RSpec":
			return false, false
		case p.is(i, scriptName) && text == "Test" && p.text(i+1) == "::" && p.text(i+2) == "Unit", p.is(i, scriptString) && strings.Trim(text, `'"`) == "test/unit":
			return false, true
		case p.is(i, scriptName) && (text == "Minitest" || p.text(i-1) == "." && minitestWord().MatchString(text)), p.is(i, scriptString) && strings.HasPrefix(strings.Trim(text, `'"`), "minitest"):
			is = true
		}
	}
	return is, false
}

var (
	minitestName = form.Lazy(`(?:^|/)(?:test_[^/]*|[^/]*_test)\.rb$`)
	minitestWord = form.Lazy(`^(?:must|wont)_`)
)

// minitestGroup is what is around a test of Minitest.
type minitestGroup struct {
	modules string   // names of the modules and classes around it
	class   []string // the name of the class that tests are in, nil outside of one
	spec    bool     // the class is a group of Minitest::Spec
}

// minitests finds classes, groups and tests in a range.
func (p *rubyParser) minitests(from, to int, g minitestGroup) {
	for i := from; i < to; i++ {
		word, end := p.text(i), p.closing(i)
		if !p.is(i, scriptName) || p.text(i-1) == "." || p.text(i-1) == "&." {
			continue
		}
		switch {
		case (word == "module" || word == "class") && end > 0:
			p.minitests(i+1, end, p.minitestClass(i, g))
			i = end
		case word == "def" && end > 0:
			if name := p.text(i + 1); g.class != nil && strings.HasPrefix(name, "test_") && (p.text(i+2) != "(" || p.text(i+3) == ")") {
				body := i + 2
				if p.text(body) == "(" {
					body += 2
				}
				if body == i+4 || p.tokens[body].line || p.text(body) == ";" {
					p.minitest(i, i, body, minitestTitle(g.class, []string{name}), "")
				}
			}
			i = end
		case word == "def" && g.class != nil && strings.HasPrefix(p.text(i+1), "test_"):
			title := minitestTitle(g.class, []string{p.text(i + 1)})
			p.found = append(p.found, scriptTest{Test: Test{Name: strings.Join(title, "*"), Title: title, Line: p.file.line(p.tokens[i].start), Why: "it is a method without an end"}})
		case word == "describe" || g.class != nil && slices.Contains([]string{"it", "specify", "test"}, word):
			if next := p.minitestCall(i, g); next > i {
				i = next
			}
		}
	}
}

// minitestClass is what is around the tests of a module or a class.
func (p *rubyParser) minitestClass(i int, g minitestGroup) minitestGroup {
	at, name := i+1, ""
	for ; p.is(at, scriptName) && p.text(at)[0] >= 'A' && p.text(at)[0] <= 'Z' && (at == i+1 || p.text(at-1) == "::") || p.text(at) == "::"; at++ {
		name += p.text(at)
	}
	if name == "" { // class << self
		return minitestGroup{modules: g.modules}
	}
	if absolute := strings.HasPrefix(name, "::"); absolute {
		name = name[2:]
	} else if g.modules != "" {
		name = g.modules + "::" + name
	}
	inner := minitestGroup{modules: name}
	if p.text(i) == "class" && p.text(at) == "<" {
		inner.class = []string{name}
	}
	return inner
}

// minitestCall reads a call of describe, it or test, and returns the token behind which
// the next one is looked for, i if it has no block.
func (p *rubyParser) minitestCall(i int, g minitestGroup) int {
	args, open := p.call(i)
	if open < 0 {
		return i
	}
	word, end := p.text(i), p.closing(open)
	if word == "describe" {
		inner := minitestGroup{modules: g.modules, spec: true}
		if g.spec {
			inner.class = g.class
		}
		for _, a := range args {
			piece := p.minitestPiece(a, g.modules != "")
			if inner.class == nil {
				inner.class = piece
			} else {
				inner.class = joinTitles(inner.class, "::", piece)
			}
		}
		if inner.class != nil {
			p.minitests(open+1, end, inner)
		}
		return end
	}
	body := open + 1
	if p.text(body) == "|" {
		return end
	}
	switch {
	case word == "test" && len(args) == 1 && p.is(args[0].from, scriptString):
		piece := []string{}
		for _, part := range p.minitestPiece(args[0], false) {
			piece = append(piece, minitestBlank().ReplaceAllString(part, "_"))
		}
		piece[0] = "test_" + piece[0]
		p.minitest(i, open, body, minitestTitle(g.class, piece), "")
	case word != "test" && len(args) == 0: // its name is its place in the group
		p.minitest(i, open, body, minitestTitle(g.class, []string{"test_", "_anonymous"}), "anonymous")
	case word != "test":
		p.minitest(i, open, body, minitestTitle(g.class, p.minitestPiece(args[0], false)), "")
	}
	return end
}

var minitestBlank = form.Lazy(`\s+`)

// minitestPiece is the text that a group or a test is named by, cut where it is computed.
func (p *rubyParser) minitestPiece(a span, scoped bool) []string {
	switch text := p.text(a.from); {
	case a.to == a.from+1 && p.is(a.from, scriptString) && (text[0] == '\'' || text[0] == '"'):
		return rubyTitle(text)
	case a.to == a.from+1 && p.is(a.from, scriptString) && text[0] == ':' && !strings.HasPrefix(text, `:"`):
		return []string{text[1:]}
	case p.is(a.from, scriptName) && text[0] >= 'A' && text[0] <= 'Z' && !slices.ContainsFunc(p.tokens[a.from:a.to], func(t scriptToken) bool { return t.kind != scriptName && p.src[t.start:t.end] != "::" }):
		name := strings.ReplaceAll(p.src[p.tokens[a.from].start:p.tokens[a.to-1].end], " ", "")
		if scoped {
			return []string{"", name}
		}
		return []string{name}
	}
	return []string{"", ""}
}

func joinTitles(outer []string, between string, inner []string) []string {
	out := slices.Clone(outer)
	out[len(out)-1] += between + inner[0]
	return append(out, inner[1:]...)
}

func minitestTitle(class, title []string) []string { return joinTitles(class, "#", title) }

// minitest notes a test whose body begins at a token: behind the name of a method, or
// behind what opens a block.
func (p *rubyParser) minitest(i, open, body int, title []string, untitled string) {
	t := scriptTest{Test: Test{Title: title, Name: strings.Join(title, "*"), Line: p.file.line(p.tokens[i].start)}, untitled: untitled != ""}
	b := &rubyBody{p: p, t: &t, open: open, from: body, end: p.closing(open)}
	if p.text(open) == "def" {
		b.lead = ";"
	}
	if b.from <= b.end {
		b.sites()
	}
	p.found = append(p.found, t)
}

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
		b.minitestValue(i, name, args)
	case member && minitestWord().MatchString(name):
		first := i
		if p.text(i-2) == ")" {
			first = p.tokens[i-2].mate - 1 // _(…)
		}
		if args := b.arguments(i); len(args) > 0 {
			b.minitestValue(first, name, args)
		}
	}
}

// arguments are those of a call, without its block.
func (b *rubyBody) arguments(i int) []span {
	p, from, to := b.p, i+1, 0
	if p.text(from) == "(" && p.tokens[from].start == p.tokens[i].end {
		from, to = from+1, p.closing(from)
	} else if p.breaks(i) || p.text(from) == "{" {
		return nil
	} else {
		to = b.statementEnd(from)
	}
	if from >= to {
		return nil
	}
	args := p.split(span{from, to}, ",")
	for n, a := range args { // assert_raises E { … }
		for at := a.from + 1; at < a.to; at++ {
			if p.text(at) == "{" && p.text(from-1) != "(" && p.is(at-1, scriptName) {
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

// minitestLanguage is how test files of Minitest are edited: as those of RSpec, but for
// the assertions and for what a failure raises.
var minitestLanguage = func() *scriptLanguage {
	l := *rubyLanguage
	l.shape = minitestShape
	return &l
}()

// minitestShape draws a shape for a form, and defines what it needs.
func minitestShape(e *scriptEdit, form scriptForm) scriptShape {
	switch form {
	case scriptAsk: // the object that is asked is the test itself, or one that calls the contrary
		s := e.wrapped(one(e.draw, rubyWraps), e.body(e.traced(minitestTracedTurn, minitestTurns), ""))
		return scriptShape{s.open + "[self, :%, :^]" + s.close + ".", ""}
	case scriptAsked:
		s := e.wrapped(one(e.draw, rubyWraps), e.body(e.traced(minitestTracedTurn, minitestTurns), ""))
		return scriptShape{s.open + "[", ", :%, :^]" + s.close}
	}
	s := rubyShape(e, form)
	for i := range e.pieces {
		e.pieces[i] = strings.ReplaceAll(e.pieces[i], "RSpec::Expectations::ExpectationNotMetError", "Minitest::Assertion")
	}
	return s
}

// minitestTurns are bodies that return what is asked, or what asks for the contrary: $a
// holds it, and the names of the assertion and of its contrary.
var minitestTurns = []string{`
$c, $d, $e = $a
$f = $c
if $C($b)
  $f = Object.new
  $f.define_singleton_method($d) { |*$G, &$L| $c.send($e, *$G, &$L) }
end
$f`, `
$c, $d, $e = $a
if !$C($b)
  $c
else
  Class.new do
    define_method($d) { |*$f, &$L| $c.send($e, *$f, &$L) }
  end.new
end`, `
$c, *$d = $a
$e = $C($b) ? $d.last : $d.first
Struct.new(:$m).new($i).tap do |$f|
  $f.define_singleton_method($d.first) { |*$G, &$L| $c.send($e, *$G, &$L) }
end`, `
case $C($b)
when false then $a.first
else
  $c = Object.new
  $a.drop(1).each do |$d|
    $c.define_singleton_method($d) { |*$f, &$L| $a[0].__send__($a.last, *$f, &$L) }
  end
  $c
end`}

const minitestTracedTurn = `
$c, $d, $e = $a
$e = $d unless $C($b)
$f = Object.new
$f.define_singleton_method($d) do |*$G, &$L|
  begin
    $S = $c.send($e, *$G, &$L)
    $N($b, true)
    $S
  rescue Exception
    $N($b, false)
    raise
  end
end
$f`
