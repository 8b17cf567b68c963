package verify

import "testing"

// TestLeaveUnbuilt: a file whose edits a compiler refuses on the base is left as it is, and
// the others stay.
func TestLeaveUnbuilt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ lang, path, output, left string }{
		"Maven":       {langJava, "core/src/test/java/OddTest.java", "[ERROR] /workspace/core/src/test/java/OddTest.java:[5,42] incompatible types: Object cannot be converted to int\n", "incompatible types: Object cannot be converted to int (line 5)"},
		"javac":       {langJava, "test/OddTest.java", "test/OddTest.java:7: error: cannot find symbol\n", "cannot find symbol (line 7)"},
		"Gradle":      {langJava, "src/test/java/OddTest.java", "/workspace/src/test/java/OddTest.java:9: error: ';' expected\n", "';' expected (line 9)"},
		"GCC":         {langC, "tests/odd.c", "../tests/odd.c:3:5: error: unknown type name 'x'\n", "unknown type name 'x' (line 3)"},
		"rustc":       {langRust, "src/odd.rs", "error[E0308]: mismatched types\n  --> src/odd.rs:4:9\n", "error[E0308]: mismatched types (line 4)"},
		"a warning":   {langJava, "src/test/java/OddTest.java", "[WARNING] /workspace/src/test/java/OddTest.java:[5,42] unchecked\n", ""},
		"another one": {langJava, "src/test/java/OddTest.java", "[ERROR] /workspace/src/test/java/NotOddTest.java:[5,42] no\n", ""},
	} {
		s := &suite{files: []*suiteFile{{path: tc.path, lang: tc.lang}, {path: "src/test/java/CalcTest.java", lang: tc.lang}}}
		again := s.leaveUnbuilt([]CommandResult{{}}, []*RunResult{{Commands: []CommandResult{{tail: tc.output, ExitCode: 1}}}})
		want := []string(nil)
		if tc.left != "" {
			want = []string{tc.path + ": an edit of it does not compile: " + tc.left}
		}
		if again != (tc.left != "") || len(s.left) != len(want) || len(want) > 0 && s.left[0] != want[0] || len(s.files) != 2-len(want) {
			t.Errorf("%s: %t, left %q, %d files", name, again, s.left, len(s.files))
		}
	}
}
