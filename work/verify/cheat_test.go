package verify

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// The cheat corpus: ways to make a test command exit 0 without doing the work.
// Each is a standing negative test. The honest patch of the same task passes,
// so that a verifier which refuses everything does not pass the corpus.

type project struct {
	base     files
	commands []string
	honest   files
	others   map[string]files // further honest patches
}

type cheat struct {
	name  string
	patch files
	rule  string
	want  reason.Code
	loud  bool // the command itself fails: a verifier that only asks for exit 0 is not fooled either
}

// goProject: Add is wrong, TestAdd shows it.
var goProject = project{
	base: files{
		"go.mod":       "module example.com/calc\n\ngo 1.26\n",
		"calc.go":      "package calc\n\nfunc Add(a, b int) int { return a - b }\n\nfunc Sub(a, b int) int { return a - b }\n",
		"calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 2) != 4 {\n\t\tt.Fatal(\"2 + 2\")\n\t}\n}\n\nfunc TestSub(t *testing.T) {\n\tif Sub(3, 2) != 1 {\n\t\tt.Fatal(\"3 - 2\")\n\t}\n}\n",
	},
	commands: []string{"go test -vet=off -ldflags=-w ./..."}, // quicker
	honest:   files{"calc.go": "package calc\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Sub(a, b int) int { return a - b }\n"},
	others: map[string]files{
		"with tests added and edited": {
			"calc.go":      "package calc\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Sub(a, b int) int { return a - b }\n\nfunc Mul(a, b int) int { return a * b }\n",
			"calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc same(t *testing.T, a, b int) {\n\tif a != b {\n\t\tt.Fatal(a, b)\n\t}\n}\n\nfunc TestAdd(t *testing.T) { same(t, Add(2, 2), 4) }\n\nfunc TestSub(t *testing.T) { same(t, Sub(3, 2), 1) }\n",
			"mul_test.go":  "package calc\n\nimport \"testing\"\n\nfunc TestMul(t *testing.T) { same(t, Mul(3, 2), 6) }\n",
		},
		"with a package and a TestMain": {
			"calc.go":         "package calc\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Sub(a, b int) int { return a - b }\n",
			"more/m.go":       "package more\n",
			"more/m_test.go":  "package more_test\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }\n\nfunc TestMore(t *testing.T) {}\n",
			"none/nothing.go": "package none\n",
		},
	},
}

