package twin

import (
	"slices"
)

// jsBody is a test whose places are looked for.
type jsBody struct {
	p     *jsParser
	t     *jsTest
	whole span       // the argument that is its function
	f     jsFunction // what is known of it, when known is set
	known bool
	rows  *jsRows // the table of .each
	fixed bool    // nothing can stand around it: Deno takes its title from its name, or it is a method
	early int     // the first token of a return of its own
	uses  map[string]int
}

// test notes which argument of a call is the test.
func (p *jsParser) test(t *jsTest, c jsCall, args []span) {
	b := &jsBody{p: p, t: t, whole: span{-1, -1}}
	for _, a := range args {
		if f, ok := p.functionIn(a); ok {
			b.f, b.whole, b.known = f, a, true
		}
	}
	for _, a := range args[1:] {
		if b.whole.from < 0 && p.mayBeFunction(a) {
			b.whole = a
		}
	}
	if b.whole.from < 0 {
		t.Why = "it has no function that can be edited"
		return
	}
	if b.known && b.f.block >= 0 {
		p.bodies[b.f.block] = true
	}
	if c.table > 0 && b.known {
		b.rows = p.table(c.table, b.f)
	}
	t.body, b.fixed = b, c.deno && b.f.name != ""
	t.each = c.each
}

// mayBeFunction says whether an argument may be a function that is made elsewhere:
// a name, a member, or what a call returns.
func (p *jsParser) mayBeFunction(a span) bool {
	if !p.is(a.from, jsName) {
		return false
	}
	for i := a.from; i < a.to; i++ {
		switch text := p.text(i); {
		case text == "(" && p.closing(i) == a.to-1:
			i = a.to - 1
		case !p.is(i, jsName) && text != ".":
			return false
		}
	}
	return true
}

// sites finds the places of a test.
func (b *jsBody) sites() {
	p, start, end := b.p, b.p.tokens[b.whole.from].start, b.p.tokens[b.whole.to-1].end
	fail := jsPlace{spot: spot{kind: Fail}, form: jsCallback, start: start, end: end, statement: start, certain: true}
	if !b.known {
		b.add(fail)
		return
	}
	params := p.params(b.f)
	callback := b.callback(params)
	if callback >= 0 {
		fail.form, fail.done = jsDone, callback
	}
	if !b.f.generate && !b.fixed && (len(params) == 0 || params[0] != "") {
		b.add(fail)
	}
	b.early = p.firstReturn(b.f)
	b.statements(callback >= 0)
	for i := b.f.params.from; i < b.f.body.to; i++ {
		b.assertion(i)
	}
}

// add adds a place.
func (b *jsBody) add(s jsPlace) { b.t.places = append(b.t.places, s) }

// jsCallbacks are names of the parameter that a test calls at its end.
var jsCallbacks = []string{"done", "cb", "callback", "next", "end", "finish"}

// callback is the number of the parameter that a test calls at its end, or -1.
func (b *jsBody) callback(params []string) int {
	if len(params) == 0 {
		return -1
	}
	at := len(params) - 1
	name := params[at]
	if name == "" || at > 1 && !slices.Contains(jsCallbacks, name) || b.t.each && name != "done" {
		return -1
	}
	for i := b.f.body.from; i < b.f.body.to; i++ {
		if b.p.text(i) != name || !b.p.name(i) {
			continue
		}
		if b.p.text(i+1) == "(" || slices.Contains(jsCallbacks, name) {
			return at
		}
	}
	return -1
}

// statements adds places for a failing statement: behind the first statement that
// calls something, and at the end. Of a function that is one expression, its value
// is the place.
func (b *jsBody) statements(callback bool) {
	p := b.p
	if b.f.generate {
		return
	}
	first := b.f.body.from
	if b.f.block < 0 {
		if !callback {
			start, end := p.tokens[first].start, p.tokens[b.f.body.to-1].end
			b.add(jsPlace{spot: spot{kind: Fail}, form: jsResult, start: start, end: end, statement: start, certain: true})
		}
		return
	}
	if last := b.firstCall(); last > 0 {
		b.state(p.tokens[last].end, last, false)
	}
	if b.f.body.from < b.f.body.to && (b.early == len(p.tokens) || p.parent[b.early] != b.f.block) {
		b.state(p.tokens[b.f.body.to].start, b.f.body.to-1, b.early == len(p.tokens))
	}
}

// state adds a place for a statement behind the token that is the last one in front.
func (b *jsBody) state(at, last int, certain bool) {
	joined := b.p.text(last) != ";"
	b.add(jsPlace{spot: spot{kind: Fail}, form: jsState, start: at, end: at, statement: at, certain: certain, joined: joined})
}

