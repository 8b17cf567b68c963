package twin

import (
	"strconv"

	"remit/proof/form"
)

// jsGrammar is how literals are written in JavaScript.
var jsGrammar = &grammar{yes: "true", no: "false", errors: jsErrors, text: jsLiteral, pattern: jsPattern}

var jsLiteral = form.Lazy(`^()(?:'(?:[^'\\\n\r]|\\[ntr\\'"])*'|"(?:[^"\\\n\r]|\\[ntr\\'"])*"|` + "`[^`\\\\$]*`" + `)$`)

// jsPattern is a string or a regular expression.
var jsPattern = form.Lazy(`^(?:'((?:[^'\\\n\r]|\\.)*)'|"((?:[^"\\\n\r]|\\.)*)"|` + "`([^`\\\\$]*)`" +
	`|/((?:[^\\/\[\n\r]|\\.|\[(?:[^\]\\\n\r]|\\.)*\])+)/[a-z]*)$`)

// jsErrors are built-in errors that a test can expect, with others.
var jsErrors = map[string][]string{
	"TypeError": {"RangeError", "SyntaxError", "EvalError", "URIError"}, "RangeError": {"TypeError", "SyntaxError", "EvalError", "URIError"},
	"SyntaxError": {"TypeError", "RangeError", "EvalError", "URIError"}, "URIError": {"TypeError", "RangeError", "SyntaxError"},
	"EvalError": {"TypeError", "RangeError", "URIError"}, "ReferenceError": {"TypeError", "RangeError", "SyntaxError"},
}

// jsRows are the rows of a table, by the names that the parameters of the test give
// to what is in them.
type jsRows struct{ cells map[string][]span }

// table reads the rows of .each: arrays by position, objects by key.
func (p *jsParser) table(paren int, f jsFunction) *jsRows {
	args, ok := p.arguments(paren)
	if !ok || len(args) != 1 || p.text(args[0].from) != "[" || p.closing(args[0].from) != args[0].to-1 {
		return nil
	}
	rows, ok := p.arguments(args[0].from)
	params := p.params(f)
	if !ok || len(params) == 0 {
		return nil
	}
	t := &jsRows{cells: map[string][]span{}}
	keys := map[string]string{} // by the name of the variable
	if params[0] == "" && p.text(f.params.from+1) == "{" {
		keys = p.keys(f.params.from + 1)
	}
	for _, row := range rows {
		cells := p.cells(row)
		for i, name := range params {
			if name != "" {
				t.cells[name] = append(t.cells[name], cells[jsPosition(i)])
			}
		}
		for name, key := range keys {
			t.cells[name] = append(t.cells[name], cells[key])
		}
	}
	return t
}

// jsPosition is the key of a cell by its position.
func jsPosition(i int) string { return "#" + strconv.Itoa(i) }

// keys are the variables of a pattern in braces, with the keys that they are for.
func (p *jsParser) keys(open int) map[string]string {
	out := map[string]string{}
	for i := open + 1; i < p.closing(open); i++ {
		if p.closing(i) > 0 {
			i = p.closing(i)
			continue
		}
		if before := p.text(i - 1); p.is(i, jsName) && (before == "{" || before == ",") {
			key, name := p.text(i), p.text(i)
			if p.text(i+1) == ":" && p.is(i+2, jsName) {
				name = p.text(i + 2)
			}
			out[name] = key
		}
	}
	return out
}

// cells are the values of a row.
func (p *jsParser) cells(row span) map[string]span {
	out := map[string]span{}
	whole := p.closing(row.from) == row.to-1
	parts, ok := []span{row}, true
	if whole && (p.text(row.from) == "[" || p.text(row.from) == "{") {
		parts, ok = p.arguments(row.from)
	}
	if !ok {
		return out
	}
	for i, part := range parts {
		if whole && p.text(row.from) == "{" {
			if p.is(part.from, jsName) && p.text(part.from+1) == ":" {
				out[p.text(part.from)] = span{part.from + 2, part.to}
			}
			continue
		}
		out[jsPosition(i)] = part
	}
	return out
}

// literalAt is the literal that a token is.
func (p *jsParser) literalAt(i int) literal {
	return literal{at: p.tokens[i].start, text: p.text(i), in: jsGrammar}
}

