package twin

import (
	"strings"
	"testing"
)

// TestJavaRefuses: a text that cannot be read for sure is an error.
func TestJavaRefuses(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"open string": `class A { String a = "a; }`, "open block": `class A { String a = """a; }`, "open comment": "/* a", "open bracket": "f(", "wrong bracket": "f(]", "closing": "}",
		"a quote as an escape": `class A { String a = "\u0022"; }`, "a line break as an escape": `// \u000a class B {}`, "character": "a \x01 b", "too long": strings.Repeat(" ", maxBraceSource+1),
		"too many assertions": "class A { @Test void a() { " + strings.Repeat("assertTrue(f());", maxJavaSites) + " } }",
	} {
		if f, err := ParseJava([]byte(src)); err == nil {
			t.Errorf("%s: %s", name, summary(f))
		}
	}
}

// TestJavaParse: what is a test, and what of it can be edited: flips, values and failing
// statements.
func TestJavaParse(t *testing.T) {
	t.Parallel()
	const five = "import org.junit.jupiter.api.Test;\nimport static org.junit.jupiter.api.Assertions.*;\n"
	const four = "import org.junit.Test;\nimport static org.junit.Assert.*;\n"
	for name, tc := range map[string]struct{ src, want string }{
		"a test":                      {"class A { @Test public void a() { assertEquals(1, f()); } }", "A::a 0/1/1"},
		"in a package":                {"package a.b; public final class C { @org.junit.Test public void it() throws E { f(); g(); } }", "a.b.C::it 0/0/2"},
		"nested":                      {"class A { static class B { @Test void b() { f(); } }\n@Nested class C { @Test void c() { f(); } } @Test void a() {} }", "A$B::b 0/0/1; A$C::c 0/0/1; A::a 0/0/1"},
		"JUnit 3":                     {"class A extends junit.framework.TestCase { public void testA() { f(); } void testB() {} public void other() {} }", "A::testA 0/0/1"},
		"no test":                     {"class A { void testA() { assertEquals(1, f()); } @Test static void b() {} @Test private void c() {} @Test int d() { return 1; } @TestFactory void e() {} }", ""},
		"abstract":                    {"abstract class A { @Test void a() { f(); } } interface B { @Test default void b() { f(); } } enum C { D { @Test void d() {} } }", ""},
		"a field, an initialiser":     {"class A { int a = f(new Object() { @Test void x() {} }); { f(); } static { f(); } @Test void a() { f(); } }", "A::a 0/0/1"},
		"a name like a keyword":       {"class A { @Test void record() { int record = 1; record(record); } }", "A::record 0/0/1"},
		"class literals":              {"class A { Class<?> c = B.class; @Test void a() { f(B.class); g(); } }", "A::a 0/0/2"},
		"annotations with brackets":   {"class A { @Test @Tag(\"a{b\") @DisplayName(value = \"x\") public void a() { f(); } }", "A::a 0/0/1"},
		"generics":                    {"class A<T extends List<? super B>> extends C<T> implements D<E> { @Test <X> void a() { f(); } }", "A::a 0/0/1"},
		"any error":                   {"class A { @Test(expected = Throwable.class) public void a() { f(); } }", "A::a: it waits for any error"},
		"conditions":                  {four + "class A { @Test void a() { assertTrue(\"why\", f()); assertFalse(f() || g); } }", "A::a 2/0/2"},
		"conditions of JUnit 5":       {five + "class A { @Test void a() { assertTrue(f(), \"why\"); assertTrue(() -> f()); assertTrue(supplier); assertTrue(this::f); assertTrue(l.any(x -> y)); } }", "A::a 3/0/2"},
		"computed values":             {"class A { @Test void a() { assertEquals(f(), g()); assertEquals(WANT, g()); } }", "A::a 0/0/2"},
		"the other way round":         {"class A { @Test void a() { assertEquals(f(), \"x\"); } }", "A::a 0/1/1"},
		"messages":                    {four + "class A { @Test void a() { assertEquals(\"why\", 1, f()); assertEquals(\"why\", 1.5, f(), 0.1); assertEquals(1.5, f(), 0.1); } }", "A::a 0/3/2"},
		"messages of JUnit 5":         {five + "class A { @Test void a() { assertEquals(1, f(), \"why\"); assertEquals(1.5, f(), 0.1, \"why\"); assertEquals(1.5, f(), 0.1); } }", "A::a 0/3/2"},
		"half of each":                {"import org.junit.jupiter.api.Test;\nimport static org.junit.Assert.assertEquals;\nclass A { @Test void a() { assertEquals(\"why\", 1, f()); assertTrue(\"x\", f()); } }", "A::a 0/1/2"},
		"not known whose":             {"class A { @Test void a() { assertEquals(\"why\", \"x\", f()); assertEquals(1.5, f(), DELTA); assertTrue(a, b); assertNull(f()); } }", "A::a 0/0/2"},
		"a tolerance":                 {four + "class A { @Test void a() { assertEquals(1000, f(), 100); assertEquals(20.0, f(), 2.0); } }", "A::a 0/1/2"},
		"objects":                     {four + "class A { @Test void a() { assertNull(f()); assertNotNull(\"why\", g()); assertSame(A, f()); assertNotSame(A, f()); } }", "A::a 3/0/2"},
		"an exception that is caught": {four + "class A { @Test void a() { try { f(); fail(\"why\"); } catch (E e) { g(); } try { f(); } catch (E e) { } } }", "A::a 0/0/2"},
		"it waits":                    {four + "class A { @Test(expected = E.class) public void a() { assertEquals(1, f()); assertTrue(g()); } }", "A::a 0/0/1"},
		"it waits for an assertion":   {four + "class A { @Rule public ExpectedException thrown; @Test public void a() { thrown.expect(AssertionError.class); f(); } }", "A::a: it waits for any error"},
		"an order":                    {five + "@TestMethodOrder(OrderAnnotation.class)\nclass A { @Test void a() { f(); } }\nclass B { @Test void b() { f(); } }", "A::a: it goes on from another test; B::b 0/0/1"},
		"it waits by a helper":        {four + "class A { @Rule public ExpectedException thrown; @Test public void a() { waits(); assertEquals(1, f()); } @Test public void b() { assertEquals(1, a.f()); } }", "A::a 0/0/1; A::b 0/1/1"},
		"the least of its type":       {four + "class A { @Test void a() { assertEquals(-2147483648, f()); assertEquals(-5, f()); } }", "A::a 0/1/2"},
		"an escaped backslash":        {"class A { @Test void a() { assertEquals(\"\\\\u0022\", f()); } }", "A::a 0/1/1"},
		"made of literals":            {"class A { @Test void a() { assertEquals(Arrays.asList(\"a\", \"b\"), f()); assertEquals(Optional.empty(), f()); assertEquals(new Money(5), f()); } }", "A::a 0/1/2"},
		"nothing of its kind":         {"class A { @Test void a() { assertEquals(\"\", f()); assertEquals(null, f()); assertEquals(' ', f()); } }", "A::a 0/1/2"},
		"exceptions":                  {five + "class A { @Test void a() { assertThrows(IllegalStateException.class, () -> f()); assertThrows(OwnException.class, this::f); } }", "A::a 0/1/2"},
		"an exception that is used":   {five + "class A { @Test void a() { var e = assertThrows(IllegalStateException.class, () -> f()); assertThrows(IllegalStateException.class, this::f).getMessage(); } }", "A::a 0/0/2"},
		"AssertJ":                     {"class A { @Test void a() { assertThat(f()).isEqualTo(\"x\").hasSize(1); Assertions.assertThat(g()).as(\"it\").contains(\"a\", \"b\"); assertThat(h()).isTrue(); } }", "A::a 0/4/2"},
		"a bound":                     {"class A { @Test void a() { assertThat(f()).isGreaterThan(2.5); assertThat(f()).isGreaterThan(2); } }", "A::a 0/1/2"},
		"Hamcrest":                    {"class A { @Test void a() { assertThat(f(), is(equalTo(\"x\"))); assertThat(\"why\", g(), containsString(\"y\")); assertThat(h(), custom(1)); } }", "A::a 0/2/2"},
		"behind a return":             {"class A { @Test void a() { if (f()) return; assertEquals(1, g()); } }", "A::a 0/1/1"},
		"an assertion in a lambda":    {"class A { @Test void a() { run(() -> { assertEquals(1, g()); }); } }", "A::a 0/1/1"},
		"text that looks like a test": {"class A { String s = \"@Test void a() { }\"; /* @Test void b() {} */ @Test void c() { f(\"\"\"\n @Test void d() { \"\"\"); } }", "A::c 0/0/1"},
	} {
		f, err := ParseJava([]byte(tc.src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := summary(f); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestJavaEditKeepsLines: an edited file has each line where it was, whatever ends its lines.
func TestJavaEditKeepsLines(t *testing.T) {
	t.Parallel()
	for _, src := range []string{javaFour, javaFive, strings.ReplaceAll(javaFour, "\n", "\r\n")} {
		f, err := ParseJava([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		text := string(mustEdit(t, f, Orders{Seed: seed(3)}))
		was := strings.Split(src, "\n")
		for i, line := range strings.Split(text, "\n")[:len(was)-1] {
			begins := strings.TrimSpace(was[i])
			if begins = begins[:min(len(begins), 6)]; !strings.HasPrefix(strings.TrimSpace(line), begins) {
				t.Fatalf("line %d was %q and is %q", i+1, was[i], line)
			}
		}
	}
}

// FuzzJava: whatever a file holds, reading it ends, and what is read can be edited: the
// brackets of the edited file match too.
func FuzzJava(f *testing.F) {
	f.Add(javaFour)
	f.Add(javaFive)
	f.Add("class A<T> { @Test void a() { try { f(); fail(); } catch (E e) { } assertThat(g(), is(\"x\")); assertEquals(-1.5f, h(), 0.1f); } record B(int c) { } }")
	f.Fuzz(func(t *testing.T, src string) {
		file, err := ParseJava([]byte(src))
		if err != nil {
			return
		}
		text := string(mustEdit(t, file, Orders{Seed: seed(len(src)), Sabotage: everyTest(file)}))
		if _, err := lexBraces(text, javaDialect); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if again, err := ParseJava([]byte(text)); err == nil && len(again.Tests()) < len(file.Tests()) {
			t.Fatalf("tests are gone\n%s", text)
		}
	})
}
