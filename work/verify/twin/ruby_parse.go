package twin

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
)

// ParseRuby finds the examples of a file of RSpec, or the tests of one of Minitest. It executes nothing of it. What it
// cannot be sure to read is an error.
//
// Out of reach are: shared examples, assertions in methods that examples share, and
// "should".
func ParseRuby(name string, src []byte) (File, error) {
	l, err := lexRuby(string(src))
	if err != nil {
		return nil, fmt.Errorf("edit Ruby: %w", err)
	}
	f := &scriptFile{textFile: newTextFile(slices.Clone(src), sha256.Sum256(src)), language: rubyLanguage, tail: l.end}
	f.prefix = strings.Trim(strings.ToLower(notAlphanumeric().ReplaceAllString(strings.TrimSuffix(path.Clean(name), ".rb"), "_")), "_0123456789")
	p := &rubyParser{tokenized: l.tokenized, file: f}
	switch is, other := p.minitestFile(name); {
	case other: // it has no tests that are known
	case is:
		p.mini, f.language = true, minitestLanguage
		p.minitests(0, len(p.tokens), minitestGroup{})
	default:
		p.blocks(0, len(p.tokens), rubyGroup{})
	}
	if err := f.finish(p.together()); err != nil {
		return nil, fmt.Errorf("edit Ruby: %w", err)
	}
	return f, nil
}

var notAlphanumeric = form.Lazy(`[^A-Za-z0-9]+`)

// rubyParser finds the examples in tokens.
type rubyParser struct {
	tokenized
	file  *scriptFile
	found []scriptTest
	mini  bool // it is a file of Minitest
}

// together has the examples of a group that have no title be one test: which of them
// an identity means is not known for sure, so that one that fails is the group's.
func (p *rubyParser) together() []scriptTest {
	at := make(map[string]int)
	var out []scriptTest
	for _, t := range p.found {
		first, again := at[t.Name]
		switch {
		case again && t.untitled:
			out[first].places = append(out[first].places, t.places...)
			if len(t.places) > 0 {
				out[first].Why = ""
			}
		default:
			if t.untitled {
				at[t.Name] = len(out)
			}
			out = append(out, t)
		}
	}
	return out
}

// rubyGroup is what is around an example.
type rubyGroup struct {
	title  []string // nil outside of groups
	module bool     // the last title is the name of a class
	scoped bool     // within a module or a class
	why    string
}

var (
	rubyGroups   = strings.Fields("describe context feature fdescribe fcontext xdescribe xcontext")
	rubyExamples = strings.Fields("it specify example scenario fit fspecify fexample xit xspecify xexample focus")
	rubyShared   = strings.Fields("shared_examples shared_examples_for shared_context it_behaves_like it_should_behave_like include_examples include_context")
)

// blocks finds groups and examples in a range.
func (p *rubyParser) blocks(from, to int, g rubyGroup) {
	for i := from; i < to; i++ {
		word := p.text(i)
		if (word == "module" || word == "class") && p.closing(i) > 0 {
			inner := g
			inner.scoped = true
			p.blocks(i+1, p.closing(i), inner)
			i = p.closing(i)
			continue
		}
		member := p.text(i-1) == "." && p.text(i-2) != "RSpec" || p.text(i-1) == "&."
		group, example, shared := slices.Contains(rubyGroups, word), slices.Contains(rubyExamples, word) && g.title != nil, slices.Contains(rubyShared, word)
		if member || !p.is(i, scriptName) || !group && !example && !shared {
			continue
		}
		args, open := p.call(i)
		if open < 0 {
			if example && len(args) > 0 && p.is(args[0].from, scriptString) {
				p.found = append(p.found, scriptTest{Test: Test{Name: strings.Join(p.titled(g, args).title, "*"), Title: p.titled(g, args).title, Line: p.file.line(p.tokens[i].start), Why: "it has no block"}})
			}
			continue
		}
		end := p.closing(open)
		inner := p.titled(g, args)
		if word[0] == 'x' || slices.ContainsFunc(args, func(a span) bool {
			return slices.Contains([]string{":skip", ":pending", "skip:", "pending:", ":xit"}, p.text(a.from))
		}) {
			inner.why = "it is skipped"
		}
		switch {
		case group:
			p.blocks(open+1, end, inner)
		case example:
			p.example(i, inner, args, open)
		}
		i = end
	}
}

// call reads the arguments of a call, and the token that opens its block, -1 if there
// is none.
func (p *rubyParser) call(i int) (args []span, open int) {
	from := i + 1
	if p.text(from) == "(" && p.tokens[from].start == p.tokens[i].end {
		end := p.closing(from)
		args, from = p.split(span{from + 1, end}, ","), end+1
		if p.text(from) == "{" || p.text(from) == "do" {
			return args, from
		}
		return args, -1
	}
	if p.text(from) == "{" {
		return nil, from
	}
	for at := from; at < len(p.tokens) && (at == from || !p.breaks(at-1)) && p.text(at) != ";" && (p.tokens[at].mate < 0 || p.tokens[at].mate > at); at++ {
		if p.text(at) == "do" {
			return p.split(span{from, at}, ","), at
		}
		if p.closing(at) > 0 {
			at = p.closing(at)
		}
	}
	return nil, -1
}

