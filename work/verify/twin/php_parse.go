package twin

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"remit/proof/form"
)

// ParsePHP finds the tests of a file of PHPUnit. It executes nothing of it. What it
// cannot be sure to read is an error.
//
// Out of reach are: assertions in methods that tests share, tests of abstract classes
// and traits, and tests that another test depends on.
func ParsePHP(src []byte) (File, error) {
	l, err := lexPHP(string(src))
	if err != nil {
		return nil, fmt.Errorf("edit PHP: %w", err)
	}
	p := &phpParser{tokenized: l.tokenized, file: &scriptFile{textFile: newTextFile(slices.Clone(src), sha256.Sum256(src)), language: phpLanguage, tail: len(src)}}
	if l.ended {
		p.file.lead = "<?php\n"
	}
	if err := p.read(); err != nil {
		return nil, fmt.Errorf("edit PHP: %w", err)
	}
	return p.file, nil
}

// phpParser finds the tests in tokens.
type phpParser struct {
	tokenized
	file      *scriptFile
	namespace string
	found     []scriptTest
}

// word is a token in small letters: keywords of PHP have no case.
func (p *phpParser) word(i int) string {
	if !p.is(i, scriptName) || slices.Contains([]string{"->", "?->", "::"}, p.text(i-1)) {
		return ""
	}
	return strings.ToLower(p.text(i))
}

