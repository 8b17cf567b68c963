package main

import (
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// TestCheckWords: without a remit.yaml in the base --verify takes the place of the commands
// that are found, and a result that tests cannot have is said to be what the control found.
func TestCheckWords(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	requireSandbox(t)
	const good, bad = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"
	repo, home := gitRepo(t, map[string]string{"calc.py": bad, "test_calc.py": "import unittest\nfrom calc import add\n\nclass Calc(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(2, 2), 4)\n"}), t.TempDir()
	gitIn(t, repo, "branch", "-M", "trunk")
	branch(t, repo, "honest", "trunk", "printf '"+strings.ReplaceAll(good, "\n", "\\n")+"' >calc.py")
	branch(t, repo, "cheat", "trunk", "printf 'class Any(int):\\n    def __eq__(self, other):\\n        return True\\n\\ndef add(a, b):\\n    return Any(a - b)\\n' >calc.py")
	for name, tc := range map[string]struct {
		exit      int
		says, not []string
		flags     []string
	}{
		"cheat": {2, []string{"verifier_tampering", "control   it found what does not fit", "hint      read what the change does while that test runs"}, []string{"none was made", "tests: free"}, []string{"--head", "cheat"}},
		"found": {0, []string{"the commands are those that `remit init` finds", "PASS  python3 -m unittest ("}, []string{"those of --verify"}, []string{"--head", "honest"}},
		"given": {0, []string{"the commands are those of --verify", "python3 -m unittest -v test_calc"}, []string{"PASS  python3 -m unittest ("}, []string{"--head", "honest", "--verify", "python3 -m unittest -v test_calc"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := cli(t, home, append([]string{"check", "--repo", repo, "--base", "trunk"}, tc.flags...)...)
			out, _ := cmd.CombinedOutput() // its exit code is looked at
			if got := cmd.ProcessState.ExitCode(); got != tc.exit {
				t.Errorf("exit %d, want %d", got, tc.exit)
			}
			for _, s := range tc.says {
				if !strings.Contains(string(out), s) {
					t.Errorf("no %q in\n%s", s, out)
				}
			}
			for _, s := range tc.not {
				if strings.Contains(string(out), s) {
					t.Errorf("%q in\n%s", s, out)
				}
			}
		})
	}
}
