package verify

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/tree"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// with is f with further files.
func (f files) with(more files) files {
	out := maps.Clone(f)
	maps.Copy(out, more)
	return out
}

// goWrapped is goProject behind make and a script.
var goWrapped = goProject.base.with(files{"Makefile": "test:\n\tgo test -vet=off -ldflags=-w ./...\n", "data.txt": "original\n"})

const makeTest = "make test"

// verified runs a whole verification in the sandbox of the product.
func verified(t *testing.T, p Plan) (*Verdict, string) {
	t.Helper()
	sb := realSandbox(t)
	var log bytes.Buffer
	p.Log, p.CacheDir, p.TestingDir = &log, t.TempDir(), testingDir
	p.Limits = sandbox.Limits{Wall: 2 * time.Minute, OutputBytes: 1 << 20}
	v, err := Run(t.Context(), sb, p)
	if err != nil {
		t.Fatal(err)
	}
	return v, log.String()
}

// TestControlOfEveryCommand: a command that runs tests is controlled, whatever
// it is, and one that runs none is said to be none.
func TestControlOfEveryCommand(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	for i, tc := range []struct {
		command, by string
		base        files
		patch       files
	}{
		{"python3 -m unittest discover -v 2>&1 | cat", byTest, pyProject.base, pyProject.honest},
		{makeTest, byExit, goWrapped, goProject.honest},
		{"python3 --version && python3 -m unittest discover", byExit, pyProject.base, pyProject.honest},
		{"sh -c 'export X=1; python3 -m unittest discover'", byExit, pyProject.base, pyProject.honest},
		{"GOFLAGS=-mod=mod go test -vet=off ./...", byTest, goWrapped, goProject.honest}, // the overlay is lost, so the tree is edited
		{"gofmt -l .", "", goWrapped, goProject.honest},
	} {
		if !tally.ByTurn(t, i, 5) {
			continue
		}
		t.Run(tc.command, func(t *testing.T) {
			t.Parallel()
			v, log := verified(t, Plan{Lower: tc.base.write(t), Patch: tc.patch.changes(), Commands: []string{tc.command}})
			c := v.Control
			if v.Status != StatusPass || c == nil || len(c.Commands) != 1 {
				t.Fatalf("%s%+v\n%s", explain(v), c, log)
			}
			if c.Commands[0].By != tc.by || c.Made != (tc.by != "") || c.Counting != c.Proved || (c.Reason == "") != c.Made {
				t.Errorf("%+v\n%s", c, log)
			}
			if want := map[bool]int{true: 100, false: Uncontrolled}[c.Made]; int(v.Confidence) != want {
				t.Errorf("confidence %d, want %d", v.Confidence, want)
			}
		})
	}
}

// TestWhereNoTestIsNamed: an honest test that reads its source is no reason to fail
// where only an exit status is known, and what the base does not show is said.
func TestWhereNoTestIsNamed(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	const reads = "import unittest\n\nimport calc\n\n\nclass Lines(unittest.TestCase):\n    def test_lines(self):\n        self.assertLess(len(open(__file__).read()), 400)\n"
	const tests = "python3 -m unittest discover"
	for _, tc := range []struct {
		name, command string
		base          files
		why           string // "" for a control that is made
	}{
		{"in another file", "cd . && " + tests, pyProject.base.with(files{"tests/test_lines.py": reads}), ""},
		{"in the same file", "cd . && " + tests, pyProject.base.with(files{"tests/test_calc.py": reads + "\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n",
			"tests/test_sub.py": "import unittest\n\nimport calc\n\n\nclass Sub(unittest.TestCase):\n    def test_sub(self):\n        self.assertEqual(calc.sub(3, 2), 1)\n"}),
			"nothing shows that what the change fixes is tested"},
		{"the base comes by no test", "! grep -q LATER calc.py && " + tests, pyProject.base.with(files{"calc.py": "# LATER\n" + pyProject.base["calc.py"]}), "on the base it exits with 1 and comes by no test"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v, log := verified(t, Plan{Lower: tc.base.write(t), Patch: pyProject.honest.changes(), Commands: []string{tc.command}})
			c := v.Control
			if v.Status != StatusPass || c == nil || c.Made != (tc.why == "") || !strings.Contains(c.Reason, tc.why) {
				t.Errorf("%s%+v\n%s", explain(v), c, log)
			}
		})
	}
}