// rubyGoesOn are words that a statement goes on with in another line.
var rubyGoesOn = strings.Fields(". &. and or then && || do")

// breaks says whether a statement ends behind a token because a line does.
func (p *rubyParser) breaks(i int) bool {
	if i+1 >= len(p.tokens) {
		return true
	}
	if !p.tokens[i+1].line || slices.Contains(rubyGoesOn, p.text(i+1)) {
		return false
	}
	if p.is(i, scriptPunct) {
		return p.tokens[i].mate >= 0 && p.tokens[i].mate < i
	}
	return !slices.Contains([]string{"and", "or", "not"}, p.text(i)) && !strings.HasSuffix(p.text(i), ":")
}

// titled is a group or an example with its title.
func (p *rubyParser) titled(g rubyGroup, args []span) rubyGroup {
	title, module := []string{""}, false
	said := 0
	for _, a := range args {
		var piece []string
		isModule := false
		switch text := p.text(a.from); {
		case strings.HasSuffix(text, ":") || strings.HasPrefix(text, ":"):
			continue // what it is marked with
		case a.to == a.from+1 && p.is(a.from, scriptString) && (text[0] == '\'' || text[0] == '"'):
			piece = rubyTitle(text)
		case p.is(a.from, scriptName) && text[0] >= 'A' && text[0] <= 'Z' || text == "::":
			piece, isModule = []string{strings.TrimPrefix(strings.ReplaceAll(p.src[p.tokens[a.from].start:p.tokens[a.to-1].end], " ", ""), "::")}, true
			if g.scoped {
				piece = append([]string{""}, piece...)
			}
		default:
			piece = []string{"", ""}
		}
		if said > 0 {
			title = rubyJoin(title, piece, module)
		} else {
			title = piece
		}
		said++
		module = isModule
	}
	out := g
	switch {
	case said == 0 && g.title == nil:
		out.title = []string{""}
	case said == 0:
	case g.title == nil || len(g.title) == 1 && g.title[0] == "":
		out.title, out.module = title, module
	default:
		out.title, out.module = rubyJoin(g.title, title, g.module), module
	}
	return out
}

// rubyJoin joins two titles: that of a class and that of a method without a space.
func rubyJoin(outer, inner []string, module bool) []string {
	out := slices.Clone(outer)
	if !module || inner[0] == "" || !strings.ContainsAny(inner[0][:1], "#.:") {
		out[len(out)-1] += " "
	}
	out[len(out)-1] += inner[0]
	return append(out, inner[1:]...)
}

