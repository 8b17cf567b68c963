package twin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// summary is what is found in a file: of each test its name, its kinds of sites
// and the reason why there are none.
func summary(f File) string {
	var out []string
	for _, t := range f.Tests() {
		count := map[Kind]int{}
		for _, s := range t.Sites {
			count[s.Kind]++
		}
		text := fmt.Sprintf("%s %d/%d/%d", t.Name, count[Flip], count[Expect], count[Fail])
		if t.Why != "" {
			text = t.Name + ": " + t.Why
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// TestJavaScriptTests: the tests of each runner are found, with their sites: flips,
// expected values and failing statements.
func TestJavaScriptTests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, file, src, want string }{
		{"jest", "a.js", "describe('g', () => { it('a', () => { expect(f(1)).toBe(2) }) })", "g > a 1/1/2"},
		{"not", "a.js", "test('a', () => { expect(f(1)).not.toEqual([2]) })", "a 1/0/2"},
		{"promise", "a.js", "test('a', async () => { await expect(f()).resolves.toEqual({ a: 1 }) })", "a 1/1/2"},
		{"returned", "a.js", "test('a', () => { return expect(f()).rejects.toThrow(TypeError) })", "a 1/1/1"},
		{"snapshot", "a.js", "test('a', () => { expect(f()).toMatchSnapshot() })", "a 0/0/2"},
		{"only and skip", "a.js", "it.only('a', () => { f() }); it.skip('b', () => {}); xit('c', () => {}); it.todo('d'); it.failing('e', () => {})",
			"a 0/0/2; b: it is skipped; c: it is skipped; d: it is skipped; e: it is expected to fail"},
		{"skipped group", "a.js", "describe.skip('g', () => { it('a', () => {}) })", "g > a: it is skipped"},
		{"each", "a.js", "it.each([[1, 2], [3, 4]])('adds %i', (a, want) => { expect(f(a)).toBe(want) })", "adds * 1/1/2"},
		{"table in a template", "a.js", "it.each`a | b\n${1} | ${2}`('adds $a', ({ a, b }) => { expect(f(a)).toBe(b) })", "adds * 1/1/1"},
		{"computed", "a.js", "for (const n of [1]) test(`a ${n} b`, () => { f() }); test(name, g); test('x' + y, g)", "a * b 0/0/2; * 0/0/1; x* 0/0/1"},
		{"twice", "a.js", "test('a', f)\ntest('a', f)", "a 0/0/1; a (2) 0/0/1"},
		{"chai", "a.js", "it('a', function () { expect(f()).to.be.an('array').that.has.length(2); expect(x).to.be.true; f().should.equal(3); y.should.not.eql(1) })", "a 4/2/3"},
		{"orders", "a.js", "it('a', () => { expect(f()).toBeGreaterThan(3); expect(f()).to.be.within(1, 9); assert(f() < 3 && g() >= 2, 'x'); assert.isAbove(f(), 2); assert.ok(f() < g()); assert(a || f() > 3) })", "a 6/7/3"},
		{"tolerance", "a.js", "it('a', () => { assert.ok(Math.abs(f() - 2.5) < 0.1); if (Math.abs(3 - g()) > eps) throw e; assert.ok(Math.abs(f() - g()) < 1) })", "a 3/3/3"},
		{"parts", "a.js", "it('a', () => { expect(f()).toContain('x'); expect(f()).toMatch(/x/); assert.ok(s.includes('x')); expect(s.startsWith('x')).toBe(true); expect(f()).not.toContain('x'); expect(/a|b/.test(s)).toBeTruthy(); if (!s.has('x')) throw e })", "a 7/7/3"},
		{"one of several", "a.js", "const SOME = new Set(['a', 3]); it('a', () => { assert([1, 'b'].includes(f())); expect(f()).toBeOneOf([-1, 2]); expect(['a', 'b']).toContain(f()); assert(SOME.has(g)); assert(['a', b].includes(h())); expect(f()).toEqual(new Set(['a'])) })", "a 6/5/3"},
		{"members", "a.js", "it('a', () => { assert(f().hasAll(3)); expect(f()).toContain(3); assert(!/x/.test(f())); expect(f()).not.toMatch('x'); assert(f().hash('x')) })", "a 5/4/3"},
		{"called with", "a.js", "it('a', () => { expect(f).toHaveBeenCalledWith('x', 3, g()); sinon.assert.calledWith(f, 'x'); expect(f).to.have.been.calledWith({ a: 1 }) })", "a 3/4/3"},
		{"chai assert", "a.js", "it('a', () => { assert.lengthOf(f(), 2); assert.isTrue(f()) })", "a 2/1/3"},
		{"named import", "a.mjs", "import test from 'node:test'; import { strictEqual as same, ok } from 'node:assert/strict'\ntest('a', () => { same(f(), 1); ok(f()) })", "a 2/1/3"},
		{"whole module", "a.js", "const t=require('node:test'), { describe: group } = require('node:test');\nt('a', () => { f() }); t.test('b', () => { f() }); group('g', () => { t.skip('c', () => {}) })", "a 0/0/2; b 0/0/2; g > c: it is skipped"},
		{"renamed imports", "a.mjs", "import check, { it as should, describe as about } from 'node:test'; import { test as vi } from \"vitest\"\ncheck('a', f); about('g', () => { should('b', f) }); vi.only('c', f)", "a 0/0/1; g > b 0/0/1; c 0/0/1"},
		{"other module", "a.js", "const t = require('./node:test'); t('a', () => { f() })", ""},
		{"supertest", "a.js", "it('a', (done) => { request(app).get('/').expect(200, done) })", "a 0/0/2"},
		{"subtests", "a.js", "test('a', async (t) => { await t.test('b', () => { t.assert.equal(f(), 1) }) })", "a 1/1/2"},
		{"Deno", "a_test.ts", "import { assertEquals as same } from './deps.ts'\nDeno.test('a', () => { same(f(1), 2) })\nDeno.test(async function b() { f() })\nDeno.test({ name: 'c', fn: () => { f() } })\nDeno.test({ name: `d ${x}`, async fn() { f() } })\nDeno.test('e', { ignore: true }, f)\nDeno.test.only('g', async (t) => { await t.step('h', f) })\nx.Deno.test(function i() {})",
			"a 1/1/2; b 0/0/1; c 0/0/2; d * 0/0/1; e: it is skipped; g 0/0/2"},
		{"steps", "a_test.ts", "import { assertEquals as same } from './deps.ts'\nDeno.test('a', async (t) => {\n  await t.step('b', () => { same(f(1), 2) })\n  await t.step('c', () => same(f(2), 3))\n})", "a 2/2/3"},
		{"no test", "a.js", "if (/x/.test('a')) { regexp.test('b') }\nclass A { test(a, b) { return a } it() {} }\nsuite.run()", ""},
		{"options", "a.js", "test('a', { timeout: 5 }, () => { f() }); test('b', { skip: true }, () => {})", "a 0/0/2; b: it is skipped"},
		{"throw", "a.js", "test('a', () => { if (f() !== 3) throw new Error('x'); if (g()) { throw h }\nif (i) j() })", "a 2/0/2"},
		{"types", "a.ts", "it('a', async (): Promise<void> => { const x = f<number>(1) as any; expect(x!).toEqual<T>({ a: 1 }); expect(x).toBe(<any>'b') })\nit('c', (): void => { assert.equal(f<A, B>(1), 2) })",
			"a 1/1/3; c 0/0/2"},
		{"markup", "a.tsx", "const f = <T,>(x: T) => x\nit('a', () => { render(<A b=\"it's\" {...c}>don't {`x${1}`}<br/></A>); expect(screen.getByText('x').textContent).toBe('x') })", "a 1/1/3"},
		{"division", "a.js", "const a = b / c / d, e = (f) / 2, g = h[0] / 1, r = /[/]'/g\ntest('a', () => { f(a++ / 2, x ? /'/ : 1) })", "a 0/0/2"},
		{"await in the rest", "a.js", "test('a', async () => { expect(x).toBe(await f()) })", "a 0/0/2"},
		{"generator", "a.js", "it('a', function* () { f() })", "a: it has no function that can be edited"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := mustParseJS(t, tc.file, tc.src)
			if got := summary(f); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			text := string(mustEdit(t, f, Orders{Seed: seed(1)}))
			if head := strings.SplitN(text, "\n", strings.Count(tc.src, "\n")+2); len(f.Tests()) > 0 && strings.Contains(summary(f), "/") && len(head) < 2 {
				t.Errorf("no functions were added: %s", text)
			}
		})
	}
}

