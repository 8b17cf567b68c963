package twin

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pyScene is one use of a shape: the names and constants of its words. What is
// written at a site and the functions that it calls share one.
type pyScene struct{ words *strings.Replacer }

// scene draws the words of a shape.
func (e *pyEdit) scene() pyScene {
	local := e.names.locals(6)
	text := pyPick(e.draw, pyTexts, 3)
	low := e.draw.between(3, 80)
	high := low + e.draw.between(1, 60)
	attribute := pyOne(e.draw, pySecond)
	for slices.Contains(text, attribute) { // they are attributes of one object
		attribute = pyOne(e.draw, pySecond)
	}
	return pyScene{strings.NewReplacer(
		"$F", e.names.global(), "$G", e.names.global(), "$L", e.names.global(), "$S", e.names.global(), "$K", e.names.class(),
		"$a", local[0], "$b", local[1], "$c", local[2], "$d", local[3], "$e", local[4], "$f", local[5],
		"$w", text[0], "$x", text[1], "$y", text[2], "$m", attribute,
		"$i", strconv.Itoa(low), "$j", strconv.Itoa(high),
		"$C", e.core, "$O", e.other, "$H", e.holds, "$R", e.turn, "$P", e.proxy, "$N", e.note, "$p", pyQuote(e.orders.Trace),
	)}
}

// pyShape is a shape in use: what is written in front of and behind an
// expression, or the statement itself in open. $n, $s and $h are still in it.
type pyShape struct {
	open, close string
	receiver    bool
}

// pyHeader is the last line of the head of a function or class of the module.
var pyHeader = regexp.MustCompile(`(?m)^(?:(?:def|class) .*|}\)):$`)

// define adds functions to the module, each with words that say what it is for:
// there are tests that look for them.
func (e *pyEdit) define(s pyScene, code string) {
	code = s.words.Replace(strings.TrimPrefix(code, "\n"))
	e.pieces = append(e.pieces, pyHeader.ReplaceAllStringFunc(code, func(header string) string {
		first := pyOne(e.draw, pyFirst)
		return header + "\n    \"\"\"" + strings.ToUpper(first[:1]) + first[1:] + " the " + pyOne(e.draw, pySecond) + ".\"\"\""
	}))
}

// pyBlock is a line of a shape that stands for others.
var pyBlock = regexp.MustCompile(`(?m)^( *)\$([BT])$`)

// pyExpand puts lines in the place of a $B or $T, indented as that is.
func pyExpand(code string, lines []string) string {
	at := pyBlock.FindStringSubmatchIndex(code)
	if at == nil {
		return code
	}
	indent := code[at[2]:at[3]]
	text := strings.Join(lines, "\n")
	return code[:at[0]] + indent + strings.ReplaceAll(text, "\n", "\n"+indent) + code[at[1]:]
}

// body returns the lines of a body, with the call that records that it is
// reached in front when the file is traced.
func (e *pyEdit) body(text, note string) []string {
	lines := []string{strings.TrimPrefix(text, "\n")}
	if e.orders.Trace != "" && note != "" {
		lines = slices.Insert(lines, 0, note)
	}
	return lines
}

// shape draws a shape for a form, and defines what it needs.
func (e *pyEdit) shape(form string) pyShape {
	switch form {
	case "cond":
		return e.flipped(pyOne(e.draw, pyWraps), pyOne(e.draw, pyFlips))
	case "value":
		return e.wrapped(pyOne(e.draw, pyWraps), e.body(pyOne(e.draw, pyExpects), "$N($b, $a)"), "", "")
	case "call":
		call := pyOne(e.draw, pyCalls)
		shape := e.wrapped(pyOne(e.draw, pyWraps), e.body(call.body, ""), "", "")
		shape.receiver = call.receiver
		return shape
	case "owned":
		return e.statement(pyOne(e.draw, pyOwned))
	case "cleanup":
		return e.statement(pyOne(e.draw, pyCleanups))
	}
	return e.statement(pyOne(e.draw, pyFails))
}

