package twin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// jsScript is a program that uses shapes: every check has to hold.
type jsScript struct {
	edit   *jsEdit
	checks []string
}

func newJSScript(n int, trace bool) *jsScript {
	f := &jsFile{textFile: textFile{words: map[string]bool{"seen": true}}}
	o := Orders{Seed: seed(n)}
	if trace {
		o.Trace = "/tmp/t"
	}
	s := &jsScript{edit: newJSEdit(f, o)}
	s.edit.defineCore(jsCores[n%len(jsCores)], jsWindows[n%len(jsWindows)], s.rows(n))
	s.edit.define(s.edit.scene(), jsOthers[n%len(jsOthers)])
	s.edit.define(s.edit.scene(), "function $N($a, $b) {}")
	return s
}

// rows are the rows of the three sites.
func (p *jsScript) rows(n int) []siteRow {
	orders := map[int]*Order{neutralSite: nil, alwaysSite: {}, thirdSite: {Evaluation: 3}}
	var rows []siteRow
	for _, number := range []int{neutralSite, alwaysSite, thirdSite} {
		rows = append(rows, newSiteRow(newChoices("javascript", seed(n), [32]byte{}, strconv.Itoa(number)), number, orders[number]))
	}
	return rows
}

// check adds a condition that has to hold, what names it when it does not.
func (p *jsScript) check(what, format string, args ...any) {
	p.checks = append(p.checks, fmt.Sprintf("check(%q, async () => %s);", what, fmt.Sprintf(format, args...)))
}

// run runs the program.
func (p *jsScript) run(t *testing.T) {
	t.Helper()
	needNode(t)
	text := `'use strict'
const assert = require('node:assert');
let last = Promise.resolve();
function check(what, f) { last = last.then(f).then((ok) => { if (ok !== true) console.log(what, ok); }, (e) => console.log(what, e)); }
const fails = async (f) => { try { await f(); } catch (e) { return true; } return false; };
class Chain {
  constructor(value, not = false) { this.value = value; this.negated = not; }
  get not() { return new Chain(this.value, !this.negated); }
  get resolves() { const { value, negated } = this; return { toBe: async (x) => new Chain(await value, negated).toBe(x), get not() { return { toBe: async (x) => new Chain(await value, true).toBe(x) }; } }; }
  toBe(x) { if ((this.value === x) === this.negated) throw new Error('toBe'); }
}
const expect = (value) => new Chain(value);
` + strings.Join(p.checks, "\n") + "\nlast.then(() => console.log('done'));\n" + strings.Join(p.edit.pieces, "\n") + "\n"
	name := filepath.Join(t.TempDir(), "script.js")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := runNode(t, filepath.Dir(name), name); out != "done\n" {
		t.Errorf("%.3000s\n%.20000s", out, text)
	}
}

// use writes a shape around a text.
func (s jsShape) use(number int, text string) string {
	fill := strings.NewReplacer("$n", strconv.Itoa(number))
	return fill.Replace(s.open) + text + fill.Replace(s.close)
}

// TestJavaScriptCores tries each way of deciding with each comparison.
func TestJavaScriptCores(t *testing.T) {
	t.Parallel()
	p := newJSScript(1, false)
	for i, core := range jsCores {
		for j, window := range jsWindows {
			p.edit.core = p.edit.names.global()
			p.edit.defineCore(core, window, p.rows(i*100+j))
			for number, want := range map[int]string{
				neutralSite: "0,0,0,0,0", alwaysSite: "1,1,1,1,1", thirdSite: "0,0,1,0,0",
			} {
				p.check(fmt.Sprint(i, j), "[1, 2, 3, 4, 5].map(() => %s(%d)).map(Number).join() === %q", p.edit.core, number, want)
			}
		}
	}
	p.run(t)
}

