package twin

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// jsFile is a test file of JavaScript or TypeScript.
type jsFile struct {
	textFile
	types     bool // it is TypeScript
	module    bool // it imports or exports
	sites     []jsPlace
	unchecked []insert // keeps a checker of types from an edited file
}

// jsPlace is one site with what is needed to edit it.
type jsPlace struct {
	spot
	form       jsForm
	start, end int
	statement  int // where the assertion begins that the site is a part of
	certain    bool
	negative   bool // a condition that has to be false
	// Of an assertion: how long the text is in front of the value that it is about,
	// where that value ends and how much behind it belongs to what it is taken from,
	// which is root; call is the method and a parenthesis, and tail closes one.
	head, value, skip int
	root, call, tail  string
	done              int  // of a function that gets a callback: which argument that is
	joined            bool // a statement that needs a semicolon in front of it
	loose             bool // another value may be as good, where the base fails without it
	operator          span // of a comparison: where its operator is in the text
	above             bool // of a comparison: another pair of sides is not in the order of ">"
}

// jsForm is the part of the catalogue that has the shapes of a site.
type jsForm string

const (
	// Assertions: expect(…) without and with "not", a member of a module, assert(…)
	// itself, and one that was imported by name.
	jsTurnChain  jsForm = "turn chain"
	jsTurnNot    jsForm = "turn not"
	jsTurnMember jsForm = "turn member"
	jsTurnBare   jsForm = "turn bare"
	jsTurnCall   jsForm = "turn call"

	jsCond     jsForm = "cond"     // a condition of an if that throws
	jsValue    jsForm = "value"    // an expected value
	jsCompare  jsForm = "compare"  // a comparison of an order
	jsState    jsForm = "state"    // a statement is put here
	jsResult   jsForm = "result"   // the expression that a function is
	jsCallback jsForm = "callback" // a function that is a test
	jsDone     jsForm = "done"     // the same, which says by a callback that it is at its end
)

// maxJSSites bounds the sites of a file.
const maxJSSites = 20_000

// JavaScript says whether a file is written in JavaScript or TypeScript, by its name.
func JavaScript(name string) bool {
	_, ok := jsDialects[path.Ext(name)]
	return ok
}

var jsDialects = map[string]jsDialect{
	".js": {markup: true}, ".mjs": {markup: true}, ".cjs": {markup: true}, ".jsx": {markup: true},
	".ts": {types: true}, ".mts": {types: true}, ".cts": {types: true}, ".tsx": {types: true, markup: true},
}

// ParseJavaScript finds the tests of a file of node:test, mocha, jest or vitest. It
// executes nothing of it. What it cannot be sure to read is an error.
//
// Out of reach are: assertions in functions that tests share, those of libraries
// that it does not know, and tests that are made by functions of other names.
func ParseJavaScript(name string, src []byte) (File, error) {
	d, ok := jsDialects[path.Ext(name)]
	if !ok {
		return nil, errors.New("edit JavaScript: not a file of JavaScript or TypeScript")
	}
	tokens, err := lexJS(string(src), d)
	if err != nil {
		return nil, fmt.Errorf("edit JavaScript: %w", err)
	}
	p := &jsParser{src: string(src), tokens: tokens, file: &jsFile{textFile: newTextFile(slices.Clone(src), sha256.Sum256(src)), types: d.types}}
	p.read()
	if d.types {
		p.file.unchecked = p.uncheck()
	}
	if len(p.file.sites) > maxJSSites {
		return nil, errors.New("edit JavaScript: it has too many assertions")
	}
	if p.file.overlap() {
		return nil, errors.New("edit JavaScript: assertions that overlap")
	}
	for i := range p.file.sites {
		p.file.spots = append(p.file.spots, &p.file.sites[i].spot)
	}
	return p.file, nil
}

// overlap says whether places overlap other than one within the other, or whether
// one begins in the text that another one takes the place of.
func (f *jsFile) overlap() bool {
	var open []int // where the places end that are not at their end
	var all []insert
	for i := range f.sites {
		s := &f.sites[i]
		for len(open) > 0 && open[len(open)-1] <= s.start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && s.end > open[len(open)-1] {
			return true
		}
		open = append(open, s.end)
		all = append(all, f.around(i, jsShape{})...)
	}
	inOrder(all)
	last := 0
	for _, in := range all {
		if in.at < last {
			return true
		}
		last = in.at + in.cut
	}
	return false
}

// jsParser finds the tests in tokens.
type jsParser struct {
	src    string
	tokens []jsToken
	file   *jsFile
	parent []int // of each token: the bracket that it is in, -1 for none
	owner  []int // of each token: the brace of the function that it is in, -1 for none
	counts map[string]int
	// bound counts, up to each token, the words that mean another thing in another
	// function.
	bound    []int
	declared map[string]int    // the token of each name that is declared with a value
	roots    map[string]bool   // names of modules of assertions
	names    map[string]string // names of assertions that were imported by name
	makers   map[string]string // names of what makes tests and groups that were imported
	bodies   map[int]bool      // braces of the functions that are tests
	groups   []jsGroup
	found    []jsTest
}

