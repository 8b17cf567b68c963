package twin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/proof/form"
)

// pyFile is a Python test file whose places were compared with its text.
type pyFile struct {
	src     []byte
	digest  [32]byte
	helpers int
	ends    []int // offsets of the line feeds
	newline string
	words   map[string]bool // every identifier of the text: names that are taken
	tests   []Test
	sites   []pyPlace // by site ID
	pool    []string  // literals that the file expects
}

// pyPlace is one site with what is needed to edit it.
type pyPlace struct {
	pySite
	test   string
	last   bool   // reaching it means that the test passed
	method string // of a call: the name of the assertion
	dot    int    // of a call: the offset of the dot behind the receiver
	indent string
	leaves []pyLiteral // of which another one makes another value
	origin []pyLiteral // the same, at the place that gives the value its name
	rows   []pyLiteral // by the number of the row; one without text cannot be changed
}

var (
	pyMethod     = form.Lazy(`^([^\W\d]\w*)\.(assert\w+)$`)
	pyIdentifier = form.Lazy(`[\pL_][\pL\pN\pM_]*`)
)

// pyForms lists the forms that a kind has.
var pyForms = map[Kind][]string{
	Flip:   {"cond", "call"},
	Expect: {"value"},
	Fail:   {"after", "before", "line", "newline"},
}

// bindPython compares what the program said with the text.
func bindPython(p *PythonSource, src []byte, sum [32]byte) (*pyFile, error) {
	f := &pyFile{src: src, digest: sum, helpers: p.helpers, newline: "\n", words: map[string]bool{}}
	if i := bytes.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		f.newline = "\r\n"
	}
	if p.helpers < 0 || p.helpers > len(src) || p.helpers < len(src) && (p.helpers == 0 || src[p.helpers-1] != '\n') {
		return nil, errors.New("no place for functions")
	}
	for i, b := range src {
		if b == '\n' {
			f.ends = append(f.ends, i)
		}
	}
	for _, w := range pyIdentifier().FindAll(src, -1) {
		f.words[string(w)] = true
	}
	seen := make(map[string]bool)
	tests := slices.Clone(p.tests)
	slices.SortStableFunc(tests, func(a, b pyTest) int { return a.At - b.At })
	for _, t := range tests {
		if !pyTestName(t.Name) || seen[t.Name] {
			return nil, errors.New("the name of a test is not one, or there twice")
		}
		seen[t.Name] = true
		if t.At < 0 || t.At > len(src) || (t.Why == "") != (len(t.Sites) > 0) {
			return nil, fmt.Errorf("test %s: not in the text, or neither sites nor a reason", t.Name)
		}
		if err := f.bindTest(t); err != nil {
			return nil, fmt.Errorf("test %s: %w", t.Name, err)
		}
	}
	if err := f.nested(); err != nil {
		return nil, err
	}
	return f, nil
}

// pyTestName reports whether a name is identifiers with dots between them,
// after "doctest:" for what is only named.
func pyTestName(name string) bool {
	name = strings.TrimPrefix(name, "doctest:")
	if len(name) > maxPythonName {
		return false
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || pyIdentifier().FindString(part) != part {
			return false
		}
	}
	return true
}

// bindTest checks the sites of one test and numbers them in the order of the
// text, behind those of the tests before it.
func (f *pyFile) bindTest(t pyTest) error {
	out := Test{Name: t.Name, Line: f.line(t.At), Why: printable(t.Why)}
	sites := slices.Clone(t.Sites)
	slices.SortStableFunc(sites, func(a, b pySite) int { return cmp.Or(a.Start-b.Start, b.End-a.End) })
	for i, s := range sites {
		if s.Start < t.At {
			return errors.New("a site in front of its test")
		}
		place, err := f.bindSite(s)
		if err != nil {
			return fmt.Errorf("line %d: %w", f.line(min(max(s.Start, 0), len(f.src))), err)
		}
		place.test, place.last = t.Name, t.End && i == len(sites)-1 && s.Kind == Fail && s.Form != "before"
		out.Sites = append(out.Sites, Site{ID: len(f.sites), Kind: s.Kind, Line: f.line(s.Start), Certain: s.Certain})
		f.sites = append(f.sites, place)
	}
	f.tests = append(f.tests, out)
	return nil
}

