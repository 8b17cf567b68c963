package twin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// scriptFile is a test file of PHP, Ruby, Java, C or shell.
type scriptFile struct {
	textFile
	language *scriptLanguage
	prefix   string // of the names of functions, which all files of a program share
	tail     int    // where functions are added
	lead     string // what is written in front of them
	trail    string // what is written behind them
	sites    []scriptPlace
}

// scriptPlace is one site with what is needed to edit it.
type scriptPlace struct {
	spot
	form       scriptForm
	start, end int
	statement  int // where the assertion begins that the site is a part of
	certain    bool
	// Of an assertion whose method is called by another name when it is turned round. In C
	// name is the statement that fails.
	name, contrary string
	lead           string // what a statement needs in front of it
}

// scriptForm is the part of the catalogue that has the shapes of a site.
type scriptForm string

const (
	scriptTurn  scriptForm = "turn"  // an assertion
	scriptValue scriptForm = "value" // an expected value
	scriptState scriptForm = "state" // a statement is put here
	scriptGuard scriptForm = "guard" // the body of a test, behind which something fails
	// The same two where the test waits for an exception, which no failure may be taken
	// for.
	scriptStrict scriptForm = "strict"
	scriptSealed scriptForm = "sealed"
	scriptAsk    scriptForm = "ask"   // Minitest: an assertion that the test itself is asked for
	scriptAsked  scriptForm = "asked" // one that an object is asked for
	// Java: a value of which it is asked whether it is there, or which object it is.
	scriptObject scriptForm = "object"
	scriptFalse  scriptForm = "false" // C: a condition that has to be false
)

// heldForm ends the name of a form whose assertion holds whatever it asks.
const heldForm = " held"

// manySites are more than are looked up one by one.
const manySites = 40

// maxScriptSites bounds the sites of a file.
const maxScriptSites = 20_000

// scriptLanguage is what is peculiar to a language.
type scriptLanguage struct {
	name    string
	join    func(parts []string) string // the words of a function's name
	cores   []siteCore
	many    []siteCore // of a file with many sites, which may be in loops; nil for the same
	windows []string
	others  []string // functions that make another value
	trace   string
	// traceRow is a row of the table of a traced file: number, whether it is a flip, the
	// site, the test.
	traceRow string
	quote    func(s string) string // a text as a literal
	shape    func(e *scriptEdit, form scriptForm) scriptShape
	// literal says that another expected value is another literal in the source.
	literal     bool
	open, close string          // round what is added
	announce    string          // behind open in a file that is traced
	reserved    map[string]bool // words that are no names of variables
	oneLine     bool            // what is added stands on one line, in front of the first one
}

// scriptShape is a shape in use: what is written in front of and behind an
// expression, or the statement itself in open. $n, % and ^ are still in it.
type scriptShape struct{ open, close string }

// scriptWrap is how an expression is handed to a function, with the site's number:
// the body finds the value in $a and the number in $b, and returns.
type scriptWrap struct{ open, close, code string }

// scriptEdit is one call of Edit.
type scriptEdit struct {
	sketch
	f                         *scriptFile
	core, other, note, holder string
}

func newScriptEdit(f *scriptFile, o Orders) *scriptEdit {
	join := func(parts []string) string {
		if f.prefix != "" {
			parts = append([]string{f.prefix}, parts...)
		}
		return f.language.join(parts)
	}
	e := &scriptEdit{f: f, sketch: newSketch(f.language.name, &f.textFile, o, join)}
	e.literal, e.names.reserved = f.language.literal, f.language.reserved
	for _, name := range []*string{&e.core, &e.other, &e.note} {
		*name = e.names.global()
	}
	if f.language.open != "" {
		name := e.names.global()
		e.holder = strings.ToUpper(name[:1]) + name[1:]
	}
	return e
}

// Edit returns the file with every site edited; see [File]. Lines keep their numbers.
func (f *scriptFile) Edit(o Orders) ([]byte, error) {
	orders, err := f.check(o)
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", f.language.name, err)
	}
	if len(f.sites) == 0 {
		return bytes.Clone(f.src), nil
	}
	e := newScriptEdit(f, o)
	numbers := e.numbers()
	rows, inserts := e.rows(numbers, orders)
	inserts = append(inserts, siteEdits(&e.sketch, func(i int) string {
		if o.Trace != "" && o.Held[i] {
			return string(f.sites[i].form) + heldForm
		}
		return string(f.sites[i].form)
	},
		func(form string) scriptShape { return f.language.shape(e, scriptForm(form)) },
		func(i int, s scriptShape) []insert { return f.around(i, s.filled(&f.sites[i], numbers[i])) })...)
	cores := f.language.cores
	if f.language.many != nil && len(f.sites) > manySites {
		cores = f.language.many
	}
	e.define(e.scene(), one(e.draw, cores).text(e.draw, one(e.draw, f.language.windows), rows))
	if !e.literal && slices.ContainsFunc(f.sites, func(p scriptPlace) bool { return p.form == scriptValue }) {
		e.define(e.scene(), one(e.draw, f.language.others))
	}
	if o.Trace != "" {
		e.defineTrace(numbers)
	}
	shuffle(e.draw, e.pieces)
	open := f.language.open
	if o.Trace != "" {
		open += f.language.announce
	}
	if f.language.oneLine {
		text := f.lead + strings.ReplaceAll(strings.Join(e.pieces, " "), "\n", " ") + " " + f.trail
		return f.compose(append(inserts, insert{f.tail, rankClose, math.MinInt, text, 0})), nil
	}
	text := "\n" + f.lead + strings.NewReplacer("$H", e.holder, "$C", e.core, "$N", e.note).Replace(open) + strings.Join(e.pieces, "\n") + "\n" + f.language.close + f.trail
	return f.compose(append(inserts, insert{f.tail, rankModule, 0, strings.ReplaceAll(text, "\n", f.newline), 0})), nil
}

