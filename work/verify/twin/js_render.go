package twin

import (
	"strings"
)

// scene draws the words of a shape.
func (e *jsEdit) scene(more ...string) scene {
	return e.sketch.scene(append(more, "$C", e.core, "$O", e.other, "$M", e.mate, "$N", e.note)...)
}

// jsShape is a shape in use: what is written in front of and behind an expression,
// with the text between an assertion's value and the rest of it, or the statement
// itself in open. $n and @ are still in it.
type jsShape struct{ open, middle, close string }

func (e *jsEdit) define(s scene, code string) {
	e.pieces = append(e.pieces, s.words.Replace(strings.TrimPrefix(code, "\n")))
}

// traced is the body of a file that is traced, or one of the catalogue.
func (e *jsEdit) traced(body string, others []string) string {
	if e.orders.Trace != "" {
		return body
	}
	return one(e.draw, others)
}

// shape draws a shape for a form, and defines what it needs.
func (e *jsEdit) shape(form string) jsShape {
	wrap := one(e.draw, jsWraps)
	if of := strings.Split(form, ","); jsForm(of[0]) == jsCompare {
		body := strings.NewReplacer("$k", of[1], "$o", of[2]).Replace(one(e.draw, jsPairs) + one(e.draw, jsCompares))
		shape := e.wrapped(wrap, e.body(body, "$N($b);"), "", "")
		return jsShape{open: shape.open + "[", close: "]" + shape.close}
	}
	switch jsForm(form) {
	case jsTurnChain, jsTurnNot, jsTurnMember, jsTurnBare, jsTurnCall:
		return e.turned(jsForm(form), one(e.draw, jsTurners), e.traced(jsTracedTurn, jsTurns))
	case jsCond:
		return e.flipped(wrap, one(e.draw, jsFlips))
	case jsValue:
		return e.wrapped(wrap, e.body(one(e.draw, jsExpects), "$N($b);"), "", "")
	case jsState:
		return e.statement(one(e.draw, jsStatements))
	case jsResult:
		return e.wrapped(wrap, e.body(one(e.draw, jsResults), "$N($b);"), "", "")
	case jsCallback:
		return e.wrapped(wrap, e.body(e.traced(jsTracedCallback, jsCallbacksOf), ""), "", "")
	}
	body := e.traced(jsTracedDone, jsDones)
	return e.wrapped(wrap, e.body(strings.ReplaceAll(body, "$q", strings.TrimPrefix(form, string(jsDone))), ""), "", "")
}

// flipped is a condition that is handed to a function.
func (e *jsEdit) flipped(wrap jsWrap, flip jsFlip) jsShape {
	return e.wrapped(wrap, e.body(flip.body, "$N($b, $a);"), flip.before, flip.after)
}

// wrapped is an expression that is handed to a function.
func (e *jsEdit) wrapped(wrap jsWrap, body []string, before, after string) jsShape {
	s := e.scene()
	e.define(s, expand(wrap.code, body))
	return jsShape{open: s.words.Replace(before + wrap.open), close: s.words.Replace(wrap.close + after)}
}

// turned is an assertion that is handed to a function.
func (e *jsEdit) turned(form jsForm, turner jsTurner, body string) jsShape {
	contrary := jsContraries[form]
	if e.round[form] == "" && contrary.rounds != nil {
		e.round[form] = e.names.global()
		e.define(e.scene("$R", e.round[form]), one(e.draw, contrary.rounds))
	}
	s := e.scene("$R", e.round[form])
	body = strings.ReplaceAll(body, "$T", contrary.call)
	e.define(s, expand(turner.code, e.body(body, "")))
	return jsShape{s.words.Replace(turner.open), s.words.Replace(turner.middle), s.words.Replace(turner.close)}
}

// statement is a statement that can fail.
func (e *jsEdit) statement(p jsStatement) jsShape {
	bodies := p.body
	if bodies == nil {
		bodies = jsThrows
	}
	s := e.scene()
	e.define(s, expand(p.code, e.body(one(e.draw, bodies), "$N($b);")))
	return jsShape{open: s.words.Replace(p.text)}
}

// defineCore defines $C with the rows of all sites.
func (e *jsEdit) defineCore(core siteCore, window string, rows []siteRow) {
	e.define(e.scene(), core.text(e.draw, window, rows))
}

// The bodies of a file that is traced: they record what becomes of an assertion or
// a test.
const (
	jsTracedTurn = `
const $G = ($e) => $T;
if ($C($b)) {
  $N($b, true);
  return $G(true);
}
const $L = ($e) => { $N($b, true); return $e; };
const $S = ($e) => { $N($b, false); throw $e; };
let $e;
try {
  $e = $G(false);
} catch ($f) {
  return $S($f);
}
return $e && typeof $e.then === "function" ? $e.then($L, $S) : $L($e);`
	jsTracedCallback = `
if (typeof $a !== "function") return $a;
const $d = ($f) => { const $e = $C($b); $N($b, $e ? "fail" : "pass"); if ($e) throw new Error("$w $x"); return $f; };
const $e = ($f) => { $N($b, "fail"); throw $f; };
return Object.defineProperty(function (...$c) {
  let $G;
  try {
    $G = $a.apply(this, $c);
  } catch ($S) {
    return $e($S);
  }
  return $G && typeof $G.then === "function" ? $G.then($d, $e) : $d($G);
}, "length", { value: $a.length });`
	jsTracedDone = `
if (typeof $a !== "function") return $a;
return Object.defineProperty(function (...$d) {
  const $e = $d[$q];
  $d[$q] = Object.assign((...$f) => {
    if ($C($b) && !$f[0]) $f = [new Error("$w $x")];
    $N($b, $f[0] ? "fail" : "pass");
    return $e(...$f);
  }, $e);
  return $a.apply(this, $d);
}, "length", { value: $a.length });`
)

// jsTrace is the function $N, $p is the path and $k the key. What it records of a
// test is how it ended. $T are rows by number.
const (
	jsOpenRequire = `
function $K() {
  return (process.getBuiltinModule || require)("fs");
}
`
	jsOpenImport = `
// @ts-ignore
import * as $L from "fs";
function $K() {
  return process.getBuiltinModule ? process.getBuiltinModule("fs") : $L;
}
`
	jsTrace = `
var $G;
function $N($a, $b = undefined) {
  $G = $G || {
    $T
  };
  const $c = $G[$a];
  const $d = ($e) => {
    try {
      $K().appendFileSync($p, $k + $e + "\n");
    } catch {}
  };
  $c.count++;
  if ($c.flip) {
    const $f = Boolean($b) !== $c.negative;
    $c.failed += Number(!$f);
    if ($c.count === 1 || !$f && $c.failed <= 16) $d(" E " + $c.site + " " + $c.count + ($f ? " ok" : " failed"));
  } else if ($c.count === 1) $d(" R " + $c.site);
  if ($b === "pass" || $b === "fail") $d(" T " + $c.test + " " + $b);
}`
)
