package twin

import (
	"fmt"
	"strconv"
	"strings"

	"remit/proof/form"
)

// scene draws the words of a shape.
func (e *pyEdit) scene() scene {
	return e.sketch.scene("$C", e.core, "$O", e.other, "$M", e.mate, "$H", e.holds, "$R", e.turn, "$P", e.proxy, "$N", e.note, "$p", pyQuote(e.orders.Trace))
}

// pyShape is a shape in use: what is written in front of and behind an
// expression, or the statement itself in open. $n, $s and $h are still in it.
type pyShape struct {
	open, close string
	receiver    bool
}

// pyHeader is the last line of the head of a function or class of the module.
var pyHeader = form.Lazy(`(?m)^(?:(?:def|class) .*|}\)):$`)

// define adds functions to the module, each with words that say what it is for:
// there are tests that look for them.
func (e *pyEdit) define(s scene, code string) {
	code = s.words.Replace(strings.TrimPrefix(code, "\n"))
	e.pieces = append(e.pieces, pyHeader().ReplaceAllStringFunc(code, func(header string) string {
		first := one(e.draw, wordsFirst)
		return header + "\n    \"\"\"" + strings.ToUpper(first[:1]) + first[1:] + " the " + one(e.draw, wordsSecond) + ".\"\"\""
	}))
}

// shape draws a shape for a form, and defines what it needs.
func (e *pyEdit) shape(form string) pyShape {
	if of := strings.Split(form, ","); len(of) == 3 {
		return e.sides(of[0], of[1], of[2])
	}
	switch form {
	case "cond":
		return e.flipped(one(e.draw, pyWraps), one(e.draw, pyFlips))
	case "value":
		return e.wrapped(one(e.draw, pyWraps), e.body(one(e.draw, pyExpects), "$N($b, $a)"), "", "")
	case "call":
		call := one(e.draw, pyCalls)
		shape := e.wrapped(one(e.draw, pyWraps), e.body(call.body, ""), "", "")
		shape.receiver = call.receiver
		return shape
	case "owned":
		return e.statement(one(e.draw, pyOwned))
	case "cleanup":
		return e.statement(one(e.draw, pyCleanups))
	}
	return e.statement(one(e.draw, pyFails))
}

// flipped is a condition that is handed to a function.
func (e *pyEdit) flipped(wrap pyWrap, flip pyFlip) pyShape {
	return e.wrapped(wrap, e.body(flip.body, "$N($b, $a)"), flip.before, flip.after)
}

// sides are the sides of a comparison, or two arguments, which are handed to a function
// as one value.
func (e *pyEdit) sides(form, fails, operator string) pyShape {
	body := one(e.draw, pyPairs) + "\nreturn $a"
	if form == "compare" {
		body = one(e.draw, pyPairs) + one(e.draw, pyCompares)
	}
	body = strings.NewReplacer("$k", pyKinds[fails], "$o", operator).Replace(body)
	shape := e.wrapped(one(e.draw, pyWraps), e.body(body, "$N($b)"), "", "")
	shape.open, shape.close = shape.open+"(", ")"+shape.close
	if form == "pair" {
		shape.open = "*" + shape.open
	}
	return shape
}

// wrapped is an expression that is handed to a function.
func (e *pyEdit) wrapped(wrap pyWrap, body []string, before, after string) pyShape {
	s := e.scene()
	e.define(s, expand(wrap.code, body))
	return pyShape{open: s.words.Replace(before + wrap.open), close: s.words.Replace(wrap.close + after)}
}

// statement is a statement that can fail.
func (e *pyEdit) statement(p pyStatement) pyShape {
	bodies := p.body
	if bodies == nil {
		bodies = pyRaises
	}
	s := e.scene()
	e.define(s, expand(p.code, e.body(one(e.draw, bodies), "$N($b)")))
	return pyShape{open: s.words.Replace(p.text)}
}

// defineCore defines $C with the rows of all sites.
func (e *pyEdit) defineCore(core siteCore, window string, rows []siteRow) {
	e.define(e.scene(), core.text(e.draw, window, rows))
}

// defineTurns defines what flips of assertions of TestCase need: $H for the
// assertions that the file uses, $R and $P.
func (e *pyEdit) defineTurns(methods []string) {
	form := one(e.draw, pyHoldForms)
	shuffle(e.draw, methods)
	lines := make([]string, len(methods))
	for i, m := range methods {
		lines[i] = strings.NewReplacer("$n", m, "$T", pyHolds[m]).Replace(form.row)
	}
	e.define(e.scene(), expand(form.code, lines))
	turn := one(e.draw, pyTurns)
	if e.orders.Trace != "" {
		turn = pyTracedTurn
	}
	e.define(e.scene(), turn)
	e.define(e.scene(), one(e.draw, pyProxies))
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
	e.define(e.scene(), expand(pyTrace, lines))
}

// pyQuote writes a string as a literal of Python.
func pyQuote(s string) string { return quoteText(s, `\U%08x`) }
