package twin

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
)

// ParseC finds what can be edited in a test file of C or C++: in each function the
// assertions that it makes, those of a framework, those of a macro, and conditions behind
// which it fails. A "test" is such a function, a helper of tests as well, since what
// calls it is not in the text. It executes nothing. What it cannot be sure to read is an
// error. The edits are for GCC and Clang.
//
// Out of reach are: functions in headers, conditions in functions that return a pointer,
// methods of classes, and assertions in macros.
func ParseC(name string, src []byte) (File, error) {
	masked, directives, err := maskC(string(src))
	if err != nil {
		return nil, fmt.Errorf("edit C: %w", err)
	}
	tokens, err := lexBraces(masked, cDialect)
	if err != nil {
		return nil, fmt.Errorf("edit C: %w", err)
	}
	p := &cParser{
		braceParser: braceParser{src: masked, tokens: tokens},
		file:        &scriptFile{textFile: newTextFile(slices.Clone(src), sha256.Sum256(src)), language: cLanguage},
		plus:        path.Ext(name) != ".c",
	}
	p.read(0, len(tokens))
	if len(p.found) > 0 {
		p.place(directives)
	}
	if err := p.file.finish(p.found); err != nil {
		return nil, fmt.Errorf("edit C: %w", err)
	}
	return p.file, nil
}

// cParser finds the tests in tokens.
type cParser struct {
	braceParser
	file   *scriptFile
	plus   bool // it is C++
	found  []scriptTest
	first  int               // where the first function with something to edit begins
	macros map[string]string // that the file defines, with parameters, which the text begins with
}

// place chooses where functions are added: behind the last line in front of the first
// test that includes something, outside of conditions and braces.
func (p *cParser) place(directives []cDirective) {
	depth, included := 0, false
	for _, d := range directives {
		if d.start > p.first {
			break
		}
		switch d.name {
		case "if", "ifdef", "ifndef":
			depth++
		case "endif":
			depth--
		case "include", "import":
			included = true
		}
		if depth == 0 && included && !p.within(d.start) {
			p.file.tail, included = d.end, false
		}
	}
	if at := p.file.tail; at > 0 && p.file.src[at-1] != '\n' {
		p.file.tail = 0
	}
	if p.file.tail == 0 && strings.HasPrefix(p.src, "\ufeff") {
		p.file.tail = len("\ufeff")
	}
	p.file.lead = cQuiet()
	p.file.trail = fmt.Sprintf("#line %d\n", p.file.line(p.file.tail))
}

// within says whether an offset is in braces.
func (p *cParser) within(at int) bool {
	for i, t := range p.tokens {
		if t.start > at {
			return false
		}
		if p.text(i) == "{" && p.closing(i) > 0 && p.tokens[p.closing(i)].start > at {
			return true
		}
	}
	return false
}

// cAfter are names with parentheses behind the parameters of a function.
var cAfter = strings.Fields("__attribute__ __declspec noexcept throw alignas decltype __asm__ requires")

// read finds the functions among tokens that are in no function.
func (p *cParser) read(from, to int) {
	for i := from; i < to; i++ {
		start, paren := i, -1
		assigned := false
		for ; i < to && p.text(i) != ";" && p.text(i) != "{"; i++ {
			assigned = assigned || p.text(i) == "=" && p.is(i, bracePunct)
			if p.text(i) == "(" && p.is(i-1, braceName) && !slices.Contains(cAfter, p.text(i-1)) && p.text(i-1) != ")" {
				paren = i
			}
			if p.closing(i) > 0 {
				i = p.closing(i)
			}
		}
		if p.text(i) != "{" || i >= to {
			continue
		}
		switch {
		case p.text(start) == "namespace" || p.text(start) == "extern" && p.is(start+1, braceText):
			p.read(i+1, p.closing(i))
		case paren > start && !assigned:
			p.function(start, paren, i)
		}
		i = p.closing(i)
	}
}

// cNamed are what frameworks call the head of a test that has its name in parentheses.
var cNamed = form.Lazy(`^(?:[A-Z][A-Z0-9_]*|Test|ParameterizedTest)$`)

// function notes a function if there is something in it to edit.
func (p *cParser) function(start, paren, brace int) {
	name := p.text(paren - 1)
	if cNamed().MatchString(name) {
		name += "(" + strings.Join(strings.Fields(p.src[p.tokens[paren].end:p.tokens[p.closing(paren)].start]), " ") + ")"
	}
	t := scriptTest{Test: Test{Name: name, Line: p.file.line(p.tokens[paren].start)}}
	b := &cBody{testBody: newTestBody(p, &t, brace), p: p}
	for i := start; i < paren; i++ {
		b.pointer = b.pointer || p.text(i) == "*"
	}
	b.read()
	if len(t.places) == 0 {
		return
	}
	if len(p.found) == 0 {
		p.first = p.tokens[start].start
	}
	p.found = append(p.found, t)
}

