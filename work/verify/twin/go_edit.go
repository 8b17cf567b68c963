package twin

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// goGen makes the text of one call to Edit.
type goGen struct {
	file   *goFile
	draw   *goDraw // forms, names and order: the same whatever is sabotaged
	values *goDraw // the numbers in which neutral and sabotaged differ
	orders Orders
	taken  map[string]bool   // names given out
	alias  map[string]string // name of each added import by its path
	handle map[int]string    // names of handles by the offset where they are given
	decls  []string
	edits  []goEdit
	banks  []*goBank
	spots  []goSpot // by place
	noise  goNoise
	memo   map[string]string // helpers by what they do
}

// goEdit is text that goes before an offset. Where several meet, what closes
// comes first and what opens last, so that what is wrapped stays nested.
type goEdit struct {
	at, rank int // rank: below 0 closes, above 0 opens
	far      int // the other end of what is wrapped
	text     string
}

// Edit implements File.
func (f *goFile) Edit(o Orders) ([]byte, error) {
	if err := f.check(o); err != nil {
		return nil, err
	}
	g := &goGen{
		file: f, draw: newGoDraw(o.Seed, "forms "+o.Key, f.src), values: newGoDraw(o.Seed, "values "+o.Key, f.src), orders: o, taken: map[string]bool{},
		alias: map[string]string{}, handle: map[int]string{}, memo: map[string]string{},
	}
	if len(f.places) == 0 {
		return bytes.Clone(f.src), nil
	}
	if o.Quiet {
		g.quiet()
	}
	if o.Trace != "" {
		g.traced()
	} else {
		g.fill()
		g.plainBut(func(*goPlace, string) bool { return false })
	}
	return g.text(), nil
}

// check refuses orders that name what the file has not.
func (f *goFile) check(o Orders) error {
	for test, s := range o.Sabotage {
		sites, ok := f.ids[test]
		if !ok && !slices.ContainsFunc(f.tests, func(t Test) bool { return t.Name == test }) {
			return fmt.Errorf("the file has no test %q", test)
		}
		if !sites[s.Site] {
			return fmt.Errorf("test %s has no site %d", test, s.Site)
		}
		if s.Evaluation < 0 {
			return fmt.Errorf("test %s: evaluation %d of site %d is negative", test, s.Evaluation, s.Site)
		}
	}
	if o.Trace != "" && !traceKey(o.Key) {
		return fmt.Errorf("%q is not a key of a trace: letters, digits and '-'", o.Key)
	}
	return nil
}

// turn says which evaluation of an offer is turned: 0 every one, goNever none.
func (g *goGen) turn(p *goPlace, o goOffer) int {
	s, ok := g.orders.Sabotage[o.test]
	switch {
	case !ok || s.Site != o.id:
		return goNever
	case p.form.public() != Flip:
		return 0
	}
	return s.Evaluation
}

const goNever = -1

// plainBut edits every place that other has not edited.
func (g *goGen) plainBut(other func(p *goPlace, index string) bool) {
	for i, p := range g.file.places {
		s := g.spots[i]
		if other(p, s.index) {
			continue
		}
		switch p.form {
		case formCond:
			open, end := g.condition(s)
			g.wrap(p, open, end)
		case formErr, formNil, formWrap, formAny, formTarget:
			open, end := g.value(s, p)
			g.wrap(p, open, end)
		case formPair:
			open, end := g.value(s, p)
			g.wrap(p, open+p.other+", ", end)
		case formCompare:
			open, end := g.compare(s, p)
			g.wrap(p, open, end)
			g.operator(p)
		case formLonger:
			word := goWords[g.draw.below(len(goWords))]
			if len(p.offers) > 0 && g.turn(p, p.offers[0]) == 0 {
				g.edits = append(g.edits, goEdit{at: p.end - 1, text: word})
			}
		case formFirst:
			g.statement(p, g.first(s, g.handleName(p.t)))
		case formStmt:
			g.statement(p, g.failing(s, g.handleName(p.t), p.last))
		case formPrint:
			g.statement(p, g.print(s))
		}
	}
}