// read finds everything.
func (p *phpParser) read() error {
	namespaces := 0
	for i := 0; i < len(p.tokens); i++ {
		switch p.word(i) {
		case "namespace":
			if p.text(i+1) == "{" || p.text(i+2) == "{" {
				return errors.New("a namespace in braces")
			}
			if p.is(i+1, scriptName) && p.text(i+2) == ";" {
				p.namespace = strings.Trim(p.text(i+1), `\`)
				namespaces++
			}
		case "class":
			if end := p.class(i); end > i {
				i = end
			}
		case "interface", "trait", "enum", "function": // a function of its own, whatever it holds
			if end := p.body(i); end > i {
				i = end
			}
		}
	}
	if namespaces > 1 {
		return errors.New("it has more than one namespace")
	}
	return p.file.finish(p.found)
}

// body is the brace that closes the body of what a keyword begins, or -1.
func (p *phpParser) body(i int) int {
	for ; i < len(p.tokens) && p.text(i) != ";"; i++ {
		if p.text(i) == "{" {
			return p.closing(i)
		}
		if p.closing(i) > 0 {
			i = p.closing(i)
		}
	}
	return -1
}

// class reads a class that may hold tests. It returns its end.
func (p *phpParser) class(i int) int {
	if !p.is(i+1, scriptName) {
		return -1 // it has no name
	}
	end := p.body(i)
	if end < 0 {
		return -1
	}
	open := p.tokens[end].mate
	abstract := slices.ContainsFunc([]int{i - 1, i - 2, i - 3}, func(j int) bool { return p.word(j) == "abstract" })
	if p.word(i+2) != "extends" || abstract {
		return end
	}
	name := p.text(i + 1)
	if p.file.prefix == "" {
		p.file.prefix = strings.ToLower(name[:1]) + name[1:]
	}
	class := strings.Trim(strings.ReplaceAll(p.namespace+`\`+name, `\`, "."), ".")
	depended, first := map[string]bool{}, len(p.found)
	for j := open + 1; j < end; {
		member := j
		var paren int
		for ; j < end && p.text(j) != ";" && p.text(j) != "{"; j++ {
			switch {
			case p.word(j) == "function" && paren == 0:
				for paren = j + 1; paren < end && p.text(paren) != "("; {
					paren++
				}
			case p.closing(j) > 0:
				j = p.closing(j)
			}
		}
		if p.text(j) == "{" {
			if paren > 0 {
				p.method(class, member, paren, j, depended)
			}
			j = p.closing(j)
		}
		j++
	}
	for n := first; n < len(p.found); n++ {
		if _, method, _ := strings.Cut(p.found[n].Name, "::"); depended[method] && p.found[n].Why == "" {
			p.found[n].places, p.found[n].Why = nil, "another test depends on it"
		}
	}
	return end
}

var (
	phpTestMark    = form.Lazy(`@test\b|#\[[^\]]*\bTest\b`)
	phpDepends     = form.Lazy(`@depends(?:\s+(?:(?:shallow\s+)?clone))?\s+(\S+)|\bDepends[A-Za-z]*\(\s*['"]([A-Za-z0-9_]+)['"]`)
	phpDependsFar  = form.Lazy(`\bDepends(?:External|OnClass)[A-Za-z]*\(|@depends\s+\S*::`)
	phpWaits       = form.Lazy(`(?i)expectException|expectError|expectWarning|expectNotice|expectDeprecation|setExpectedException`)
	phpMarkedWaits = form.Lazy(`@expectedException`)
)

// method notes a method that is a test.
func (p *phpParser) method(class string, member, paren, brace int, depended map[string]bool) {
	notes := p.src[p.tokens[member-1].end:p.tokens[paren].start]
	for _, m := range phpDepends().FindAllStringSubmatch(notes, -1) {
		depended[m[1]+m[2]] = true
	}
	name := p.text(paren - 1)
	if !strings.HasPrefix(name, "test") && !phpTestMark().MatchString(notes) || !p.is(paren-1, scriptName) {
		return
	}
	t := scriptTest{Test: Test{Name: class + "::" + name, Line: p.file.line(p.tokens[paren].start)}}
	b := &phpBody{testBody: newTestBody(p, &t, brace), p: p}
	b.strict = phpWaits().MatchString(p.src[p.tokens[brace].start:p.tokens[b.end].end]) || phpMarkedWaits().MatchString(notes)
	b.read(member)
	switch {
	case slices.ContainsFunc([]string{"static", "private", "protected", "abstract"}, func(w string) bool { return b.modifiers[w] }):
		return
	case b.generator:
		t.Why = "it is a generator"
	case phpDependsFar().MatchString(notes):
		t.Why = "it depends on a test of another class"
	default:
		b.sites()
	}
	p.found = append(p.found, t)
}

// phpBody is a test whose places are looked for.
type phpBody struct {
	testBody
	p         *phpParser
	strict    bool // it may wait for an exception
	modifiers map[string]bool
	generator bool
}

// read notes what the body is made of.
func (b *phpBody) read(member int) {
	p := b.p
	b.modifiers = map[string]bool{}
	for i := member; i < b.brace && p.word(i) != "function"; i++ {
		b.modifiers[p.word(i)] = true
	}
	for i := b.brace + 1; i < b.end; i++ {
		switch word := p.word(i); {
		case word == "yield":
			b.generator = true
		case word == "return" || word == "goto" || word == "exit" || word == "die":
			b.early = min(b.early, i)
		case phpWaits().MatchString(p.text(i)) && p.is(i, scriptName):
			b.early = min(b.early, b.statementEnd(i)+1)
		}
	}
}

// sites finds the places of the test.
func (b *phpBody) sites() {
	p := b.p
	guard, state := scriptGuard, scriptState
	if b.strict {
		guard, state = scriptSealed, scriptStrict
	}
	open, end := p.tokens[b.brace].end, p.tokens[b.end].start
	b.add(scriptPlace{spot: spot{kind: Fail}, form: guard, start: open, end: end, statement: open, certain: true})
	if i := b.firstCall(); i > 0 {
		at := p.tokens[i].end
		b.add(scriptPlace{spot: spot{kind: Fail}, form: state, start: at, end: at, statement: at})
	}
	if b.end > b.brace+1 && b.early == b.end {
		b.add(scriptPlace{spot: spot{kind: Fail}, form: state, start: end, end: end, statement: end, certain: true})
	}
	for i := b.brace + 1; i < b.end; i++ {
		b.assertion(i)
	}
}

// firstCall is the semicolon of the first statement that calls something, 0 if it is
// not among the simple ones at the beginning.
func (b *phpBody) firstCall() int {
	p := b.p
	for i := b.brace + 1; i < b.end; {
		if !p.is(i, scriptVariable) && p.word(i) != "self" && p.word(i) != "static" && (p.text(i+1) != "(" && p.text(i+1) != "::" || !p.is(i, scriptName) || b.control(i)) {
			return 0
		}
		end := b.statementEnd(i)
		if b.calls(i, end) && end < b.end-1 {
			return end
		}
		i = end + 1
	}
	return 0
}

// control says whether a name is a keyword that parentheses follow.
func (b *phpBody) control(i int) bool {
	return slices.Contains(strings.Fields("if for foreach while switch match declare function fn return echo print unset isset exit die"), b.p.word(i))
}

// assertion notes the places of an assertion whose subject begins at a token: $this,
// self, static or Assert.
func (b *phpBody) assertion(i int) {
	p := b.p
	name := i + 2
	switch via := p.text(i + 1); {
	case !p.is(name, scriptName) || p.text(name+1) != "(" || p.closing(name+1) < 0:
		return
	case via == "->" && p.text(i) == "$this":
	case via == "::" && (p.word(i) == "self" || p.word(i) == "static" || strings.HasSuffix(p.word(i), "assert") || strings.HasSuffix(p.word(i), "testcase")):
	default:
		return
	}
	method := p.text(name)
	if contrary := phpContrary(method); contrary != "" {
		b.add(scriptPlace{spot: spot{kind: Flip}, form: scriptTurn, start: p.tokens[name].start, end: p.tokens[name].end, statement: p.tokens[i].start,
			certain: b.certain(i), name: method, contrary: contrary})
	}
	args := p.split(span{name + 2, p.closing(name + 1)}, ",")
	if len(args) == 0 || slices.ContainsFunc(args, func(a span) bool { return p.text(a.from) == "..." || p.text(a.from+1) == ":" }) {
		return
	}
	switch e, ok := phpExpected[method]; {
	case !ok:
	case e.way == wayNear:
		b.expected(i, args[0], e)
	default:
		b.literal(i, args[0], e)
	}
}
