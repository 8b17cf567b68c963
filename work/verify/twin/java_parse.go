package twin

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"remit/proof/form"
)

// ParseJava finds the tests of a file of JUnit 3, 4 and 5 or TestNG. It executes nothing
// of it. What it cannot be sure to read is an error.
//
// Out of reach are: assertions in methods that tests share, tests of abstract classes,
// those that return something, and dynamic tests.
func ParseJava(src []byte) (File, error) {
	if javaEscape().Match(src) {
		return nil, errors.New("edit Java: it writes characters of its own syntax by their numbers")
	}
	tokens, err := lexBraces(string(src), javaDialect)
	if err != nil {
		return nil, fmt.Errorf("edit Java: %w", err)
	}
	p := &javaParser{
		braceParser: braceParser{src: string(src), tokens: tokens},
		file:        &scriptFile{textFile: newTextFile(slices.Clone(src), sha256.Sum256(src)), language: javaLanguage, tail: len(src)},
	}
	p.read()
	if err := p.file.finish(p.found); err != nil {
		return nil, fmt.Errorf("edit Java: %w", err)
	}
	if len(p.file.sites) > maxJavaSites {
		return nil, errors.New("edit Java: it has too many assertions")
	}
	return p.file, nil
}

// maxJavaSites bounds the sites of a file: a table of a class has at most 64 KiB of code.
const maxJavaSites = 1300

var (
	javaMark     = form.Lazy(`^(?:Test|ParameterizedTest|RepeatedTest)$`)
	javaOrder    = form.Lazy(`^(?:FixMethodOrder|TestMethodOrder|Stepwise)$`)
	javaAnyError = form.Lazy(`\b(?:Throwable|Error|AssertionError)\b`)
	javaDepends  = form.Lazy(`\bdependsOn(?:Methods|Groups)\b`)
	javaWaits    = form.Lazy(`\bexpected(?:Exceptions)?\s*=`)
	// With the parameter expected, or a rule, JUnit 4 waits for an exception.
	javaWaitsAny = form.Lazy(`\bexpected\s*=\s*(?:java\.lang\.)?(?:Throwable|Error|AssertionError)\.class|\bexpectedExceptions\b[^)]*\b(?:Throwable|Error|AssertionError)\.class`)
)

// javaParser finds the tests in tokens.
type javaParser struct {
	braceParser
	file    *scriptFile
	pkg     string
	imports map[string]string // the last name of what is imported, and all of it
	all     []string          // classes of which every name is imported
	extends bool              // of JUnit 3
	rule    bool              // it has a rule that waits for an exception
	found   []scriptTest
}

// javaClass is a class that may hold tests.
type javaClass struct {
	name    string // with its package and the classes that it is in
	old     bool   // of JUnit 3
	ordered bool   // its tests go on from each other
}

// messages says whether a message is the first argument of an assertion whose class and
// name begin at a token, and last that it is the last one. It is neither where that is
// not known.
func (p *javaParser) messages(first int, name string) (begins, last bool) {
	full := p.imports[p.text(first)] // of the class that is named, or of the method
	if full == "" && p.text(first) == name {
		full = strings.Join(p.all, " ")
	}
	last = strings.Contains(full, "org.junit.jupiter") || strings.Contains(full, "org.testng")
	begins = strings.Contains(full, "org.junit.Assert") || strings.Contains(full, "junit.framework") || full == "" && p.extends
	return begins && !last, last && !begins
}

func (p *javaParser) word(i int) string {
	if !p.is(i, braceName) || p.text(i-1) == "." {
		return ""
	}
	return p.text(i)
}

// dotted is the dotted name that begins at a token, and the token behind it.
func (p *javaParser) dotted(i int) (name string, next int) {
	for ; p.is(i, braceName); i += 2 {
		name += p.text(i)
		if p.text(i+1) != "." || !p.is(i+2, braceName) {
			return name, i + 1
		}
		name += "."
	}
	return name, i
}

