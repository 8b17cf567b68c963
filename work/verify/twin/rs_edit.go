package twin

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// rsEdit is one call of Edit.
type rsEdit struct {
	sketch
	f *rsFile
	// The names of what shapes refer to: the module that is added, the standard library
	// in it, and functions, see rs_shapes.go.
	module, std, core, note, ended string
}

// Edit returns the file with every site edited; see [File]. Lines keep their numbers, and
// what is added stands at the end, in a module that only a build for tests has.
func (f *rsFile) Edit(o Orders) ([]byte, error) {
	inserts, err := f.inserts(o)
	if err != nil {
		return nil, fmt.Errorf("edit Rust: %w", err)
	}
	return f.compose(inserts), nil
}

// inserts are the edits of all sites, and what is added.
func (f *rsFile) inserts(o Orders) ([]insert, error) {
	orders, err := f.check(o)
	if err != nil || len(f.sites) == 0 {
		return nil, err
	}
	e := newRSEdit(f, o)
	numbers := e.numbers()
	rows, inserts := e.rows(numbers, orders)
	inserts = append(inserts, e.sites(numbers)...)
	e.common(rows, numbers)
	shuffle(e.draw, e.pieces)
	text := "\n#[cfg(test)]\n#[allow(dead_code, non_upper_case_globals, unused_extern_crates)]\nmod " + e.module + " {\nextern crate std as " + e.std + ";\n" + strings.Join(e.pieces, "\n") + "\n}\n"
	return append(inserts, insert{len(f.src), rankModule, 0, strings.ReplaceAll(text, "\n", f.newline), 0}), nil
}

func newRSEdit(f *rsFile, o Orders) *rsEdit {
	e := &rsEdit{f: f, sketch: newSketch("rust", &f.textFile, o, underscores)}
	e.literal = true
	e.names.reserved = rsReserved
	for _, name := range []*string{&e.module, &e.std, &e.core, &e.note, &e.ended} {
		*name = e.names.global()
	}
	return e
}

// sites returns the edits of all sites.
func (e *rsEdit) sites(numbers []int) []insert {
	form := func(i int) string {
		if p := &e.f.sites[i]; p.form == rsBody && strings.Contains(p.result, "Result") {
			return string(p.form) + " of a result"
		}
		return string(e.f.sites[i].form)
	}
	return siteEdits(&e.sketch, form, e.shape, func(i int, s rsShape) []insert { return e.inserts(i, s, numbers[i]) })
}

// inserts returns the edits of one site.
func (e *rsEdit) inserts(i int, s rsShape, number int) []insert {
	p := &e.f.sites[i]
	result, sign := p.result, "=="
	if result == "" {
		result = "()"
	}
	if p.differ {
		sign = "!="
	}
	fill := strings.NewReplacer("$n", strconv.Itoa(number), "^", p.path+e.module+"::", "@", p.call, "~", p.contrary, "?", result, "$=", sign)
	return e.f.around(i, rsShape{fill.Replace(s.open), fill.Replace(s.tail), fill.Replace(s.close)})
}

// around puts the texts of a shape around one site.
func (f *rsFile) around(i int, s rsShape) []insert {
	p := &f.sites[i]
	switch p.form {
	case rsState:
		return []insert{{p.start, rankAfter, i, " " + s.open, 0}}
	case rsNoted:
		return []insert{{p.start, rankLine, i, s.open, 0}}
	case rsBody, rsPanics:
		return []insert{{p.start, rankLine, -1, s.open, 0}, {p.end, rankBefore, 0, s.close, 0}}
	case rsCompare:
		return []insert{
			{p.start, rankOpen, i, s.open, p.from - p.start - f.gap(p.start, p.from)}, {p.to, rankClose, 1, ")", 0},
			{p.comma, rankText, 0, ", &(", 1}, {p.till, rankClose, 1, s.tail, 0}, {p.end, rankClose, -i, s.close, 0},
		}
	}
	return []insert{{p.start, rankOpen, i, s.open, 0}, {p.end, rankClose, -i, s.close, 0}}
}

// gap is how much of the text behind the first parenthesis is no token: it stays.
func (f *rsFile) gap(start, end int) int {
	return end - start - 1 - bytes.IndexByte(f.src[start:end], '(')
}

// common defines the functions that the shapes refer to.
func (e *rsEdit) common(rows []siteRow, numbers []int) {
	e.defineCore(one(e.draw, rsCores), one(e.draw, rsWindows), rows)
	if e.orders.Trace == "" {
		return
	}
	lines := make([]string, len(numbers))
	for i, p := range e.f.sites {
		lines[i] = fmt.Sprintf("(%d, %t, %d, %t, $A::new(0), $A::new(0)),", numbers[i], p.kind == Flip, i, p.negative)
	}
	code := strings.NewReplacer("$p", rsQuote(e.orders.Trace), "$k", rsQuote(e.orders.Key)).Replace(expand(rsTrace, lines))
	e.define(e.scene(), strings.ReplaceAll(code, "$#", strconv.Itoa(len(lines))))
}

