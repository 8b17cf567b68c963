package twin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// rsFile is a file of Rust that holds tests. It may hold code as well: what only a
// build for tests has are its parts, and nothing else of it is edited.
type rsFile struct {
	textFile
	sites []rsPlace
}

// rsPlace is one site with what is needed to edit it.
type rsPlace struct {
	spot
	form       rsForm
	start, end int
	statement  int  // where the assertion begins that the site is a part of
	certain    bool // it is reached whenever the test passes
	loose      bool
	negative   bool   // a condition that has to be false
	path       string // from the module of the site to that of the file: "super::" or more
	// Of a comparison: where its first value begins and ends, the comma, where the second
	// one ends, and the names of the macro and of its contrary.
	from, to, comma, till int
	call, contrary        string
	differ                bool   // they have to differ
	result                string // what the function of the test returns
}

// rsForm is the part of the catalogue that has the shapes of a site.
type rsForm string

const (
	rsCond    rsForm = "cond"    // the condition of assert!
	rsIf      rsForm = "if"      // that of an if that panics
	rsCompare rsForm = "compare" // assert_eq! and assert_ne!
	rsState   rsForm = "state"   // a statement is put here
	rsBody    rsForm = "body"    // the body of a test
	rsPanics  rsForm = "panics"  // the body of a test that has to panic
	rsValue   rsForm = "value"   // an expected value, or the condition that it is a part of
	rsNoted   rsForm = "noted"   // a statement notes it: a value that has a name, or what #[should_panic] expects
)

// Bounds of a file.
const (
	maxRustSites = 20_000
	maxRustDepth = 30 // of modules
)

// rsItem is an item of a module.
type rsItem struct {
	attributes []span
	kind, name string
	first, end int // tokens, attributes included
	block      int // the brace of its body, -1 for none
	head       int // its first token behind the attributes
}

// ParseRust finds the tests of a file: functions with #[test], in the modules that the
// file holds. It executes nothing of it. What it cannot be sure to read is an error.
//
// Out of reach are documentation tests, most tests that a macro makes, and assertions in
// functions that tests share.
func ParseRust(src []byte) (File, error) {
	p, err := newRSParser(src)
	if err != nil {
		return nil, fmt.Errorf("edit Rust: %w", err)
	}
	p.module(span{0, len(p.tokens)}, nil)
	p.finish()
	f := p.file
	switch {
	case len(f.sites) > maxRustSites:
		return nil, errors.New("edit Rust: it has too many assertions")
	case overlap(f):
		return nil, errors.New("edit Rust: assertions that overlap")
	}
	return f, nil
}

func newRSParser(src []byte) (*rsParser, error) {
	tokens, err := lexRust(string(src))
	if err != nil {
		return nil, err
	}
	return &rsParser{braceParser: braceParser{string(src), tokens}, file: &rsFile{textFile: newTextFile(bytes.Clone(src), sha256.Sum256(src))}, makers: map[string]*rsMaker{}}, nil
}

// rsParser finds the tests in tokens.
type rsParser struct {
	braceParser
	file   *rsFile
	found  []rsTest
	makers map[string]*rsMaker // the macros so far that make tests
}

// rsTest is a test with its places.
type rsTest struct {
	Test
	places []rsPlace
}

// items are the items of a module.
func (p *rsParser) items(in span) []rsItem {
	var out []rsItem
	for i := in.from; i < in.to; {
		if p.sequence(i, "#", "!", "[") {
			i = p.closing(i+2) + 1
			continue
		}
		it := rsItem{first: i, block: -1}
		for p.sequence(i, "#", "[") && i < in.to {
			it.attributes = append(it.attributes, span{i + 2, p.closing(i + 1)})
			i = p.closing(i+1) + 1
		}
		it.head = i
		it.end = p.itemEnd(&it, in.to)
		out = append(out, it)
		i = it.end
	}
	return out
}

// rsPlain are items that end at a semicolon, whatever braces they have.
var rsPlain = strings.Fields("use const static type let")

