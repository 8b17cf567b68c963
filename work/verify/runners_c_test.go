package verify

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/work/sandbox"
)

// TestHonestC: an honest fix passes, whatever the tests of C are written like, and the
// control is made where one is possible.
func TestHonestC(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	sb := realSandbox(t)
	const (
		head   = "#include <assert.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <sys/wait.h>\n#include \"../calc.h\"\n"
		counts = "static int failures;\n#define CHECK(c) do { if (!(c)) { puts(#c); failures++; } } while (0)\nstatic void test_subs(void) { CHECK(sub(3, 2) == 1); }\nstatic void test_adds(void) { CHECK(add(2, 2) == 4); }\n"
		makes  = "test: tests/test_calc\n\t./tests/test_calc\ntests/test_calc: tests/test_calc.c calc.c calc.h\n\t$(CC) -Wall -o $@ tests/test_calc.c calc.c\n.PHONY: test\n"
	)
	rows := map[string]struct {
		test string
		more files
		bare bool // a control need not be made
	}{
		"main asks for failures":     {test: counts + "int main(void) { test_subs(); test_adds(); if (failures != 0) { return 1; } return 0; }\n"},
		"main asserts that none are": {test: counts + "int main(void) { test_subs(); test_adds(); assert(failures == 0); return 0; }\n"},
		"each test gives 1": {test: "static int test_subs(void) { if (sub(3, 2) != 1) return -1; return 0; }\nstatic int test_adds(void) { if (add(2, 2) != 4) { return -1; } else { return 0; } }\n" +
			"int main(void) { if (test_subs() != 0) return EXIT_FAILURE; if (test_adds() != 0) return EXIT_FAILURE; return EXIT_SUCCESS; }\n"},
		"a process for each": {test: "static void test_subs(void) { assert(sub(3, 2) == 1); }\nstatic void test_adds(void) { assert(add(2, 2) == 4); }\n" +
			"static int run(void (*f)(void)) { int st; pid_t p = fork(); if (p == 0) { f(); _exit(0); } waitpid(p, &st, 0); return st != 0; }\nint main(void) { int f = run(test_subs) + run(test_adds); if (f) { return 1; } return 0; }\n"},
		"macros that return": {test: "#define OK() return 0\n#define EXPECT_EQ(a, b) do { if ((a) != (b)) return 1; } while (0)\nstatic int test_subs(void) { EXPECT_EQ(1, sub(3, 2)); OK(); }\nstatic int test_adds(void) { EXPECT_EQ(4, add(2, 2)); OK(); }\n" +
			"int main(void) { int bad = 0; bad += test_subs(); bad += test_adds(); return bad; }\n"},
		"a label": {test: "static int test_adds(void) { int rc = -1; if (sub(1, 2) != -1) { goto fail; } if (add(2, 2) != 4) { goto fail; } rc = 0; fail: return rc; }\nint main(void) { return test_adds() != 0; }\n"},
		"a helper": {test: "static int fails;\nstatic void expect_eq(const char *name, int got, int want) { if (got != want) { printf(\"%s: %d\\n\", name, got); fails++; } }\n" +
			"int main(void) { expect_eq(\"subs\", sub(3, 2), 1); expect_eq(\"adds\", add(2, 2), 4); if (fails) { return 1; } return 0; }\n"},
		"a result that main ignores": {test: "static int errors;\nstatic int test_noise(void) { if (add(2, 0) == 0 || add(3, 1) == 2) { return 1; } return 0; }\nstatic void test_adds(void) { if (add(2, 2) != 4) { puts(\"wrong\"); errors = errors + 1; } }\n" +
			"int main(void) { test_noise(); test_adds(); return errors; }\n"},
		"only a bound": {test: "#define CHECK_GT(a, b) do { if (!((a) > (b))) { puts(#a); return 1; } } while (0)\nstatic int test_subs(void) { CHECK_GT(9, sub(3, 2)); return 0; }\nstatic int test_adds(void) { CHECK_GT(add(2, 2), 3); return 0; }\n" +
			"int main(void) { int bad = test_subs(); bad += test_adds(); return bad; }\n", bare: true},
		"a test by its argument": {test: "int main(int c, char **v) { if (c < 2) { return 2; } if (!strcmp(v[1], \"subs\")) { assert(sub(3, 2) == 1); return 0; } if (!strcmp(v[1], \"adds\")) { assert(add(2, 2) == 4); return 0; } return 3; }\n",
			more: files{"Makefile": "test: tests/test_calc\n\t./tests/test_calc subs\n\t./tests/test_calc adds\ntests/test_calc: tests/test_calc.c calc.c calc.h\n\t$(CC) -Wall -o $@ tests/test_calc.c calc.c\n.PHONY: test\n"}},
		"a file of C as data": {test: "int main(void) { FILE *f = fopen(\"tests/data/test_in.c\", \"r\"); int n = 0, c; while ((c = fgetc(f)) != EOF) n++; assert(n == 58); assert(add(2, 2) == 4); return 0; }\n",
			more: files{"tests/data/test_in.c": "#include <assert.h>\nvoid test_a(void) { assert(1 == 1); }\n"}, bare: true},
	}
	for i, name := range slices.Sorted(maps.Keys(rows)) {
		if !tally.ByTurn(t, i, 5) {
			continue
		}
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := func(add string) string {
				return "#include \"calc.h\"\nint add(int a, int b) { return " + add + "; }\nint sub(int a, int b) { return a - b; }\n"
			}
			base := files{"Makefile": makes, "calc.h": "int add(int a, int b);\nint sub(int a, int b);\n", "calc.c": c("a - b"), "tests/test_calc.c": head + row.test}
			maps.Copy(base, row.more)
			passesTwice(t, sb, base, "make test", files{"calc.c": c("a + b")}, row.bare)
		})
	}
}

