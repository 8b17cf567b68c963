package twin

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
)

// needNode skips where there is no node with a test runner.
func needNode(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "node", "-e", "require('node:test')").CombinedOutput(); err != nil {
		t.Skipf("NO NODE WITH A TEST RUNNER ON THIS HOST: %v: %s", err, out)
	}
}

// runNode runs node in a directory and returns what it wrote.
func runNode(t *testing.T, dir string, args ...string) (out string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	return string(text), err == nil
}

const jsModule = `
exports.add = (a, b) => a + b;
exports.later = async (x) => x;
exports.call = (x, f) => setImmediate(() => f(null, x));
exports.boom = (x) => { throw new RangeError('no ' + x); };
`

// jsProject is a test file with what people write in one.
const jsProject = `#!/usr/bin/env node
'use strict'
// Tests of a module: ünïcode, 'quotes and /slashes.
const test = require('node:test')
const { describe, it, beforeEach } = test
const assert = require('node:assert')
const { strictEqual, deepStrictEqual: same } = require('assert/strict')
const mod = require('./mod.js')
const EXPECTED = { a: [1, 2], b: 'three' }
const regexp = /[/'"]x{1}/g

test('adds', () => {
  assert.strictEqual(mod.add(1, 2), 3)
  assert.equal(3, mod.add(1, 2))
  assert(mod.add(1, 1) === 2); assert.ok(mod.add(1, 1) > 1, 'two')
})

test('one line', () => strictEqual(mod.add(2, 2), 4))

test('async', async (t) => {
  const got = await mod.later({ a: [1, 2], b: 'three' })
  assert.deepStrictEqual(got, EXPECTED)
  same(await mod.later([1, { 'k': -2.5 }]), [1, { 'k': -2.5 }])
  await assert.rejects(mod.later(1).then(mod.boom), RangeError)
  if (got.a.length !== 2) throw new Error('length')
})

test('promise', () => mod.later(5).then(v => { assert.equal(v, 5) }))

test('callback', (t, done) => {
  mod.call(7, (err, value) => {
    assert.ifError(err)
    assert.equal(value, 7)
    done()
  })
})

describe('group', () => {
  let n
  beforeEach(() => { n = 1 })
  it('throws', () => {
    assert.throws(() => mod.boom('x'), { name: 'RangeError', message: 'no x' })
    assert.throws(() => mod.boom('x'), /no x/)
    return mod.later(3)
  })
  it("with \"quotes\" > and # more", function () {
    const want = 12.5
    for (const i of [1, 2, 3]) {
      assert.deepEqual([mod.add(i, n)], [i + 1], ` + "`no ${i} and ${`inner ${i}`}`" + `)
    }
    assert.equal(mod.add(12, 0.5), want)
  })
  it.skip('skipped', () => { assert.ok(false) })
  it('todo', { todo: true }, () => { assert.ok(false) })
  describe('deep', () => {
    for (const [a, b] of [[1, 2], [3, 4]]) {
      it(` + "`adds ${a} and ${b}`" + `, () => { assert.equal(mod.add(a, b), a + b) })
    }
  })
})

test('subtests', async (t) => {
  await t.test('inner', () => { assert.equal(mod.add(0, 0), 0) })
})

test('fits', () => {
  const most = 250
  assert.ok(mod.add(1, 1) > -3 && 5 >= mod.add(1, 1), 'a bound')
  assert(mod.add(1, 1) <= most)
  assert.equal('abc'.startsWith('ab'), true)
  assert.ok(mod.add(1, 1) >= 0.5 * mod.add(1, 1) && mod.add(1, 1)<mod.add(2, 1))
  if (mod.add(1, 1) < mod.add(0, 1) - 0.5 || mod.add('b', '') <= mod.add('', 'a')) throw new Error('less')
  assert.ok([2, 'x'].includes(mod.add(1, 1)) && new Set([2]).has(mod.add(1, 1)))
  assert.ok(/x|^ab?c/.test('abc') && !/x|y/.test('abc') && !mod.add('a', 'b').includes('x'))
  assert.doesNotMatch('abc', /x/)
  assert.ok(/^a\wc/.test('abc') && 'abc'.includes("bc") && !('abc'.length < 3))
  if (mod.add(1, 2) < 3 || !'abc'.endsWith('c')) throw new Error('no')
  assert.throws(() => mod.boom('x'), /x$/)
})

const named = () => { assert.ok(regexp) }
test('by name', named)
test('matches', () => {
  assert.match('abc'.replace(/b/, '/'), /a\/c/)
  assert.strictEqual(mod.add('a', "b"), 'ab')
  assert.notStrictEqual(mod.add(1, 1), 3)
  assert.strictEqual(mod.add(1, NaN) > 1, false)
})
`

