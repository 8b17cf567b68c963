package verify

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