// cBody is a function whose places are looked for.
type cBody struct {
	testBody
	p       *cParser
	last    string // the literal that the function returns at its end, "" where it is none
	some    bool   // it has assertions, be there something in them to edit or not
	asserts bool   // by assert
	pointer bool   // it gives one back, so that a condition in it says nothing
}

// read finds the places of a function.
func (b *cBody) read() {
	p := b.p
	end := b.lastStatement()
	if p.text(end) == "return" && p.text(end+2) == ";" && b.t.Name != "main" && cOutcome().MatchString(p.text(end+1)) {
		b.last = p.text(end + 1)
	}
	failing := map[int]bool{} // tokens of what is done where something is wrong
	for i := b.brace + 1; i < b.end; i++ {
		switch {
		case !p.is(i, braceName):
		case p.text(i) == "if" && !b.pointer && p.text(i+1) == "(" && p.closing(i+1) > 0:
			if s := b.branch(p.closing(i+1) + 1); b.failing(s) && b.condition(i, span{i + 2, p.closing(i + 1)}, scriptFalse) {
				for j := s.from; j < s.to; j++ {
					failing[j] = true
				}
			}
		default:
			b.assertion(i)
		}
	}
	for i := b.brace + 1; i < end; i++ {
		if p.is(i, braceName) && !failing[i] && (slices.Contains(cEnds, p.text(i)) || p.text(i+1) == "(" && b.stands(i) && cLeaves().MatchString(p.text(i))) {
			b.early = min(b.early, i)
		}
	}
	for i := range b.t.places {
		b.t.places[i].certain = b.t.places[i].certain && b.t.places[i].statement < p.tokens[b.early].start
	}
	if len(b.t.places) > 0 || b.some {
		b.guard(end)
	}
}

// cEnds are words that end a function, or a program.
var cEnds = strings.Fields("return exit _exit _Exit quick_exit abort goto longjmp siglongjmp throw break continue skip")

// cLeaves are macros that may end a function which finds nothing wrong.
var cLeaves = form.Lazy(`(?i)(?:^|_)(?:pass\w*|skip\w*|done\w*|return\w*|end\w*|exit\w*|finish\w*|succe\w*|complete\w*|ignore\w*|quit|stop)(?:_|$)`)

// lastStatement is the token that the last statement begins with if nothing is reached
// behind it, or else the brace that ends the body.
func (b *cBody) lastStatement() int {
	p := b.p
	at := b.brace + 1
	for i := at; i < b.end; i++ {
		if p.closing(i) > 0 {
			closed := p.closing(i)
			if p.text(i) == "{" {
				at = closed + 1
			}
			i = closed
		} else if p.text(i) == ";" && i+1 < b.end {
			at = i + 1
		}
	}
	for p.is(at, braceName) && p.text(at+1) == ":" && !p.operator(at+1, "::") {
		at += 2 // a label
	}
	if slices.Contains([]string{"return", "exit", "_exit", "abort", "throw"}, p.text(at)) {
		return at
	}
	if p.is(at, braceName) && p.text(at+1) == "(" && p.closing(at+1) == b.end-2 && (p.closing(at+1) == at+2 || cLeaves().MatchString(p.text(at))) {
		return at // a macro that may return
	}
	return b.end
}

// guard notes the end of the function, where it can be made to fail whatever was done.
func (b *cBody) guard(end int) {
	p := b.p
	name := "__builtin_trap();" // what 0 or 1 means to a macro or a caller is not known
	if b.asserts {
		name = "assert(0);"
	}
	start, at := p.tokens[b.brace].end, p.tokens[end].start
	form := scriptGuard
	if b.early < end {
		form = scriptSealed // it may be left before its end, and nothing is wrong
	}
	b.add(scriptPlace{spot: spot{kind: Fail}, form: form, start: start, end: at, statement: at, certain: b.early >= end, name: name})
}

