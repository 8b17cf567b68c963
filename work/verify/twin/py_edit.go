package twin

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// pyEdit is one call of Edit.
type pyEdit struct {
	sketch
	f *pyFile
	// The names of what shapes refer to, see py_shapes.go.
	core, other, mate, holds, turn, proxy, note string
}

// newPyEdit draws the names that all shapes refer to.
func newPyEdit(f *pyFile, o Orders) *pyEdit {
	e := &pyEdit{f: f, sketch: newSketch("python", &f.textFile, o, underscores)}
	for _, name := range []*string{&e.core, &e.other, &e.mate, &e.holds, &e.turn, &e.proxy, &e.note} {
		*name = e.names.global()
	}
	return e
}

// Edit returns the file with every site edited; see [File]. Lines keep their
// numbers, but for those behind a test that ends in a block with no blank line
// behind it, and those behind a block at the end that runs the tests.
//
// A trace line "T" is written only for a pass: when the end of a test is
// reached that has no subtests and is not parametrised. What happens after it,
// in a fixture or a cleanup, is not known there.
func (f *pyFile) Edit(o Orders) ([]byte, error) {
	orders, err := f.check(o)
	if err != nil {
		return nil, fmt.Errorf("edit Python: %w", err)
	}
	if len(f.sites) == 0 {
		return bytes.Clone(f.src), nil
	}
	e := newPyEdit(f, o)
	numbers := e.numbers()
	rows, exchanged := e.rows(numbers, orders)
	inserts := append(e.sites(numbers), exchanged...)
	e.common(rows, numbers)
	return f.compose(append(inserts, e.module())), nil
}

// form is the part of the catalogue that has the shapes of a site.
func (p *pyPlace) form() string {
	switch {
	case p.Form == "compare", p.Form == "pair":
		return strings.Join([]string{p.Form, p.Fails, p.operator}, ",")
	case p.Kind != Fail:
		return p.Form
	case p.Owner != "":
		return "owned"
	case p.Self != "":
		return "cleanup"
	}
	return "fail"
}

// sites returns the edits of all sites.
func (e *pyEdit) sites(numbers []int) []insert {
	return siteEdits(&e.sketch, func(i int) string { return e.f.sites[i].form() }, e.shape, func(i int, s pyShape) []insert {
		return e.f.inserts(&e.f.sites[i], s, numbers[i])
	})
}

// inserts returns the edits of one site.
func (f *pyFile) inserts(p *pyPlace, s pyShape, number int) []insert {
	fill := strings.NewReplacer("$n", strconv.Itoa(number), "$s", p.Self, "$h", pyQuote(p.Owner))
	open, closing := fill.Replace(s.open), fill.Replace(s.close)
	switch p.Form {
	case "after":
		return []insert{{p.Start, rankAfter, 0, "; " + open, 0}}
	case "before":
		return []insert{{p.Start, rankBefore, 0, open + "; ", 0}}
	case "line":
		return []insert{{p.Start, rankLine, 0, p.indent + open, 0}}
	case "newline":
		return []insert{{p.Start, rankLine, 0, f.newline + p.indent + open, 0}}
	}
	end := p.End
	if s.receiver {
		end = p.dot
	}
	if f.inWord(p.Start - 1) {
		open = " " + open
	}
	if f.inWord(end) {
		closing += " "
	}
	// A comparison is within the condition that is the same text.
	inner := 0
	if p.Form == "compare" {
		inner = 1
	}
	out := []insert{{p.Start, rankOpen, inner - 2*end, open, 0}, {end, rankClose, -inner - 2*p.Start, closing, 0}}
	if p.Form == "compare" {
		out = append(out, insert{p.Operator[0], rankText, 0, ",", p.Operator[1] - p.Operator[0]})
	}
	return out
}

// common defines the functions that the shapes refer to.
func (e *pyEdit) common(rows []siteRow, numbers []int) {
	var methods []string
	values, pairs := false, false
	for i := range e.f.sites {
		p := &e.f.sites[i]
		values, pairs = values || p.Form == "value", pairs || p.Fails != ""
		if p.Form == "call" && !slices.Contains(methods, p.method) {
			methods = append(methods, p.method)
		}
	}
	e.defineCore(one(e.draw, pyCores), one(e.draw, pyWindows), rows)
	if values {
		e.define(e.scene(), one(e.draw, pyOthers))
	}
	if pairs {
		e.define(e.scene(), one(e.draw, pyMates))
	}
	if len(methods) > 0 {
		e.defineTurns(methods)
	}
	if e.orders.Trace != "" {
		e.defineTrace(numbers)
	}
}

// module returns the functions as text of the module, in any order: a function
// is looked up when it is called.
func (e *pyEdit) module() insert {
	f := e.f
	shuffle(e.draw, e.pieces)
	text := strings.Join(e.pieces, "\n\n\n") + "\n"
	if f.helpers < len(f.src) {
		text += "\n\n"
	} else {
		text = "\n\n" + text
		if len(f.src) > 0 && !bytes.HasSuffix(f.src, []byte("\n")) {
			text = "\n" + text
		}
	}
	return insert{f.helpers, rankModule, 0, strings.ReplaceAll(text, "\n", f.newline), 0}
}
