package results

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// resultSection is the end of a standard output with result files.
func resultSection(mark string, files ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s begin /workspace\n", mark)
	for i := 0; i+1 < len(files); i += 2 {
		fmt.Fprintf(&b, "%s file %s %d\n%s\n", mark, files[i], len(files[i+1]), files[i+1])
	}
	fmt.Fprintf(&b, "%s end\n", mark)
	return b.String()
}

const (
	jestPassed = `{"numTotalTests":1,"numPassedTests":1,"numFailedTests":0,"success":true,"testResults":[{"name":"/workspace/a.test.js","assertionResults":[{"ancestorTitles":["x"],"title":"y","status":"passed"}]}]}`
	jestFailed = `{"numTotalTests":1,"numPassedTests":0,"numFailedTests":1,"success":false,"testResults":[{"name":"/workspace/a.test.js","assertionResults":[{"ancestorTitles":["x"],"title":"y","status":"failed","failureMessages":["no\nmore"]}]}]}`
)

// TestResultFiles: result files count as far as they agree with themselves and with
// what the runner printed; what does not is a problem, and never a pass.
func TestResultFiles(t *testing.T) {
	t.Parallel()
	const mark = "remit-results-000000000000000000000000"
	other := strings.Replace(mark, "0", "1", 1)
	passed := "jest passed=1 failed=0 skipped=0 listed=true complete=true\npass a.test.js > x > y\n"
	incomplete := strings.Replace(passed, "complete=true", "complete=false", 1)
	for _, tc := range []struct{ name, stdout, stderr, want string }{
		{"one", "text" + resultSection(mark, "jest-1.json", jestPassed), "", passed},
		{"one that agrees", resultSection(mark, "jest-1.json", jestPassed), "Tests:       1 passed, 1 total\n", passed},
		{"a worse outcome stands", resultSection(mark, "jest-1.json", jestPassed, "jest-2.json", jestFailed), "", "jest passed=0 failed=1 skipped=0 listed=true complete=true\nfail a.test.js > x > y\n"},
		{"of another mark", resultSection(other, "jest-1.json", jestPassed), "", "no runner\n"},
		{"none", "text" + resultSection(mark), "", "no runner\n"},
		{"none, and text", "  3 passing (5ms)\n  1 failing\n" + resultSection(mark), "", "mocha passed=3 failed=1 skipped=0 listed=false complete=true\n"},
		{"the runner printed a failure", resultSection(mark, "jest-1.json", jestPassed), "Tests:       1 failed, 1 total\n",
			incomplete + "! jest prints 0 passed and 1 failed tests, and its result file has 1 and 0\n"},
		{"its counts are others", resultSection(mark, "jest-1.json", strings.Replace(jestPassed, `"numFailedTests":0`, `"numFailedTests":1`, 1)), "",
			incomplete + "! the result file of jest says 1 passed and 1 failed of 1 tests, and has 1 and 0 of 1\n"},
		{"success with a failure", resultSection(mark, "jest-1.json", strings.Replace(jestFailed, `"success":false`, `"success":true`, 1)), "",
			"jest passed=0 failed=1 skipped=0 listed=true complete=false\nfail a.test.js > x > y\n! the result file of jest claims success, and tests in it failed\n"},
		{"no document", resultSection(mark, "jest-1.json", "{"), "", "jest passed=0 failed=0 skipped=0 listed=true complete=false\n! the result file of jest cannot be read\n"},
		{"of no runner", resultSection(mark, "jest-1.json", jestPassed, "evil-1.json", "{}"), "", incomplete + "! a result file that no runner was asked for: evil-1.json\n"},
		{"it breaks off", strings.TrimSuffix(resultSection(mark, "jest-1.json", jestPassed), mark+" end\n"), "", incomplete + "! the result files of the runner break off\n"},
		{"something behind", resultSection(mark, "jest-1.json", jestPassed) + "x", "", incomplete + "! something was written behind the result files of the runner\n"},
		{"a second section", resultSection(mark, "jest-1.json", jestPassed) + resultSection(mark, "jest-1.json", jestPassed), "",
			incomplete + "! something was written behind the result files of the runner\n"},
		{"a size without end", strings.Replace(resultSection(mark, "jest-1.json", jestPassed), fmt.Sprint(len(jestPassed)), "99999999999999", 1), "",
			"no runner\n"},
		{"a size without end, and text", "  1 passing (5ms)\n" + strings.Replace(resultSection(mark, "mocha-1.json", jestPassed), fmt.Sprint(len(jestPassed)), "99999999999999", 1), "",
			"mocha passed=1 failed=0 skipped=0 listed=false complete=false\n! the result file mocha-1.json has more than 16777216 bytes\n"},
		{"beside another runner", "a.py::t PASSED [100%]\n=== 1 passed in 0.01s ===\n" + resultSection(mark, "jest-1.json", jestPassed), "",
			"jest+pytest passed=1 failed=0 skipped=0 listed=false complete=true\npass a.test.js > x > y\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rep, err := Read(Input{Stdout: opener([]byte(tc.stdout)), Stderr: opener([]byte(tc.stderr)), Mark: mark})
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(rep); got != tc.want && tc.name != "beside another runner" {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			} else if tc.name == "beside another runner" && !strings.HasPrefix(got, "jest+pytest passed=2 failed=0") {
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

// TestResultDocuments reads documents that real runners wrote.
func TestResultDocuments(t *testing.T) {
	t.Parallel()
	printed := map[string]string{"minitest-1.json": "11 runs, 7 assertions, 1 failures, 1 errors, 2 skips\n"}
	files, err := filepath.Glob("testdata/files/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".want" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			mark := Mark()
			rep, err := Read(Input{Stdout: opener([]byte(printed[filepath.Base(file)] + resultSection(mark, filepath.Base(file), string(text)))), Stderr: opener(nil), Mark: mark})
			if err != nil {
				t.Fatal(err)
			}
			got, golden := describe(rep), file+".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || got != string(want) {
				t.Errorf("%v got:\n%s\nwant:\n%s", err, got, want)
			}
		})
	}
}

// TestCollecting: the shell around a command prints regular files below its
// directory alone, keeps the exit status, and leaves nothing.
func TestCollecting(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script, want string
		status             int
	}{
		{"a file", `printf abc >"$REMIT_RESULTS/jest-1.json"; exit 3`, "M file jest-1.json 3\nabc\n", 3},
		{"two files", `printf a >"$REMIT_RESULTS/jest-2.json"; printf b >"$REMIT_RESULTS/jest-1.json"`, "M file jest-1.json 1\nb\nM file jest-2.json 1\na\n", 0},
		{"a link", `ln -s /etc/passwd "$REMIT_RESULTS/jest-1.json"`, "", 0},
		{"a pipe", `mkfifo "$REMIT_RESULTS/jest-1.json"`, "", 0},
		{"a directory", `mkdir "$REMIT_RESULTS/jest-1.json"`, "", 0},
		{"no directory", `rm -rf "$REMIT_RESULTS"`, "", 0},
		{"too large", `truncate -s 17000000 "$REMIT_RESULTS/jest-1.json"`, "M file jest-1.json 17000000\n\n", 0},
		{"killed", `kill -9 $$`, "", 137},
		{"its own options", `printf %s "$NODE_OPTIONS" >"$REMIT_RESULTS/jest-1.json"`, "M file jest-1.json 25\n--a --require=H/node.cjs\n\n", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, hooks := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(hooks, "node.cjs"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", Collecting, "sh", "M", hooks, "sh", "-c", tc.script)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "NODE_OPTIONS=--a")
			out, err := cmd.Output()
			if status := cmd.ProcessState.ExitCode(); status != tc.status {
				t.Errorf("status %d, want %d: %v", status, tc.status, err)
			}
			real, err := filepath.EvalSymlinks(dir)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(string(out), hooks, "H")
			if tc.name == "its own options" {
				got = strings.Replace(got, fmt.Sprint(" ", len("--a --require=/node.cjs")+len(hooks), "\n"), " 25\n", 1)
				tc.want = strings.Replace(tc.want, "\n\n", "\n", 1)
			}
			want := "" // without a file the output is that of the command
			if tc.want != "" {
				want = "\nM begin " + real + "\n" + tc.want + "M end\n"
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q %v", left, err)
			}
		})
	}
}

