package twin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"remit/proof/form"
)

// pyEdit is one call of Edit.
type pyEdit struct {
	f      *pyFile
	orders Orders
	draw   *pyDraw
	names  *pyNames
	pieces []string // functions to add
	// The names of what shapes refer to, see py_shapes.go.
	core, other, holds, turn, proxy, note string
}

// newPyEdit draws the names that all shapes refer to.
func newPyEdit(f *pyFile, o Orders) *pyEdit {
	e := &pyEdit{f: f, orders: o, draw: newPyDraw(o.Seed, f.digest, "shape")}
	e.names = &pyNames{draw: e.draw, taken: map[string]bool{}, words: f.words}
	for _, name := range []*string{&e.core, &e.other, &e.holds, &e.turn, &e.proxy, &e.note} {
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
	rows := make([]pyRow, len(numbers))
	var exchanged []pyInsert
	for i := range rows {
		order := orders[i]
		if order != nil && o.Trace == "" {
			other := newPyDraw(o.Seed, f.digest, "other "+strconv.Itoa(i))
			if l, ok := f.sites[i].exchanged(order, other); ok {
				exchanged = append(exchanged, pyInsert{l.at, rankText, 0, l.other(other, f.pool), len(l.text)})
				order = nil
			} else if f.sites[i].Kind != Flip {
				order = &Order{Site: order.Site}
			}
		}
		rows[i] = newPyRow(newPyDraw(o.Seed, f.digest, "row "+strconv.Itoa(i)), numbers[i], order)
	}
	inserts := append(e.sites(numbers), exchanged...)
	e.common(rows, numbers)
	return f.compose(append(inserts, e.module())), nil
}

var pyKey = form.Lazy(`^[A-Za-z0-9-]{1,64}$`)

// check returns the orders by site.
func (f *pyFile) check(o Orders) (map[int]*Order, error) {
	if o.Trace != "" && (!pyKey().MatchString(o.Key) || len(o.Trace) > 4096 || !utf8.ValidString(o.Trace) || strings.ContainsRune(o.Trace, 0)) {
		return nil, errors.New("a trace needs a path and a key of letters, digits and '-'")
	}
	orders := make(map[int]*Order, len(o.Sabotage))
	for _, name := range slices.Sorted(maps.Keys(o.Sabotage)) {
		order := o.Sabotage[name]
		if order.Site < 0 || order.Site >= len(f.sites) || f.sites[order.Site].test != name {
			return nil, fmt.Errorf("no test %q with a site %d", printable(name), order.Site)
		}
		if order.Evaluation < 0 || order.Evaluation > 1_000_000_000 {
			return nil, fmt.Errorf("evaluation %d of test %q: out of bounds", order.Evaluation, name)
		}
		if f.sites[order.Site].Kind != Flip && (o.Trace != "" || len(f.sites[order.Site].rows) == 0) {
			order.Evaluation = 0
		}
		orders[order.Site] = &order
	}
	return orders, nil
}

// numbers draws a number for each site: an even one for a value that is compared
// as a whole, of which one near to it is another value.
func (e *pyEdit) numbers() []int {
	used := make(map[int]bool, len(e.f.sites))
	numbers := make([]int, len(e.f.sites))
	for i := range numbers {
		n := 0
		for n == 0 || used[n] {
			n = e.draw.between(1, 49_999) * 2
			if !e.f.sites[i].Whole && (e.f.sites[i].Form == "value" || e.draw.below(2) == 0) {
				n++
			}
		}
		used[n], numbers[i] = true, n
	}
	return numbers
}

// form is the part of the catalogue that has the shapes of a site.
func (p *pyPlace) form() string {
	switch {
	case p.Kind != Fail:
		return p.Form
	case p.Owner != "":
		return "owned"
	case p.Self != "":
		return "cleanup"
	}
	return "fail"
}

// pyInsert is text that is put into the file; at one offset those of a lower
// rank come first, and within a rank those of a lower order.
type pyInsert struct {
	at, rank, order int
	text            string
	cut             int // bytes of the file that the text takes the place of
}

// Ranks at one offset: what ends there comes before what begins there.
const (
	rankClose = iota
	rankAfter
	rankLine
	rankBefore
	rankOpen
	rankText
	rankModule
)

// sites returns the edits of all sites. A few shapes of each form are drawn and
// spread over its sites.
func (e *pyEdit) sites(numbers []int) []pyInsert {
	count := make(map[string]int)
	for i := range e.f.sites {
		count[e.f.sites[i].form()]++
	}
	shapes := make(map[string][]pyShape)
	for _, form := range slices.Sorted(maps.Keys(count)) {
		for range 1 + e.draw.below(min(4, count[form])) {
			shapes[form] = append(shapes[form], e.shape(form))
		}
	}
	var out []pyInsert
	for i := range e.f.sites {
		p := &e.f.sites[i]
		if e.orders.Trace == "" && len(p.leaves) > 0 {
			continue // it is as its author wrote it, or another literal takes its place
		}
		out = append(out, e.f.inserts(p, pyOne(e.draw, shapes[p.form()]), numbers[i])...)
	}
	return out
}

// inserts returns the edits of one site.
func (f *pyFile) inserts(p *pyPlace, s pyShape, number int) []pyInsert {
	fill := strings.NewReplacer("$n", strconv.Itoa(number), "$s", p.Self, "$h", pyQuote(p.Owner))
	open, closing := fill.Replace(s.open), fill.Replace(s.close)
	switch p.Form {
	case "after":
		return []pyInsert{{p.Start, rankAfter, 0, "; " + open, 0}}
	case "before":
		return []pyInsert{{p.Start, rankBefore, 0, open + "; ", 0}}
	case "line":
		return []pyInsert{{p.Start, rankLine, 0, p.indent + open, 0}}
	case "newline":
		return []pyInsert{{p.Start, rankLine, 0, f.newline + p.indent + open, 0}}
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
	return []pyInsert{{p.Start, rankOpen, -end, open, 0}, {end, rankClose, -p.Start, closing, 0}}
}

// common defines the functions that the shapes refer to.
func (e *pyEdit) common(rows []pyRow, numbers []int) {
	var methods []string
	values := false
	for i := range e.f.sites {
		p := &e.f.sites[i]
		values = values || p.Form == "value"
		if p.Form == "call" && !slices.Contains(methods, p.method) {
			methods = append(methods, p.method)
		}
	}
	e.defineCore(pyOne(e.draw, pyCores), pyOne(e.draw, pyWindows), rows)
	if values {
		e.define(e.scene(), pyOne(e.draw, pyOthers))
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
func (e *pyEdit) module() pyInsert {
	f := e.f
	pyShuffle(e.draw, e.pieces)
	text := strings.Join(e.pieces, "\n\n\n") + "\n"
	if f.helpers < len(f.src) {
		text += "\n\n"
	} else {
		text = "\n\n" + text
		if len(f.src) > 0 && !bytes.HasSuffix(f.src, []byte("\n")) {
			text = "\n" + text
		}
	}
	return pyInsert{f.helpers, rankModule, 0, strings.ReplaceAll(text, "\n", f.newline), 0}
}

// compose puts the texts into the file.
func (f *pyFile) compose(inserts []pyInsert) []byte {
	slices.SortStableFunc(inserts, func(a, b pyInsert) int {
		return cmp.Or(a.at-b.at, a.rank-b.rank, a.order-b.order)
	})
	var out bytes.Buffer
	last := 0
	for _, in := range inserts {
		out.Write(f.src[last:in.at])
		out.WriteString(in.text)
		last = in.at + in.cut
	}
	out.Write(f.src[last:])
	return out.Bytes()
}