// filled is the shape at one place.
func (s scriptShape) filled(p *scriptPlace, number int) scriptShape {
	fill := strings.NewReplacer("$n", strconv.Itoa(number), "%", p.name, "^", p.contrary)
	return scriptShape{fill.Replace(s.open), fill.Replace(s.close)}
}

// around puts the texts of a shape around one site. Of sites that begin or end
// together the outer one has the lower number.
func (f *scriptFile) around(i int, s scriptShape) []insert {
	switch p := &f.sites[i]; {
	case p.form == scriptState || p.form == scriptStrict:
		return []insert{{p.start, rankAfter, 0, p.lead + s.open, 0}}
	case p.form == scriptGuard || p.form == scriptSealed:
		return []insert{{p.start, rankAfter, -1, p.lead + s.open, 0}, {p.end, rankLine, 0, s.close, 0}}
	case p.name != "" && p.form == scriptTurn:
		return []insert{{p.start, rankOpen, i, s.open, p.end - p.start}}
	default:
		return []insert{{p.start, rankOpen, i, s.open, 0}, {p.end, rankClose, -i, s.close, 0}}
	}
}

// scene draws the words of a shape.
func (e *scriptEdit) scene() scene {
	return e.sketch.scene("$C", e.core, "$O", e.other, "$N", e.note, "$H", e.holder)
}

func (e *scriptEdit) define(s scene, code string) {
	e.pieces = append(e.pieces, s.words.Replace(strings.TrimPrefix(code, "\n")))
}

// traced is the body of a file that is traced, or one of the catalogue.
func (e *scriptEdit) traced(body string, others []string) string {
	if e.orders.Trace != "" {
		return body
	}
	return one(e.draw, others)
}

// wrapped is a shape whose function has a body.
func (e *scriptEdit) wrapped(wrap scriptWrap, body []string) scriptShape {
	s := e.scene()
	e.define(s, expand(wrap.code, body))
	return scriptShape{s.words.Replace(wrap.open), s.words.Replace(wrap.close)}
}

// defineTrace defines $N for the sites, by their numbers.
func (e *scriptEdit) defineTrace(numbers []int) {
	traces := make(map[string]string)
	for _, t := range e.f.tests {
		traces[t.Name] = t.Trace
	}
	lines := make([]string, len(numbers))
	for i, p := range e.f.sites {
		lines[i] = fmt.Sprintf(e.f.language.traceRow, numbers[i], p.kind == Flip, i, traces[p.test])
	}
	code := strings.NewReplacer("$p", e.f.language.quote(e.orders.Trace), "$k", e.orders.Key).Replace(e.f.language.trace)
	e.define(e.scene(), expand(code, lines))
}

// arrowRow is a row of a table in PHP and in Ruby.
const arrowRow = "%d => [%t, %d, '%s'],"

// singleQuoted writes a text as a literal of PHP and of Ruby.
func singleQuoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

// finish numbers the sites of the tests in the order of the text, and checks that
// they can be edited together.
func (f *scriptFile) finish(found []scriptTest) error {
	seen := make(map[string]int)
	for n, t := range found {
		if seen[t.Name]++; seen[t.Name] > 1 {
			t.Name += fmt.Sprintf(" (%d)", seen[t.Name])
		}
		t.Trace = fmt.Sprintf("t%d", n)
		slices.SortStableFunc(t.places, func(a, b scriptPlace) int { return cmp.Or(a.start-b.start, b.end-a.end) })
		for _, s := range t.places {
			s.test = t.Name
			t.Sites = append(t.Sites, Site{ID: len(f.sites), Kind: s.kind, Line: f.line(s.statement), Certain: s.certain})
			f.sites = append(f.sites, s)
		}
		if len(t.Sites) == 0 && t.Why == "" {
			t.Why = "it has nothing that can be edited"
		}
		f.tests = append(f.tests, t.Test)
	}
	if len(f.sites) > maxScriptSites {
		return errors.New("it has too many assertions")
	}
	var all []insert
	for i := range f.sites {
		f.spots = append(f.spots, &f.sites[i].spot)
		all = append(all, f.around(i, scriptShape{})...)
	}
	inOrder(all)
	last := 0
	for _, in := range all {
		if in.at < last {
			return errors.New("assertions that overlap")
		}
		last = in.at + in.cut
	}
	return nil
}

// scriptTest is a test with its places.
type scriptTest struct {
	Test
	places   []scriptPlace
	untitled bool // Ruby: it has no title
}