// TestJavaScriptRefuses: a text that cannot be read for sure is an error.
func TestJavaScriptRefuses(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"open string": "test('a", "open template": "`a${b", "open comment": "/* a", "open bracket": "test('a', () => {", "wrong bracket": "f(]", "closing": "}",
		"slash behind a brace": "}\n/x/.test(y)", "html comment": "a <!-- b", "html end": "\n--> a", "character": "a \x01 b", "backslash": "\\u0061()",
		"open regexp": "a = /x\n", "not text": "\xff\xfe", "depth": strings.Repeat("`${", 500), "markup": "a = <A b=3 c[]>", "open markup": "a = <A>b", "too long": strings.Repeat(" ", maxJSSource+1),
	} {
		if name == "slash behind a brace" {
			src = "{" + src
		}
		if f, err := ParseJavaScript("a.js", []byte(src)); err == nil {
			t.Errorf("%s: %s", name, summary(f))
		}
	}
	if _, err := ParseJavaScript("a.txt", nil); err == nil {
		t.Error("another name")
	}
}

// TestJavaScriptTitles: titles are what runners print, cut where they are computed.
func TestJavaScriptTitles(t *testing.T) {
	t.Parallel()
	for src, want := range map[string][]string{
		`test('a\'b\n\x41\u0042\u{43}', f)`:                           {"a'b\nABC"},
		"test(`a`, f)":                                                {"a"},
		"test(`${a} b ${c + '}'}`, f)":                                {"", " b ", "'}"},
		`it.each(x)('%% %s of $a.b', f)`:                              {"% ", " of ", ""},
		`it('100%', f)`:                                               {"100%"},
		"describe(Foo, () => { it('a', f) })":                         {"", " > a"},
		"describe('a', () => { context('b', () => { it('c', f) }) })": {"a > b > c"},
	} {
		tests := mustParseJS(t, "a.js", src).Tests()
		if len(tests) != 1 || !slices.Equal(tests[0].Title, want) {
			t.Errorf("%s: %+v, want %q", src, tests, want)
		}
	}
}

