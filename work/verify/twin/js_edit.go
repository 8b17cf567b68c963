package twin

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// jsEdit is one call of Edit.
type jsEdit struct {
	sketch
	f *jsFile
	// The names of what shapes refer to, see js_shapes.go.
	core, other, mate, note string
	round                   map[jsForm]string
}

func newJSEdit(f *jsFile, o Orders) *jsEdit {
	e := &jsEdit{f: f, sketch: newSketch("javascript", &f.textFile, o, camel)}
	for _, name := range []*string{&e.core, &e.other, &e.mate, &e.note} {
		*name = e.names.global()
	}
	e.round = make(map[jsForm]string)
	return e
}

// Edit returns the file with every site edited; see [File]. Lines keep their numbers.
func (f *jsFile) Edit(o Orders) ([]byte, error) {
	orders, err := f.check(o)
	if err != nil {
		return nil, fmt.Errorf("edit JavaScript: %w", err)
	}
	if len(f.sites) == 0 {
		return bytes.Clone(f.src), nil
	}
	e := newJSEdit(f, o)
	numbers := e.numbers()
	rows, inserts := e.rows(numbers, orders)
	inserts = append(inserts, e.sites(numbers)...)
	inserts = append(inserts, e.f.unchecked...)
	e.common(rows, numbers)
	shuffle(e.draw, e.pieces)
	text := "\n" + strings.Join(e.pieces, "\n") + "\n"
	return f.compose(append(inserts, insert{len(f.src), rankModule, 0, strings.ReplaceAll(text, "\n", f.newline), 0})), nil
}

// uncheck says in the first line of code to the checkers of types that they do not look
// at the file: an edit has no types, and options of a project refuse more than that
// (noUnusedLocals, types). The comment stands in an empty line. Where there is none, a
// line break is taken out in front of the first test, so that the tests are in the lines
// that they were in.
func (p *jsParser) uncheck() []insert {
	const comment = "// @ts-nocheck"
	top := 0
	if strings.HasPrefix(p.src, "\ufeff") {
		top = len("\ufeff")
	}
	if strings.HasPrefix(p.src[top:], "#!") {
		end := strings.IndexByte(p.src, '\n')
		if end < 0 {
			return nil // it has no code
		}
		top = end + 1
	}
	if at, ok := emptyLine(p.src, top); ok {
		return []insert{{at, rankClose, 0, comment, 0}}
	}
	out := []insert{{top, rankClose, 0, comment + p.file.newline, 0}}
	for i := 1; i < len(p.tokens) && (len(p.file.sites) == 0 || p.tokens[i].start < p.file.sites[0].statement); i++ {
		end := p.tokens[i-1].end
		between := p.src[end:p.tokens[i].start]
		at := strings.IndexByte(between, '\n')
		if at < 0 || strings.TrimSpace(between) != "" {
			continue
		}
		switch single := strings.Count(between, "\n") == 1; {
		case !single:
			return append(out, insert{end, rankText, 0, "", at + 1})
		case slices.Contains([]string{";", ","}, p.text(i-1)):
			return append(out, insert{end, rankText, 0, " ", at + 1})
		}
	}
	return out
}

// emptyLine is where an empty line begins in front of the first token of a text.
func emptyLine(src string, at int) (int, bool) {
	begins := true // of a line
	for at < len(src) {
		rest := src[at:]
		switch {
		case rest[0] == '\n' || strings.HasPrefix(rest, "\r\n"):
			if begins {
				return at, true
			}
			begins = true
			at += strings.IndexByte(rest, '\n') + 1
		case rest[0] == ' ' || rest[0] == '\t':
			begins = false
			at++
		case strings.HasPrefix(rest, "//"):
			begins = false
			end := strings.IndexAny(rest, "\r\n")
			if end < 0 {
				return 0, false
			}
			at += end
		case strings.HasPrefix(rest, "/*"):
			begins = false
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return 0, false
			}
			at += end + 4
		default:
			return 0, false
		}
	}
	return 0, false
}

