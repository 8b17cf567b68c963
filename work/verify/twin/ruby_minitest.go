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