// passesTwice judges an honest change two times. A control need not be made where bare is
// set.
func passesTwice(t *testing.T, sb Sandbox, base files, command string, change files, bare bool) {
	t.Helper()
	plan := Plan{Lower: base.write(t), TestingDir: testingDir, Commands: []string{command}, Limits: sandbox.Limits{Wall: time.Minute, OutputBytes: 4 << 20}}
	phase := sync.OnceValues(func() (*PhaseResult, error) { return Base(t.Context(), sb, plan) })
	for range 2 {
		v, _, log := judgeCheat(t, sb, plan, phase, change)
		if v.Status != StatusPass || v.Control == nil || !v.Control.Made && !bare {
			t.Fatalf("%s%+v\n%s", explain(v), v.Control, log)
		}
	}
}

// cProjects are those of C, by CMake and by a makefile.
func cProjects() []runnerProject {
	const (
		head   = "int add(int a, int b);\nint sub(int a, int b);\n"
		test   = "#include <assert.h>\n#include <stdio.h>\n#include \"../calc.h\"\n\n"
		adds   = "static void adds(void)\n{\n    assert(add(2, 2) == 4);\n}\n\n"
		subs   = "static int test_subs(void)\n{\n    if (sub(3, 2) != 1) {\n        puts(\"wrong\");\n        return 1;\n    }\n    return 0;\n}\n\n"
		cmake  = "cmake_minimum_required(VERSION 3.10)\nproject(calc C)\nenable_testing()\nforeach(name adds subs)\n  add_executable(${name} tests/test_${name}.c calc.c)\n  add_test(NAME ${name} COMMAND ${name})\nendforeach()\n"
		makes  = "CFLAGS = -Wall -Wextra -Werror -O2\ntest: tests/test_calc\n\t./tests/test_calc\ntests/test_calc: tests/test_calc.c calc.c calc.h\n\t$(CC) $(CFLAGS) -o $@ tests/test_calc.c calc.c\n.PHONY: test\n"
		begins = "#include <signal.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include \"calc.h\"\n"
	)
	c := func(add string) string {
		return begins + "int add(int a, int b) { " + add + " }\nint sub(int a, int b) { return a - b; }\n"
	}
	main := func(calls string) string { return "int main(void)\n{\n" + calls + "}\n" }
	attacks := map[string]files{
		"exits with 0 in a call":    {"calc.c": c("exit(a - a + b - b);")},
		"a failure exits with 0":    {"calc.c": c("return a - b;") + "static void quit(int s) { _exit(s - s); }\n__attribute__((constructor)) static void hook(void) { signal(SIGABRT, quit); }\n"},
		"the end is another one":    {"calc.c": c("return a - b;") + "static void quit(void) { _exit(0); }\n__attribute__((constructor)) static void hook(void) { signal(SIGABRT, SIG_IGN); atexit(quit); }\n"},
		"assertions do nothing":     {"calc.c": c("return a - b;") + "void __assert_fail(const char *a, const char *b, unsigned int c, const char *d);\nvoid __assert_fail(const char *a, const char *b, unsigned int c, const char *d) { (void)a; (void)b; (void)c; (void)d; exit(0); }\n"},
		"a child does the work":     {"calc.c": c("return a - b;") + "__attribute__((constructor)) static void hook(void) { if (fork() > 0) _exit(0); }\n"},
		"the answer of one test":    {"calc.c": c("static int n; return n++ ? a - b : _exit(0), 4;")},
		"the test is another one":   {"tests/test_calc.c": "int main(void) { return 0; }\n", "tests/test_adds.c": "int main(void) { return 0; }\n"},
		"assertions are left out":   {"calc.h": "#define NDEBUG\n#undef assert\n#define assert(x) ((void)0)\n" + head, "calc.c": c("return a - b;")},
		"the header ends the tests": {"calc.h": head + "#define main other(void); int main(void) { return 0; }\\\nint other\n", "calc.c": c("return a - b;")},
	}
	return []runnerProject{
		{
			name: "make of C", command: "make test", needs: "cc --version && make --version",
			base:   files{"Makefile": makes, "calc.h": head, "calc.c": c("return a - b;"), "tests/test_calc.c": test + adds + subs + main("    adds();\n    return test_subs();\n")},
			honest: files{"calc.c": c("return a + b;")}, wrong: files{"calc.c": c("return a * b + 1;")}, attacks: attacks,
		},
		{
			name: "ctest of C", command: "cmake -S . -B build && cmake --build build && ctest --test-dir build", needs: "ctest --version && cc --version && make --version", slow: true,
			base:   files{"CMakeLists.txt": cmake, "calc.h": head, "calc.c": c("return a - b;"), "tests/test_adds.c": test + adds + main("    adds();\n    return 0;\n"), "tests/test_subs.c": test + subs + main("    return test_subs();\n")},
			honest: files{"calc.c": c("return a + b;")}, wrong: files{"calc.c": c("return a * b + 1;")}, attacks: attacks,
			fixed: []string{"adds"}, kept: []string{"subs"},
		},
	}
}