// read finds everything.
func (p *javaParser) read() {
	p.imports, p.rule = map[string]string{}, strings.Contains(p.src, "ExpectedException")
	for i := 0; i < len(p.tokens); i++ {
		switch p.word(i) {
		case "package":
			p.pkg, i = p.dotted(i + 1)
		case "import":
			at := i + 1
			if p.text(at) == "static" {
				at++
			}
			var name string
			name, i = p.dotted(at)
			if p.text(i) == "." && p.text(i+1) == "*" {
				p.all = append(p.all, name)
			}
			p.imports[name[strings.LastIndexByte(name, '.')+1:]] = name
		case "class", "interface", "enum", "record":
			if end := p.class(i, javaClass{name: strings.TrimPrefix(p.pkg+".", ".")}); end > i {
				i = end
			}
		}
	}
}

// class reads a type in another one, or in a package. It returns the brace that ends it,
// or -1.
func (p *javaParser) class(i int, in javaClass) int {
	if p.text(i-1) == "@" || p.text(i-1) == "." || !p.is(i+1, braceName) { // an annotation, or X.class
		return -1
	}
	open := i + 2
	for ; open < len(p.tokens) && p.text(open) != "{"; open++ {
		if p.text(open) == ";" || p.text(open) == "}" || p.text(open) == "=" {
			return -1 // record is a name like any other
		}
		if p.closing(open) > 0 {
			open = p.closing(open)
		}
	}
	end := p.closing(open)
	if end < 0 {
		return -1
	}
	head := func(word string) bool {
		for j := i - 1; j >= 0 && !slices.Contains([]string{";", "{", "}"}, p.text(j)); j-- {
			if p.word(j) == word {
				return true
			}
		}
		return false
	}
	if p.text(i) != "class" || head("abstract") {
		return end
	}
	// Runners look for classes with Test in their names.
	if name := strings.ReplaceAll(p.text(i+1), "Test", ""); p.file.prefix == "" && name != "" {
		p.file.prefix = strings.ToLower(name[:1]) + name[1:]
	}
	extends := ""
	for j := i + 2; j < open; j++ {
		if p.word(j) == "extends" {
			extends, _ = p.dotted(j + 1)
		}
	}
	c := javaClass{name: in.name + p.text(i+1), old: strings.HasSuffix(extends, "TestCase"), ordered: in.ordered}
	for j := i - 1; j >= 0 && !slices.Contains([]string{";", "}"}, p.text(j)); j-- {
		c.ordered = c.ordered || javaOrder().MatchString(p.text(j))
	}
	p.extends = p.extends || c.old
	p.members(open, end, c)
	return end
}

// members reads the members of a class.
func (p *javaParser) members(open, end int, c javaClass) {
	for j := open + 1; j < end; {
		member, paren := j, -1
		nested := -1
		for ; j < end && p.text(j) != ";" && p.text(j) != "{"; j++ {
			if slices.Contains([]string{"class", "interface", "enum", "record"}, p.word(j)) && p.text(j+1) != "(" && paren < 0 {
				if nested = p.class(j, javaClass{name: c.name + "$", ordered: c.ordered}); nested > j {
					break
				}
			}
			if p.text(j) == "=" && paren < 0 { // a field, whatever its value holds
				for j < end && p.text(j) != ";" {
					if p.closing(j) > 0 {
						j = p.closing(j)
					}
					j++
				}
				break
			}
			if p.text(j) == "(" && p.is(j-1, braceName) && !p.annotates(j-1) {
				paren = j
			}
			if p.closing(j) > 0 {
				j = p.closing(j)
			}
		}
		switch {
		case nested > 0:
			j = nested
		case p.text(j) == "{" && p.closing(j) > 0:
			if paren > 0 {
				p.method(c, member, paren, j)
			}
			j = p.closing(j)
		}
		j++
	}
}

// annotates says whether the name that ends at a token is one of an annotation.
func (p *javaParser) annotates(i int) bool {
	for p.text(i-1) == "." && p.is(i-2, braceName) {
		i -= 2
	}
	return p.text(i-1) == "@"
}