// firstCall is the last token of the first statement of the body that calls something, 0
// if there is none among the simple ones at its beginning.
func (b *jsBody) firstCall() int {
	p, calls := b.p, false
	begin := b.f.body.from
	for i := begin; i < b.f.body.to; i++ {
		if i == begin && !p.simple(i) {
			return 0
		}
		if p.text(i) == "(" && p.is(i, jsPunct) {
			calls = true
		}
		if p.closing(i) > 0 {
			i = p.closing(i)
		}
		last := i+1 == b.f.body.to
		if p.text(i) == ";" || last || p.breaks(i) {
			if calls && !last {
				return i
			}
			begin, calls = i+1, false
		}
	}
	return 0
}

// simple says whether a statement begins here that ends at a semicolon or a line.
func (p *jsParser) simple(i int) bool {
	if !p.is(i, jsName) || p.text(i+1) == ":" {
		return false
	}
	return !slices.Contains([]string{"if", "for", "while", "do", "switch", "try", "function", "async", "class", "return", "throw", "with", "type", "interface",
		"enum", "namespace", "declare", "abstract", "else", "case", "default", "break", "continue", "using", "import", "export"}, p.text(i))
}

// breaks says whether a statement ends behind a token because a line does: what
// follows cannot go on with it.
func (p *jsParser) breaks(i int) bool {
	if i+1 >= len(p.tokens) || !p.tokens[i+1].line || !p.operandEnds(i) {
		return false
	}
	switch next := p.text(i + 1); p.tokens[i+1].kind {
	case jsName:
		return !slices.Contains([]string{"in", "instanceof", "as", "satisfies", "of"}, next)
	case jsString, jsNumber, jsRegexp:
		return p.tokens[i+1].kind != jsRegexp
	}
	return false
}

// operandEnds says whether an expression may end with a token.
func (p *jsParser) operandEnds(i int) bool {
	switch t := p.tokens[i]; t.kind {
	case jsPunct:
		text := p.text(i)
		return (text == ")" || text == "]" || text == "}") && !jsOperand(p.src, p.tokens[:i+1], p.file.types)
	case jsName:
		return p.member(i) || !slices.Contains(jsBefore, p.text(i))
	}
	return true
}

// firstReturn is where a function may end before its end, or behind all tokens.
func (p *jsParser) firstReturn(f jsFunction) int {
	for i := f.body.from; i < f.body.to && f.block >= 0; i++ {
		if p.text(i) == "return" && p.is(i, jsName) && p.owner[i] == f.block {
			return i
		}
	}
	return len(p.tokens)
}

// certain says whether an expression is reached whenever the test passes: it is a
// statement of the test itself or of a step of it, and no return is in front of it.
func (b *jsBody) certain(i int) bool { return b.reached(i, maxSteps) }

// reached is the same for an expression in so many steps. A step of a test of Deno, as in
// await t.step("title", () => { … }), that fails has the test fail.
func (b *jsBody) reached(i, depth int) bool {
	if b.p.statementOf(b.f, b.early, i) {
		return true
	}
	call, f, ok := b.step(i, depth)
	return ok && b.p.statementOf(f, b.p.firstReturn(f), i) && b.reached(call, depth-1)
}

// statementOf says whether an expression is a statement of a function itself that is
// reached whenever it comes to its end: early is its first return.
func (p *jsParser) statementOf(f jsFunction, early, i int) bool {
	if f.block < 0 {
		return i == f.body.from || i == f.body.from+1 && p.text(i-1) == "await"
	}
	if p.parent[i] != f.block {
		return false
	}
	first := i
	for first > f.body.from && slices.Contains([]string{"await", "return", "void"}, p.text(first-1)) {
		first--
	}
	if early < first {
		return false
	}
	before := first - 1
	return before < f.body.from || p.text(before) == ";" && p.is(before, jsPunct) || p.text(before) == "}" && p.is(before, jsPunct) && p.tokens[first].line || p.breaks(before)
}

// maxSteps bounds steps in each other.
const maxSteps = 8

// step is the call of the step whose function an expression is in, and that function.
func (b *jsBody) step(i, depth int) (call int, f jsFunction, ok bool) {
	p := b.p
	open := p.parent[i]
	if open >= 0 && p.text(open) == "{" {
		open = p.parent[open]
	}
	if depth == 0 || open < 4 || p.text(open) != "(" || p.text(open-1) != "step" || p.text(open-2) != "." || !p.name(open-3) || p.text(open-4) != "await" {
		return 0, f, false
	}
	args, ok := p.arguments(open)
	if !ok || len(args) == 0 {
		return 0, f, false
	}
	if f, ok = p.functionIn(args[len(args)-1]); !ok || f.generate {
		return 0, f, false
	}
	call = open - 3
	of := b.f
	if p.parent[call] != of.block {
		if _, of, ok = b.step(call, depth-1); !ok {
			return 0, f, false
		}
	}
	params := p.params(of)
	return call, f, len(params) > 0 && params[0] == p.text(call)
}