// bindSite checks one site against the text.
func (f *pyFile) bindSite(s pySite) (pyPlace, error) {
	p := pyPlace{pySite: s}
	if !slices.Contains(pyForms[s.Kind], s.Form) {
		return p, errors.New("a kind or form that there is not")
	}
	if s.Start < 0 || s.End < s.Start || s.End > len(f.src) || !f.boundary(s.Start) || !f.boundary(s.End) {
		return p, errors.New("offsets that are not in the text")
	}
	if (s.Kind == Fail) != (s.Start == s.End) {
		return p, errors.New("a place to insert at that has a length, or one to wrap that has none")
	}
	if s.Kind == Fail {
		return f.bindStatement(p)
	}
	if err := f.bindLiterals(&p); err != nil {
		return p, err
	}
	if s.Form == "call" {
		m := pyMethod().FindSubmatchIndex(f.src[s.Start:s.End])
		if m == nil {
			return p, errors.New("not the name of an assertion")
		}
		p.method, p.dot = string(f.src[s.Start+m[4]:s.Start+m[5]]), s.Start+m[3]
		if pyHolds[p.method] == "" {
			return p, errors.New("an assertion whose meaning is not known")
		}
	}
	return p, nil
}

// bindStatement checks a place where a failing statement goes.
func (f *pyFile) bindStatement(p pyPlace) (pyPlace, error) {
	if (p.Place == "cleanup" || p.Owner != "") != (p.Self != "") || p.Owner != "" && !pyTestName(p.Owner) || p.Self != "" && pyIdentifier().FindString(p.Self) != p.Self {
		return p, errors.New("an object without use, or none where it is needed")
	}
	start, rest := f.src[:p.Start], f.src[p.Start:]
	switch p.Form {
	case "line", "newline":
		blank := bytes.HasPrefix(bytes.TrimLeft(rest, " \t\f\v\r"), []byte("\n"))
		if p.Form == "line" && (!blank || !bytes.HasSuffix(start, []byte("\n"))) {
			return p, errors.New("not the start of a blank line")
		}
		if p.Form == "newline" && len(rest) > 0 && rest[0] != '\r' && rest[0] != '\n' {
			return p, errors.New("not the end of a line")
		}
		if len(p.Indent) != 2 || p.Indent[0] < 0 || p.Indent[1] <= p.Indent[0] || p.Indent[1] > p.Start {
			return p, errors.New("no white space to begin a line with")
		}
		p.indent = string(f.src[p.Indent[0]:p.Indent[1]])
		if strings.Trim(p.indent, " \t") != "" {
			return p, errors.New("not white space")
		}
	case "after":
		rest = bytes.TrimLeft(rest, " \t\f\r")
		if len(rest) > 0 && !bytes.ContainsRune([]byte("\n#;"), rune(rest[0])) {
			return p, errors.New("not the end of a statement")
		}
	}
	return p, nil
}

// nested checks that no two sites overlap other than one within the other, and
// that none is inside of the text that another one inserts at.
func (f *pyFile) nested() error {
	order := make([]int, len(f.sites))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := f.sites[a], f.sites[b]
		return cmp.Or(x.Start-y.Start, y.End-x.End)
	})
	var open []pyPlace
	for _, i := range order {
		s := f.sites[i]
		for len(open) > 0 && open[len(open)-1].End <= s.Start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			outer := open[len(open)-1]
			inside := s.Start > outer.Start && s.Kind == Fail
			same := s.Start == outer.Start && s.End == outer.End
			if inside || same || s.End > outer.End || outer.Form == "call" && s.Kind != Fail {
				return errors.New("places that overlap")
			}
		}
		if s.Start < f.helpers && f.helpers < s.End {
			return errors.New("functions within an expression")
		}
		if s.Kind != Fail {
			open = append(open, s)
		}
	}
	return nil
}

// boundary reports whether an offset is between two characters.
func (f *pyFile) boundary(offset int) bool {
	return offset == len(f.src) || utf8.RuneStart(f.src[offset])
}

// line is the 1-based line of an offset.
func (f *pyFile) line(offset int) int {
	n, _ := slices.BinarySearch(f.ends, offset)
	return 1 + n
}

// Tests returns the test functions in the order of the text.
func (f *pyFile) Tests() []Test {
	out := slices.Clone(f.tests)
	for i := range out {
		out[i].Sites = slices.Clone(out[i].Sites)
	}
	return out
}

// inWord reports whether the byte at an offset is part of an identifier or a
// number, so that text put next to it needs a space.
func (f *pyFile) inWord(offset int) bool {
	if offset < 0 || offset >= len(f.src) {
		return false
	}
	b := f.src[offset]
	return b == '_' || b >= utf8.RuneSelf || unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b))
}
