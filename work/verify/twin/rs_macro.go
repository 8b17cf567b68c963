package twin

import (
	"maps"
	"slices"
	"strings"
)

// Tests that a macro of the file makes, each of a name that it is given:
//
//	macro_rules! t { ($name:ident: $in:expr => $out:expr) => { #[test] fn $name() { assert_eq!($in.up(), $out) } }; }
//	t!(one: "a" => "A");
//
// What such a test expects stands in the call, and can be another value there.

// rsMaker is such a macro.
type rsMaker struct {
	parts  []rsPiece // of a call, or of each row of it
	rows   bool      // a call has rows, between commas
	wanted []rsWanted
}

// rsPiece is a fragment of the pattern, $name:kind, or a token between two of them.
type rsPiece struct{ fragment, kind, token string }

// rsWanted is what an assertion expects: a fragment, or a value of the tuple that it is.
type rsWanted struct {
	fragment string
	cell     int // -1 for all of it
}

// maker reads an item that defines a macro. What is returned is nil where it is none that
// makes a test with an expected value, or one with more than one rule.
func (p *rsParser) maker(it *rsItem) (name string, m *rsMaker) {
	open := it.head + 3
	name = p.text(it.head + 2)
	body := p.closing(open+1) + 3
	if !p.sequence(it.head, "macro_rules", "!") || p.closing(open) < 0 || p.closing(open+1) < 0 || !p.operator(body-2, "=>") || p.closing(body) < 0 {
		return name, nil
	}
	end := p.closing(body) + 1
	if p.text(end) == ";" {
		end++
	}
	if end != p.closing(open) {
		return name, nil
	}
	m = &rsMaker{}
	in, out := span{open + 2, p.closing(open + 1)}, span{body + 1, p.closing(body)}
	if p.sequence(in.from, "$", "(") && p.sequence(out.from, "$", "(") {
		in, m.rows = p.repeated(in)
		if out = (span{out.from + 2, p.closing(out.from + 1)}); !m.rows {
			return name, nil
		}
	}
	if !m.pattern(p, in) || !m.body(p, out) {
		return name, nil
	}
	return name, m
}

// fragment says whether a token is the name of one.
func (p *rsParser) fragment(i int) bool {
	return p.is(i, braceName) && len(p.text(i)) > 1 && p.text(i)[0] == '$'
}

// repeated is what a pattern repeats that is nothing else: $( … ),* and the like.
func (p *rsParser) repeated(in span) (inner span, ok bool) {
	end := p.closing(in.from + 1)
	inner = span{in.from + 2, end}
	if p.text(inner.to-1) == "," {
		inner.to--
	}
	if end++; p.text(end) == "," {
		end++
	}
	if p.text(end) != "*" && p.text(end) != "+" {
		return inner, false
	}
	end++
	return inner, end == in.to || p.sequence(end, "$", "(", ",", ")", "?") && end+5 == in.to || p.sequence(end, "$", "(", ",", ")", "*") && end+5 == in.to
}

// pattern reads what a call looks like. Its first word is the name of the test.
func (m *rsMaker) pattern(p *rsParser, in span) bool {
	for i := in.from; i < in.to; i++ {
		switch {
		case p.fragment(i) && p.text(i+1) == ":" && p.is(i+2, braceName) && (len(m.parts) == 0 || m.parts[len(m.parts)-1].token != ""):
			m.parts = append(m.parts, rsPiece{fragment: p.text(i), kind: p.text(i + 2)})
			i += 2
		case strings.HasPrefix(p.text(i), "$") || p.closing(i) > 0 || m.rows && p.text(i) == ",":
			return false
		default:
			m.parts = append(m.parts, rsPiece{token: p.text(i)})
		}
	}
	return len(m.parts) > 0 && m.parts[0].kind == "ident"
}

