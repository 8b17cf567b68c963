package twin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const pyTraced = `import unittest
import pytest


def test_rows():
    for i in range(40):
        try:
            i - 30
        finally:
            pass
        assert i < 20 or i > 60, i


def test_passes():
    x = int("3")
    assert x == 3
    assert not x == 4


@pytest.mark.parametrize("n", [1, 2])
def test_param(n):
    assert n in (1, 2)


class Calc(unittest.TestCase):
    def test_equal(self):
        for i in range(3):
            self.assertFalse(i > 5)
        self.assertEqual(1, 2 - 1)

    def test_fails(self):
        self.assertEqual(1, 2)

    def test_sub(self):
        for i in range(30):
            with self.subTest(i=i):
                self.assertLess(i, 2)

    def test_unknown(self):
        self.assertIs(self, self)
`

// TestPythonTrace: what a traced file writes, in a run in which the tests mean
// what they say.
func TestPythonTrace(t *testing.T) {
	t.Parallel()
	needPython(t, "pytest")
	f := mustBind(t, pyTraced)
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	text := mustEdit(t, f, Orders{Seed: seed(1), Trace: trace, Key: "k-1"})
	writeProject(t, dir, text)
	got, out := pytestVerdicts(t, dir)
	if names := failed(got); !slices.Equal(names, []string{"Calc.test_fails", "Calc.test_sub", "test_rows"}) {
		t.Fatalf("failed: %v\n%s\n%s", names, out, text)
	}
	lines := traceLines(t, f, trace)
	want := []string{
		"E test_rows:flip:11 1 ok", "E test_rows:flip:11 21 failed",
		"R test_passes:fail:15", "E test_passes:flip:16 1 ok", "R test_passes:expect:16", "E test_passes:flip:17 1 ok",
		"R test_passes:fail:17", "T test_passes pass",
		"E test_param:flip:22 1 ok", "R test_param:expect:22", "R test_param:fail:22",
		"E Calc.test_equal:flip:28 1 ok", "R Calc.test_equal:expect:28", "E Calc.test_equal:flip:29 1 ok", "R Calc.test_equal:expect:29",
		"R Calc.test_equal:fail:29", "T Calc.test_equal pass",
		"R Calc.test_fails:fail:32", "R Calc.test_fails:expect:32", "E Calc.test_fails:flip:32 1 failed",
	}
	sub := []string{"E Calc.test_sub:flip:37 1 ok", "E Calc.test_sub:flip:37 3 failed", "R Calc.test_sub:expect:37"}
	want = append(append(want, sub...), "R Calc.test_unknown:fail:40", "E Calc.test_unknown:flip:40 1 ok",
		"R Calc.test_unknown:fail:40", "T Calc.test_unknown pass")
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("got:\n%s\nwant:\n%s\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"), text)
	}

	// Under unittest a subtest that fails does not end the test: the first 16
	// evaluations that failed are written.
	if err := os.Remove(trace); err != nil {
		t.Fatal(err)
	}
	out = runPython(t, dir, "-m", "unittest", "test_it.Calc.test_sub")
	if lines := traceLines(t, f, trace); len(lines) != 19 || !slices.Contains(lines, "E Calc.test_sub:flip:37 18 failed") {
		t.Errorf("%s\n%s", strings.Join(lines, "\n"), out)
	}
}

// traceLines reads a trace, sorted, with sites as "test:kind:line".
func traceLines(t *testing.T, f File, trace string) []string {
	t.Helper()
	raw, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(raw)) {
		w := strings.Fields(line)
		if w[0] != "k-1" || len(line) > 512 {
			t.Fatalf("line %q", line)
		}
		if w[1] != "T" {
			w[2] = siteName(t, f, w[2])
		}
		lines = append(lines, strings.Join(w[1:], " "))
	}
	slices.Sort(lines)
	return lines
}

// siteName writes a site as "test:kind:line".
func siteName(t *testing.T, f File, id string) string {
	t.Helper()
	for _, test := range f.Tests() {
		for _, s := range test.Sites {
			if fmt.Sprint(s.ID) == id {
				return fmt.Sprintf("%s:%s:%d", test.Name, s.Kind, s.Line)
			}
		}
	}
	t.Fatalf("no site %s", id)
	return ""
}

// TestPythonTraceOfLateFailures: a test that a sabotage fails in its last statement,
// or in a cleanup, is not recorded as one that passed.
func TestPythonTraceOfLateFailures(t *testing.T) {
	t.Parallel()
	needPython(t)
	f := mustBind(t, "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(len('a'), 1)\n")
	for _, s := range f.Tests()[0].Sites {
		if s.Kind != Fail {
			continue
		}
		o := Orders{Seed: seed(s.ID), Trace: "/trace", Key: "k", Sabotage: map[string]Order{"A.test_a": {Site: s.ID}}}
		if text := string(mustEdit(t, f, o)); strings.Contains(text, "T A.test_a pass") {
			t.Errorf("site %d: a pass is recorded\n%s", s.ID, text)
		}
		o.Sabotage = nil
		if text := string(mustEdit(t, f, o)); !strings.Contains(text, "T A.test_a pass") {
			t.Errorf("no pass is recorded\n%s", text)
		}
	}
}