// method notes a method that is a test.
func (p *javaParser) method(c javaClass, member, paren, brace int) {
	name, marked := p.text(paren-1), false
	modifiers := map[string]bool{}
	for i := member; i < paren-1; i++ {
		if p.text(i) == "@" {
			mark, next := p.dotted(i + 1)
			marked = marked || javaMark().MatchString(mark[strings.LastIndexByte(mark, '.')+1:])
			i = next - 1
			continue
		}
		if p.closing(i) > 0 {
			i = p.closing(i)
			continue
		}
		modifiers[p.word(i)] = true
	}
	marked = marked || c.old && strings.HasPrefix(name, "test") && modifiers["public"]
	if !marked || p.word(paren-2) != "void" || modifiers["static"] || modifiers["private"] {
		return
	}
	notes := p.src[p.tokens[member].start:p.tokens[paren].start]
	t := scriptTest{Test: Test{Name: c.name + "::" + name, Line: p.file.line(p.tokens[paren].start)}}
	b := &javaBody{testBody: newTestBody(p, &t, brace), p: p, waits: javaWaits().MatchString(notes)}
	switch {
	case javaWaitsAny().MatchString(notes):
		t.Why = "it waits for any error"
	case c.ordered || javaDepends().MatchString(notes):
		t.Why = "it goes on from another test"
	default:
		if b.read(); b.waits && javaAnyError().MatchString(p.src[p.tokens[brace].start:p.tokens[b.end].end]) {
			t.Why = "it waits for any error"
		} else {
			b.sites()
		}
	}
	p.found = append(p.found, t)
}

// javaBody is a test whose places are looked for.
type javaBody struct {
	testBody
	p     *javaParser
	waits bool // it waits for an exception, as far as is known
}

// read notes what the body is made of.
func (b *javaBody) read() {
	p := b.p
	for i := b.brace + 1; i < b.end; i++ {
		word := p.text(i)
		own := p.is(i, braceName) && p.text(i+1) == "(" && p.text(i-1) != "." && p.text(i-1) != "new" && !strings.HasPrefix(word, "assert") && !slices.Contains(javaKeywords, word)
		b.waits = b.waits || (word == "expect" || word == "expectMessage") && p.text(i-1) == "." || p.rule && own && word != "fail"
		if p.is(i, braceName) && (slices.Contains([]string{"return", "throw", "exit", "halt", "expect", "expectMessage", "fail", "skip"}, word) || strings.HasPrefix(word, "assum")) {
			b.early = min(b.early, i)
		}
	}
}

// sites finds the places of the test.
func (b *javaBody) sites() {
	p := b.p
	guard := scriptGuard
	if b.waits {
		guard = scriptSealed
	}
	open, end := p.tokens[b.brace].end, p.tokens[b.end].start
	b.add(scriptPlace{spot: spot{kind: Fail}, form: guard, start: open, end: end, statement: open, certain: true})
	if i := b.firstCall(); i > 0 && !b.waits { // what is waited for may be thrown by any call
		at := p.tokens[i].end
		b.add(scriptPlace{spot: spot{kind: Fail}, form: scriptState, start: at, end: at, statement: at, certain: i < b.early})
	}
	for i := b.brace + 1; i < b.end && !b.waits; i++ { // behind what is thrown nothing is reached
		b.assertion(i)
		b.caught(i)
	}
}

// caught notes the beginning of a catch behind a block that fails where nothing is thrown.
func (b *javaBody) caught(i int) {
	p := b.p
	if p.text(i) != "catch" || p.text(i-1) != "}" || p.text(i+1) != "(" || p.closing(i+1) < 0 || p.text(p.closing(i+1)+1) != "{" {
		return
	}
	open := p.closing(i+1) + 1
	block := p.tokens[i-1].mate
	ends := 0
	for j := block; j < i; j++ {
		if p.text(j) == "fail" && p.text(j+1) == "(" {
			ends = j
		}
	}
	behind := p.text(p.closing(open) + 1)
	at := p.tokens[open].end
	if ends == 0 || p.text(block-1) != "try" {
		return
	}
	certain := b.parent[i] == b.brace && behind != "catch" && b.early > block
	b.add(scriptPlace{spot: spot{kind: Fail}, form: scriptState, start: at, end: at, statement: p.tokens[ends].start, certain: certain})
}

// firstCall is the semicolon of the first statement that calls something, 0 if it is
// not among the simple ones at the beginning.
func (b *javaBody) firstCall() int {
	p := b.p
	for i := b.brace + 1; i < b.end; {
		if !p.is(i, braceName) || slices.Contains(javaKeywords, p.text(i)) {
			return 0
		}
		end := b.statementEnd(i)
		if b.calls(i, end) && end < b.end-1 && i < b.early {
			return end
		}
		i = end + 1
	}
	return 0
}

// javaKeywords begin statements that are no simple ones.
var javaKeywords = strings.Fields("if for while do switch try synchronized return throw break continue assert class interface enum record yield else")
