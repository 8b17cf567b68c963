package verify

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// nodeProject: add is wrong, one of its tests shows it.
var nodeProject = project{
	base: files{
		"package.json": "{\"name\": \"calc\", \"scripts\": {\"test\": \"node --test\"}}\n",
		"calc.js":      "exports.add = (a, b) => a - b\nexports.sub = (a, b) => a - b\n",
		"calc.test.js": "const { test, describe, it } = require('node:test')\nconst assert = require('node:assert')\nconst calc = require('./calc.js')\n\n" +
			"test('sub', () => {\n  assert.strictEqual(calc.sub(3, 2), 1)\n})\n\ndescribe('add', () => {\n  it('adds', () => {\n    assert.strictEqual(calc.add(2, 2), 4)\n  })\n" +
			"  it('adds nothing', async () => assert.equal(await calc.add(3, 0), 3))\n})\n",
	},
	commands: []string{"node --test"},
	honest:   files{"calc.js": "exports.add = (a, b) => a + b\nexports.sub = (a, b) => a - b\n"},
}

// needNode skips where the sandbox has no node with a test runner.
func needNode(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "node", "-e", "require('node:test')").CombinedOutput(); err != nil {
		t.Skipf("NO NODE WITH A TEST RUNNER ON THIS HOST: %v: %s", err, out)
	}
}

// TestControlOfNode: the tests of node's own runner are controlled, under whatever
// command they run, and each way round it fails.
func TestControlOfNode(t *testing.T) {
	t.Parallel()
	needNode(t)
	const wrong = "exports.add = (a, b) => a - b\nexports.sub = (a, b) => a - b\n"
	for i, tc := range []struct {
		name, command, by string
		patch             files
		want              reason.Code // "" passes
	}{
		{"honest", "node --test", byTest, nodeProject.honest, ""},
		{"honest, npm", "npm test", byTest, nodeProject.honest, ""},
		{"honest, no names", "node calc.test.js >/dev/null", byExit, nodeProject.honest, ""},
		{"nothing", "node --test", "", files{"calc.js": wrong + "\n"}, reason.VerificationFailed},
		{"assertions do nothing", "node --test", byTest, files{"calc.js": "const assert = require('assert')\nassert.strictEqual = assert.equal = () => {}\n" + wrong}, reason.VerifierTampering},
		{"exits with 0", "node calc.test.js >/dev/null", byExit, files{"calc.js": "process.exit(0)\n" + wrong}, reason.VerifierTampering},
		{"tests are swallowed", "node --test", byTest, files{"calc.js": "const m = require('node:test')\nconst T = Object.getPrototypeOf(m.test)\nprocess.on('exit', () => { process.exitCode = 0 })\nconst assert = require('assert')\nassert.strictEqual = (a, b) => {}\nassert.equal = assert.strictEqual\n" + wrong}, reason.VerifierTampering},
	} {
		if !tally.ByTurn(t, i, 5) {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v, log := verified(t, Plan{Lower: nodeProject.base.write(t), Patch: tc.patch.changes(), Commands: []string{tc.command}})
			if tc.want != "" {
				if !slices.ContainsFunc(v.Findings, func(f reason.Finding) bool { return f.Code == tc.want }) {
					t.Errorf("want %q, got %s\n%s", tc.want, explain(v), log)
				}
				return
			}
			c := v.Control
			if v.Status != StatusPass || c == nil || !c.Made || c.Commands[0].By != tc.by || c.Counting != c.Proved {
				t.Fatalf("%s%+v\n%s", explain(v), c, log)
			}
			if !strings.Contains(strings.Join(c.NotRuledOut, "\n"), "JavaScript") {
				t.Errorf("%q", c.NotRuledOut)
			}
		})
	}
}

// TestControlOfNodeWhereAllFail: a result file names the tests also where none
// passes on the base, so one swallowed test is not covered by the failures of the
// others.
func TestControlOfNodeWhereAllFail(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	needNode(t)
	base := files{
		"package.json": "{\"name\": \"calc\", \"scripts\": {\"test\": \"node --test\"}}\n",
		"calc.js":      "exports.add = (a, b) => a - b\nexports.check = () => 0\n",
		"calc.test.js": "const { test } = require('node:test')\nconst assert = require('node:assert')\nconst calc = require('./calc.js')\n\n" +
			"test('adds', () => {\n  assert.strictEqual(calc.add(2, 2), 4)\n})\n\ntest('throws', () => {\n  assert.throws(() => calc.check('x'), /not a number/)\n})\n",
	}
	const add = "exports.add = (a, b) => a + b\n"
	swallowed := files{"calc.js": add + "exports.check = () => 0\nconst resource = require('async_hooks').AsyncResource.prototype\nconst run = resource.runInAsyncScope\n" +
		"resource.runInAsyncScope = function (...a) {\n  try { return run.apply(this, a) } catch (e) { if (this.name !== 'throws') throw e }\n}\n"}
	honest := files{"calc.js": add + "exports.check = (x) => { if (typeof x !== 'number') throw new Error('not a number') }\n"}
	for _, command := range []string{"npm test", "node --test"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			if command == "npm test" && !everyCheat() { // TestRunners has honest and wrong changes behind npm
				t.Skip("slow: REMIT_CHEATS=all tries it; by default it is tried without npm")
			}
			v, log := verified(t, Plan{Lower: base.write(t), Patch: swallowed.changes(), Commands: []string{command}})
			if !slices.ContainsFunc(v.Findings, func(f reason.Finding) bool { return f.Code == reason.VerifierTampering }) {
				t.Errorf("one of two tests is swallowed: %s\n%s", explain(v), log)
			}
			v, log = verified(t, Plan{Lower: base.write(t), Patch: honest.changes(), Commands: []string{command}})
			if c := v.Control; v.Status != StatusPass || c == nil || c.Commands[0].By != byTest || c.Counting != 2 || c.Proved != 2 {
				t.Errorf("honest: %s%+v\n%s", explain(v), c, log)
			}
		})
	}
}