// tapOf reads what node's runner says of tests at each level.
func tapOf(out string) map[string]bool {
	found := make(map[string]bool)
	var at []string
	for line := range strings.SplitSeq(out, "\n") {
		text := strings.TrimLeft(line, " ")
		depth := (len(line) - len(text)) / 4
		if name, ok := strings.CutPrefix(text, "# Subtest: "); ok {
			at = append(at[:min(depth, len(at))], strings.ReplaceAll(name, `\#`, "#"))
		}
		if ok := strings.HasPrefix(text, "ok "); ok || strings.HasPrefix(text, "not ok ") {
			if !strings.Contains(text, "# SKIP") && !strings.Contains(text, "# TO"+"DO") {
				found[strings.Join(at[:depth+1], " > ")] = ok
			}
		}
	}
	return found
}

// ran writes a file beside the module and runs it.
func ran(t *testing.T, text []byte) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"mod.js": jsModule, "a.test.js": string(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := runNode(t, dir, "--test", "--test-reporter=tap", "a.test.js")
	found := tapOf(out)
	if len(found) < 10 {
		t.Fatalf("%d tests ran\n%s\n%s", len(found), out, text)
	}
	return found
}

func mustParseJS(t *testing.T, name, src string) File {
	t.Helper()
	f, err := ParseJavaScript(name, []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// notOK are the tests that failed.
func notOK(found map[string]bool) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range maps.Keys(found) {
			if !found[name] && !yield(name) {
				return
			}
		}
	})
}

// TestJavaScriptRun: neutral edits change no verdict, and each sabotage makes its
// test fail and no other.
func TestJavaScriptRun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	needNode(t)
	f := mustParseJS(t, "a.test.js", jsProject)
	for n := range 3 {
		if failed := notOK(ran(t, mustEdit(t, f, Orders{Seed: seed(n)}))); len(failed) > 0 {
			t.Fatalf("neutral, seed %d: %q\n%s", n, failed, mustEdit(t, f, Orders{Seed: seed(n)}))
		}
	}
	most := 0
	for _, test := range f.Tests() {
		most = max(most, len(test.Sites))
	}
	for round := range most {
		if !tally.ByTurn(t, round, sabotageTurns) {
			continue
		}
		sabotage, want := map[string]Order{}, []string{}
		for _, test := range f.Tests() {
			if len(test.Sites) > round {
				sabotage[test.Name] = Order{Site: test.Sites[round].ID}
				want = append(want, test.Name)
			}
		}
		text := mustEdit(t, f, Orders{Seed: seed(100 + round), Sabotage: sabotage})
		failed := notOK(ran(t, text))
		for _, name := range want {
			exact := slices.Contains(failed, name)
			if !exact && (!strings.Contains(name, "*") || len(failed) == 0) {
				t.Errorf("round %d: %s passes with site %v", round, name, sabotage[name])
			}
		}
		for _, name := range failed {
			if name != "group" && name != "group > deep" && !strings.HasPrefix(name, "group > deep > adds") && !slices.Contains(want, name) && name != "subtests > inner" {
				t.Errorf("round %d: %s fails\n%s", round, name, text)
			}
		}
	}

}

// TestJavaScriptPairs: what cannot lie does not fulfil the pair that it is asked for,
// and what is more than all does.
func TestJavaScriptPairs(t *testing.T) {
	t.Parallel()
	needNode(t)
	cases := []struct{ code, want string }{
		{"assert(one() > 0 * one())", "fails"}, {"assert(Infinity > one())", "fails"}, {"assert(always(Infinity) >= one())", "fails"}, {"assert(-Infinity <= one())", "fails"},
		{"assert(text('b') > text('a'))", "fails"}, {"assert(new Date(9) >= new Date(8))", "fails"}, {"if (one() < 0.5 * one()) throw 1", "fails"}, {"assert(!(one() > 2 * one()))", "fails"},
		{"assert(turning() > one())", "holds"}, {"assert(one() < turning())", "holds"}, {"if (NaN < one()) throw 1", "holds"}, {"assert(!(one() > NaN))", "holds"},
	}
	src := "const assert = require('node:assert')\nconst one = () => 1, text = s => s, always = n => ({ valueOf: () => n })\nlet n = 0\nconst turning = () => ({ valueOf: () => n++ % 2 ? Infinity : -Infinity })\nconst all = []\nfunction test(name, f) { all.push([name, f]) }\n"
	for i, tc := range cases {
		src += fmt.Sprintf("test('c%d', () => { %s })\n", i, tc.code)
	}
	f := mustParseJS(t, "a.js", src+`for (const [name, f] of all) {
  const seen = [1, 0].map(start => { n = start; try { f(); return 'holds' } catch { return 'fails' } })
  console.log(name, seen.includes('holds') ? 'holds' : 'fails', 'end')
}
`)
	for n := range 2 {
		o := Orders{Seed: seed(n), Sabotage: map[string]Order{}}
		for _, test := range f.Tests() {
			for _, s := range test.Sites {
				if s.Kind == Expect && s.Loose && s.Certain {
					o.Sabotage[test.Name] = Order{Site: s.ID}
				}
			}
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.js"), mustEdit(t, f, o), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := runNode(t, dir, "a.js")
		for i, tc := range cases {
			if !strings.Contains(out, fmt.Sprintf("c%d %s end", i, tc.want)) {
				t.Errorf("%s does not end as it %s: %s", tc.code, tc.want, out)
			}
		}
	}
}
