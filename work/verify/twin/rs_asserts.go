package twin

import (
	"slices"
	"strings"
)

// rsTestBody is a test whose places are looked for.
type rsTestBody struct {
	p          *rsParser
	t          *rsTest
	block, end int // its braces
	path       string
	result     string
	wraps      bool // it can be handed to a function
	panics     bool
	message    span // what #[should_panic] is given
	early      int  // the first return
	uses       map[string]int
}

// add adds a place.
func (b *rsTestBody) add(s rsPlace) {
	s.path = b.path
	if s.path == "" {
		s.path = "self::"
	}
	b.t.places = append(b.t.places, s)
}

// sites finds the places of a test.
func (b *rsTestBody) sites() {
	p := b.p
	first := b.block + 1
	for p.sequence(first, "#", "!", "[") {
		first = p.closing(first+2) + 1
	}
	if first >= b.end {
		return // it does nothing
	}
	body := rsPlace{spot: spot{kind: Fail}, form: rsBody, start: p.tokens[first-1].end, end: p.tokens[b.end].start, certain: true, result: b.result}
	body.statement = body.start
	if b.panics {
		if b.wraps && b.result == "" {
			body.form = rsPanics
			b.add(body)
			b.expectedPanic(body.start)
		}
		return
	}
	if b.wraps {
		b.add(body)
	}
	b.early = len(p.tokens)
	for i := first; i < b.end; i++ {
		if p.text(i) == "return" && p.is(i, braceName) {
			b.early = i
			break
		}
	}
	b.statements(first)
	b.assertions(span{first, b.end})
}

// expectedPanic notes the text that the panic of the test has to hold.
func (b *rsTestBody) expectedPanic(at int) {
	p := b.p
	text := b.message.to - 1
	if !p.is(text, braceText) {
		text--
	}
	if !p.is(text, braceText) || text < b.message.from {
		return
	}
	l := p.literalAt(text)
	if l.way = wayPart; !l.changeable() {
		return
	}
	b.add(rsPlace{spot: spot{kind: Expect, value: true, leaves: []literal{l}}, form: rsNoted, start: at, end: at, statement: l.at, certain: true})
}

// statements adds places for a failing statement: behind the first statement that calls
// something, and behind the last one.
func (b *rsTestBody) statements(first int) {
	p := b.p
	last, called, calls := -1, -1, false
	state := func(i int, certain bool) {
		at := p.tokens[i].end
		b.add(rsPlace{spot: spot{kind: Fail}, form: rsState, start: at, end: at, statement: at, certain: certain})
	}
	for i := first; i < b.end; i++ {
		switch text := p.text(i); {
		case text == ";" && p.is(i, bracePunct):
			if calls && called < 0 && i+1 < b.end {
				called = i
			}
			last, calls = i, false
		case p.closing(i) > 0:
			calls = calls || text == "("
			i = p.closing(i)
		}
	}
	if called > 0 && called < last {
		state(called, false)
	}
	if last > 0 {
		state(last, last < b.early)
	}
}

// assertions finds the places of assertions among some tokens. What stands in a macro
// that is not known, in a constant or in a module is left alone.
func (b *rsTestBody) assertions(in span) {
	p := b.p
	for i := in.from; i < in.to; i++ {
		if !p.is(i, braceName) {
			continue
		}
		word := p.text(i)
		switch {
		case (word == "const" || word == "static") && p.text(i+1) != "fn":
			for i < in.to && p.text(i) != ";" && (word != "const" || p.text(i) != "{") {
				i = max(i, p.closing(i)) + 1
			}
			i = max(i, p.closing(i))
		case word == "mod" && p.text(i+2) == "{", word == "macro_rules":
			for i < in.to && p.closing(i) < 0 {
				i++
			}
			i = max(i, p.closing(i))
		case word == "if" && p.text(i-1) != "else":
			b.panicking(i)
		case p.text(i+1) == "!" && p.closing(i+2) > 0 && !p.operator(i+1, "!="):
			if p.text(i+2) == "(" {
				b.assertion(i)
			}
			i = p.closing(i + 2)
		}
	}
}

// certain says whether a statement is reached whenever the test passes.
func (b *rsTestBody) certain(i int) bool {
	p := b.p
	if i > b.early {
		return false
	}
	depth := 0
	for j := b.block + 1; j < i; j++ {
		if p.closing(j) > 0 {
			if p.closing(j) > i {
				depth++
			} else {
				j = p.closing(j)
			}
		}
	}
	return depth == 0 && b.begins(i)
}

// begins says whether a statement begins at a token.
func (b *rsTestBody) begins(i int) bool {
	switch b.p.text(i - 1) {
	case ";", "{", "}":
		return b.p.is(i-1, bracePunct)
	}
	return false
}

// panicking notes the condition of an if whose first statement panics.
func (b *rsTestBody) panicking(i int) {
	p := b.p
	open := i + 1
	for open < b.end && p.text(open) != "{" {
		if p.text(open) == "let" || p.text(open) == ";" {
			return
		}
		open = max(open, p.closing(open)) + 1
	}
	if open == i+1 || open >= b.end || !p.sequence(open+1, "panic", "!") && !p.sequence(open+1, "unreachable", "!") {
		return
	}
	start, end := p.bytes(span{i + 1, open})
	b.add(rsPlace{spot: spot{kind: Flip}, form: rsIf, start: start, end: end, statement: p.tokens[i].start, certain: b.certain(i), negative: true})
}

