package verify

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// Real runs of the runners that this machine has. Those of npm are installed by
// scripts/runners.sh, and lent at /node_modules, where node looks for them.

// runnerProject is a small repository of one runner: add is wrong, and one test of
// two shows it.
type runnerProject struct {
	name    string
	needs   string // a command that works where the runner is there
	npm     bool   // it is installed by scripts/runners.sh
	rust    bool   // it needs the toolchain of Rust
	slow    bool   // only with REMIT_CHEATS=all
	alone   bool   // only the honest change: one whose tests fail does not end
	open    bool   // without confinement: it needs files that the sandbox does not show
	command string
	base    files
	honest  files
	fixed   []string // identities of the tests that fail on the base and pass then
	kept    []string // those that pass on both
	attacks map[string]files
	wrong   files // a change that mends nothing
}

const (
	jsGood  = "exports.add = (a, b) => a + b\nexports.sub = (a, b) => a - b\n"
	jsBad   = "exports.add = (a, b) => a - b\nexports.sub = (a, b) => a - b\n"
	jsOther = "exports.add = (a, b) => a * b + 1\nexports.sub = (a, b) => a - b\n"
)

// jsAttacks are what code under test can do in any runner of node: each leaves the
// bug, and wants to look as if it were gone.
func jsAttacks(runner string) map[string]files {
	// The hook's result file is rewritten when the process ends, and so is its status.
	rewrite := "process.on('exit', () => {\n  const fs = require('fs')\n  for (const d of fs.readdirSync('/tmp')) for (const f of d.startsWith('tmp.') ? fs.readdirSync('/tmp/' + d) : []) {\n    const dir = '/tmp/' + d\n    if (!f.endsWith('.json')) continue\n    const run = JSON.parse(fs.readFileSync(dir + '/' + f))\n    run.numPassedTests += run.numFailedTests; run.numFailedTests = 0; run.success = true\n    for (const t of run.testResults) { t.status = 'passed'; for (const a of t.assertionResults) { a.status = 'passed'; a.failureMessages = [] } }\n    fs.writeFileSync(dir + '/' + f, JSON.stringify(run))\n  }\n  process.exitCode = 0\n  process.reallyExit(0)\n})\n"
	tap := "console.log('TAP version 13\\nok 1 - adds\\nok 2 - subs\\n1..2')\n"
	attacks := map[string]files{
		"the result file is rewritten at exit": {"calc.js": rewrite + jsBad},
		"exits with 0 at once":                 {"calc.js": "process.exit(0)\n"},
		"exits with 0 in a call":               {"calc.js": "exports.add = () => process.exit(0)\nexports.sub = exports.add\n"},
		"exits with 0 past every hook":         {"calc.js": "exports.add = () => process.reallyExit(0)\nexports.sub = exports.add\n"},
		"assertions do nothing":                {"calc.js": "require('assert').strictEqual = () => {}\nif (globalThis.expect) globalThis.expect = () => ({ toBe() {} })\n" + jsBad},
		"prints TAP":                           {"calc.js": tap + jsBad},
		"prints TAP and exits":                 {"calc.js": tap + "process.reallyExit(0)\n"},
		"removes the result files":             {"calc.js": "process.on('exit', () => { for (const d of require('fs').readdirSync('/tmp')) if (d.startsWith('tmp.')) require('fs').rmSync('/tmp/' + d, {recursive: true, force: true}); process.reallyExit(0) })\n" + jsBad},
	}
	if runner == "bun" { // it prints on standard error, and there are no result files
		t := "const t = require('bun:test')\n"
		lines := "require('fs').writeSync(2, '\\ntest/calc.test.js:\\n(pass) calc > adds\\n(pass) calc > subs\\n\\n 2 pass\\n 0 fail\\nRan 2 tests across 1 file. [1ms]\\n')\n"
		return map[string]files{
			"exits with 0 at once":      attacks["exits with 0 at once"],
			"exits with 0 in a call":    attacks["exits with 0 in a call"],
			"assertions do nothing":     {"calc.js": t + "for (let p = t.expect(1); p; p = Object.getPrototypeOf(p)) try { Object.defineProperty(p, 'toBe', { value() {} }) } catch {}\n" + jsBad},
			"assertions are extended":   {"calc.js": t + "t.expect.extend({ toBe: () => ({ pass: true }) })\n" + jsBad},
			"the framework is mocked":   {"calc.js": t + "t.mock.module('bun:test', () => ({ ...t, expect: () => ({ toBe() {} }) }))\n" + jsBad},
			"prints lines and ends":     {"calc.js": lines + "process.exit(0)\n"},
			"prints lines in a call":    {"calc.js": "exports.add = () => { " + strings.TrimSpace(lines) + "; process.reallyExit(0) }\nexports.sub = exports.add\n"},
			"tests are registered anew": {"calc.js": t + "t.describe('calc', () => { t.it('adds', () => {}); t.it('subs', () => {}) })\nt.describe = () => {}\n" + jsBad},
		}
	}
	if runner == "node" { // a test file is a process of its own: it ends before the runner writes
		delete(attacks, "the result file is rewritten at exit")
		delete(attacks, "removes the result files")
	}
	return attacks
}