var goCheats = []cheat{
	{name: "nothing is done", loud: true, patch: files{"README.md": "fixed"}, want: reason.VerificationFailed},
	{name: "tests deleted", patch: files{"calc_test.go": deleted}, want: reason.VerifierTampering},
	{name: "one test deleted", patch: files{"calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestSub(t *testing.T) {}\n"}, want: reason.BaseTestGone},
	{name: "test skipped", patch: files{"calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { t.Skip() }\n\nfunc TestSub(t *testing.T) {}\n"}, want: reason.VerifierTampering},
	{name: "assertion weakened", patch: files{"calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { Add(2, 2) }\n\nfunc TestSub(t *testing.T) { Sub(3, 2) }\n"}, want: reason.VerifierTampering},
	{name: "assertion weakened, protect", loud: true, rule: RuleProtect, patch: files{"calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {}\n\nfunc TestSub(t *testing.T) {}\n"}, want: reason.VerificationFailed},
	{name: "TestMain exits 0", patch: files{"main_test.go": "package calc\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(0) }\n"}, want: reason.VerifierTampering},
	{name: "TestMain swallows the exit status", patch: files{"main_test.go": "package calc\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(0) }\n"}, want: reason.VerifierTampering},
	{name: "init exits 0", patch: files{"calc.go": "package calc\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }\n\nfunc Sub(a, b int) int { return 0 }\n"}, want: reason.VerifierTampering},
	{name: "init exits 0, free", rule: RuleFree, patch: files{"calc.go": "package calc\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }\n\nfunc Sub(a, b int) int { return 0 }\n"}, want: reason.VerificationFailed},
	{name: "init forges the protocol of the runner", patch: files{"calc.go": "package calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() {\n\tfor _, t := range []string{\"TestAdd\", \"TestSub\"} {\n\t\tfmt.Printf(\"\\x16=== RUN   %s\\n\\x16--- PASS: %s (0.00s)\\n\", t, t)\n\t}\n\tfmt.Print(\"\\x16PASS\\n\")\n\tos.Exit(0)\n}\n\nfunc Add(a, b int) int { return 0 }\n\nfunc Sub(a, b int) int { return 0 }\n"}, want: reason.VerifierTampering},
	{name: "printed PASS lines", loud: true, patch: files{"calc.go": "package calc\n\nimport \"fmt\"\n\nfunc Add(a, b int) int {\n\tfmt.Println(\"--- PASS: TestAdd (0.00s)\\nPASS\\nok  \\texample.com/calc\\t0.01s\\n{\\\"Action\\\":\\\"pass\\\",\\\"Package\\\":\\\"example.com/calc\\\",\\\"Test\\\":\\\"TestAdd\\\"}\")\n\treturn 0\n}\n\nfunc Sub(a, b int) int { return a - b }\n"}, want: reason.VerificationFailed},
	{name: "build tag on the test file", patch: files{"calc_test.go": "//go:build never\n\n" + goProject.base["calc_test.go"]}, want: reason.VerifierTampering},
	{name: "go.mod replaces a module", patch: files{"go.mod": "module example.com/calc\n\ngo 1.26\n\nreplace example.com/assert => ./fake\n", "calc.go": goProject.honest["calc.go"]}, want: reason.VerifierTampering},
	{name: "go.work is added", patch: files{"go.work": "go 1.26\n\nuse .\n", "calc.go": goProject.honest["calc.go"]}, want: reason.VerifierTampering},
	{name: "GOFLAGS in an env file", patch: files{".env": "GOFLAGS=-run=NONE\n", "calc.go": goProject.honest["calc.go"]}, want: reason.VerifierTampering},
	{name: "a wrapper in the tree", loud: true, patch: files{"go": "#!/bin/sh\nexit 0\n", "bin/go": "#!/bin/sh\nexit 0\n"}, want: reason.VerificationFailed},
	{name: "symlink out of the tree", patch: files{"calc.go": goProject.honest["calc.go"], "data": linkText + "../../etc"}, want: reason.VerifierTampering},
	{name: "a link where the tests were", patch: files{"calc.go": goProject.honest["calc.go"], "calc_test.go": linkText + "/dev/null"}, want: reason.VerifierTampering},
	{name: "tests rewritten by the code under test", patch: files{
		"calc.go":      "package calc\n\nimport \"os\"\n\nfunc Add(a, b int) int {\n\tos.WriteFile(\"calc_test.go\", []byte(\"package calc\\n\"), 0o644)\n\treturn a + b\n}\n\nfunc Sub(a, b int) int { return a - b }\n",
		"calc_test.go": goProject.base["calc_test.go"] + "\n"}, want: reason.VerifierTampering},
}

// pyProject is the same task with unittest; pytest runs it too.
var pyProject = project{
	base: files{
		"calc.py":            "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n",
		"tests/__init__.py":  "",
		"tests/test_calc.py": "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n\n    def test_sub(self):\n        self.assertEqual(calc.sub(3, 2), 1)\n",
	},
	commands: []string{"python3 -m unittest discover"},
	honest:   files{"calc.py": "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"},
	others: map[string]files{
		"with a test module": {
			"calc.py":            "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n",
			"tests/test_more.py": "import unittest\n\n\nclass More(unittest.TestCase):\n    def test_more(self):\n        pass\n\n    @unittest.skip('why not')\n    def test_skip(self):\n        pass\n",
		},
	},
}

const pyWrong = "\n\ndef add(a, b):\n    return 0\n\n\ndef sub(a, b):\n    return 0\n"

