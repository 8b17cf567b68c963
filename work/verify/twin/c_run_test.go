package twin

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// cProject is a test file with what people write in C. Its first argument is the test to run.
const cProject = `/* Tests of a "cart": it's { fine. */
#define _GNU_SOURCE
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>

#if 0
#include "never.h" /* a comment that
  goes on */
its never(void) { { {
#elif defined(NEVER)
int never(void) { { }
#else
int ever(int a) { { return a; }
#endif
#ifdef ALSO_NEVER
}
#else
}
#endif

#define CHECK(cond) do { \
    if (!(cond)) { \
        printf("%s:%d: %s\n", __FILE__, __LINE__, #cond); \
        failures++; \
    } \
} while (0)
#define CHECK_MSG(msg, cond) do { if (!(cond)) { puts(msg); failures++; } } while (0)
#define EXPECT_EQ_INT(want, got) do { if ((want) != (got)) { printf("%d\n", got); failures++; } } while (0)
#define EXPECT_FALSE(cond) CHECK(!(cond))

static int failures = 0;
struct pair { const char *in, *want; };
static const struct pair pairs[] = {{"a", "A"}, {"b{", "B{"}};

static const char *upper(const char *s)
{
    static char out[64];
    size_t i;
    for (i = 0; s[i] && i + 1 < sizeof out; i++)
        out[i] = s[i] >= 'a' && s[i] <= 'z' ? s[i] - 32 : s[i];
    out[i] = 0;
    return out;
}

static void test_asserts(void)
{
    char *s = strdup("x");
    assert(s);
    assert(strcmp(upper("ab"), "AB") == 0);
    assert(!strcmp(upper("ab\n"), "AB\n") && "a message");
    assert(strlen(upper("abc")) == 3);
    assert('A' == upper("a")[0]);
    free(s);
}

static void test_checks(void) {
    int i;
    CHECK(1 + 1 == 2);
    for (i = 0; i < 3; i++) CHECK(i >= 0);
    CHECK_MSG("a message", strcmp(upper("q"), "Q") == 0);
    EXPECT_EQ_INT(4, 2 + 2);
    EXPECT_FALSE(upper("a") == NULL);
}

static int test_returns(void)
{
    const char *got = upper("it");
    if (strcmp(got, "IT") != 0) {
        fprintf(stderr, "want IT, got %s\n", got);
        return 1;
    }
    if (got == NULL || strlen(got) != 2)
        return 1;
    return 0;
}

static bool test_bools(void) {
    if (upper("a")[0] != 'A') return false;
    if (!(strcmp(upper("b"), "B") == 0)) {
        return false;
    }
    return true;
}

int test_counts(int verbose) {
    int errors = 0;
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (strcmp(upper(pairs[i].in), pairs[i].want)) {
            if (verbose) puts(pairs[i].in);
            errors++;
        }
    }
    if (0x10u == 17) errors += 1;
    return errors;
}

static int test_goto(void)
{
    int rc = -1;
    char *p = malloc(4);
    if (p == NULL)
        goto fail;
    if (sizeof(char) != 1) goto fail;
    rc = 0;
fail:
    free(p);
    return rc;
}

static void test_exits(void) {
    FILE *f;
    if ((f = fopen("/dev/null", "r")) == NULL) {
        perror("open");
        exit(2);
    } else if (fgetc(f) != EOF) {
        exit(EXIT_FAILURE);
    }
    fclose(f);
}

static void fail(const char *why) { puts(why); exit(1); }

static void test_fail_call(void) {
    if (upper("a") == NULL) { fail("no text"); }
    /* it's "the end" */ // and { so on
    switch (failures) { case 0: break; default: break; }
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    int bad_exit = 0;
#define RUN(name, ok) if (!strcmp(which, #name)) bad_exit = !(ok)
    RUN(test_asserts, (test_asserts(), 1));
    RUN(test_checks, (test_checks(), failures == 0));
    RUN(test_returns, test_returns() == 0);
    RUN(test_bools, test_bools());
    RUN(test_counts, test_counts(0) == 0);
    RUN(test_goto, test_goto() == 0);
    RUN(test_exits, (test_exits(), 1));
    RUN(test_fail_call, (test_fail_call(), 1));
    return bad_exit;
}
`