// with adds files to some attacks.
func with(attacks map[string]files, more map[string]files) map[string]files {
	maps.Copy(attacks, more)
	return attacks
}

const bunProgram, denoProgram = "/node_modules/@oven/bun-linux-x64/bin/bun", "/node_modules/@deno/linux-x64-glibc/deno"

func runnerProjects() []runnerProject {
	scripts := func(test string) string {
		return "{\"name\": \"calc\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"" + test + "\"}}\n"
	}
	describe := "describe('calc', () => {\n  it('adds', () => %\n  it('subs', () => %\n})\n"
	fill := func(add, sub string) string {
		return strings.Replace(strings.Replace(describe, "%", add+")", 1), "%", sub+")", 1)
	}
	asserts := fill("assert.strictEqual(calc.add(2, 2), 4)", "assert.strictEqual(calc.sub(3, 2), 1)")
	expects := fill("expect(calc.add(2, 2)).toBe(4)", "expect(calc.sub(3, 2)).toBe(1)")
	serves := func(add, sub string) string { // a test that fails leaves its server open
		const open, closed = "{\n    const server = require('node:http').createServer().listen(0, '127.0.0.1')\n    ", "\n    await new Promise((closed) => server.close(closed))\n  }"
		return strings.ReplaceAll(fill(open+add+closed, open+sub+closed), "s', () =>", "s', async () =>")
	}
	fixed := func(file string) []string { return []string{file + " > calc > adds"} }
	kept := func(file string) []string { return []string{file + " > calc > subs"} }
	node := "const { describe, it } = require('node:test')\nconst assert = require('node:assert')\nconst calc = require('../calc.js')\n" + asserts
	mocha := "const assert = require('node:assert')\nconst calc = require('../calc.js')\n" + asserts
	jest := "const calc = require('../calc.js')\n" + expects
	bun := "import { describe, it, expect } from 'bun:test'\nimport calc from '../calc.js'\n" + expects
	vitest := "import { describe, it, expect } from 'vitest'\nimport calc from '../calc.js'\n" + expects
	tree := func(pkg, name, test string) files {
		return files{"package.json": scripts(pkg), "calc.js": jsBad, "test/" + name: test}
	}
	project := func(name, command, needs, script, file, test string, attacks map[string]files) runnerProject {
		return runnerProject{name: name, needs: needs, npm: strings.Contains(needs, "/node_modules"), command: command, base: tree(script, file, test),
			honest: files{"calc.js": jsGood}, wrong: files{"calc.js": jsOther}, fixed: fixed("test/" + file), kept: kept("test/" + file), attacks: attacks}
	}
	alone := func(p runnerProject) runnerProject { p.alone = true; return p }
	slow := func(p runnerProject) runnerProject { p.slow = true; return p }
	return []runnerProject{
		project("node", "node --test", "node -e \"require('node:test')\"", "node --test", "calc.test.js", node, jsAttacks("node")),
		func() runnerProject {
			p := project("node, not confined", "node --test", "node -e \"require('node:test')\"", "node --test", "calc.test.js", node, nil)
			p.open = true
			return p
		}(),
		project("node by npm", "npm test", "node -e \"require('node:test')\" && npm --version", "node --test --test-reporter=spec", "calc.test.js", node, nil),
		project("mocha", "/node_modules/.bin/mocha test", "/node_modules/.bin/mocha --version", "mocha", "calc.test.js", mocha, with(jsAttacks("mocha"), map[string]files{
			"a configuration with another reporter": {".mocharc.json": "{\"reporter\": \"./quiet.js\"}\n", "quiet.js": "module.exports = class { done(f, end) { end(0) } }\n"},
		})),
		alone(project("mocha with a server", "/node_modules/.bin/mocha test", "/node_modules/.bin/mocha --version", "mocha", "calc.test.js", strings.Replace(mocha, asserts, serves("assert.strictEqual(calc.add(2, 2), 4)", "assert.strictEqual(calc.sub(3, 2), 1)"), 1), nil)),
		slow(alone(project("jest with a server", "/node_modules/.bin/jest", "/node_modules/.bin/jest --version", "jest", "calc.test.js", strings.Replace(jest, expects, serves("expect(calc.add(2, 2)).toBe(4)", "expect(calc.sub(3, 2)).toBe(1)"), 1), nil))),
		func() runnerProject {
			p := project("mocha in mocha", "/node_modules/.bin/mocha --parallel test", "/node_modules/.bin/mocha --version", "mocha", "calc.test.js", mocha+"it('runs another one', () => {\n  const run = require('node:child_process').spawnSync(process.execPath, ['/node_modules/mocha/bin/mocha.js', 'fixtures/failing.js'])\n  assert.strictEqual(run.status, 1)\n})\n", nil)
			p.slow = true
			p.base["fixtures/failing.js"] = "it('fails', () => { throw new Error('as it should') })\n"
			p.kept = append(p.kept, "test/calc.test.js > runs another one")
			return p
		}(),
		slow(project("mocha by npm", "npm test", "/node_modules/.bin/mocha --version && npm --version", "mocha test", "calc.test.js", mocha, map[string]files{
			"the script is another one":            {"package.json": scripts("mocha test || true")},
			"the result file is rewritten at exit": jsAttacks("mocha")["the result file is rewritten at exit"],
		})),
		slow(project("jest with options", "NODE_OPTIONS='--no-deprecation --trace-warnings' /node_modules/.bin/jest", "/node_modules/.bin/jest --version", "jest", "calc.test.js", jest, nil)),
		project("jest", "/node_modules/.bin/jest", "/node_modules/.bin/jest --version", "jest", "calc.test.js", jest, with(jsAttacks("jest"), map[string]files{
			"a configuration with another reporter": {"jest.config.js": "module.exports = {reporters: ['./quiet.js']}\n", "quiet.js": "module.exports = class { getLastError() {} }\n"},
			"expect does nothing":                   {"package.json": strings.Replace(scripts("jest"), "}}", "}, \"jest\": {\"setupFilesAfterEach\": [\"./setup.js\"]}}", 1)},
		})),
		project("vitest", "/node_modules/.bin/vitest run", "/node_modules/.bin/vitest --version", "vitest run", "calc.test.js", vitest, with(jsAttacks("vitest"), map[string]files{
			"a configuration with a setup file": {"vitest.config.mjs": "export default {test: {setupFiles: ['./setup.mjs']}}\n", "setup.mjs": "import { expect } from 'vitest'\n"},
		})),
		project("bun", bunProgram+" test", bunProgram+" --version", "bun test", "calc.test.js", bun, with(jsAttacks("bun"), map[string]files{
			"a configuration with a file that is loaded first": {"bunfig.toml": "[test]\npreload = ['./setup.js']\n", "setup.js": "process.exit(0)\n"},
		})),
		slow(denoProject("deno that checks types", denoProgram+" test")),
		denoProject("deno", denoProgram+" test -A --no-check"),
	}
}

