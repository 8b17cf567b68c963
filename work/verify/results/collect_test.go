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
			rep, err := Read(Input{Stdout: opener([]byte(resultSection(mark, filepath.Base(file), string(text)))), Stderr: opener(nil), Mark: mark})
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