// flipped is a condition that is handed to a function.
func (e *pyEdit) flipped(wrap pyWrap, flip pyFlip) pyShape {
	return e.wrapped(wrap, e.body(flip.body, "$N($b, $a)"), flip.before, flip.after)
}

// wrapped is an expression that is handed to a function.
func (e *pyEdit) wrapped(wrap pyWrap, body []string, before, after string) pyShape {
	s := e.scene()
	e.define(s, pyExpand(wrap.code, body))
	return pyShape{open: s.words.Replace(before + wrap.open), close: s.words.Replace(wrap.close + after)}
}

// statement is a statement that can fail.
func (e *pyEdit) statement(p pyStatement) pyShape {
	bodies := p.body
	if bodies == nil {
		bodies = pyRaises
	}
	s := e.scene()
	e.define(s, pyExpand(p.code, e.body(pyOne(e.draw, bodies), "$N($b)")))
	return pyShape{open: s.words.Replace(p.text)}
}

// pyOne draws one member.
func pyOne[T any](d *pyDraw, s []T) T { return s[d.below(len(s))] }

// pyWindow is a comparison in a pyCore.
var pyWindow = regexp.MustCompile(`\$Q\{([^|}]*)\|([^|}]*)\|([^}]*)\}`)

// defineCore defines $C with the rows of all sites.
func (e *pyEdit) defineCore(core pyCore, window string, rows []pyRow) {
	pyShuffle(e.draw, rows)
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = strings.NewReplacer("$n", strconv.Itoa(r.number), "$1", strconv.Itoa(r.at), "$2", strconv.Itoa(r.by),
			"$3", strconv.Itoa(r.low), "$4", strconv.Itoa(r.high)).Replace(core.row)
	}
	code := pyWindow.ReplaceAllStringFunc(core.code, func(q string) string {
		m := pyWindow.FindStringSubmatch(q)
		return strings.NewReplacer("$1", m[1], "$2", m[2], "$3", m[3]).Replace(window)
	})
	e.define(e.scene(), pyExpand(code, lines))
}

// defineTurns defines what flips of assertions of TestCase need: $H for the
// assertions that the file uses, $R and $P.
func (e *pyEdit) defineTurns(methods []string) {
	form := pyOne(e.draw, pyHoldForms)
	pyShuffle(e.draw, methods)
	lines := make([]string, len(methods))
	for i, m := range methods {
		lines[i] = strings.NewReplacer("$n", m, "$T", pyHolds[m]).Replace(form.row)
	}
	e.define(e.scene(), pyExpand(form.code, lines))
	turn := pyOne(e.draw, pyTurns)
	if e.orders.Trace != "" {
		turn = pyTracedTurn
	}
	e.define(e.scene(), turn)
	e.define(e.scene(), pyOne(e.draw, pyProxies))
}

// defineTrace defines $N for the sites, by their numbers.
func (e *pyEdit) defineTrace(numbers []int) {
	lines := make([]string, len(numbers))
	for i, p := range e.f.sites {
		passed := ""
		// A test that fails in its last statement or behind it does not pass, although
		// it comes there.
		order, sabotaged := e.orders.Sabotage[p.test]
		late := sabotaged && (order.Site == i || e.f.sites[order.Site].Place == "cleanup" && e.f.sites[order.Site].Owner == "")
		if p.last && !late {
			passed = e.orders.Key + " T " + p.test + " pass\n"
		}
		negative := "False"
		if p.Negative {
			negative = "True"
		}
		site := e.orders.Key + " %s " + strconv.Itoa(i) + "%s\n"
		lines[i] = fmt.Sprintf("%d: (%q, %s, %s, %s),", numbers[i], p.Kind, pyQuote(site), negative, pyQuote(passed))
	}
	e.define(e.scene(), pyExpand(pyTrace, lines))
}

// pyQuote writes a string as a Python literal in ASCII, without a "$".
func pyQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r >= ' ' && r < 0x7f && r != '"' && r != '\\' && r != '$':
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
