package twin

import (
	"strings"
	"testing"
)

// TestCRefuses: a text that cannot be read for sure is an error.
func TestCRefuses(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"open string": `char *a = "a;`, "open comment": "/* a", "open bracket": "int f(", "wrong bracket": "int f(]", "closing": "}", "open character": "char a = 'a;\n",
		"raw string": `auto a = R"x(a)";`, "no beginning of a raw string": `auto a = R"x";`, "character": "int a\x01;", "no text": "int \xff;", "too long": strings.Repeat(" ", maxBraceSource+1),
		"branches": "#if A\nint f() {\n#else\nint g() {\n#endif\n",
	} {
		if f, err := ParseC("a.cc", []byte(src)); err == nil {
			t.Errorf("%s: %s", name, summary(f))
		}
	}
}

// TestCParse: what is a test, and what of it can be edited: flips, values and failing
// statements.
func TestCParse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ src, want string }{
		"assert":                       {"void a(void) { assert(f() == 4); assert(g()); }", "a 2/1/1"},
		"a text":                       {`void a(void) { assert(strcmp(f(), "x") == 0); assert(!strncmp(f(), "y", 1)); assert(std::string("z") == g()); }`, "a 3/2/1"},
		"what is not wanted":           {`void a(void) { assert(f() != 4); assert(strcmp(f(), "x")); assert(!(f() != 4)); assert(!strcmp(f(), "x")); if (f() == 4) abort(); if (!(f() == 4)) abort(); if (strcmp(f(), "x")) abort(); }`, "a 7/4/1"},
		"no literal of its own":        {`void a(void) { assert(f() == 4 + n); assert(f() == "a" "b"); assert(f() == NULL); assert(f() == 0x10); assert(f() == L"a"); }`, "a 5/0/1"},
		"nothing or a pointer":         {"void a(void) { assert(f() == 0); assert(0 != g()); ck_assert_int_eq(h(), 0); }", "a 2/1/1"},
		"numbers with a type":          {"void a(void) { assert(f() == 4u); assert(1.5f != f()); assert(f() == 10UL); }", "a 3/2/1"},
		"a message":                    {`void a(void) { assert(f() && "why"); CHECK(g(), "why"); mu_assert("why", h()); CHECK_MESSAGE("why", f() == 3); }`, "a 4/1/1"},
		"macros":                       {"void a(void) { CHECK(f()); EXPECT_TRUE(g()); TEST_ASSERT_FALSE(h()); REQUIRE(i()); TEST_ASSERT(j()); }", "a 5/0/1"},
		"values":                       {`void a(void) { EXPECT_EQ(4, f()); TEST_ASSERT_EQUAL_STRING("x", g()); assert_int_equal(h(), 3); munit_assert_int(i(), ==, 5); ck_assert_str_eq(j(), "y"); }`, "a 0/5/1"},
		"nothing is said":              {"void a(void) { EXPECT_NE(4, f()); TEST_ASSERT_NOT_EQUAL(3, g()); TEST_ASSERT_NOT_NULL(h()); EXPECT_THROW(f(), E); static_assert(sizeof(int) == 4); f(); }\nvoid b(void) { f(); }", "a 0/0/1"},
		"an own function":              {`void a(void) { check(f() == 2); check(g()); check_text("a", f()); check_value(p); verify_file(path); }`, "a 2/2/1"},
		"an if":                        {"void a(void) { if (f() != 3) { puts(s); exit(1); } if (!g()) abort(); if (h()) i(); else exit(0); }", "a 2/1/1"},
		"an if that returns":           {"int test_a(void) { if (f()) return 1; if (g()) { return -1; } if (h()) return 0; return 0; }", "test_a 2/0/1"},
		"the other way round":          {"bool test_a(void) { if (f() != 2) return false; return true; } int test_b(void) { if (f()) return 0; return 1; }", "test_a 1/1/1; test_b 1/0/1"},
		"a comparator":                 {"static int by_name(const void *a, const void *b) { if (f(a, b)) return -1; if (g(a, b)) return 1; return 0; }", ""},
		"counters":                     {"void a(void) { if (f()) failures++; if (g()) ++errors; if (h()) nfail += 1; if (i()) has_failed = 1; if (j()) count++; if (k()) x.errors++; if (l()) errors += n(); }", "a 4/0/1"},
		"a label":                      {"int test_a(void) { if (f()) goto fail; if (g()) goto next; next: return 0; fail: return 1; }", "test_a 1/0/1"},
		"else if":                      {"void a(void) { if (f()) g(); else if (h()) exit(2); }", "a 1/0/1"},
		"what gives a pointer":         {"char *a(void) { if (f()) abort(); return 0; } static char *b(void) { mu_assert(\"why\", f() == 2); return 0; }", "b 1/1/1"},
		"what is compared with a text": {"#define cross_check(a, b) do { if ((b)!=(b)) break; is(eval(a), (b)); } while (0)\nvoid a(void) { cross_check(\"x\", fabs(x)); }\n", "a 0/0/1"},
		"what is asked behind a text":  {"#define my_check(what, ok) do { if (!(ok)) { fails++; } } while (0)\nvoid a(void) { my_check(\"x\", f(x)); }\n", "a 1/0/1"},
		"minctest":                     {"void a(void) { lok(!f()); lequal(g(), 5); lfequal(h(), 0.5); }\n", "a 1/2/1"},
		"macros that name a test":      {"TEST(Suite, Name) { EXPECT_TRUE(f()); }\nTEST_CASE(\"it \\\"x\\\"\", \"[tag]\") { REQUIRE(g() == 2); }\nSTART_TEST(t) { ck_assert(h()); } END_TEST\n", `TEST(Suite, Name) 1/0/1; TEST_CASE("it \"x\"", "[tag]") 1/1/1; START_TEST(t) 1/0/1`},
		"namespaces":                   {"namespace a { namespace { void b() { assert(f()); } } }\nextern \"C\" { void c(void) { assert(g()); } }\nextern \"C\" void d(void);\n", "b 1/0/1; c 1/0/1"},
		"no functions":                 {"struct a { int b; }; enum c { D, E }; int f[] = {1, g(2)}; typedef struct { int a; } h; void i(void); class J { void k() { assert(l()); } };", ""},
		"a declaration in C++":         {"void a() { if (auto p = f()) abort(); if (int n = f(); n > 2) abort(); if ((p = g()) != 2) abort(); }", "a 1/1/1"},
		"directives":                   {"#define CHECK(x) do { if (!(x)) { abort(); \\\n } } while (0)\nvoid a(void) {\n#ifdef X\n  assert(f());\n#else\n  assert(g());\n#endif\n  CHECK(h());\n}\n", "a 2/0/1"},
		"never":                        {"#if 0 /* not */\nit's { gone\n#endif\nvoid a(void) { assert(f()); }\n#if 0\nvoid b(void) {\n#else\nvoid c(void) {\n#endif\n assert(g()); }\n", "a 1/0/1; c 1/0/1"},
		"text that looks like a test":  {"const char *s = \"void a(void) { assert(1); }\"; /* void b(void) { assert(1); } */ // \\\nvoid c(void) { assert(1); }\nchar d = '{'; auto e = R\"(void f() { assert(1); })\";", ""},
		"an attribute":                 {"static void __attribute__((noinline)) a(int b) { assert(b); }\nvoid c(void) __attribute__((unused));\nint d(void) noexcept(true) { assert(e()); return 0; }", "a 1/0/1; d 1/0/1"},
		"bounds":                       {"void a(void) { ASSERT_GT(0, f()); EXPECT_NEAR(1.5, g(), 0.1); }", "a 0/0/1"},
		"a macro that makes names":     {"#define check(x) do { y_##x(); } while (0)\n#define CHECK(x) \\\n  z(#x, x)\nvoid a(void) { check(one); CHECK(f() == 2); }", "a 1/1/1"},
		"a macro that returns":         {"TEST a(void) { ASSERT(f()); PASS(); }", "a 1/0/1"},
		"twice":                        {"void a(int x) { assert(f()); }\nvoid a(double x) { assert(g()); }", "a 1/0/1; a (2) 1/0/1"},
	} {
		f, err := ParseC("a_test.cc", []byte(tc.src))
		if strings.Contains(tc.src, "(void)") {
			f, err = ParseC("a_test.c", []byte(tc.src))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := summary(f); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestCEditKeepsLines: an edited file has each line with the number that it had.
func TestCEditKeepsLines(t *testing.T) {
	t.Parallel()
	for _, src := range []string{cProject, cOldProject, cPlusProject, strings.ReplaceAll(cProject, "\n", "\r\n"), "void a(void) { assert(f()); }"} {
		f, err := ParseC("a.cc", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		lines, number := strings.Split(string(mustEdit(t, f, Orders{Seed: seed(3)})), "\n"), 0
		was := strings.Split(src, "\n")
		for _, line := range lines {
			if at, ok := strings.CutPrefix(line, "#line "); ok {
				number = 0
				for _, c := range strings.TrimSpace(at) {
					number = 10*number + int(c-'0')
				}
				continue
			}
			if number == 0 {
				continue
			}
			if begins := strings.TrimSpace(was[number-1]); !strings.HasPrefix(strings.TrimSpace(line), begins[:min(len(begins), 3)]) && !strings.Contains(line, begins) {
				t.Fatalf("line %d was %q and is %q", number, was[number-1], line)
			}
			number++
		}
		if number != len(was)+1 {
			t.Errorf("%d lines are %d", len(was), number-1)
		}
	}
}

// FuzzC: whatever a file holds, reading it ends, and what is read can be edited: the
// brackets of the edited file match too.
func FuzzC(f *testing.F) {
	f.Add(cProject)
	f.Add(cOldProject)
	f.Add(cPlusProject)
	f.Add("#if 0\n#elif A /* x\n*/\n#endif\nTEST(a, b) { if (f(u8\"x\")) { exit(1); } else EXPECT_EQ(1'0, R\"a(b)a\"); }")
	f.Fuzz(func(t *testing.T, src string) {
		file, err := ParseC("a.cc", []byte(src))
		if err != nil {
			return
		}
		for _, trace := range []string{"", "/tmp/t"} {
			text := string(mustEdit(t, file, Orders{Seed: seed(len(src)), Sabotage: everyTest(file), Trace: trace, Key: "k"}))
			if _, err := ParseC("a.cc", []byte(text)); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	})
}