// assertion notes the places of the assertion whose name is at a token.
func (b *rsTestBody) assertion(name int) {
	p := b.p
	word := strings.TrimPrefix(p.text(name), "debug_")
	first := name
	for p.operator(first-2, "::") && p.is(first-3, braceName) {
		first -= 3
	}
	if p.operator(first-2, "::") {
		first -= 2
	}
	open := name + 2
	args := p.split(open)
	for _, a := range args {
		if a.from >= a.to {
			return
		}
	}
	certain := b.certain(first) && word == p.text(name)
	switch {
	case word == "assert" && len(args) > 0:
		start, end := p.bytes(args[0])
		b.add(rsPlace{spot: spot{kind: Flip}, form: rsCond, start: start, end: end, statement: p.tokens[first].start, certain: certain})
		b.truth(first, args[0], certain)
	case (word == "assert_eq" || word == "assert_ne") && len(args) > 1:
		s := rsPlace{spot: spot{kind: Flip}, form: rsCompare, start: p.tokens[first].start, end: p.tokens[p.closing(open)].end, certain: certain, differ: word == "assert_ne"}
		s.statement = s.start
		s.from, s.to = p.bytes(args[0])
		s.comma = p.tokens[args[0].to].start
		_, s.till = p.bytes(args[1])
		path := ""
		for i := first; i < name; i++ {
			path += p.text(i)
		}
		other := map[string]string{"eq": "ne", "ne": "eq"}[word[len(word)-2:]]
		s.call, s.contrary = path+p.text(name), path+strings.TrimSuffix(p.text(name), word[len(word)-2:])+other
		b.add(s)
		if s.differ {
			return // another value would be as good
		}
		left, right := p.plain(args[0]), p.plain(args[1])
		switch {
		case right:
			b.expected(first, args[1], certain)
		case left:
			b.expected(first, args[0], certain)
		case !b.named(first, args[1], args[0], certain):
			b.named(first, args[0], args[1], certain)
		}
	}
}

// truth notes what is expected in a condition that has to be true: what a value is
// equal to, a pattern that it matches, a bound, or what a text has to hold.
func (b *rsTestBody) truth(first int, a span, certain bool) {
	p := b.p
	s := rsPlace{spot: spot{kind: Expect, value: true}, form: rsValue, statement: p.tokens[first].start, certain: certain}
	s.start, s.end = p.bytes(a)
	if p.sequence(a.from, "matches", "!", "(") && p.closing(a.from+2) == a.to-1 {
		if args := p.split(a.from + 2); len(args) == 2 && p.plain(args[1]) {
			s.leaves = p.leaves(args[1])
		}
	} else if at, op := p.comparison(a); at > 0 {
		left, right := span{a.from, at}, span{at + len(op), a.to}
		switch {
		case op == "==" && p.plain(right):
			s.leaves = p.leaves(right)
		case op == "==" && p.plain(left):
			s.leaves = p.leaves(left)
		case op != "==":
			s.loose = true
			up := op[0] == '>'
			s.leaves = slices.Concat(p.bound(right, up), p.bound(left, !up))
		}
	} else if open := p.tokens[a.to-1].mate; open > a.from+2 && open < a.to && p.text(open) == "(" && slices.Contains([]string{"contains", "starts_with", "ends_with"}, p.text(open-1)) &&
		p.text(open-2) == "." && a.to == open+3 && p.is(open+1, braceText) && p.text(a.from) != "!" {
		l := p.literalAt(open + 1)
		if l.way = wayPart; strings.HasSuffix(l.text, `"`) && l.changeable() {
			s.leaves = []literal{l}
		}
	}
	if len(s.leaves) > 0 {
		b.add(s)
	}
}

// comparison is the one comparison that a condition is, 0 where it is another.
func (p *rsParser) comparison(a span) (at int, op string) {
	for i := a.from; i < a.to; i++ {
		if p.closing(i) > 0 {
			i = p.closing(i)
			continue
		}
		if p.is(i, braceName) && p.text(i) == "as" || p.operator(i, "&&") || p.operator(i, "||") || p.operator(i, "!=") || p.operator(i, "::<") || p.operator(i, "->") {
			return 0, ""
		}
		for _, candidate := range []string{"==", "<=", ">=", "<", ">"} {
			if !p.operator(i, candidate) {
				continue
			}
			if at > 0 || i == a.from || i+len(candidate) >= a.to {
				return 0, ""
			}
			at, op = i, candidate
			i += len(candidate) - 1
			break
		}
	}
	return at, op
}

// bound is the number that something is compared with.
func (p *rsParser) bound(a span, up bool) []literal {
	if a.to != a.from+1 || !p.is(a.from, braceNumber) {
		return nil
	}
	l := p.literalAt(a.from)
	if !strings.Contains(l.text, ".") { // of an integer the type is not known
		return nil
	}
	if l.way = wayBelow; up {
		l.way = wayAbove
	}
	if !l.changeable() {
		return nil
	}
	return []literal{l}
}
