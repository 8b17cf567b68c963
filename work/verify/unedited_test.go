package verify

import (
	"fmt"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/sandbox"
)

// TestUnedited: what the additional run with the base's tests adds to the
// judgement, with and without a runner that names its tests.
func TestUnedited(t *testing.T) {
	t.Parallel()
	plain := func(exit int) reply { return reply{exit: exit} }
	noTests := reply{exit: 5, stdout: "=== test session starts ===\n=== no tests ran in 0.01s ===\n"}
	numbers := func(exit, ran, failed int) reply {
		end := "OK\n"
		if failed > 0 {
			end = fmt.Sprintf("FAILED (failures=%d)\n", failed)
		}
		return reply{exit: exit, stderr: fmt.Sprintf("Ran %d tests in 0.1s\n\n%s", ran, end)}
	}
	one := reply{stdout: "=== test session starts ===\ntest_new.py::test PASSED [100%]\n=== short test summary info ===\nPASSED test_new.py::test\n=== 1 passed in 0.01s ===\n"}
	pass, fail := unit(0, map[string]string{"a": "ok"}), unit(1, map[string]string{"a": "FAIL"})
	base := files{"test_a.py": "1", "check.sh": "1"}.write(t)
	for _, tc := range []struct {
		name, command        string
		patch                files
		before, unedited, is reply
		want                 reason.Code
	}{
		{"an edited test that passes both ways", unitCommand, files{"test_a.py": "2"}, fail, pass, pass, ""},
		{"an edited test that passes only as edited", unitCommand, files{"test_a.py": "2"}, fail, fail, pass, reason.VerifierTampering},
		{"an edit that breaks what passed", unitCommand, files{"test_a.py": "2"}, pass, fail, pass, reason.VerifierTampering},
		{"the delivered tree fails too", unitCommand, files{"test_a.py": "2"}, fail, fail, fail, reason.VerificationFailed},
		{"a script that was bent", "sh check.sh", files{"check.sh": "2"}, plain(1), plain(1), plain(0), reason.VerifierTampering},
		{"a script that was extended", "sh check.sh", files{"check.sh": "2"}, plain(1), plain(0), plain(0), ""},
		{"the first test of the project", "pytest", files{"test_new.py": "2"}, noTests, noTests, one, ""},
		{"a test that the contract asks for", "python3 test_new.py", files{"test_new.py": "2"}, plain(2), plain(2), plain(0), ""},
		{"the same with an edit besides", "python3 test_new.py", files{"test_new.py": "2", "test_a.py": "2"}, plain(2), plain(2), plain(0), reason.VerifierTampering},
		{"numbers only, a weakened test", "make test", files{"test_a.py": "2"}, numbers(2, 1, 1), numbers(2, 1, 1), numbers(0, 1, 0), reason.VerifierTampering},
		{"numbers only, a test is added that bends the runner", "make test", files{"test_new.py": "2"}, numbers(2, 1, 1), numbers(2, 1, 1), numbers(0, 2, 0), reason.VerifierTampering},
		{"nothing is read, a weakened test", "make test", files{"test_a.py": "2"}, plain(2), plain(2), plain(0), reason.VerifierTampering},
		{"nothing is read, a test is added", "make test", files{"test_new.py": "2"}, plain(2), plain(2), plain(0), reason.VerifierTampering},
		{"a test file is deleted, no runner counts", "make test", files{"test_a.py": deleted}, plain(0), plain(0), plain(0), reason.VerifierTampering},
		{"a test file is renamed, its tests are named", unitCommand, files{"test_a.py": deleted, "test_b.py": "2"}, pass, pass, pass, ""},
		{"the unedited run hangs", unitCommand, files{"test_a.py": "2"}, pass, reply{exit: 137, result: func(c *sandbox.CommandResult) { c.TimedOut = true }}, pass, reason.Timeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			patch := files{"code": "x"}
			first := ""
			for p, text := range tc.patch {
				patch[p], first = text, p
			}
			sb := scripted(func(s sandbox.Spec) ([]reply, error) {
				switch {
				case !laid(s, "code"):
					return []reply{tc.before}, nil
				case laid(s, first):
					return []reply{tc.is}, nil
				default:
					return []reply{tc.unedited}, nil
				}
			})
			v, err := Run(t.Context(), sb, Plan{Lower: base, Patch: patch.changes(), Commands: []string{tc.command}})
			if err != nil {
				t.Fatal(err)
			}
			if got := append(strings.Fields(codes(v.Findings)), "")[0]; got != string(tc.want) {
				t.Errorf("want %q, got %s", tc.want, explain(v))
			}
		})
	}
}