// sites returns the edits of all sites.
func (e *jsEdit) sites(numbers []int) []insert {
	form := func(i int) string {
		p := &e.f.sites[i]
		switch p.form {
		case jsDone:
			return string(p.form) + strconv.Itoa(p.done)
		case jsCompare:
			return fmt.Sprintf("%s,%t,%s", p.form, p.above, e.f.src[p.operator.from:p.operator.to])
		}
		return string(p.form)
	}
	return siteEdits(&e.sketch, form, e.shape, func(i int, s jsShape) []insert { return e.inserts(i, s, numbers[i]) })
}

// inserts returns the edits of one site.
func (e *jsEdit) inserts(i int, s jsShape, number int) []insert {
	p := &e.f.sites[i]
	root := p.root
	if strings.Contains(root, "$v") {
		root = strings.ReplaceAll(root, "$v", one(e.draw, wordsLocal))
	}
	fill := strings.NewReplacer("$n", strconv.Itoa(number), "@", root, "%", p.call, "^", p.tail)
	return e.f.around(i, jsShape{fill.Replace(s.open), fill.Replace(s.middle), fill.Replace(s.close)})
}

// around puts the texts of a shape around one site. Of sites that begin or end
// together the outer one has the lower number.
func (f *jsFile) around(i int, s jsShape) []insert {
	p := &f.sites[i]
	switch p.form {
	case jsState:
		open := s.open + ";"
		if p.joined {
			open = "; " + open
		} else if p.start > 0 && f.src[p.start-1] == ';' {
			open = " " + open
		}
		return []insert{{p.start, rankAfter, 0, open, 0}}
	case jsTurnChain, jsTurnNot, jsTurnMember, jsTurnBare, jsTurnCall:
		return []insert{{p.start, rankOpen, i, s.open, p.head}, {p.value, rankClose, 1, s.middle, p.skip}, {p.end, rankClose, -i, s.close, 0}}
	}
	out := []insert{{p.start, rankOpen, i, s.open, 0}, {p.end, rankClose, -i, s.close, 0}}
	if p.form == jsCompare {
		out = append(out, insert{p.operator.from, rankText, 0, ",", p.operator.to - p.operator.from})
	}
	return out
}

// common defines the functions that the shapes refer to.
func (e *jsEdit) common(rows []siteRow, numbers []int) {
	e.defineCore(one(e.draw, jsCores), one(e.draw, jsWindows), rows)
	for _, of := range []struct {
		form   jsForm
		shapes []string
	}{{jsValue, jsOthers}, {jsCompare, jsMates}} {
		if slices.ContainsFunc(e.f.sites, func(p jsPlace) bool { return p.form == of.form }) {
			e.define(e.scene(), one(e.draw, of.shapes))
		}
	}
	if e.orders.Trace != "" {
		e.defineTrace(numbers)
	}
}

// jsWide is how a character of more than 16 bits is written.
const jsWide = `\u{%x}`

// defineTrace defines $N for the sites, by their numbers.
func (e *jsEdit) defineTrace(numbers []int) {
	traces := make(map[string]string)
	for _, t := range e.f.tests {
		traces[t.Name] = t.Trace
	}
	lines := make([]string, len(numbers))
	for i, p := range e.f.sites {
		lines[i] = fmt.Sprintf("%d: { flip: %t, site: %d, negative: %t, test: %q, count: 0, failed: 0 },", numbers[i], p.kind == Flip, i, p.negative, traces[p.test])
	}
	open := jsOpenRequire
	if e.f.module {
		open = jsOpenImport
	}
	code := strings.NewReplacer("$p", quoteText(e.orders.Trace, jsWide), "$k", quoteText(e.orders.Key, jsWide)).Replace(open + jsTrace)
	e.define(e.scene(), expand(code, lines))
}