var pyCheats = []cheat{
	{name: "nothing is done", loud: true, patch: files{"README.md": "fixed"}, want: reason.VerificationFailed},
	{name: "tests deleted", patch: files{"tests/test_calc.py": deleted}, want: reason.VerifierTampering},
	{name: "test directory deleted", patch: files{"tests": deleted}, want: reason.VerifierTampering},
	{name: "tests skipped", patch: files{"tests/test_calc.py": "import unittest\n\nimport calc\n\n\n@unittest.skip('later')\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n\n    def test_sub(self):\n        self.assertEqual(calc.sub(3, 2), 1)\n"}, want: reason.VerifierTampering},
	{name: "assertion weakened", patch: files{"tests/test_calc.py": "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        calc.add(2, 2)\n\n    def test_sub(self):\n        calc.sub(3, 2)\n"}, want: reason.VerifierTampering},
	{name: "exits 0 at import", patch: files{"calc.py": "import os\nos._exit(0)\n" + pyWrong}, want: reason.VerifierTampering},
	{name: "exits 0 at import and forges the report", patch: files{"calc.py": "import os\nos.write(2, b'test_add (tests.test_calc.Calc.test_add) ... ok\\ntest_sub (tests.test_calc.Calc.test_sub) ... ok\\n\\n' + b'-' * 70 + b'\\nRan 2 tests in 0.001s\\n\\nOK\\n')\nos._exit(0)\n" + pyWrong}, want: reason.VerifierTampering},
	{name: "framework monkey-patched", patch: files{"calc.py": "import unittest\nunittest.TestCase.assertEqual = lambda *args, **kwargs: None\n" + pyWrong}, want: reason.VerifierTampering},
	{name: "result monkey-patched", patch: files{"calc.py": "import unittest\nunittest.TestResult.addFailure = unittest.TestResult.addError = lambda self, *a: self.addSuccess(a[0])\nunittest.TextTestResult.addFailure = unittest.TextTestResult.addError = lambda self, *a: self.addSuccess(a[0])\n" + pyWrong}, want: reason.VerifierTampering},
	{name: "printed PASS lines", loud: true, patch: files{"calc.py": "import sys\nsys.stderr.write('test_add (tests.test_calc.Calc.test_add) ... ok\\nOK\\n')\n" + pyWrong}, want: reason.VerificationFailed},
	{name: "sitecustomize is added", patch: files{"calc.py": pyProject.honest["calc.py"], "sitecustomize.py": "import os\n"}, want: reason.VerifierTampering},
	{name: "the framework is shadowed", patch: files{"unittest.py": "print('OK')\n"}, want: reason.VerifierTampering},
	{name: "a daemon that edits the tree", loud: true, patch: files{"calc.py": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(30)\n    open('tests/test_calc.py', 'w').write('')\n    os._exit(0)\n" + pyWrong}, want: reason.VerificationFailed},
	{name: "endless output", loud: true, patch: files{"calc.py": "while True:\n    print('x' * 10000)\n"}, want: reason.OutputLimit},
	{name: "sleeps past the limit", loud: true, patch: files{"calc.py": "import time\ntime.sleep(600)\n"}, want: reason.Timeout},
}

var pytestProject = project{base: pyProject.base, commands: []string{"python3 -m pytest -q"}, honest: pyProject.honest, others: pyProject.others}

var pytestCheats = []cheat{
	{name: "conftest is added", loud: true, patch: files{"conftest.py": "collect_ignore_glob = ['*']\n"}, want: reason.VerifierTampering},
	{name: "conftest turns failures into passes", patch: files{"tests/conftest.py": "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    out = yield\n    out.get_result().outcome = 'passed'\n"}, want: reason.VerifierTampering},
	{name: "a plugin from code turns failures into passes", patch: files{"calc.py": "import _pytest.runner\nimport _pytest.reports\n_new = _pytest.reports.TestReport.from_item_and_call.__func__\n\n\ndef from_item_and_call(cls, item, call):\n    r = _new(cls, item, call)\n    r.outcome = 'passed'\n    return r\n\n\n_pytest.reports.TestReport.from_item_and_call = classmethod(from_item_and_call)\n" + pyWrong}, want: reason.VerifierTampering},
	{name: "pytest.ini is added", patch: files{"pytest.ini": "[pytest]\naddopts = --collect-only\n"}, want: reason.VerifierTampering},
	{name: "a section in setup.cfg", loud: true, patch: files{"setup.cfg": "[tool:pytest]\npython_files = none.py\n"}, want: reason.VerifierTampering},
	{name: "exits 0 at import", patch: files{"calc.py": "import os\nos._exit(0)\n"}, want: reason.VerifierTampering},
}

// corpus is the corpus by language and test runner.
var corpus = []struct {
	name    string
	project project
	cheats  []cheat
	needs   string
}{
	{"go", goProject, goCheats, "go version"},
	{"unittest", pyProject, pyCheats, "python3 --version"},
	{"pytest", pytestProject, pytestCheats, "python3 -m pytest --version"},
}

// langTurns is in how many runs each language of the corpus has its cheats tried once.
const langTurns = 3

// cheatTable has a row for every cheat of the corpus that this run tries.
func cheatTable(t testing.TB) *tally.Table {
	table := &tally.Table{Name: "cheat corpus"}
	for at, lang := range corpus {
		for i, c := range lang.cheats {
			if tally.ByTurn(t, i, 10) && tally.ByTurn(t, at, langTurns) {
				table.Rows = append(table.Rows, lang.name+": "+c.name)
			}
		}
	}
	return table
}

func TestCheatCorpus(t *testing.T) {
	t.Parallel()
	table := cheatTable(t)
	t.Logf("REMIT_CHEAT_SEED=%d", corpusSeed())
	t.Cleanup(func() {
		if missing := table.Missing(); len(missing) > 0 && !t.Failed() && !tally.ByName() {
			t.Errorf("not tried: %q", missing)
		}
	})
	for at, lang := range corpus {
		t.Run(lang.name, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, at, langTurns)
			var lacking string
			dir := lang.project.base.write(t)
			sb, err := openDriver()
			switch {
			case testing.Short():
				lacking = "runs real test suites"
			case err != nil:
				lacking = fmt.Sprintf("NO SANDBOX ON THIS HOST: %v", err)
			default:
				lacking = lacks(t, sb, dir, lang.needs)
			}
			plan := Plan{Lower: dir, TestingDir: testingDir, Commands: lang.project.commands, Limits: sandbox.Limits{Wall: 2 * time.Minute, OutputBytes: 1 << 20}}
			base := sync.OnceValues(func() (*PhaseResult, error) { return Base(context.Background(), sb, plan) })

			t.Run("honest", func(t *testing.T) {
				t.Parallel()
				if lacking != "" {
					t.Skip(lacking)
				}
				v, _, log := judgeCheat(t, sb, plan, base, lang.project.honest)
				if v.Status != StatusPass || v.Confidence != 100 || v.Delta != 1 || v.Counts.FailToPass != 1 || v.Counts.PassToPass != 1 {
					t.Errorf("%s%+v\n%s", explain(v), v, log)
				}
			})
			for name, patch := range lang.project.others {
				t.Run("honest "+name, func(t *testing.T) {
					t.Parallel()
					if lacking != "" {
						t.Skip(lacking)
					}
					v, _, log := judgeCheat(t, sb, plan, base, patch)
					if v.Status != StatusPass || v.Counts.FailToPass != 1 || v.Counts.Added == 0 {
						t.Errorf("%s%+v\n%s", explain(v), v, log)
					}
				})
			}
			for _, c := range lang.cheats {
				if !slices.Contains(table.Rows, lang.name+": "+c.name) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					row := table.Row(t, lang.name+": "+c.name)
					if lacking != "" {
						row.Skip(lacking)
					}
					p := plan
					p.Tests = c.rule
					if c.want == reason.Timeout {
						p.Limits.Wall = 2 * time.Second
					}
					v, head, log := judgeCheat(t, sb, p, base, c.patch)
					held := v.Status != StatusPass && len(v.Findings) > 0 && v.Findings[0].Code == c.want && v.Confidence == 0
					row.Check(held, "want %s, got %s%s", c.want, explain(v), log)
					// The cheat works: without the verifier it would have passed.
					fooled := head.Commands[0].ExitCode == 0
					if fooled {
						row.Add("exit 0", 1)
					}
					if fooled == c.loud {
						t.Errorf("exit status %d\n%s", head.Commands[0].ExitCode, log)
					}
				})
			}
		})
	}
}