// handleName returns the name of a handle, which it gives to one that has none.
func (g *goGen) handleName(t *goName) string {
	if t.name != "" {
		return t.name
	}
	if s, ok := g.handle[t.at]; ok {
		return s
	}
	s := g.name()
	switch {
	case t.blank:
		g.edits = append(g.edits, goEdit{at: t.at, text: s})
		s = "_" + s
	case t.none:
		g.edits = append(g.edits, goEdit{at: t.at, text: s + " "})
	}
	g.handle[t.at] = s
	return s
}

// wrap puts text round a place.
func (g *goGen) wrap(p *goPlace, open, end string) {
	// A condition is edited round what is expected in it, also where both have
	// the same text.
	depth := 2
	if p.form == formCond {
		depth = 1
	}
	g.edits = append(g.edits,
		goEdit{at: p.at, far: p.end, rank: depth, text: open},
		goEdit{at: p.end, far: p.at, rank: -depth, text: end})
}

// operator makes the operator of a comparison a comma, by comments: nothing is
// removed.
func (g *goGen) operator(p *goPlace) {
	g.edits = append(g.edits, goEdit{at: p.op, text: "/*"}, goEdit{at: p.op + len(p.operator()), text: "*/, "})
}

// statement puts a statement before a place.
func (g *goGen) statement(p *goPlace, s string) {
	switch {
	case p.last && p.before:
		s = "; " + s + " "
	case p.last:
		s += " "
	case p.before:
		s = "; " + s
	default:
		s = " " + s + ";"
	}
	g.edits = append(g.edits, goEdit{at: p.at, text: s})
}

// pkg returns the name of an import that is added for a path.
func (g *goGen) pkg(path string) string {
	if g.alias[path] == "" {
		g.alias[path] = g.name()
	}
	return g.alias[path]
}

func (g *goGen) decl(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if strings.HasPrefix(text, "func ") { // a copy at each site is a fifth of the time to compile a test
		text = "//go:noinline\n" + text
	}
	g.decls = append(g.decls, text)
}

// text applies the edits, and appends the helpers.
func (g *goGen) text() []byte {
	var imports strings.Builder
	paths := make([]string, 0, len(g.alias))
	for p := range g.alias {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, i := range g.draw.order(len(paths)) {
		imports.WriteString("; import " + g.alias[paths[i]] + " " + strconv.Quote(paths[i]))
	}
	g.edits = append(g.edits, goEdit{at: g.file.clause, text: imports.String()})
	sort.SliceStable(g.edits, func(i, j int) bool { return g.edits[i].less(g.edits[j]) })

	src := g.file.src
	out := applyEdits(src, g.edits)
	if !bytes.HasSuffix(src, []byte("\n")) {
		out.WriteString(g.file.eol)
	}
	for _, i := range g.draw.order(len(g.decls)) {
		out.WriteString(strings.ReplaceAll("\n"+g.decls[i]+"\n", "\n", g.file.eol))
	}
	return out.Bytes()
}

// applyEdits returns a text with edits, which are in the order of their offsets.
func applyEdits(src []byte, edits []goEdit) *bytes.Buffer {
	out, from := new(bytes.Buffer), 0
	for _, e := range edits {
		out.Write(src[from:e.at])
		out.WriteString(e.text)
		from = e.at
	}
	out.Write(src[from:])
	return out
}

// less orders the edits of one offset, see goEdit. Of two that close the one
// that opened later comes first, of two that open the one that closes later.
func (e goEdit) less(o goEdit) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if sign(e.rank) != sign(o.rank) {
		return sign(e.rank) < sign(o.rank)
	}
	if e.far != o.far {
		return e.far > o.far
	}
	return e.rank < o.rank
}

func sign(n int) int { return max(-1, min(1, n)) }