// rubyTitle is the text of a string, cut where a part of it is computed.
func rubyTitle(text string) []string {
	inner := text[1 : len(text)-1]
	if text[0] == '\'' {
		return []string{strings.NewReplacer(`\\`, `\`, `\'`, "'").Replace(inner)}
	}
	var out []string
	at := strings.Index(inner, "#{")
	if at < 0 {
		return []string{jsUnquote(inner)}
	}
	out = append(out, jsUnquote(inner[:at]))
	if end := strings.LastIndex(inner, "}"); end > at && strings.Count(inner, "#{") == 1 {
		return append(out, jsUnquote(inner[end+1:]))
	}
	return append(out, "")
}

// example notes an example.
func (p *rubyParser) example(i int, g rubyGroup, args []span, open int) {
	t := scriptTest{Test: Test{Title: g.title, Line: p.file.line(p.tokens[i].start), Why: g.why}}
	named := slices.ContainsFunc(args, func(a span) bool {
		return !strings.HasPrefix(p.text(a.from), ":") && !strings.HasSuffix(p.text(a.from), ":")
	})
	if !named { // it is named by its place in the group
		t.Title = rubyJoin(g.title, []string{"example ", ""}, false)
	}
	t.Name, t.untitled = strings.Join(t.Title, "*"), !named
	b := &rubyBody{p: p, t: &t, open: open, from: open + 1, end: p.closing(open)}
	if p.text(b.from) == "|" {
		for b.from++; b.from < b.end && p.text(b.from) != "|"; {
			b.from++
		}
		b.from++
	}
	if t.Why == "" && b.from <= b.end {
		b.sites()
	}
	p.found = append(p.found, t)
}

// rubyBody is an example whose places are looked for.
type rubyBody struct {
	p               *rubyParser
	t               *scriptTest
	open, from, end int // the tokens of the block, behind its parameters
	early           int // the first token that may end the example in front of its end
	rescues         bool
	lead            string // in front of the statements of the body
	parent          map[int]int
}

func (b *rubyBody) add(s scriptPlace) { b.t.places = append(b.t.places, s) }

// sites finds the places of the example.
func (b *rubyBody) sites() {
	p := b.p
	b.early, b.parent = b.end, map[int]int{}
	open := []int{b.open}
	for i := b.from; i < b.end; i++ {
		if p.tokens[i].mate >= 0 && p.tokens[i].mate < i {
			open = open[:len(open)-1]
		}
		b.parent[i] = open[len(open)-1]
		if p.closing(i) > 0 {
			open = append(open, i)
		}
		if !p.is(i, scriptName) || p.text(i-1) == "." {
			continue
		}
		switch p.text(i) {
		case "return", "next", "break", "throw", "skip", "pending", "exit", "redo":
			b.early = min(b.early, i)
		case "rescue", "ensure", "else":
			b.rescues = b.rescues || b.parent[i] == b.open
		}
	}
	start, end := p.tokens[b.from-1].end, p.tokens[b.end].start
	b.add(scriptPlace{spot: spot{kind: Fail}, form: scriptGuard, start: start, end: end, statement: start, certain: true, lead: b.lead})
	if i := b.firstCall(); i > 0 {
		at := p.tokens[i].end
		b.add(scriptPlace{spot: spot{kind: Fail}, form: scriptState, start: at, end: at, statement: at, lead: "; "})
	}
	if b.end > b.from && b.early == b.end && !b.rescues {
		at := p.tokens[b.end-1].end
		b.add(scriptPlace{spot: spot{kind: Fail}, form: scriptState, start: at, end: at, statement: at, certain: true, lead: "; "})
	}
	for i := b.from; i < b.end; i++ {
		if p.mini {
			b.minitestAssertion(i)
		} else {
			b.assertion(i)
		}
	}
}

// firstCall is the last token of the first statement that calls something, 0 if it is
// not among the simple ones at the beginning, or the last one.
func (b *rubyBody) firstCall() int {
	p, calls := b.p, false
	begin := b.from
	for i := begin; i < b.end; i++ {
		if i == begin && (!p.is(i, scriptName) && !p.is(i, scriptVariable) || slices.Contains(rubyOpens, p.text(i)) || slices.Contains(rubyBefore[:21], p.text(i))) {
			return 0
		}
		calls = calls || p.text(i) == "(" || p.text(i) == "."
		if p.closing(i) > 0 {
			i = p.closing(i)
		}
		if p.text(i+1) == ";" || p.breaks(i) {
			if calls && i+1 < b.end {
				return i
			}
			if begin, calls = i+1, false; p.text(begin) == ";" {
				i, begin = i+1, begin+1
			}
		}
	}
	return 0
}

// certain says whether an expression is reached whenever the example passes: it is a
// statement of the example itself, and nothing in front of it may end it.
func (b *rubyBody) certain(i int) bool {
	p := b.p
	return b.parent[i] == b.open && !b.rescues && i < b.early && (i == b.from || p.text(i-1) == ";" || p.breaks(i-1))
}

// statementEnd is the token behind a statement that goes on at a token.
func (b *rubyBody) statementEnd(i int) int {
	p := b.p
	for ; i < b.end && p.text(i) != ";" && (p.tokens[i].mate < 0 || p.tokens[i].mate > i); i++ {
		if slices.Contains([]string{"if", "unless", "and", "or", "while", "until", "do", "rescue"}, p.text(i)) && p.is(i, scriptName) {
			return i
		}
		if p.closing(i) > 0 {
			i = p.closing(i)
		}
		if p.breaks(i) {
			return i + 1
		}
	}
	return i
}

// assertion notes the places of expect(…), expect { … } or is_expected.
func (b *rubyBody) assertion(i int) {
	p := b.p
	if !p.is(i, scriptName) || p.text(i-1) == "." || p.text(i-1) == "&." {
		return
	}
	last := i
	switch p.text(i) {
	case "is_expected":
	case "expect":
		if next := p.text(i + 1); next != "(" && next != "{" && next != "do" || p.closing(i+1) < 0 {
			return
		}
		last = p.closing(i + 1)
		if p.text(last+1) == "{" || p.text(last+1) == "do" {
			return
		}
	default:
		return
	}
	way := p.text(last + 2)
	if p.text(last+1) != "." || !slices.Contains([]string{"to", "not_to", "to_not"}, way) {
		return
	}
	b.add(scriptPlace{spot: spot{kind: Flip}, form: scriptTurn, start: p.tokens[i].start, end: p.tokens[last].end, statement: p.tokens[i].start, certain: b.certain(i)})
	if way != "to" {
		return
	}
	at := last + 3
	if p.text(at) == "(" {
		at++
	}
	b.matcher(i, at)
}