// TestJavaScriptWraps tries each way of calling with each body.
func TestJavaScriptWraps(t *testing.T) {
	t.Parallel()
	for n := range 2 {
		p := newJSScript(2+n, false)
		for i, wrap := range jsWraps {
			for j, flip := range jsFlips {
				s, what := p.edit.flipped(wrap, flip), fmt.Sprint("flip ", i, j)
				for _, value := range []string{"1 === 1", "''", "!1", "1 ? 0 : 2", "'a' in { a: 1 }", "null"} {
					p.check(what, "Boolean(%s) === Boolean(%s)", s.use(neutralSite, value), value)
					p.check(what, "Boolean(%s) !== Boolean(%s)", s.use(alwaysSite, value), value)
				}
			}
			for j, body := range jsExpects {
				s, what := p.edit.wrapped(wrap, p.edit.body(body, ""), "", ""), fmt.Sprint("value ", i, j)
				p.check(what, "%s === 3 && %s !== 3 && typeof %s === 'number'", s.use(neutralSite, "3"), s.use(alwaysSite, "3"), s.use(alwaysSite, "3"))
			}
			for j, body := range jsResults {
				s, what := p.edit.wrapped(wrap, p.edit.body(body, ""), "", ""), fmt.Sprint("result ", i, j)
				for _, value := range []string{"5", "undefined", "Promise.resolve(5)"} {
					p.check(what, "(await %s) === (await %s) && await fails(() => %s)", s.use(neutralSite, value), value, s.use(alwaysSite, value))
				}
			}
			for j, body := range append(slices.Clone(jsCallbacksOf), jsTracedCallback) {
				s, what := p.edit.wrapped(wrap, p.edit.body(body, ""), "", ""), fmt.Sprint("callback ", i, j)
				for _, f := range []string{"function () { return this.x; }", "async function (a) { return this.x; }", "function (a, b) { return a; }"} {
					p.check(what, "(await %s.call({ x: 7 }, 7)) === 7 && await fails(() => %s.call({ x: 7 }, 7)) && (%s).length === Math.min(%[3]s.length, (%s).length)",
						s.use(neutralSite, f), s.use(alwaysSite, f), s.use(neutralSite, f), "("+f+")")
				}
				p.check(what, "%s === undefined", s.use(neutralSite, "undefined"))
			}
			for j, body := range append(slices.Clone(jsDones), jsTracedDone) {
				body = strings.ReplaceAll(body, "$q", "1")
				s, what := p.edit.wrapped(wrap, p.edit.body(body, ""), "", ""), fmt.Sprint("done ", i, j)
				call := "await new Promise((yes) => (%s).call({ x: 1 }, 0, (...e) => yes(e.length === 0 || !e[0])))"
				f := "function (t, done) { setImmediate(done, %s); }"
				p.check(what, call+" === true && "+call+" === false && "+call+" === false && (%s).length === 2", s.use(neutralSite, fmt.Sprintf(f, "null")),
					s.use(alwaysSite, fmt.Sprintf(f, "null")), s.use(neutralSite, fmt.Sprintf(f, "1")), s.use(neutralSite, fmt.Sprintf(f, "1")))
			}
		}
		p.run(t)
	}
}