// FuzzResultFiles: whatever stands behind the mark, the report keeps its bounds, and
// is complete only where the section is whole.
func FuzzResultFiles(f *testing.F) {
	f.Add([]byte(resultSection("M", "jest-1.json", jestPassed)))
	f.Add([]byte(resultSection("M", "rspec-1.json", `{"examples":[],"summary":{}}`, "phpunit-1.xml", "<testsuite/>")))
	f.Add([]byte("1 runs, 1 assertions, 0 failures, 0 errors, 0 skips\n" + resultSection("M", "minitest-1.json", `{"tests":[{"name":"test_a","outcome":"pass"}],"summary":{"runs":1}}`)))
	f.Fuzz(func(t *testing.T, in []byte) {
		rep, err := Read(Input{Stdout: opener(in), Stderr: opener(nil), Mark: "M"})
		if err != nil {
			t.Fatal(err)
		}
		if rep != nil && (len(rep.Problems) > MaxProblems || rep.Filed && rep.Complete && !strings.Contains(string(in), "M end")) {
			t.Fatalf("%+v", rep)
		}
	})
}

// TestMinitestFiles: a result file of Minitest counts as far as it agrees with itself and
// with the lines that Minitest prints, of all processes of a command.
func TestMinitestFiles(t *testing.T) {
	t.Parallel()
	const mark = "remit-results-000000000000000000000000"
	file := func(class, outcome, summary string) string {
		return `{"tests":[{"file":"/workspace/test/a_test.rb","class":"` + class + `","name":"test_adds","outcome":"` + outcome + `","message":"no\nmore","spec":false}],"summary":{` + summary + `}}`
	}
	const ok, bad, left = `"runs":1,"failures":0,"errors":0,"skips":0`, `"runs":1,"failures":1,"errors":0,"skips":0`, `"runs":1,"failures":0,"errors":0,"skips":1`
	const said = "1 runs, 2 assertions, 0 failures, 0 errors, 0 skips\n"
	passed := "minitest passed=1 failed=0 skipped=0 listed=true complete=true\npass test/a_test.rb > A#test_adds\n"
	incomplete := strings.Replace(passed, "complete=true", "complete=false", 1)
	prints := func(passed, failed, filed, fails int) string {
		return fmt.Sprintf("! minitest prints %d passed and %d failed tests, and its result file has %d and %d\n", passed, failed, filed, fails)
	}
	for _, tc := range []struct{ name, stdout, want string }{
		{"one", said + resultSection(mark, "minitest-1.json", file("A", "pass", ok)), passed},
		{"two processes", said + said + resultSection(mark, "minitest-1.json", file("A", "pass", ok), "minitest-2.json", file("B", "pass", ok)),
			"minitest passed=2 failed=0 skipped=0 listed=true complete=true\npass test/a_test.rb > A#test_adds\npass test/a_test.rb > B#test_adds\n"},
		{"nothing printed", resultSection(mark, "minitest-1.json", file("A", "pass", ok)), incomplete + "! minitest prints no counts, and its result file has 1 passed and 0 failed tests\n"},
		{"a further line", said + said + resultSection(mark, "minitest-1.json", file("A", "pass", ok)), incomplete + prints(2, 0, 1, 0)},
		{"one of two files is gone", said + said + resultSection(mark, "minitest-2.json", file("A", "pass", ok)), incomplete + prints(2, 0, 1, 0)},
		{"a failure was printed", "1 runs, 1 assertions, 0 failures, 1 errors, 0 skips\n" + resultSection(mark, "minitest-1.json", file("A", "pass", ok)), incomplete + prints(0, 1, 1, 0)},
		{"the line is kinder", said + resultSection(mark, "minitest-1.json", file("A", "fail", bad)),
			"minitest passed=0 failed=1 skipped=0 listed=true complete=false\nfail test/a_test.rb > A#test_adds\n" + prints(1, 0, 0, 1)},
		{"its counts are others", said + resultSection(mark, "minitest-1.json", file("A", "pass", bad)),
			incomplete + "! the result file of minitest counts 1 runs, 1 failures and 0 skips, and has 1, 0 and 0\n"},
		{"an outcome that is none", "1 runs, 1 assertions, 1 failures, 0 errors, 0 skips\n" + resultSection(mark, "minitest-1.json", file("A", "fine", bad)), "minitest passed=0 failed=1 skipped=0 listed=true complete=true\nfail test/a_test.rb > A#test_adds\n"},
		{"skipped", "1 runs, 0 assertions, 0 failures, 0 errors, 1 skips\n" + resultSection(mark, "minitest-1.json", file("A", "skip", left)),
			"minitest passed=0 failed=0 skipped=1 listed=true complete=true\nskip test/a_test.rb > A#test_adds\n"},
		{"no document", said + resultSection(mark, "minitest-1.json", "[]"), "minitest passed=0 failed=0 skipped=0 listed=true complete=false\n! the result file of minitest cannot be read\n" + prints(1, 0, 0, 0)},
		{"no summary", resultSection(mark, "minitest-1.json", `{"tests":[]}`), "minitest passed=0 failed=0 skipped=0 listed=true complete=false\n! the result file of minitest cannot be read\n! minitest prints no counts, and its result file has 0 passed and 0 failed tests\n"},
		{"no file", said + resultSection(mark), "minitest passed=1 failed=0 skipped=0 listed=false complete=true\n"},
		{"no file, and more failures than runs", "1 runs, 2 assertions, 3 failures, 0 errors, 0 skips\n" + resultSection(mark), "minitest passed=0 failed=3 skipped=0 listed=false complete=true\n"},
		{"no line of Minitest", "# 1 runs, 2 assertions, 0 failures, 0 errors, 0 skips\n1 tests, 2 assertions, 0 failures, 0 errors, 0 pendings\n" + resultSection(mark), "no runner\n"},
		{"minitest-reporters", "  1 tests, 2 assertions, 0 failures, 0 errors, 0 skips\n" + resultSection(mark, "minitest-1.json", file("A", "pass", ok)), passed},
		{"warnings that are failures", "2 runs, 2 assertions, 0 failures, 0 errors, 0 skips, 1 warnings\n" + resultSection(mark), "minitest passed=1 failed=1 skipped=0 listed=false complete=true\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rep, err := Read(Input{Stdout: opener([]byte(tc.stdout)), Stderr: opener(nil), Mark: mark})
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(rep); got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

// TestMinitestName: a test of Minitest::Spec has no number in its name, which another test
// in front of it would change.
func TestMinitestName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class, name string
		spec        bool
		want        string
	}{
		{"CalcTest", "test_adds", false, "CalcTest#test_adds"},
		{"calc::when empty", "test_0012_adds two", true, "calc::when empty#adds two"},
		{"calc", "test_0012_anonymous", true, "calc#test_0012_anonymous"},
		{"calc", "test_0012_", true, "calc#test_0012_"},
		{"CalcTest", "test_0012_adds", false, "CalcTest#test_0012_adds"},
		{"", "test_adds", false, "test_adds"},
	} {
		if got := minitestName(c.class, c.name, c.spec); got != c.want {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRSpecName: an example without a title has the same name whatever it came by.
func TestRSpecName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ id, full, own, want string }{
		{"./spec/a_spec.rb[1:3:2]", "Cart is expected to eq 4", "is expected to eq 4", "Cart example 2"},
		{"./spec/a_spec.rb[1:3:2]", "Cart ", "example at ./spec/a_spec.rb:36", "Cart example 2"},
		{"./spec/a_spec.rb[1:2]", "is expected not to be nil", "is expected not to be nil", "example 2"},
		{"./spec/a_spec.rb[1:2]", "Cart should add", "should add", "Cart should add"},
		{"", "Cart is expected to eq 4", "is expected to eq 4", "Cart is expected to eq 4"},
	} {
		if got := rspecName(c.id, c.full, c.own); got != c.want {
			t.Errorf("%q: %q, want %q", c.full, got, c.want)
		}
	}
}