// TestJavaScriptRows: another value in a row of a table is written where the row is,
// and a constant where it gets its name.
func TestJavaScriptRows(t *testing.T) {
	t.Parallel()
	const src = "const LIMIT = 25\nit.each([\n  ['a', 71],\n  ['b', 82],\n])('rows %s', (s, want) => {\n  expect(f(s)).toBe(want)\n})\nit.each([{ s: 'c', want: 93 }])('objects $s', ({ s, want }) => {\n  expect(f(s)).toBe(want)\n})\nit('named', () => {\n  expect(f()).toBe(LIMIT)\n})\n"
	f := mustParseJS(t, "a.js", src)
	for i, tc := range []struct {
		evaluation int
		gone       string
	}{{2, "82]"}, {1, "want: 93"}, {0, "= 25"}} {
		test := f.Tests()[i]
		at := slices.IndexFunc(test.Sites, func(s Site) bool { return s.Kind == Expect })
		if at < 0 {
			t.Fatalf("%s has no expected value", test.Name)
		}
		text := string(mustEdit(t, f, Orders{Seed: seed(3), Sabotage: map[string]Order{test.Name: {Site: test.Sites[at].ID, Evaluation: tc.evaluation}}}))
		lines := strings.Join(strings.SplitAfterN(text, "\n", 14)[:13], "")
		if strings.Contains(lines, tc.gone) || strings.Count(lines, "\n") != 13 {
			t.Errorf("%s: %s is there\n%s", test.Name, tc.gone, lines)
		}
	}
}