// TestJavaScriptTurns turns each kind of assertion round, in each way.
func TestJavaScriptTurns(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		form                        jsForm
		root, call, rest, good, bad string
	}{
		{jsTurnChain, "expect", "(", ").toBe(3)", "3", "4"},
		{jsTurnChain, "expect", "(", ").resolves.toBe(3)", "Promise.resolve(3)", "Promise.resolve(4)"},
		{jsTurnNot, "expect", "(", ").not.toBe(3)", "4", "3"},
		{jsTurnNot, "expect", "(", ").resolves.not.toBe(3)", "Promise.resolve(4)", "Promise.resolve(3)"},
		{jsTurnMember, "assert", ".strictEqual(", ", 3)", "3", "4"},
		{jsTurnMember, "assert", ".notDeepEqual(", ", [3])", "[4]", "[3]"},
		{jsTurnMember, "assert", ".ok(", ", 'text')", "3", "0"},
		{jsTurnMember, "assert", ".throws(", ")", "() => { throw new Error('x'); }", "() => 3"},
		{jsTurnMember, "assert", ".rejects(", ")", "Promise.reject(new Error('x'))", "Promise.resolve(1)"},
		{jsTurnMember, "assert", ".match(", ", /b/)", "'abc'", "'c'"},
		{jsTurnMember, "assert", ".doesNotMatch(", ", /b/)", "'ac'", "'b'"},
		{jsTurnMember, "assert", ".ifError(", ")", "null", "new Error('x')"},
		{jsTurnBare, "assert", "(", ")", "3", "0"},
		{jsTurnCall, "assert.strictEqual", "(", ", 3)", "3", "4"},
		{jsTurnCall, "assert.rejects", "(", ")", "Promise.reject(new Error('x'))", "Promise.resolve(1)"},
	}
	for n, traced := range []bool{false, false, true} {
		p := newJSScript(4+n, traced)
		for i, k := range kinds {
			for j, turner := range jsTurners {
				for m, body := range append(slices.Clone(jsTurns), jsTracedTurn) {
					p.edit.round = map[jsForm]string{}
					if traced != (m == len(jsTurns)) || i > 4 && (m+j)%3 != n%3 {
						continue
					}
					s := p.edit.turned(k.form, turner, body)
					text := func(number int, value string) string {
						fill := strings.NewReplacer("$n", strconv.Itoa(number), "@", k.root, "%", k.call, "^", "")
						return fill.Replace(s.open) + value + fill.Replace(s.middle) + k.rest + fill.Replace(s.close)
					}
					what := fmt.Sprint(i, j, m)
					p.check(what, "!await fails(() => %s) && await fails(() => %s)", text(neutralSite, k.good), text(neutralSite, k.bad))
					p.check(what+" turned", "await fails(() => %s) && !await fails(() => %s)", text(alwaysSite, k.good), text(alwaysSite, k.bad))
				}
			}
		}
		p.run(t)
	}
}

// TestJavaScriptStatements tries each failing statement with each way of failing.
func TestJavaScriptStatements(t *testing.T) {
	t.Parallel()
	p := newJSScript(8, false)
	for i, f := range jsStatements {
		bodies := f.body
		if bodies == nil {
			bodies = jsThrows
		}
		for j, body := range bodies {
			f.body = []string{body}
			s := p.edit.statement(f)
			p.check(fmt.Sprint(i, j), "!await fails(() => { %s; }) && await fails(() => { %s; })", s.use(neutralSite, ""), s.use(alwaysSite, ""))
		}
	}
	p.run(t)
}

// TestJavaScriptOthers: another value is of the same type, and differs.
func TestJavaScriptOthers(t *testing.T) {
	t.Parallel()
	for other := range jsOthers {
		p := newJSScript(10+other, false)
		for _, number := range []int{7, 8, 1995, 1996} {
			for _, value := range []string{
				"true", "false", "0", "-1", "2.5", "1e300", "NaN", "Infinity", "10n", "''", "'a'", "'z9'", "'äß'", "[]", "[1]", "['a', [2]]", "{}", "({ a: 1 })", "({ a: { b: null } })",
				"new Date(5)", "/x/g", "new Map([[1, 2]])", "new Set([1])", "Buffer.from('ab')", "new Uint8Array(2)", "Object.create(null)", "new (class A { x = 'y'; })()", "TypeError", "RangeError", "Symbol('s')",
			} {
				p.check(fmt.Sprint(value, number), "((v) => { const o = %s(v, %d); assert.notDeepStrictEqual(o, v); return typeof o === typeof v && Array.isArray(o) === Array.isArray(v); })(%s)", p.edit.other, number, value)
			}
			for _, value := range []string{"null", "undefined"} {
				p.check(fmt.Sprint(value, number), "%s(%s, %d) != null", p.edit.other, value, number)
			}
		}
		p.run(t)
	}
}