// TestCommandThatCannotFail: a command that hides the exit status of its tests is no
// reason to pass, and nothing that the change is accused of.
func TestCommandThatCannotFail(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	for _, command := range []string{"python3 -m unittest discover || true", "python3 -m unittest discover; echo done"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			v, log := verified(t, Plan{Lower: pyProject.base.write(t), Patch: pyProject.honest.changes(), Commands: []string{command}})
			if len(v.Findings) == 0 || v.Findings[0].Code != reason.VerificationFailed || !strings.Contains(v.Findings[0].Detail, "|| true") {
				t.Errorf("%s\n%s", explain(v), log)
			}
		})
	}
}

// TestWrappedCheats: what is not one plain call of a runner is no way round.
func TestWrappedCheats(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	weak := pyProject.base["tests/test_calc.py"]
	swap := "open('data.txt', 'w').close()\n\n\n" + pyProject.honest["calc.py"]
	python, tests := pyProject.base.with(files{"data.txt": "original\n"}), pyProject.commands[0]
	for _, tc := range []struct {
		name     string
		base     files
		commands []string
		groups   []int
		patch    files
		want     reason.Code // "" passes
	}{
		{"the import exits 0, and", python, []string{"python3 --version && " + tests}, nil, files{"calc.py": "import os\nos._exit(0)\n"}, reason.VerifierTampering},
		{"a weakened test, make", pyProject.base.with(files{"Makefile": "test:\n\t" + tests + "\n"}), []string{"make test"}, nil, files{"tests/test_calc.py": strings.Replace(weak, ", 4)", ", 0)", 1)}, reason.VerifierTampering},
		{"what a command leaves is gone", python, []string{tests, "grep -q original data.txt"}, nil, files{"calc.py": swap}, ""},
		{"and stays in a group", python, []string{tests, "grep -q original data.txt"}, []int{2}, files{"calc.py": swap}, reason.VerificationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v, log := verified(t, Plan{Lower: tc.base.write(t), Patch: tc.patch.changes(), Commands: tc.commands, Groups: tc.groups})
			if tc.want == "" && v.Status != StatusPass || tc.want != "" && !slices.ContainsFunc(v.Findings, func(f reason.Finding) bool { return f.Code == tc.want }) {
				t.Errorf("want %q, got %s\n%s", tc.want, explain(v), log)
			}
		})
	}
}

// TestControlRequired: without a control a pass that needs one is blocked.
func TestControlRequired(t *testing.T) {
	t.Parallel()
	v, _ := verified(t, Plan{Lower: files{"a": "1"}.write(t), Patch: files{"a": "2"}.changes(), Commands: []string{"true"}, Control: ControlRequired})
	if v.Status != StatusBlocked || codes(v.Findings) != string(reason.ControlMissing) || v.Confidence != 0 {
		t.Errorf("%s%d", explain(v), v.Confidence)
	}
}

// TestTogether: commands that build on each other are said to be a group.
func TestTogether(t *testing.T) {
	t.Parallel()
	p := Plan{Lower: files{"a": "1"}.write(t), Patch: files{"a": "2"}.changes(), Commands: []string{"touch made", "test -f made"}}
	if v, _ := verified(t, p); v.Status != StatusFail || !strings.Contains(v.Findings[0].Hint, "write these as one group") {
		t.Error(explain(v))
	}
	p.Groups = []int{2}
	if v, _ := verified(t, p); v.Status != StatusPass {
		t.Error(explain(v))
	}
	p.Groups, p.Shared = nil, true
	if v, _ := verified(t, p); v.Status != StatusPass {
		t.Error(explain(v))
	}
}

// TestControlOfWhatTheBaseCannotBuild: tests of a function that the base does not
// have are controlled all the same.
func TestControlOfWhatTheBaseCannotBuild(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	held := files{"mul_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestMul(t *testing.T) {\n\tif Mul(2, 3) != 6 {\n\t\tt.Fatal(\"2 * 3\")\n\t}\n}\n"}
	code := "package calc\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Sub(a, b int) int { return a - b }\n\nfunc Mul(a, b int) int { return %s }\n"
	plan := Plan{Lower: goProject.base.write(t), HeldOut: held.changes(), Commands: goProject.commands, TestingDir: testingDir, Limits: sandbox.Limits{Wall: 2 * time.Minute, OutputBytes: 1 << 20}}
	sb := realSandbox(t)
	base := sync.OnceValues(func() (*PhaseResult, error) { return Base(context.Background(), sb, plan) })
	for _, tc := range []struct {
		name  string
		patch files
		want  reason.Code
	}{
		{"honest", files{"calc.go": fmt.Sprintf(code, "a * b")}, ""},
		{"init exits 0 after forging", files{"calc.go": fmt.Sprintf(code, "0"), "x.go": "package calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() {\n\tfor _, t := range []string{\"TestAdd\", \"TestSub\", \"TestMul\"} {\n\t\tfmt.Printf(\"\\x16=== RUN   %s\\n\\x16--- PASS: %s (0.00s)\\n\", t, t)\n\t}\n\tfmt.Print(\"\\x16PASS\\n\")\n\tos.Exit(0)\n}\n"}, reason.VerifierTampering},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v, _, log := judgeCheat(t, sb, plan, base, tc.patch)
			if got := append(strings.Fields(codes(v.Findings)), "")[0]; got != string(tc.want) {
				t.Fatalf("want %q, got %s\n%s", tc.want, explain(v), log)
			}
			if c := v.Control; tc.want == "" && (!c.Made || c.Counting != 3 || c.Proved != 3) {
				t.Errorf("%+v\n%s", c, log)
			}
		})
	}
}