// TestControlOfSharedTitles: the order of tests that share a title distinguishes them, so
// that each is controlled, and a fixed one is called fixed. Where a loop makes some of
// them, the order does not say which is which, and they are not called proved.
func TestControlOfSharedTitles(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	needNode(t)
	const (
		head = "const { test, describe, it } = require('node:test')\nconst assert = require('node:assert')\nconst calc = require('./calc.js')\n\n"
		subs = "it('works', () => {\n  assert.strictEqual(calc.sub(3, 2), 1)\n})\n"
		adds = "it('works', () => {\n  assert.strictEqual(calc.add(2, 2), 4)\n})\n"
	)
	wrong := files{"calc.js": "const assert = require('assert')\nassert.strictEqual = () => {}\n" + nodeProject.base["calc.js"]}
	for i, tc := range []struct {
		name, tests      string
		fixed            []string
		counting, proved int
		made             bool
	}{
		{"two", subs + adds, []string{"calc.test.js > works (2)"}, 2, 2, true},
		{"in groups of one name", "describe('g', () => {\n" + subs + "})\ndescribe('g', () => {\n" + adds + subs + "})\n", []string{"calc.test.js > g > works (2)"}, 3, 3, true},
		{"one that runs twice", "for (const n of [1, 2]) {\n" + adds + "}\ntest('subs', () => assert.strictEqual(calc.sub(3, 2), 1))\n", []string{"calc.test.js > works", "calc.test.js > works (2)"}, 2, 2, true},
		{"a loop and another one", "for (const n of [1, 2]) {\n" + subs + "}\n" + adds + "test('subs', () => assert.strictEqual(calc.sub(3, 2), 1))\n", []string{"calc.test.js > works (3)"}, 4, 1, false},
	} {
		if !tally.ByTurn(t, i, 5) {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			base := nodeProject.base.with(files{"calc.test.js": head + tc.tests}).write(t)
			v, log := verified(t, Plan{Lower: base, Patch: nodeProject.honest.changes(), Commands: []string{"node --test"}})
			c := v.Control
			if v.Status != StatusPass || !slices.Equal(v.FailToPass, tc.fixed) || c == nil || c.Made != tc.made || c.Counting != tc.counting || c.Proved != tc.proved {
				t.Errorf("%s fixed %q %+v\n%s", explain(v), v.FailToPass, c, log)
			}
			if v, log = verified(t, Plan{Lower: base, Patch: wrong.changes(), Commands: []string{"node --test"}}); v.Status == StatusPass && v.Control.Made {
				t.Errorf("assertions that do nothing pass: %+v\n%s", v.Control, log)
			}
		})
	}
}

// TestServerLeftOpen: a test that fails may leave a server open, so that its process does
// not end. What the runner has said counts, soon, and the exit status is its own.
func TestServerLeftOpen(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 4, 8)
	needNode(t)
	tests := "const { test } = require('node:test')\nconst assert = require('node:assert')\nconst http = require('node:http')\nconst calc = require('./calc.js')\n\n"
	for _, call := range []string{"add(2, 2), 4", "sub(3, 2), 1"} {
		tests += "test('" + call + "', async () => {\n  const server = http.createServer().listen(0, '127.0.0.1')\n  assert.strictEqual(calc." + call +
			")\n  await new Promise((closed) => server.close(closed))\n})\n"
	}
	base := nodeProject.base.with(files{"calc.test.js": tests}).write(t)
	v, log := verified(t, Plan{Lower: base, Patch: nodeProject.honest.changes(), Commands: []string{"node --test"}})
	if c := v.Control; v.Status != StatusPass || len(v.FailToPass) != 1 || c == nil || !c.Made || c.Proved != 2 {
		t.Errorf("%s fixed %q %+v\n%s", explain(v), v.FailToPass, c, log)
	}
	runs := regexp.MustCompile(`(?m)^duration_ms: (\d+)$`).FindAllStringSubmatch(log, -1)
	if len(runs) < 4 {
		t.Errorf("%d runs in the log\n%s", len(runs), log)
	}
	for _, took := range runs {
		if ms, err := strconv.Atoi(took[1]); err != nil || ms >= int(leastTwin.Milliseconds()) {
			t.Errorf("a run was waited for to its limit: %s\n%s", took[0], log)
		}
	}
	stays := files{"calc.js": nodeProject.honest["calc.js"] + "require('node:http').createServer().listen(0, '127.0.0.1')\n"}
	sb := realSandbox(t)
	v, err := Run(t.Context(), sb, Plan{Lower: base, Patch: stays.changes(), Commands: []string{"node --test"}, TestingDir: testingDir, Limits: sandbox.Limits{Wall: 10 * time.Second, OutputBytes: 1 << 20}})
	if err != nil || codes(v.Findings) != string(reason.Timeout) {
		t.Errorf("a change that leaves a server open: %v %s", err, explain(v))
	}
}
