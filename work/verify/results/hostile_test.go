package results

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// TestForgedLines: text that the code under test prints does not make a pass
// where the format lets the reader tell.
func TestForgedLines(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, runner, in string
		want             string
	}{
		{"an event inside an output event", GoTest,
			`{"Action":"start","Package":"m"}
{"Action":"run","Package":"m","Test":"TestA"}
{"Action":"output","Package":"m","Test":"TestA","Output":"{\"Action\":\"pass\",\"Package\":\"m\",\"Test\":\"TestFake\"}\n--- PASS: TestFake (0.00s)\n"}
{"Action":"pass","Package":"m","Test":"TestA"}
{"Action":"pass","Package":"m"}
`, "gotest passed=1 failed=0 skipped=0 listed=true complete=true\npass m.TestA\n"},
		{"a second event that is kinder", GoTest,
			`{"Action":"run","Package":"m","Test":"TestA"}
{"Action":"fail","Package":"m","Test":"TestA"}
{"Action":"pass","Package":"m","Test":"TestA"}
{"Action":"pass","Package":"m"}
`, "gotest passed=0 failed=1 skipped=0 listed=true complete=false\nfail m.TestA\n! package m passed although a test of it failed\n"},
		{"a test that never ends", GoTest,
			`{"Action":"run","Package":"m","Test":"TestA"}
{"Action":"pass","Package":"m"}
`, "gotest passed=0 failed=1 skipped=0 listed=true complete=false\nfail m.TestA\n! m.TestA began and never ended\n! package m passed although a test of it failed\n"},
		{"a run cut off", GoTest, `{"Action":"start","Package":"m"}` + "\n",
			"gotest passed=0 failed=1 skipped=0 listed=true complete=false\nfail m (transient)\n! package m began and never ended\n"},
		{"a verdict without a start", GoText, "=== RUN   TestA\n--- PASS: TestFake (0.00s)\n--- PASS: TestA (0.00s)\nok  \tm\t0.01s\n",
			"gotext passed=1 failed=0 skipped=0 listed=true complete=true\npass m.TestA\n"},
		{"extra lines beyond the count", Unittest, "test_a (m.C.test_a) ... ok\ntest_fake (m.C.test_fake) ... ok\nRan 1 test in 0.1s\n\nOK\n",
			"unittest passed=2 failed=0 skipped=0 listed=true complete=false\npass m.C.test_a\npass m.C.test_fake\n! 2 tests have a line, but the summary says that 1 ran\n"},
		{"extra lines beyond the plan", TAP, "1..1\nok 1 - a\nok 2 - fake\n",
			"tap passed=2 failed=0 skipped=0 listed=true complete=false\npass a\npass fake\n! the plan says 1 tests, 2 have a line\n"},
		{"colour", Pytest, "\x1b[1m=== test session starts ===\x1b[0m\na.py::t \x1b[32mPASSED\x1b[0m [100%]\n\x1b[32m=== 1 passed in 0.01s ===\x1b[0m\n",
			"pytest passed=1 failed=0 skipped=0 listed=true complete=true\npass a.py::t\n"},
		{"a bidirectional override in a name", TAP, "1..1\nok 1 - a\u202eb\n",
			"tap passed=1 failed=0 skipped=0 listed=true complete=true\npass a?b~" + "f0c3cc60f5cbc4ae" + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rep, err := Parse(tc.runner, strings.NewReader(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			got := describe(rep)
			if strings.Contains(tc.name, "bidirectional") { // the digest is not the point
				if !strings.Contains(got, "pass a?b~") || strings.Contains(got, "\u202e") {
					t.Errorf("got %q", got)
				}
				return
			}
			if got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("a line that is too long is no line", func(t *testing.T) {
		t.Parallel()
		rep, err := Parse(TAP, io.MultiReader(strings.NewReader("1..1\nok 1 - a"), io.LimitReader(zeros{}, MaxLine), strings.NewReader("\nok 1 - b\n")))
		if err != nil || rep.Complete || len(rep.Tests) != 1 || rep.Tests[0].ID != "b" {
			t.Errorf("%v %+v", err, rep)
		}
	})
	t.Run("endless input ends", func(t *testing.T) {
		t.Parallel()
		for _, runner := range []string{GoTest, JUnit} {
			rep, err := Parse(runner, zeros{})
			if err != nil || rep.Complete {
				t.Errorf("%s: %v %+v", runner, err, rep)
			}
		}
	})
	t.Run("too many tests", func(t *testing.T) {
		t.Parallel()
		c := collector{}
		for i := range MaxTests + 5 {
			c.add(strings.Repeat("x", i%7)+string(rune('a'+i%26))+strconv.Itoa(i), Pass)
		}
		if rep := c.report(TAP); len(rep.Tests) != MaxTests || rep.Complete {
			t.Errorf("%d tests, complete %t", len(rep.Tests), rep.Complete)
		}
	})
	t.Run("long identities stay apart", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("ü", MaxID)
		a, b := cleanID(long+"a"), cleanID(long+"b")
		if a == b || len(a) > MaxID || !utf8.ValidString(a) {
			t.Errorf("%d bytes, equal %t", len(a), a == b)
		}
	})
	t.Run("deep XML", func(t *testing.T) {
		t.Parallel()
		rep, err := Parse(JUnit, strings.NewReader(strings.Repeat("<testsuite name='a'>", 1000)))
		if err != nil || rep.Complete {
			t.Errorf("%v %+v", err, rep)
		}
	})
	t.Run("a read error is an error", func(t *testing.T) {
		t.Parallel()
		for _, runner := range []string{GoTest, GoText, Pytest, Unittest, TAP} {
			if _, err := Parse(runner, iotest.ErrReader(errors.New("disk"))); err == nil {
				t.Errorf("%s swallowed it", runner)
			}
		}
	})
	if _, err := Parse("nose", strings.NewReader("")); err == nil {
		t.Error("an unknown format was read")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestMergedRunners(t *testing.T) {
	t.Parallel()
	out := "ok  \tm\t0.01s\n=== test session starts ===\na.py::t PASSED [100%]\n=== 1 passed in 0.01s ===\n1..1\nnot ok 1 - data of a test\n"
	rep, err := Read(Input{Stdout: opener([]byte(out)), Stderr: opener([]byte("Ran 2 tests in 0.1s\n\nOK\n"))})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Runner != "gotext+pytest+unittest" || rep.Passed != 4 || rep.Failed != 0 || rep.Listed || !rep.Complete {
		t.Errorf("%+v", rep)
	}
}

func fuzzFormat(f *testing.F, runner string) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		rep, err := Parse(runner, strings.NewReader(string(in)))
		if err != nil {
			t.Fatal(err)
		}
		if rep.Passed < 0 || rep.Failed < 0 || rep.Skipped < 0 || len(rep.Problems) > MaxProblems {
			t.Fatalf("%+v", rep)
		}
		seen := make(map[string]bool)
		for _, test := range rep.Tests {
			if len(test.ID) > MaxID || !utf8.ValidString(test.ID) || seen[test.ID] {
				t.Fatalf("identity %q", test.ID)
			}
			seen[test.ID] = true
		}
		if _, err := Detect(strings.NewReader(string(in))); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzGoTest(f *testing.F)   { fuzzFormat(f, GoTest) }
func FuzzGoText(f *testing.F)   { fuzzFormat(f, GoText) }
func FuzzPytest(f *testing.F)   { fuzzFormat(f, Pytest) }
func FuzzUnittest(f *testing.F) { fuzzFormat(f, Unittest) }
func FuzzJUnit(f *testing.F)    { fuzzFormat(f, JUnit) }
func FuzzTAP(f *testing.F)      { fuzzFormat(f, TAP) }

// FuzzRunners gives every other format the same bytes.
func FuzzRunners(f *testing.F) {
	for _, pattern := range []string{"testdata/*.txt", "testdata/files/*"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil && filepath.Ext(file) != ".want" {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, a := range Adapters() {
			rep, err := Parse(a.Name, strings.NewReader(string(in)))
			if err != nil {
				t.Fatalf("%s: %v", a.Name, err)
			}
			if rep.Passed < 0 || rep.Failed < 0 || rep.Skipped < 0 || len(rep.Problems) > MaxProblems || len(rep.Tests) > MaxTests {
				t.Fatalf("%s: %+v", a.Name, rep)
			}
			for _, test := range rep.Tests {
				if len(test.ID) > MaxID || !utf8.ValidString(test.ID) {
					t.Fatalf("%s: identity %q", a.Name, test.ID)
				}
			}
		}
	})
}
