package twin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"remit/proof/form"
)

// pyFile is a Python test file whose places were compared with its text.
type pyFile struct {
	textFile
	helpers int
	sites   []pyPlace // by site ID
}

// pyPlace is one site with what is needed to edit it.
type pyPlace struct {
	pySite
	spot
	last     bool   // reaching it means that the test passed
	method   string // of a call: the name of the assertion
	operator string // of a comparison
	dot      int    // of a call: the offset of the dot behind the receiver
	indent   string
}

var pyMethod = form.Lazy(`^([^\W\d]\w*)\.(assert\w+)$`)

// pyForms lists the forms that a kind has.
var pyForms = map[Kind][]string{
	Flip:   {"cond", "call"},
	Expect: {"value", "compare", "pair"},
	Fail:   {"after", "before", "line", "newline"},
}

// bindPython compares what the program said with the text.
func bindPython(p *PythonSource, src []byte, sum [32]byte) (*pyFile, error) {
	f := &pyFile{textFile: newTextFile(src, sum), helpers: p.helpers}
	if p.helpers < 0 || p.helpers > len(src) || p.helpers < len(src) && (p.helpers == 0 || src[p.helpers-1] != '\n') {
		return nil, errors.New("no place for functions")
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
	for i := range f.sites {
		f.spots = append(f.spots, &f.sites[i].spot)
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
		if part == "" || textIdentifier().FindString(part) != part {
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
		if place.Way != wayNear && len(place.leaves)+len(place.origin) == 0 && !slices.ContainsFunc(place.rows, func(l literal) bool { return l.text != "" }) {
			continue // another one of these literals might be as good
		}
		if place.All && len(place.leaves)+len(place.origin) != len(s.Leaves)+len(s.Origin) {
			continue // one of them might stay
		}
		place.test, place.last = t.Name, t.End && i == len(sites)-1 && s.Kind == Fail && s.Form != "before"
		out.Sites = append(out.Sites, Site{ID: len(f.sites), Kind: s.Kind, Line: f.line(s.Start), Certain: s.Certain, Loose: s.Loose, Literals: place.literals()})
		f.sites = append(f.sites, place)
	}
	f.tests = append(f.tests, out)
	return nil
}

// bindSite checks one site against the text.
func (f *pyFile) bindSite(s pySite) (pyPlace, error) {
	p := pyPlace{pySite: s, spot: spot{kind: s.Kind, value: s.Form == "value", whole: s.Whole, all: s.All}}
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
	if s.Form == "compare" || s.Form == "pair" {
		return p, f.bindSides(&p)
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

// bindSides checks a comparison, or two arguments, against the text.
func (f *pyFile) bindSides(p *pyPlace) error {
	if pyKinds[p.Fails] == "" {
		return errors.New("sides that do not fulfil what there is not")
	}
	if p.Form == "pair" {
		return nil
	}
	at := p.Operator
	if len(at) != 2 || at[0] <= p.Start || at[1] <= at[0] || at[1] >= p.End {
		return errors.New("an operator that is not in its comparison")
	}
	p.operator = strings.Join(strings.Fields(string(f.src[at[0]:at[1]])), " ")
	if !slices.Contains(strings.Split("< <= > >= in not-in", " "), strings.ReplaceAll(p.operator, " ", "-")) {
		return errors.New("an operator that is none of a comparison")
	}
	return nil
}

// bindStatement checks a place where a failing statement goes.
func (f *pyFile) bindStatement(p pyPlace) (pyPlace, error) {
	if (p.Place == "cleanup" || p.Owner != "") != (p.Self != "") || p.Owner != "" && !pyTestName(p.Owner) || p.Self != "" && textIdentifier().FindString(p.Self) != p.Self {
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
			same := s.Start == outer.Start && s.End == outer.End && (outer.Form != "cond" || s.Form != "compare")
			cut := outer.Form == "compare" && s.Start < outer.Operator[1] && s.End > outer.Operator[0]
			if inside || same || cut || s.End > outer.End || outer.Form == "call" && s.Kind != Fail {
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