// TestNotRuledOut: a control names what it does not see, by language, scheme and
// command; where there is none it rules out nothing.
func TestNotRuledOut(t *testing.T) {
	t.Parallel()
	plan := &Plan{Scheme: SchemeHalves}
	w := &witness{plan: plan, base: &PhaseResult{proof: &baseProof{groups: []groupProof{{view: view{0, 1}, by: byTest}}}}, suite: &suite{inTree: true}, tests: []held{{suiteTest: &suiteTest{file: &suiteFile{lang: langGo}}}}}
	made := &Control{Made: true, Commands: []CommandControl{{Made: true, By: byTest}}}
	for _, tc := range []struct {
		set  func()
		want []string
	}{
		{func() {}, []string{"these tests", "near to its own", "out of memory", "sources of its tests", "what failed tests print"}},
		{func() { w.suite = &suite{framework: framework{files: map[string]string{"testing.go": ""}}} },
			[]string{"these tests", "near to its own", "out of memory", "sources of visible tests"}},
		{func() { w.tests[0].file.hidden = true }, []string{"these tests", "near to its own", "out of memory", "sources of visible tests"}},
		{func() { w.suite.hides = []int{0} }, []string{"these tests", "near to its own", "out of memory"}},
		{func() { w.suite.hides, w.tests[0].file.heldOut = nil, true }, []string{"these tests", "near to its own", "out of memory"}},
		{func() { w.tests[0].file.lang = langPython }, []string{"these tests", "near to its own", "each form of edit"}},
		{func() { plan.HeldOut, plan.Scheme = make([]tree.Change, 1), SchemeSingle }, []string{"visible tests", "near to its own", "each form of edit", "the plain run"}},
		{func() {
			made.Commands = append(made.Commands, CommandControl{By: byExit, Made: true}, CommandControl{})
		},
			[]string{"visible tests", "near to its own", "each form of edit", "the plain run", "exit status", "without a control"}},
		{func() { made.Made = false }, []string{"any in the code"}},
	} {
		tc.set()
		got := w.notRuledOut(made)
		if len(got) != len(tc.want) {
			t.Fatalf("%q, want %q", got, tc.want)
		}
		for i, s := range got {
			if !strings.Contains(s, tc.want[i]) {
				t.Errorf("%q, want %q", s, tc.want[i])
			}
		}
	}
}

// TestWitnessesOfAnException: a test whose base ends before any assertion is held to
// all three kinds of witness, at places that it comes by whenever it passes.
func TestWitnessesOfAnException(t *testing.T) {
	t.Parallel()
	sites := []twin.Site{
		{ID: 0, Line: 1, Kind: twin.Flip, Certain: true}, {ID: 1, Line: 1, Kind: twin.Expect, Certain: true}, {ID: 2, Line: 1, Kind: twin.Flip},
		{ID: 3, Line: 1, Kind: twin.Flip, Certain: true}, {ID: 4, Line: 1, Kind: twin.Expect, Certain: true}, {ID: 5, Line: 1, Kind: twin.Fail, Certain: true},
	}
	for _, tc := range []struct {
		reached []int
		want    []int
	}{
		{nil, []int{0, 1, 5}},
		{[]int{0, 1, 2}, []int{3, 4, 5}},
		{[]int{0, 1, 2, 3, 4}, []int{3, 4, 5}}, // such as an exception that is waited for
	} {
		test := &suiteTest{file: &suiteFile{}, sites: sites, baseFacts: baseFacts{Outcome: results.Fail, Reached: tc.reached}}
		var got []int
		for _, o := range test.witnesses(draw{}) {
			got = append(got, o.Site)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("reached %v: sites %v, want %v", tc.reached, got, tc.want)
		}
	}
}
