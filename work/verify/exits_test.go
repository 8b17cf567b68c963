package verify

import (
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/reason"
)

// goBeside is goProject with a second test file, so that one is left as it is.
var goBeside = goProject.base.with(files{"more_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) {\n\tif Sub(5, 2) != 3 {\n\t\tt.Fatal(\"5 - 2\")\n\t}\n}\n"})

// TestExitHooks: a change that mends the code, and sees to it that no test is seen to
// fail again, is none that passes; one that does something at the end, and leaves the
// status as it is, passes.
func TestExitHooks(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 5, 8)
	const (
		goMain  = "package calc\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) {\n\tcode := m.Run()\n\t%s\n\tos.Exit(code)\n}\n"
		pyTests = "import atexit\nimport os\n\n\ndef leave():\n    %s\n\n\natexit.register(leave)\n"
		forged  = "os.write(1, b'\\nOK\\n')\n    os._exit(0)"
	)
	mended := func(code string) files { return files{"calc.py": code + "\n\n" + pyProject.honest["calc.py"]} }
	node := func(code string) files { return files{"calc.js": code + "\n" + nodeProject.honest["calc.js"]} }
	fill := func(text, with string) string { return strings.Replace(text, "%s", with, 1) }
	made := pyProject.base.with(files{"Makefile": "test:\n\t" + pyProject.commands[0] + "\n"})
	for i, tc := range []struct {
		name, command string
		base, patch   files
		want          reason.Code // "" passes
	}{
		{"unittest, in the code", pyProject.commands[0], pyProject.base, mended(fill(pyTests, "os._exit(0)")), reason.VerifierTampering},
		{"unittest, in the code, with a line of its own", pyProject.commands[0], pyProject.base, mended(fill(pyTests, forged)), reason.VerifierTampering},
		{"unittest behind make, in the code", makeTest, made, mended(fill(pyTests, "os._exit(0)")), reason.VerifierTampering},
		{"unittest, honest", pyProject.commands[0], pyProject.base, mended(fill(pyTests, "os.write(1, b'bye')")), ""},
		{"unittest, in a test of its own", pyProject.commands[0], pyProject.base, pyProject.honest.with(files{"tests/test_more.py": fill(pyTests, "os._exit(0)")}), reason.VerifierTampering},
		{"unittest behind make, in a test of its own", makeTest, made, pyProject.honest.with(files{"tests/test_more.py": fill(pyTests, "os._exit(0)")}), reason.VerifierTampering},
		{"unittest, honest, in a test of its own", pyProject.commands[0], pyProject.base, pyProject.honest.with(files{"tests/test_more.py": fill(pyTests, "os.write(1, b'bye')")}), ""},
		{"unittest, sys.exit replaced", pyProject.commands[0], pyProject.base, mended("import sys\nleave = sys.exit\nsys.exit = lambda *a: leave(0)"), reason.VerifierTampering},
		{"go, a TestMain in a file of its own", goProject.commands[0], goBeside, goProject.honest.with(files{"main_test.go": fill(goMain, "code = 0")}), reason.VerifierTampering},
		{"go, a TestMain in the only file", goProject.commands[0], goProject.base, goProject.honest.with(files{"calc_test.go": fill(goMain, "code = 0") + "\n" + goProject.base["calc_test.go"][len("package calc\n\nimport \"testing\"\n\n"):]}), reason.VerifierTampering},
		{"go, a TestMain that leaves the status", goProject.commands[0], goBeside, goProject.honest.with(files{"main_test.go": fill(goMain, "os.Setenv(\"X\", \"1\")")}), ""},
		{"node, in the code", "node calc.test.js", nodeProject.base, node("process.on('exit', () => { process.exitCode = 0 })"), reason.VerifierTampering},
		{"node, past every hook", "node calc.test.js", nodeProject.base, node("process.on('exit', () => process.reallyExit(0))"), reason.VerifierTampering},
		{"node --test, a hook that ends each file well", "node --test", nodeProject.base, node("process.on('exit', () => { process.exitCode = 0 })"), ""}, // the runner is another process
		{"node, honest", "node calc.test.js", nodeProject.base, node("process.on('exit', () => { console.log('bye') })"), ""},
	} {
		if !tally.ByTurn(t, i, 5) {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.command[:4] == "node" {
				needNode(t)
			}
			v, log := verified(t, Plan{Lower: tc.base.write(t), Patch: tc.patch.changes(), Commands: []string{tc.command}})
			found := slices.ContainsFunc(v.Findings, func(f reason.Finding) bool { return f.Code == tc.want })
			if tc.want == "" && v.Status != StatusPass || tc.want != "" && !found {
				t.Errorf("want %q, got %s%+v\n%s", tc.want, explain(v), v.Control, log)
			}
		})
	}
}