// defineCore defines $C with the rows of all sites.
func (e *rsEdit) defineCore(core siteCore, window string, rows []siteRow) {
	e.define(e.scene(), strings.ReplaceAll(core.text(e.draw, window, rows), "$#", strconv.Itoa(len(rows))))
}

// rsQuote writes a string as a literal in ASCII, without a "$".
func rsQuote(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= ' ' && r < 0x7f && r != '"' && r != '\\' && r != '$' {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return `"` + b.String() + `"`
}

// scene draws the words of a shape.
func (e *rsEdit) scene() scene {
	return e.sketch.scene("$A", e.std+"::sync::atomic::AtomicI64", "$R", e.std+"::sync::atomic::Ordering::SeqCst",
		"$D", e.std, "$C", e.core, "$N", e.note, "$E", e.ended)
}

func (e *rsEdit) define(s scene, code string) {
	e.pieces = append(e.pieces, s.words.Replace(strings.TrimPrefix(code, "\n")))
}

// rsShape is a shape in use: what is written in front of and behind an expression, with
// the text behind the values of a comparison, or the statement itself in open.
type rsShape struct{ open, tail, close string }

// shape draws a shape for a form, and defines what it needs.
func (e *rsEdit) shape(form string) rsShape {
	traced := e.orders.Trace != ""
	switch rsForm(form) {
	case rsCond, rsIf:
		flip := one(e.draw, rsFlips)
		if traced {
			flip = rsFlips[0]
			flip.body = "$N($b, $a);\n" + flip.body
		}
		wraps := rsWraps
		if rsForm(form) == rsIf { // the last one would begin the block
			wraps = wraps[:len(wraps)-1]
		}
		return e.flipped(one(e.draw, wraps), flip)
	case rsCompare:
		if traced {
			return e.asked(rsTracedCompare, rsAsks[0])
		}
		return e.asked(one(e.draw, rsCompares), one(e.draw, rsAsks))
	case rsState:
		if e.draw.below(3) == 0 {
			return e.asked(rsUse{one(e.draw, rsFailing), "", ""}, one(e.draw, rsAsks))
		}
		return e.statement(one(e.draw, rsStatements), one(e.draw, rsThrows))
	case rsPanics:
		return e.body(one(e.draw, rsSwallows), rsTracedPanics)
	case rsBody:
		return e.body(one(e.draw, rsBodies), rsTracedBody)
	case rsValue:
		return rsShape{open: e.words("{ ^$N($n, true); "), close: " }"}
	case rsNoted:
		return rsShape{open: e.words(" ^$N($n, true);")}
	}
	return e.body(one(e.draw, rsBodies), rsTracedResult)
}

func (e *rsEdit) words(text string) string { return e.scene().words.Replace(text) }

// flipped is a condition that is handed to a function.
func (e *rsEdit) flipped(wrap rsWrap, flip rsFlip) rsShape {
	s := e.scene()
	e.define(s, expand(strings.ReplaceAll(wrap.code, "$t", flip.result), []string{flip.body}))
	return rsShape{open: s.words.Replace(flip.before + wrap.open), close: s.words.Replace(wrap.close + flip.after)}
}

// asked is a shape that asks a function whether its site is sabotaged.
func (e *rsEdit) asked(u rsUse, ask rsAsk) rsShape {
	s := e.scene()
	body := ask.body
	if e.orders.Trace != "" && u != rsTracedCompare {
		body = "$N($b, true);\n" + body
	}
	e.define(s, strings.NewReplacer("$t", ask.result, "$B", body).Replace(rsAskFunction))
	fill := func(text string) string {
		return s.words.Replace(strings.ReplaceAll(text, "$?", ask.before+"^$F($n)"+ask.after))
	}
	return rsShape{fill(u.open), fill(u.tail), fill(u.close)}
}

// statement is a statement that can fail.
func (e *rsEdit) statement(p rsStatement, body string) rsShape {
	s := e.scene()
	lines := []string{strings.TrimPrefix(body, "\n")}
	if e.orders.Trace != "" {
		lines = append([]string{"$N($b, true);"}, lines...)
	}
	e.define(s, expand(p.code, lines))
	return rsShape{open: s.words.Replace(p.text)}
}

// body is what the body of a test is handed to.
func (e *rsEdit) body(w, traced rsWrap) rsShape {
	if e.orders.Trace != "" {
		w = traced
	}
	s := e.scene()
	e.define(s, w.code)
	return rsShape{open: s.words.Replace(w.open), close: s.words.Replace(w.close)}
}