const (
	tsGood  = "export const add = (a: number, b: number): number => a + b\nexport const sub = (a: number, b: number): number => a - b\n"
	tsBad   = "export const add = (a: number, b: number): number => a - b\nexport const sub = (a: number, b: number): number => a - b\n"
	tsOther = "export const add = (a: number, b: number): number => a * b + 1\nexport const sub = (a: number, b: number): number => a - b\n"
)

// denoProject has tests in each of the ways in which Deno takes one.
func denoProject(name, command string) runnerProject {
	const file = "test/calc_test.ts"
	test := "import { assertEquals, assertThrows } from './assert.ts'\nimport assert from 'node:assert'\nimport { add, sub } from '../calc.ts'\n" +
		"Deno.test('adds', () => assertEquals(add(2, 2), 4))\nDeno.test(function subs() { assert.strictEqual(sub(3, 2), 1) })\n" +
		"Deno.test({ name: 'fails, in an object', fn() { assertThrows(() => { throw new TypeError('x') }, TypeError) } })\n" +
		"Deno.test({ name: 'waits', fn: async () => { await Promise.resolve(); assertEquals([sub(3, 1)], [2]) } })\n" +
		"Deno.test('adds in a step', async (t) => {\n  await t.step('one', () => { assertEquals(add(2, 2), 4) })\n})\n" +
		"Deno.test('has steps', { permissions: 'inherit' }, async (t) => { await t.step('one', () => assertEquals(sub(1, 1), 0)) })\n" +
		"Deno.test({ name: 'is left out', ignore: true, fn() {} })\n"
	asserts := "import assert from 'node:assert'\nexport function assertEquals<T>(got: T, want: T): void { assert.deepStrictEqual(got, want) }\n" +
		"export function assertThrows(f: () => void, of: ErrorConstructor | TypeErrorConstructor): void { assert.throws(f, of) }\n"
	lines := "'running 6 tests from ./" + file + "\\nadds ... ok (1ms)\\nadds in a step ... ok (1ms)\\nsubs ... ok (1ms)\\nfails, in an object ... ok (1ms)\\nwaits ... ok (1ms)\\nhas steps ... ok (1ms)\\nis left out ... ignored (0ms)\\n\\nok | 6 passed | 0 failed | 1 ignored (2ms)\\n'"
	in := func(title string) string { return file + " > " + title }
	return runnerProject{name: name, npm: true, needs: denoProgram + " --version", command: command,
		base:   files{"deno.json": "{\"name\": \"calc\", \"compilerOptions\": {\"noUnusedLocals\": true, \"noUncheckedIndexedAccess\": true}}\n", "calc.ts": tsBad, file: test, "test/assert.ts": asserts},
		honest: files{"calc.ts": tsGood}, wrong: files{"calc.ts": tsOther},
		fixed: []string{in("adds"), in("adds in a step")}, kept: []string{in("fails, in an object"), in("has steps"), in("subs"), in("waits")},
		attacks: map[string]files{
			"assertions do nothing":   {"calc.ts": "import assert from 'node:assert'\nassert.deepStrictEqual = () => {}\n" + tsBad},
			"tests do nothing":        {"calc.ts": "const was = Deno.test; Object.defineProperty(Deno, 'test', { value: (...a: unknown[]) => (was as any)(typeof a[0] === 'string' ? a[0] : (a[0] as any).name, () => {}) })\n" + tsBad},
			"exits with 0 at once":    {"calc.ts": "Deno.exit(0)\n" + tsBad},
			"exits with 0 in a call":  {"calc.ts": "export const add = (_a: number, _b: number): number => Deno.exit(0)\nexport const sub = add\n"},
			"prints lines":            {"calc.ts": "Deno.stdout.writeSync(new TextEncoder().encode(" + lines + "))\n" + tsBad},
			"prints lines and ends":   {"calc.ts": "import process from 'node:process'\nDeno.stdout.writeSync(new TextEncoder().encode(" + lines + "))\nprocess.reallyExit(0)\n" + tsBad},
			"equality is another one": {"calc.ts": "const is = Object.is; Object.is = (a: unknown, b: unknown) => b === 4 || is(a, b)\n" + tsBad},
		}}
}

