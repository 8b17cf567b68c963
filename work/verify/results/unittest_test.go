package results

import (
	"strings"
	"testing"
)

// TestUnittestMessage: what a failure says is its exception, not the diff below it.
func TestUnittestMessage(t *testing.T) {
	t.Parallel()
	const traceback = "Traceback (most recent call last):\n  File \"t.py\", line 5, in test_a\n    self.fail()\n"
	for name, c := range map[string]struct{ text, want string }{
		"a diff":            {traceback + "AssertionError: 'a--b' != 'a-b'\n- a--b\n?  -\n+ a-b\n", "AssertionError: 'a--b' != 'a-b'"},
		"two lines":         {traceback + "ValueError: one\ntwo\n", "ValueError: one"},
		"a failed import":   {"ImportError: Failed to import test module: t\n" + traceback + "ModuleNotFoundError: No module named 'x'\n", "ModuleNotFoundError: No module named 'x'"},
		"one line, as ever": {traceback + "AssertionError: 1 != 2\n", "AssertionError: 1 != 2"},
	} {
		var u unittestRun
		var col collector
		text := "FAIL: test_a (t.T.test_a)\n" + strings.Repeat("-", 70) + "\n" + c.text + "\n" + strings.Repeat("-", 70) + "\n"
		for line := range strings.Lines(text) {
			u.traceback(&col, strings.TrimSuffix(line, "\n"))
		}
		if got := col.messages["t.T.test_a"]; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