// expected notes an expected value.
func (b *jsBody) expected(i int, a span, asError, whole bool) {
	p := b.p
	s := jsPlace{
		spot: spot{kind: Expect, value: true, whole: whole}, form: jsValue, start: p.tokens[a.from].start, end: p.tokens[a.to-1].end,
		statement: p.tokens[i].start, certain: b.certain(i),
	}
	s.leaves = p.leaves(a)
	for _, l := range s.leaves {
		p.file.pooled(l)
	}
	if name := p.text(a.from); a.to == a.from+1 && p.is(a.from, jsName) && len(s.leaves) == 0 {
		s.origin = p.origin(name)
		if b.rows != nil && len(b.rows.cells[name]) > 0 && b.given(name) {
			for _, cell := range b.rows.cells[name] {
				s.rows = append(s.rows, p.cell(cell))
			}
		}
	}
	switch {
	case asError && len(s.leaves) == 0:
		return
	case len(s.leaves)+len(s.origin) == 0 && !p.inert(a):
		return // it calls something, or is a function: the change may have a hand in it
	}
	b.add(s)
}

// given says whether the test uses a parameter for nothing but the one assertion:
// where it is an input as well, another value changes both sides.
func (b *jsBody) given(name string) bool {
	if b.uses == nil {
		b.uses = map[string]int{}
		for i := b.f.body.from; i < b.f.body.to; i++ {
			if b.p.name(i) {
				b.uses[b.p.text(i)]++
			}
		}
	}
	return b.uses[name] == 1
}

// cell is the literal of a row, one without text if it is none.
func (p *jsParser) cell(a span) literal {
	if a.to != a.from+1 {
		return literal{}
	}
	l := p.literalAt(a.from)
	if !l.changeable() {
		return literal{}
	}
	p.file.pooled(l)
	return l
}

// leaves are the literals of a value that can be changed: itself, or what is in its
// arrays and objects.
func (p *jsParser) leaves(a span) []literal {
	var out []literal
	if !p.inner(a, &out, 0) {
		return nil
	}
	return out
}

// inner collects the literals of a value. It reports whether the value is one that
// it can read; of parts of an array or object it passes over what it cannot.
func (p *jsParser) inner(a span, out *[]literal, depth int) bool {
	if a.from >= a.to || depth > maxJSDepth {
		return false
	}
	if a.to == a.from+1 {
		l := p.literalAt(a.from)
		if (p.is(a.from, jsName) || p.is(a.from, jsNumber) || p.is(a.from, jsString) || p.is(a.from, jsTemplate)) && l.changeable() {
			*out = append(*out, l)
			return true
		}
		return false
	}
	switch {
	case p.text(a.from) == "-" && a.to == a.from+2 && p.is(a.from+1, jsNumber):
		return p.inner(span{a.from + 1, a.to}, out, depth)
	case p.text(a.from) == "new" && p.text(a.from+1) == "Set" && p.closing(a.from+2) == a.to-1:
		return p.inner(span{a.from + 3, a.to - 1}, out, depth+1)
	case p.closing(a.from) != a.to-1 || p.text(a.from) != "[" && p.text(a.from) != "{":
		return false
	}
	parts, _ := p.arguments(a.from) // what has a spread is passed over
	for _, part := range parts {
		if p.text(a.from) == "{" {
			if p.text(part.from+1) != ":" {
				continue
			}
			part.from += 2
		}
		p.inner(part, out, depth+1)
	}
	return len(*out) > 0
}

// origin is the literal that a constant is, when it is used in one place only.
func (p *jsParser) origin(name string) []literal {
	if value, ok := p.constant(name); ok {
		return p.leaves(value)
	}
	return nil
}

// constant is the value of a constant that is used in one place only.
func (p *jsParser) constant(name string) (value span, ok bool) {
	i, declared := p.declared[name]
	if !declared || p.counts[name] != 2 {
		return span{}, false
	}
	from, end := i+2, i+2
	if p.text(end) == "new" && p.text(end+2) == "(" {
		end += 2
	}
	if p.closing(end) > 0 {
		end = p.closing(end)
	}
	return span{from, end + 1}, p.text(end+1) == ";" || p.breaks(end)
}

// inert says whether a value calls nothing, and is no function.
func (p *jsParser) inert(a span) bool {
	for i := a.from; i < a.to; i++ {
		switch p.text(i) {
		case "(", "=>", "=", "new", "function", "class", "await", "yield", "++", "--", "delete":
			return false
		}
		if p.is(i, jsTemplate) || p.is(i, jsMarkup) || p.is(i, jsRegexp) {
			return false
		}
	}
	return true
}