// itemEnd reads an item. It ends at a semicolon, or behind braces.
func (p *rsParser) itemEnd(it *rsItem, end int) int {
	plain := false
	for i := it.head; i < end; i++ {
		word := p.text(i)
		if p.is(i, braceName) && it.kind == "" {
			switch {
			case word == "const" && slices.Contains([]string{"fn", "unsafe", "async", "extern"}, p.text(i+1)):
			case slices.Contains(rsPlain, word):
				it.kind, plain = word, true
			case word == "fn" || word == "mod":
				it.kind, it.name = word, p.text(i+1)
			case word == "macro_rules" || word == "impl" || word == "trait" || word == "struct" || word == "enum" || word == "union" && p.is(i+1, braceName):
				it.kind = word
			case p.text(i+1) == "!":
				it.kind, it.name = "macro", word
			}
		}
		switch {
		case word == ";" && p.is(i, bracePunct):
			return i + 1
		case p.closing(i) > 0 && word == "{" && !plain && !slices.Contains([]string{">", ",", "]"}, p.text(p.closing(i)+1)):
			it.block = i
			return min(p.closing(i)+1, end)
		case p.closing(i) > 0:
			i = p.closing(i)
		}
	}
	return end
}

// attribute is the path of an attribute, without what it is given.
func (p *rsParser) attribute(a span) string {
	var b strings.Builder
	for i := a.from; i < a.to && (p.is(i, braceName) || p.text(i) == ":"); i++ {
		b.WriteString(p.text(i))
	}
	return b.String()
}

// has is the attribute of a name that an item has.
func (p *rsParser) has(it *rsItem, name string) (span, bool) {
	i := slices.IndexFunc(it.attributes, func(a span) bool { return p.attribute(a) == name })
	if i < 0 {
		return span{}, false
	}
	return it.attributes[i], true
}

// forTests says whether an item is there only when tests are built.
func (p *rsParser) forTests(it *rsItem) bool {
	return slices.ContainsFunc(it.attributes, func(a span) bool {
		switch p.attribute(a) {
		case "test":
			return true
		case "cfg":
			if p.sequence(a.from+1, "(", "test", ")") {
				return true
			}
			return p.sequence(a.from+1, "(", "all", "(") && slices.ContainsFunc(p.split(a.from+3), func(s span) bool { return s.to == s.from+1 && p.text(s.from) == "test" })
		}
		return strings.HasSuffix(p.attribute(a), "::test")
	})
}

// rsMakers are attributes that make one or more tests of a function with parameters.
var rsMakers = strings.Fields("rstest test_case case quickcheck parameterized proptest theory apply test_matrix wasm_bindgen_test")

// module finds the tests of a module, by the names of the modules that it is in.
func (p *rsParser) module(in span, path []string) {
	if len(path) > maxRustDepth {
		return
	}
	for _, it := range p.items(in) {
		switch {
		case it.kind == "mod" && it.block >= 0:
			p.module(span{it.block + 1, it.end - 1}, append(slices.Clone(path), it.name))
		case it.kind == "fn":
			p.function(&it, path)
		case it.kind == "macro_rules":
			if name, m := p.maker(&it); m != nil || p.makers[name] != nil {
				p.makers[name] = m
			}
		case it.kind == "macro" && it.head < it.end:
			if m := p.makers[it.name]; m == nil || !p.calls(&it, m, path) {
				p.made(&it, path)
			}
		}
	}
}

// made notes the tests that a macro makes of what it is given.
func (p *rsParser) made(it *rsItem, path []string) {
	for i := it.head; i < it.end; i++ {
		if !p.sequence(i, "#", "[", "test", "]") {
			continue
		}
		for j := i + 4; j < it.end && p.text(j) != "{"; j++ {
			if p.text(j) == "fn" && p.is(j+1, braceName) {
				p.test(j, path, p.text(j+1), "the macro "+it.name+"! makes it")
				break
			}
		}
	}
}