// jsGroup is a group of tests, up to a token.
type jsGroup struct {
	end   int
	title []string
	why   string
}

// jsTest is a test with its places.
type jsTest struct {
	Test
	body   *jsBody
	each   bool // it has rows
	places []jsPlace
}

// text is the text of a token, "" behind the last one and in front of the first.
func (p *jsParser) text(i int) string {
	if i < 0 || i >= len(p.tokens) {
		return ""
	}
	return p.src[p.tokens[i].start:p.tokens[i].end]
}

func (p *jsParser) is(i int, kind jsKind) bool {
	return i >= 0 && i < len(p.tokens) && p.tokens[i].kind == kind
}

// name says whether a token is a name that is no member of something.
func (p *jsParser) name(i int) bool { return p.is(i, jsName) && !p.member(i) }

// member says whether a token stands behind a dot.
func (p *jsParser) member(i int) bool { return p.text(i-1) == "." || p.text(i-1) == "?." }

// closing is the bracket that closes the one at i, or -1.
func (p *jsParser) closing(i int) int {
	if i < 0 || i >= len(p.tokens) || p.tokens[i].mate < i {
		return -1
	}
	return p.tokens[i].mate
}

// read finds everything.
func (p *jsParser) read() {
	p.counts, p.declared, p.bound = make(map[string]int), make(map[string]int), make([]int, 1, len(p.tokens)+1)
	for i, t := range p.tokens {
		word, bound := p.text(i), 0
		if t.kind == jsName {
			p.counts[word]++
			if p.text(i+1) == "=" && slices.Contains([]string{"const", "let", "var"}, p.text(i-1)) {
				p.declared[word] = i
			}
		}
		if p.name(i) && slices.Contains([]string{"await", "yield", "arguments"}, word) || t.kind == jsTemplate && strings.Contains(word, "await") {
			bound = 1
		}
		p.bound = append(p.bound, p.bound[i]+bound)
	}
	p.imports()
	p.bodies = make(map[int]bool)
	for i := 0; i < len(p.tokens); i++ {
		for len(p.groups) > 0 && p.groups[len(p.groups)-1].end < i {
			p.groups = p.groups[:len(p.groups)-1]
		}
		if end := p.testAt(i); end > i {
			i = end
		}
	}
	p.nest()
	for i := range p.found {
		if b := p.found[i].body; b != nil {
			b.t = &p.found[i]
			b.sites()
		}
	}
	seen := make(map[string]int)
	for i := range p.found {
		t := &p.found[i]
		t.Name = strings.Join(t.Title, "*")
		if seen[t.Name]++; seen[t.Name] > 1 {
			t.Name += fmt.Sprintf(" (%d)", seen[t.Name])
		}
		t.Trace = fmt.Sprintf("t%d", i)
	}
	p.finish()
}

// nest notes of each token in which bracket and in which function it is.
func (p *jsParser) nest() {
	p.parent, p.owner = make([]int, len(p.tokens)), make([]int, len(p.tokens))
	var open, functions []int
	last := func(s []int) int {
		if len(s) == 0 {
			return -1
		}
		return s[len(s)-1]
	}
	for i, t := range p.tokens {
		if t.kind == jsPunct && t.mate >= 0 && t.mate < i {
			open = open[:len(open)-1]
			if last(functions) == t.mate {
				functions = functions[:len(functions)-1]
			}
		}
		p.parent[i], p.owner[i] = last(open), last(functions)
		if t.mate > i {
			open = append(open, i)
			if p.text(i) == "{" && p.function(i) {
				functions = append(functions, i)
			}
		}
	}
}

// function says whether a brace opens the body of a function. One with a type of
// its result is taken for one of the function around it.
func (p *jsParser) function(brace int) bool {
	if p.bodies[brace] || p.text(brace-1) == "=>" {
		return true
	}
	if p.text(brace-1) != ")" {
		return false
	}
	before := p.tokens[brace-1].mate - 1
	return p.member(before) || !slices.Contains([]string{"if", "for", "while", "switch", "with", "catch", "await"}, p.text(before))
}

// finish numbers the sites of the tests in the order of the text.
func (p *jsParser) finish() {
	f := p.file
	for _, t := range p.found {
		slices.SortStableFunc(t.places, func(a, b jsPlace) int { return cmp.Or(a.start-b.start, b.end-a.end) })
		for _, s := range t.places {
			s.test = t.Name
			t.Sites = append(t.Sites, Site{ID: len(f.sites), Kind: s.kind, Line: f.line(s.statement), Certain: s.certain, Loose: s.loose, Literals: s.literals()})
			f.sites = append(f.sites, s)
		}
		if len(t.Sites) == 0 && t.Why == "" {
			t.Why = "it has no function that can be edited"
		}
		f.tests = append(f.tests, t.Test)
	}
}
