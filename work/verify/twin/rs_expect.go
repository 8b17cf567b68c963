package twin

import (
	"slices"
	"strings"
)

// literalAt is the literal that a token is, without a suffix that says its type.
func (p *rsParser) literalAt(i int) literal {
	text := p.text(i)
	if p.is(i, braceNumber) {
		if at := strings.IndexAny(text, "iuf"); at > 0 && !strings.HasPrefix(text, "0x") {
			text = text[:at]
		}
	}
	return literal{at: p.tokens[i].start, text: text, in: rsGrammar}
}

// Macros and methods that make a value of a literal, and types of the standard library
// that have new and from for it. What other types make of it is code under test.
var (
	rsMakes  = strings.Fields("vec to_string to_owned to_vec into as_str as_bytes as_slice")
	rsOwners = strings.Fields("String Box Rc Arc Cow Vec PathBuf OsString Duration BTreeMap HashMap BTreeSet HashSet")
)

// plain says whether a value is made of literals alone.
func (p *rsParser) plain(a span) bool {
	has := false
	for i := a.from; i < a.to; i++ {
		text := p.text(i)
		switch p.tokens[i].kind {
		case braceText, braceNumber:
			has = has || p.text(i-1) != "."
		case braceName:
			known := text == "true" || text == "false" || rsGrammar.errors[text] != nil
			has = has || known
			upper := text[0] >= 'A' && text[0] <= 'Z'
			made := (text == "new" || text == "from") && p.operator(i-2, "::") && slices.Contains(rsOwners, p.text(i-3))
			if !known && !upper && !made && !slices.Contains(rsMakes, text) && p.text(i+1) != ":" {
				return false
			}
		case bracePunct:
			if !strings.Contains("()[]{},.!:&-;", text) {
				return false
			}
		default:
			return false
		}
	}
	return has
}

// leaves are the literals of a value that can be changed. The length of an array is
// none of them.
func (p *rsParser) leaves(a span) (out []literal) {
	for i := a.from; i < a.to; i++ {
		if p.text(i) == ";" {
			i++
			continue
		}
		if !p.is(i, braceText) && !p.is(i, braceNumber) && !p.is(i, braceName) || p.text(i-1) == "." || p.text(i+1) == ":" {
			continue
		}
		l := p.literalAt(i)
		if p.is(i, braceName) && rsGrammar.errors[l.text] != nil && (!p.operator(i-2, "::") || p.text(i-3) != "Ordering" && p.text(i-3) != "ErrorKind") || p.text(i-1) == "-" && len(l.text) == 3 && l.text >= "128" {
			continue
		}
		if l.changeable() {
			out = append(out, l)
			p.file.pooled(l)
		}
	}
	return out
}

// expected notes an expected value that is made of literals.
func (b *rsTestBody) expected(first int, a span, certain bool) {
	p := b.p
	s := rsPlace{spot: spot{kind: Expect, value: true, whole: true, leaves: p.leaves(a)}, form: rsValue, statement: p.tokens[first].start, certain: certain}
	s.start, s.end = p.bytes(a)
	if len(s.leaves) > 0 {
		b.add(s)
	}
}

// named notes an expected value that has a name: a constant of the test that is used
// once, or a column of the table that a loop goes over. It reports whether it is one.
func (b *rsTestBody) named(first int, a, other span, certain bool) bool {
	p := b.p
	for p.text(a.from) == "*" || p.text(a.from) == "&" {
		a.from++
	}
	if a.to-a.from > 1 && p.sequence(a.to-4, ".", "to_string", "(", ")") {
		a.to -= 4
	}
	if a.to != a.from+1 || !p.is(a.from, braceName) || !b.begins(first) {
		return false
	}
	name := p.text(a.from)
	s := rsPlace{spot: spot{kind: Expect, value: true, whole: true}, form: rsNoted, start: p.tokens[first].start, end: p.tokens[first].start, statement: p.tokens[first].start, certain: certain}
	uses := b.count(name)
	if at := b.declared(name); at > 0 && uses == 2 {
		end := at
		for end < b.end && p.text(end) != ";" {
			end = max(end, p.closing(end)) + 1
		}
		if p.plain(span{at, end}) {
			s.origin = p.leaves(span{at, end})
		}
	} else if uses == 2 {
		s.rows, s.origin = b.column(name, first)
		s.certain = certain || len(s.origin) > 0 && b.loop(first)
	}
	if len(s.origin) == 0 {
		return false
	}
	b.add(s)
	return true
}

// count is how often a name is used in the test.
func (b *rsTestBody) count(name string) int {
	if b.uses == nil {
		b.uses = map[string]int{}
		for i := b.block; i < b.end; i++ {
			b.uses[b.p.text(i)]++
		}
	}
	return b.uses[name]
}

// declared is the token behind "let name =", or 0.
func (b *rsTestBody) declared(name string) int {
	p := b.p
	for i := b.block; i < b.end; i++ {
		if p.text(i) != name || p.text(i-1) != "let" && p.text(i-1) != "const" {
			continue
		}
		for j := i + 1; j < b.end && p.text(j) != ";"; j++ {
			if p.text(j) == "=" {
				return j + 1
			}
		}
	}
	return 0
}

// table is the loop over rows that a token is in the block of: the names of its
// pattern, and the bracket of its rows.
func (b *rsTestBody) table(at int) (pattern span, rows int, ok bool) {
	p := b.p
	for i := b.block; i < at; i++ {
		if p.text(i) != "for" || p.text(i+1) != "(" && p.text(i+1) != "&" {
			continue
		}
		open := i + 1
		if p.text(open) == "&" {
			open++
		}
		in := p.closing(open) + 1
		if p.text(in) != "in" {
			continue
		}
		rows := p.list(in + 1)
		if name := p.text(rows); p.is(rows, braceName) && b.count(name) == 2 {
			rows = p.list(b.declared(name))
		}
		brace := in
		for brace < at && p.text(brace) != "{" {
			brace = max(brace, p.closing(brace)) + 1
		}
		if p.text(rows) == "[" && p.text(brace) == "{" && p.closing(brace) > at {
			return span{open, in}, rows, true
		}
	}
	return span{}, 0, false
}

// list is the token of a list, without what borrows or makes it.
func (p *rsParser) list(i int) int {
	for slices.Contains([]string{"&", "vec", "!"}, p.text(i)) {
		i++
	}
	return i
}

// loop says whether a token is a statement of a loop over a table that is itself a
// statement of the test.
func (b *rsTestBody) loop(at int) bool {
	pattern, _, ok := b.table(at)
	if !ok || at > b.early {
		return false
	}
	first := pattern.from - 1
	for b.p.text(first) != "for" {
		first--
	}
	return b.certain(first)
}

// column are the literals of a column of the table that a token is in the loop of.
func (b *rsTestBody) column(name string, at int) (rows, all []literal) {
	p := b.p
	pattern, open, ok := b.table(at)
	if !ok {
		return nil, nil
	}
	names := p.split(pattern.from)
	at = slices.IndexFunc(names, func(s span) bool { return s.to == s.from+1 && p.text(s.from) == name })
	if at < 0 {
		return nil, nil
	}
	for _, row := range p.split(open) {
		l := literal{}
		if cells := p.split(row.from); p.text(row.from) == "(" && p.closing(row.from) == row.to-1 && at < len(cells) && p.plain(cells[at]) {
			if found := p.leaves(cells[at]); len(found) > 0 {
				l = found[0]
				all = append(all, l)
			}
		}
		rows = append(rows, l)
	}
	return rows, all
}