// body looks for what the test expects, in assertions that it makes whatever it is given.
func (m *rsMaker) body(p *rsParser, out span) bool {
	at := out.from
	for at < out.to && !p.sequence(at, "#", "[", "test", "]") {
		at = max(at, p.closing(at)) + 1
	}
	for at < out.to && p.text(at) == "#" {
		if p.text(at+2) == "should_panic" {
			return false
		}
		at = p.closing(at+1) + 1
	}
	block := at + 4
	if !p.sequence(at, "fn", m.parts[0].fragment, "(", ")", "{") || p.closing(block) < 0 {
		return false
	}
	uses := map[string]int{}
	for i := out.from; i < out.to; i++ {
		uses[p.text(i)]++
	}
	tuples, compared := map[string]rsWanted{}, map[string]rsWanted{}
	for i := block + 1; i < p.closing(block) && p.text(i) != "return" && p.text(i) != "?"; i++ {
		switch {
		case p.sequence(i, "let", "("):
			end := p.closing(i+1) + 1
			if p.text(end) == "=" && p.fragment(end+1) && p.text(end+2) == ";" && uses[p.text(end+1)] == 1 {
				for n, s := range p.split(i + 1) {
					if name := p.text(s.from); s.to == s.from+1 {
						tuples[name] = rsWanted{p.text(end + 1), n}
						uses[name]--
					}
				}
			}
			i = end
		case p.sequence(i, "assert_eq", "!", "(") && slices.Contains([]string{";", "{", "}"}, p.text(i-1)):
			args := p.split(i + 2)
			for _, a := range args[:min(len(args), 2)] {
				for a.from < a.to-1 && (p.text(a.from) == "&" || p.text(a.from) == "*") {
					a.from++
				}
				name := p.text(a.from)
				w, known := tuples[name]
				if !known && p.fragment(a.from) {
					w, known = rsWanted{name, -1}, true
				}
				if known && a.to == a.from+1 {
					compared[name] = w
					uses[name]--
				}
			}
			i = p.closing(i + 2)
		case p.closing(i) > 0:
			i = p.closing(i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(compared)) {
		if uses[name] == 0 { // it is compared, and nothing else
			m.wanted = append(m.wanted, compared[name])
		}
	}
	return len(m.wanted) > 0
}

// calls notes the tests that a call makes. It reports whether the call is one for the macro.
func (p *rsParser) calls(it *rsItem, m *rsMaker, path []string) bool {
	open := it.head + 2
	if p.closing(open) < 0 {
		return false
	}
	rows := []span{{open + 1, p.closing(open)}}
	if m.rows {
		rows = p.split(open)
	}
	var all []map[string]span
	for _, row := range rows {
		got := m.match(p, row)
		if got == nil {
			return false
		}
		all = append(all, got)
	}
	for _, got := range all {
		name := got[m.parts[0].fragment]
		t := p.test(name.from, path, p.text(name.from), "")
		b := &rsTestBody{p: p, t: t, path: strings.Repeat("super::", len(path))}
		for _, w := range m.wanted {
			s := got[w.fragment]
			if w.cell >= 0 {
				if p.text(s.from) != "(" || p.closing(s.from) != s.to-1 || w.cell >= len(p.split(s.from)) {
					continue
				}
				s = p.split(s.from)[w.cell]
			}
			if p.plain(s) {
				b.expected(s.from, s, true)
			}
		}
		if len(t.places) == 0 {
			t.Why = "the macro " + it.name + "! makes it, and what it expects is no value that stands in the call"
		}
	}
	return true
}

// match are the tokens of the fragments in a call, nil where the pattern is another one.
// Only expressions can have something noted beside them.
func (m *rsMaker) match(p *rsParser, row span) map[string]span {
	out := map[string]span{}
	at := row.from
	for i, part := range m.parts {
		if part.token != "" {
			if at >= row.to || p.text(at) != part.token || p.is(at, braceText) {
				return nil
			}
			at++
			continue
		}
		next := ""
		if i+1 < len(m.parts) {
			next = m.parts[i+1].token
		}
		s := span{at, at}
		for s.to < row.to && (next == "" || p.text(s.to) != next || p.is(s.to, braceText)) {
			s.to = max(s.to, p.closing(s.to)) + 1
		}
		if s.to == s.from || part.kind == "ident" && s.to != s.from+1 {
			return nil
		}
		if part.kind == "expr" || i == 0 {
			out[part.fragment] = s
		}
		at = s.to
	}
	if at != row.to {
		return nil
	}
	for _, w := range m.wanted {
		if _, there := out[w.fragment]; !there {
			return nil
		}
	}
	return out
}