// test notes a test.
func (p *rsParser) test(at int, path []string, name, why string) *rsTest {
	full := strings.Join(append(slices.Clone(path), name), "::")
	p.found = append(p.found, rsTest{Test: Test{Name: full, Title: []string{full}, Line: p.file.line(p.tokens[at].start), Why: why}})
	return &p.found[len(p.found)-1]
}

// function notes a function that is a test.
func (p *rsParser) function(it *rsItem, path []string) {
	plain, attributed, maker := false, "", ""
	for _, a := range it.attributes {
		name := p.attribute(a)
		last := name[strings.LastIndexByte(name, ':')+1:]
		switch {
		case name == "test":
			plain = true
		case slices.Contains(rsMakers, last):
			maker = cmp.Or(maker, name)
		case last == "test":
			attributed = name
		}
	}
	if !plain && attributed == "" && maker == "" {
		return
	}
	params := it.head
	for params < it.end && p.text(params) != "(" {
		if p.text(params) == "<" {
			maker = cmp.Or(maker, "a macro")
		}
		params++
	}
	if maker == "" && p.closing(params) != params+1 {
		maker = cmp.Or(attributed, "a macro")
	}
	switch {
	case it.block < 0 || p.closing(params) < 0:
		return
	case maker != "":
		p.test(it.head, path, it.name, "#["+maker+"] makes it")
		return
	}
	b := &rsTestBody{p: p, block: it.block, end: p.closing(it.block), path: strings.Repeat("super::", len(path)), wraps: plain && attributed == ""}
	for i := it.head; i < params; i++ {
		b.wraps = b.wraps && p.text(i) != "async"
	}
	if p.operator(params+2, "->") {
		from, to := p.bytes(span{params + 4, it.block})
		if b.result = p.src[from:to]; strings.Contains(b.result, "impl ") || strings.ContainsAny(b.result, "\n/'") || slices.Contains(strings.Fields(b.result), "where") {
			b.wraps = false
		}
	}
	if a, ok := p.has(it, "should_panic"); ok {
		b.panics = true
		b.message = span{a.from + 1, a.to}
	}
	t := p.test(it.head, path, it.name, "")
	b.t = t
	b.sites()
}

// finish numbers the sites of the tests in the order of the text.
func (p *rsParser) finish() {
	f := p.file
	count, seen := make(map[string]int), make(map[string]int)
	for _, t := range p.found {
		count[t.Name]++
	}
	for i := range p.found {
		t := &p.found[i]
		if count[t.Name] > 1 { // which of them is built is not known
			seen[t.Name]++
			t.Name, t.places, t.Why = fmt.Sprintf("%s (%d)", t.Name, seen[t.Name]), nil, "the file has more than one test of its name"
		}
		slices.SortStableFunc(t.places, func(a, b rsPlace) int { return cmp.Or(a.start-b.start, b.end-a.end) })
		for _, s := range t.places {
			s.test = t.Name
			if s.form == rsBody || s.form == rsPanics {
				t.Trace = fmt.Sprintf("s%d", len(f.sites))
			}
			t.Sites = append(t.Sites, Site{ID: len(f.sites), Kind: s.kind, Line: f.line(s.statement), Certain: s.certain, Loose: s.loose, Literals: s.literals()})
			f.sites = append(f.sites, s)
		}
		if len(t.Sites) == 0 && t.Why == "" {
			t.Why = "it has no place that can be edited"
		}
		f.tests = append(f.tests, t.Test)
	}
	for i := range f.sites {
		f.spots = append(f.spots, &f.sites[i].spot)
	}
}

// framed is a file whose edits are put around its sites.
type framed interface {
	places() int
	// frame is where the edits of a site go, with nothing in them.
	frame(i int) []insert
}

// overlap says whether an edit begins in text that another one takes the place of.
func overlap(f framed) bool {
	var all []insert
	for i := range f.places() {
		all = append(all, f.frame(i)...)
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

func (f *rsFile) places() int { return len(f.sites) }

func (f *rsFile) frame(i int) []insert { return f.around(i, rsShape{}) }