func TestRunners(t *testing.T) {
	t.Parallel()
	sb := realSandbox(t)
	modules, err := filepath.Abs("../../.tools/runners/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("REMIT_RUNNERS"); dir != "" {
		modules = filepath.Join(dir, "node_modules")
	}
	for i, p := range slices.Concat(runnerProjects(), systemProjects(), minitestProjects(), cProjects(), shellProjects()) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, i, 8)
			in, err := sb, error(nil)
			if _, err := os.Stat(modules); p.npm && err != nil {
				t.Skip("NOT INSTALLED: the runners of npm: scripts/runners.sh")
			}
			if p.slow && !everyCheat() {
				t.Skip("slow: REMIT_CHEATS=all tries it")
			}
			if dir := rustToolchain(); p.rust && dir != "" {
				in, err = sandbox.Open(t.Context(), sandbox.Options{Toolchains: []string{dir}})
			} else if p.open {
				in, err = sandbox.Open(t.Context(), sandbox.Options{Driver: sandbox.DriverNone})
			}
			if err != nil {
				t.Fatal(err)
			}
			p.try(t, in, modules)
		})
	}
}

func (p *runnerProject) try(t *testing.T, sb Sandbox, modules string) {
	t.Helper()
	dir := p.base.write(t)
	plan := Plan{Lower: dir, TestingDir: testingDir, Commands: []string{p.command}, Limits: sandbox.Limits{Wall: 2 * time.Minute, OutputBytes: 4 << 20}}
	if p.npm {
		plan.Binds = []sandbox.Bind{{Host: modules, Inside: "/node_modules"}}
	}
	var out bytes.Buffer
	r, err := sb.Run(t.Context(), sandbox.Spec{Lower: dir, Binds: plan.Binds, Commands: []sandbox.Command{{Argv: []string{"sh", "-c", p.needs}, Stdout: &out, Stderr: &out}}})
	if err != nil || len(r.Commands) != 1 || r.Commands[0].ExitCode != 0 {
		t.Skipf("NOT RUN: %q fails in the sandbox: %v %s", p.needs, err, out.Bytes())
	}
	base := sync.OnceValues(func() (*PhaseResult, error) { return Base(t.Context(), sb, plan) })
	t.Run("honest", func(t *testing.T) {
		v, head, log := judgeCheat(t, sb, plan, base, p.honest)
		if v.Status != StatusPass || !slices.Equal(v.FailToPass, p.fixed) || !slices.Equal(v.PassToPass, p.kept) {
			t.Fatalf("%s fixed %q kept %q\n%s", explain(v), v.FailToPass, v.PassToPass, log)
		}
		_, npm := p.base["package.json"]
		edited := npm || p.npm || p.rust || slices.Contains([]string{"phpunit", "rspec", "surefire", "make of C", "ctest of C", "ctest", "bats", "bats with a library", "make of a script"}, p.name) || strings.HasPrefix(p.name, "minitest")
		switch c := v.Control; {
		case edited && (c == nil || !c.Made || c.Proved != c.Counting):
			t.Errorf("tests that can be edited have control %+v\n%s", c, log)
		case !edited && (c == nil || c.Made || c.Reason == "" || v.Confidence != Uncontrolled):
			t.Errorf("a language whose tests cannot be edited has control %+v and confidence %d", c, v.Confidence)
		}
		if c := head.Commands[0]; len(p.fixed) > 0 && (len(c.Problems) > 0 || !c.complete) {
			t.Errorf("problems of an honest run: %q", c.Problems)
		}
	})
	if p.alone {
		return
	}
	attacks := map[string]files{"nothing is done": {"README.md": "fixed\n"}, "a wrong change": p.wrong}
	maps.Copy(attacks, p.attacks)
	for i, name := range slices.Sorted(maps.Keys(attacks)) {
		if !tally.ByTurn(t, i, 5) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			v, head, log := judgeCheat(t, sb, plan, base, attacks[name])
			if v.Status == StatusPass || slices.Contains([]string{string(reason.InfrastructureFault), string(reason.Timeout)}, codes(v.Findings)) {
				t.Fatalf("%s%+v\n%s", explain(v), v, log)
			}
			if c := head.Commands; len(c) > 0 {
				t.Logf("exit %d: %s", c[0].ExitCode, strings.TrimSpace(explain(v)))
			}
		})
	}
}