// TestJavaScriptFits: what a value has to fit, or must not, is other literals, each of
// several of them.
func TestJavaScriptFits(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"assert([1, 'b'].includes(f()))":        `\[[4-8]\d{18}, 'b[a-z]+'\]`,
		"assert(new Set(['a', -3]).has(f()))":   `\['a[a-z]+', [4-8]\d{18}\]`,
		"expect(f()).toBeOneOf(['a', 'b'])":     `\['a[a-z]+', 'b[a-z]+'\]`,
		"expect(f()).toMatch(/^a$|b/i)":         `/\(\?:\^a\$\|b\)[a-z]+/i`,
		"expect(f()).not.toMatch(/a|b/)":        `/\(\?:a\|b\)\?/`,
		"assert.ok(!f().includes('a'))":         `includes\(''\)`,
		"assert.ok(f().hasAll(3))":              `hasAll\("[a-z]+"\)`,
		"expect(f()).toEqual(new Set(['a-b']))": `Set\(\['[a-z]-[a-z]'\]\)`,
		"if (f().startsWith('a')) throw e":      `startsWith\(''\)`,
		"assert.doesNotMatch(f(), /a/)":         `/\(\?:a\)\?/`,
		"assert.ok(f() >= 0.5 * g())":           `\[f\(\) , 0.5 \* g\(\)\]`,
	} {
		f := mustParseJS(t, "a.js", "it('a', () => { "+src+" })\n")
		test := f.Tests()[0]
		at := slices.IndexFunc(test.Sites, func(s Site) bool { return s.Kind == Expect })
		if at < 0 {
			t.Errorf("%s has no expected value", src)
			continue
		}
		text := string(mustEdit(t, f, Orders{Seed: seed(5), Sabotage: map[string]Order{test.Name: {Site: test.Sites[at].ID}}}))
		if line, _, _ := strings.Cut(text, "\n"); !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("%s: %s, want %s", src, line, want)
		}
	}
}

// FuzzJavaScript: whatever a file holds, reading it ends, and what is read can be
// edited without a line being moved.
func FuzzJavaScript(f *testing.F) {
	f.Add("a.js", jsProject)
	f.Add("a.tsx", "it.each([[1]])(`a ${b}`, async ({ c }: T): Promise<void> => { await expect(<A b={c}/>).resolves.not.toBe(-1); x.should.eql({ a: [`b`] }) })")
	f.Add("a.mjs", "import { equal } from 'assert'\r\ntest('a', t => equal(t, /[/]/.test(`${{}}`)))\r\n")
	f.Fuzz(func(t *testing.T, name, src string) {
		file, err := ParseJavaScript(name, []byte(src))
		if err != nil {
			return
		}
		o := Orders{Trace: "/tmp/x", Key: "k", Sabotage: map[string]Order{}}
		for _, test := range file.Tests() {
			if (len(test.Sites) == 0) == (test.Why == "") || len(test.Title) == 0 {
				t.Fatalf("test %q has neither sites nor a reason, or no title", test.Name)
			}
			for _, s := range test.Sites {
				o.Sabotage[test.Name] = Order{Site: s.ID}
			}
		}
		for _, trace := range []string{"/tmp/x", ""} {
			o.Trace = trace
			text, err := file.Edit(o)
			if err != nil || !strings.HasPrefix(string(text), src[:0]) || strings.Count(string(text), "\n") < strings.Count(src, "\n") {
				t.Fatalf("edit: %v: %q", err, text)
			}
		}
	})
}