// cPlusProject is one of C++, with a framework as small as it can be.
const cPlusProject = `#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <iostream>

namespace mini {
struct failed : std::runtime_error { using std::runtime_error::runtime_error; };
std::vector<std::pair<std::string, void (*)()>> &all() { static std::vector<std::pair<std::string, void (*)()>> v; return v; }
struct add { add(const char *n, void (*f)()) { all().emplace_back(n, f); } };
}
#define TEST(suite, name) static void suite##_##name(); static mini::add add_##suite##_##name(#suite "_" #name, suite##_##name); static void suite##_##name()
#define REQUIRE(...) do { if (!(__VA_ARGS__)) throw mini::failed(#__VA_ARGS__); } while (0)
#define REQUIRE_EQ(a, b) REQUIRE((a) == (b))

namespace {
const std::string raw = R"x(a "quoted" ) { text)x";
struct Thing {
  explicit operator bool() const { return ok; }
  bool ok = true;
  int twice(int n) { if (n < 0) { std::abort(); } return 2 * n; }
};

TEST(Thing, IsTrue) {
  Thing t;
  REQUIRE(t);
  REQUIRE(t.twice(2) == 4);
  REQUIRE(std::string("a") + "b" == "ab");
  auto p = std::make_unique<int>(1'000);
  REQUIRE(p);
  REQUIRE_EQ(*p, 1000);
}

TEST(Thing, Throws) {
  bool thrown = false;
  try { throw std::out_of_range("x"); } catch (const std::out_of_range &e) { thrown = std::string(e.what()) == "x"; }
  REQUIRE(thrown == true);
  std::vector<int> v{1, 2};
  REQUIRE(v.size() == 2u);
}

}  // namespace

TEST(Plain, Declares) {
  if (auto p = std::make_unique<int>(3); *p != 3) { std::exit(1); }
  auto f = [](int n) { return n + 1; };
  if (f(1) != 2) std::exit(1);
  REQUIRE(raw.size() == 19);
}

int main(int argc, char **argv) {
  for (auto &t : mini::all())
    if (argc > 1 && t.first == argv[1]) {
      try { t.second(); } catch (const mini::failed &e) { std::cerr << e.what() << "\n"; return 1; }
      return 0;
    }
  return 3;
}
`

// cOldProject is one for a compiler that takes every warning for an error.
const cOldProject = `#include <assert.h>
#include <stdio.h>
#include <string.h>

static int errors;

static void check_text(const char *got, const char *want, int line)
{
    if (strcmp(got, want) != 0) {
        fprintf(stderr, "line %d: got %s\n", line, got);
        errors++;
    }
}

static void test_texts(void)
{
    char text[4];
    const char *p = text;
    text[0] = 'a';
    text[1] = 0;
    assert(p != NULL);
    check_text(text, "a", __LINE__);
    assert(text[0] == 'a');
}

static int test_numbers(void)
{
    unsigned long n = strlen("abc");
    double half = 0.5;
    if (n != 3)
        return 1;
    assert(half < 1.0);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "test_texts") == 0)
        test_texts();
    if (argc > 1 && strcmp(argv[1], "check_text") == 0)
        check_text(argv[1], argv[1], 1);
    if (argc > 1 && strcmp(argv[1], "test_numbers") == 0)
        errors += test_numbers();
    return errors != 0;
}
`

// cTestName is what a test is called by its program.
var cTestName = regexp.MustCompile(`^TEST\((\w+), (\w+)\)$`)

// ranC compiles a file without a warning and runs each test in a process of its own.
func ranC(t *testing.T, compiler []string, name string, tests []Test, text []byte) (passed map[string]bool, out string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out = runTool(t, dir, compiler[0], append(compiler[1:], "-Wall", "-Wextra", "-Wno-stringop-truncation", "-Werror", "-o", "prog", name)...)
	passed = map[string]bool{}
	for _, test := range tests {
		ran := runTool(t, dir, "sh", "-c", `./prog "$1" >/dev/null 2>&1; echo $?`, "sh", cTestName.ReplaceAllString(test.Name, "${1}_$2"))
		passed[test.Name] = strings.HasSuffix(ran, "0\n") && len(ran) == 2
	}
	return passed, out
}

// TestCRun: neutral edits change no verdict and bring no warning, and each sabotage makes
// its test fail and no other.
func TestCRun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	for name, tc := range map[string]struct {
		src, file string
		compiler  []string
	}{
		"C": {cProject, "test_cart.c", []string{"gcc", "-O1", "-std=gnu11"}}, "optimised": {cProject, "test_cart.c", []string{"gcc", "-O3"}},
		"C89": {cOldProject, "old_test.c", append([]string{"gcc", "-std=c89", "-O2"}, strings.Fields("-pedantic-errors -Wconversion -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wswitch-default "+
			"-Wdeclaration-after-statement -Wundef -Wcast-qual -Wwrite-strings -Wfloat-equal -Wredundant-decls -Wmissing-declarations -Wold-style-definition -Wnested-externs -Wpointer-arith -Wbad-function-cast "+
			"-Winline -Wc++-compat -Wlogical-op -Wduplicated-cond -Wnull-dereference -Wunreachable-code -Wcast-align")...)},
		"C++": {cPlusProject, "cart_test.cc", []string{"g++", "-std=c++17"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needTool(t, tc.compiler[0])
			f, err := ParseC(tc.file, []byte(tc.src))
			if err != nil {
				t.Fatal(err)
			}
			triesAll(t, f, func(text []byte) (map[string]bool, string) { return ranC(t, tc.compiler, tc.file, f.Tests(), text) })
		})
	}
}