// condition notes what is asked, and what it is compared with. It is false where that
// is none that can be handed to a function.
func (b *cBody) condition(first int, a span, form scriptForm) bool {
	p := b.p
	if a.to <= a.from || b.declares(a) {
		return false
	}
	start, end := p.bytes(a)
	at := p.tokens[first].start
	certain := b.certain(first)
	b.add(scriptPlace{spot: spot{kind: Flip}, form: form, start: start, end: end, statement: at, certain: certain})
	for i := a.from; i < a.to; i++ {
		// That it is equal is what is wanted where it has to hold, and not where it is turned.
		equal := (form == scriptTurn) != b.turned(i, a.from)
		switch {
		case p.is(i, braceName) && p.text(i+1) == "(" && cCompares().MatchString(p.text(i)) && p.closing(i+1) > 0:
			if end := p.closing(i+1) + 1; (p.operator(end, "==") || p.text(i-1) == "!" && i > a.from) != equal {
				continue
			}
			for _, arg := range p.split(i + 1) {
				if p.is(arg.from, braceText) {
					b.expected(first, arg, certain)
				}
			}
		case p.operator(i, "==") && equal || p.operator(i, "!=") && !equal:
			if i-1 == a.from || i-1 > a.from && slices.Contains([]string{"(", "&", "|", "!"}, p.text(i-2)) {
				b.expected(first, span{i - 1, i}, certain)
			}
			if (i+3 == a.to || i+3 < a.to && slices.Contains([]string{")", "&", "|"}, p.text(i+3))) && !b.compared(i) {
				b.expected(first, span{i + 2, i + 3}, certain)
			}
		}
	}
	return true
}

// turned says whether what is at a token is in brackets behind an odd number of "!".
func (b *cBody) turned(i, from int) bool {
	odd := false
	for i = b.parent[i]; i > from; i = b.parent[i] {
		odd = odd != (b.p.text(i-1) == "!")
	}
	return odd
}

// cCompares are functions that compare texts.
var cCompares = form.Lazy(`^(?:(?:str|mem|wcs)n?(?:case)?i?cmp|str_?eq|STREQ|g_strcmp0)$`)

// compared says whether what is in front of an operator is such a call: what it is
// compared with is not what is expected.
func (b *cBody) compared(i int) bool {
	p := b.p
	if p.text(i-1) != ")" || p.tokens[i-1].mate < 1 {
		return false
	}
	return cCompares().MatchString(p.text(p.tokens[i-1].mate - 1))
}

// declares says whether a condition of C++ declares something.
func (b *cBody) declares(a span) bool {
	p := b.p
	for i := a.from; i < a.to; i++ {
		if p.text(i) == ";" || b.p.plus && p.text(i) == "=" && !p.operator(i, "==") && !p.operator(i-1, "==") && !p.operator(i-1, "!=") && !p.operator(i-1, "<=") && !p.operator(i-1, ">=") {
			return true
		}
		if p.closing(i) > 0 {
			i = p.closing(i)
		}
	}
	return false
}

// expected notes a literal that something is compared with.
func (b *cBody) expected(first int, a span, certain bool) {
	p := b.p
	if a.to != a.from+1 || a.from < 0 || a.to > len(p.tokens) {
		return
	}
	text := p.text(a.from)
	if m := cSuffix().FindStringSubmatch(text); m != nil && p.is(a.from, braceNumber) {
		text = m[1]
	}
	l := literal{at: p.tokens[a.from].start, text: text, in: cGrammar}
	if text == "0" && !p.is(a.from-1, braceName) && (p.text(a.from-1) == "=" || p.text(a.to) == "=" || p.text(a.to) == "!") {
		return // which may be compared with a pointer
	}
	if p.is(a.from-1, braceText) || p.is(a.to, braceText) || p.is(a.from, braceName) && text != "true" && text != "false" || !l.changeable() {
		return // of texts that stand side by side one is made
	}
	start, end := p.bytes(a)
	b.add(scriptPlace{spot: spot{kind: Expect, value: true, whole: true, leaves: []literal{l}}, form: scriptValue, start: start, end: end,
		statement: p.tokens[first].start, certain: certain})
	p.file.pooled(l)
}

var (
	cSuffix  = form.Lazy(`^([0-9][0-9.]*)[uUlLfF]{1,3}$`)
	cLiteral = form.Lazy(`^()(?:"(?:[^"\\\n]|\\[ntrbfav\\"'])*"|'(?:[^'\\\n]|\\[ntrbfav\\"'])')$`)
	cPattern = form.Lazy(`^"((?:[^"\\\n]|\\.)*)"$`)
)

// cGrammar is how literals are written in C.
var cGrammar = &grammar{yes: "true", no: "false", text: cLiteral, pattern: cPattern, typed: true}