// TestStepsOfDeno: an assertion is reached for sure in a step that is awaited, and not in
// one that may end before, is not awaited or belongs to something else.
func TestStepsOfDeno(t *testing.T) {
	t.Parallel()
	for body, certain := range map[string]bool{
		"await t.step('b', () => { same(f(1), 2) })":                                                          true,
		"await t.step('b', () => same(f(1), 2))":                                                              true,
		"await t.step('b', async (u) => { await u.step('c', async () => { same(await f(1), 2) }) })":          true,
		"await t.step(function b() { same(f(1), 2) })":                                                        true,
		"t.step('b', () => { same(f(1), 2) })":                                                                false,
		"await u.step('b', () => { same(f(1), 2) })":                                                          false,
		"await t.step('b', () => { if (g()) return; same(f(1), 2) })":                                         false,
		"if (g()) return; await t.step('b', () => { same(f(1), 2) })":                                         false,
		"if (g()) { await t.step('b', () => { same(f(1), 2) }) }":                                             false,
		"await t.step('b', h(() => { same(f(1), 2) }))":                                                       false,
		"await t.step('b', g() ? h : () => { same(f(1), 2) })":                                                false,
		"await t.step('b', async (u) => { await t.step('c', async () => { same(f(1), 2) }) })":                false,
		"await t.step('b', async (u) => { u.step('c', async () => { same(f(1), 2) }) })":                      false,
		"await t.step('b', function* () { same(f(1), 2) })":                                                   false,
		strings.Repeat("await t.step('b', async (t) => { ", 40) + "same(f(1), 2)" + strings.Repeat(" })", 40): false,
	} {
		f := mustParseJS(t, "a_test.ts", "import { assertEquals as same } from './deps.ts'\nDeno.test('a', async (t) => { "+body+" })").(*jsFile)
		got := false
		for _, p := range f.sites {
			got = got || p.kind == Flip && p.certain
		}
		if got != certain {
			t.Errorf("%s: certain %t, want %t", body, got, certain)
		}
	}
}

// TestUncheckedTypes: an edited file of TypeScript is not looked at by checkers of types,
// and its tests stay in their lines where a line is empty or a break can go.
func TestUncheckedTypes(t *testing.T) {
	t.Parallel()
	const test = "it('a', () => { expect(f()).toBe(1) })\n"
	for name, tt := range map[string]struct {
		file, src string
		top       string // what the edited file begins with, but for edits
		line      int    // of the test, the first is 1
	}{
		"JavaScript":             {"a.js", "\n" + test, "\nit('a'", 2},
		"an empty line":          {"a.ts", "// one\n\nimport b from 'b'\n" + test, "// one\n// @ts-nocheck\nimport b from 'b'\nit('a'", 4},
		"one in a comment":       {"a.ts", "/*\n\n*/\nimport b from 'b';\nimport c from 'c';\n" + test, "// @ts-nocheck\n/*\n\n*/\nimport b from 'b'; import c from 'c';\nit('a'", 6},
		"a break behind a comma": {"a.ts", "import {\n  b,\n  c } from 'b'\n" + test, "// @ts-nocheck\nimport {\n  b,   c } from 'b'\nit('a'", 4},
		"an empty line behind":   {"a.tsx", "import b from 'b'\n\n" + test, "// @ts-nocheck\nimport b from 'b'\nit('a'", 3},
		"none":                   {"a.mts", "import b from 'b'\n" + test, "// @ts-nocheck\nimport b from 'b'\nit('a'", 3},
		"a template":             {"a.ts", "const a = `;\n\n`\n" + test, "// @ts-nocheck\nconst a = `;\n\n`\nit('a'", 5},
		"an interpreter":         {"a.ts", "#!/usr/bin/env x\nimport b from 'b';\n" + test, "#!/usr/bin/env x\n// @ts-nocheck\nimport b from 'b'; it('a'", 3},
		"lines of Windows":       {"a.ts", "import b from 'b';\r\nimport c from 'c';\r\n" + test, "// @ts-nocheck\r\nimport b from 'b'; import c from 'c';\r\nit('a'", 3},
	} {
		edited, err := mustParseJS(t, tt.file, tt.src).Edit(Orders{})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(edited), "\n")
		if !strings.HasPrefix(string(edited), tt.top) || !strings.Contains(lines[tt.line-1], "it('a'") {
			t.Errorf("%s: test in line %d? begins with\n%s", name, tt.line, strings.Join(lines[:5], "\n"))
		}
	}
}