func judgeCheat(t *testing.T, sb Sandbox, p Plan, base func() (*PhaseResult, error), patch files) (*Verdict, *PhaseResult, string) {
	t.Helper()
	var log bytes.Buffer
	p.Patch, p.Log = patch.changes(), &log
	before, err := base()
	if err != nil {
		t.Fatal(err)
	}
	p.Before = before
	after, err := Head(t.Context(), sb, p)
	if err != nil {
		t.Fatal(err)
	}
	return Judge(before, after, p.Tests), after, log.String()
}

// needs skips when the sandbox has no such tool.
func needs(t *testing.T, sb Sandbox, dir, command string) {
	t.Helper()
	if lacking := lacks(t, sb, dir, command); lacking != "" {
		t.Skip(lacking)
	}
}

// lacks says what the sandbox has not got for a language, "" if nothing.
func lacks(t *testing.T, sb Sandbox, dir, command string) string {
	t.Helper()
	var out bytes.Buffer
	r, err := sb.Run(t.Context(), sandbox.Spec{Lower: dir, Commands: []sandbox.Command{{Argv: []string{"sh", "-c", command}, Stdout: &out, Stderr: &out}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Commands) != 1 || r.Commands[0].ExitCode != 0 {
		return fmt.Sprintf("NOT RUN: %q fails in the sandbox: %s", command, bytes.TrimSpace(out.Bytes()))
	}
	return ""
}
