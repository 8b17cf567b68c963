package twin

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// described lists the tests of a file: name, and how many sites of each kind,
// or why there are none.
func described(f File) string {
	var out []string
	for _, t := range f.Tests() {
		n := map[Kind]int{}
		for _, s := range t.Sites {
			n[s.Kind]++
		}
		text := fmt.Sprintf("%s %d/%d/%d", t.Name, n[Flip], n[Expect], n[Fail])
		if t.Why != "" {
			text = t.Name + ": " + t.Why
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

// TestGoSites holds the places that are found against the text: flips, expects
// and fails of each test.
func TestGoSites(t *testing.T) {
	t.Parallel()
	const head = "package a\n\nimport (\n\t\"testing\"\n\t\"github.com/stretchr/testify/assert\"\n\t\"reflect\"\n\t\"strings\"\n\t\"errors\"\n)\n\n"
	tests := []struct{ name, lang, body, want string }{
		{"empty", "", `func TestA(t *testing.T) {}`, "TestA 0/0/1"},
		{"one statement", "", `func TestA(t *testing.T) { f() }`, "TestA 0/0/2"},
		{"two statements", "", `func TestA(t *testing.T) { f(); g() }`, "TestA 0/0/3"},
		{"ends by itself", "", `func TestA(t *testing.T) { f(); t.Fatal() }`, "TestA 0/0/2"},
		{"not tests", "", `func Testa(t *testing.T) {}; func TestB(n int) {}; func TestC(t testing.T) {}; func TestD(t *testing.T) int { return 1 }; func TestMain(m *testing.M) {}; func BenchmarkA(b *testing.B) { if f() { b.Fatal() } }`, ""},
		{"if", "", `func TestA(t *testing.T) { if f() { t.Error("x") } }`, "TestA 1/0/2"},
		{"if without a report", "", `func TestA(t *testing.T) { if f() { g() } }`, "TestA 0/0/2"},
		{"else", "", `func TestA(t *testing.T) { if f() { g() } else { t.Fatal("x") } }`, "TestA 1/0/1"},
		{"both branches fail", "", `func TestA(t *testing.T) { if f() { t.Error() } else { t.Fatal("x") } }`, "TestA 0/0/1"},
		{"a message that calls", "", `func TestA(t *testing.T) { if err != nil { t.Fatal(err.Error()) } }`, "TestA 0/0/2"},
		{"a message that indexes", "", `func TestA(t *testing.T) { if len(a) > 0 { t.Fatal(a[0]) } }`, "TestA 0/0/2"},
		{"a message that the condition evaluated", "", `func TestA(t *testing.T) { if a[0] > g() { t.Fatal(a[0], g()) } }`, "TestA 1/1/2"},
		{"a message that it may not have evaluated", "", `func TestA(t *testing.T) { if len(a) > 0 && a[0] > 1 { t.Fatal(a[0]) } }`, "TestA 0/0/2"},
		{"a field of what may be nil", "", `func TestA(t *testing.T) { if p != nil { t.Fatal(p.x) } }`, "TestA 0/0/2"},
		{"a statement before the report", "", `func TestA(t *testing.T) { if f() { g(); t.Fatal() } }`, "TestA 0/0/2"},
		{"statements after an error", "", `func TestA(t *testing.T) { if f() { t.Error(1); g() }; for { if f() { t.Error(1); break } } }`, "TestA 1/0/2"},
		{"goroutine", "", `func TestA(t *testing.T) { go func() { if f() { t.Error() } }() }`, "TestA 0/0/2"},
		{"fatal in a handler", "", `func TestA(t *testing.T) { h(func() { if f() { t.Fatal() } }); h(func() { if f() { t.Error() } }) }`, "TestA 1/0/3"},
		{"another handle", "", `func TestA(t *testing.T) { { t := g(); if f() { t.Error() } } }`, "TestA 0/0/1"},
		{"switch", "", `func TestA(t *testing.T) { switch { case f(): t.Error("x"); case g(), h(): t.Error("x") } }`, "TestA 1/0/1"},
		{"subtest", "", `func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { f(); g() }) }`, "TestA 0/0/5"},
		{"fuzz", "", `func FuzzA(f *testing.F) { f.Fuzz(func(t *testing.T, n int) { if n != 3 { t.Error(n) } }) }`, "FuzzA 1/1/4"},
		{"want", "", `func TestA(t *testing.T) { want := 1; if f() != want { t.Error() } }`, "TestA 1/1/3"},
		{"want of another file", "", `func TestA(t *testing.T) { if f() != want { t.Error() } }`, "TestA 1/0/2"},
		{"a constant", "", `func TestA(t *testing.T) { const want = 1; if f() != want { t.Error() } }`, "TestA 1/0/3"},
		{"unwanted", "", `func TestA(t *testing.T) { want := 1; if f() == want { t.Error() } }`, "TestA 1/0/3"},
		{"deep", "", `func TestA(t *testing.T) { want := 1; if !reflect.DeepEqual(f(), want) { t.Error() } }`, "TestA 1/1/3"},
		{"a part", "", `func TestA(t *testing.T) { s := f(); if !strings.Contains(s, "x") { t.Error() }; if !strings.HasPrefix(f(), s) { t.Error() } }`, "TestA 2/2/3"},
		{"a part of a call", "", `func TestA(t *testing.T) { s := f(); if !strings.Contains(s, g()) { t.Error() } }`, "TestA 1/0/3"},
		{"an error of another file", "", `func TestA(t *testing.T) { if !errors.Is(f(), ErrA) || !errors.Is(f(), io.EOF) || !errors.Is(f(), nil) { t.Error() } }`, "TestA 1/2/2"},
		{"nil", "", `func TestA(t *testing.T) { v := f(); if v != nil { t.Error() } }`, "TestA 1/0/3"},
		{"a row of a table", "", `func TestA(t *testing.T) { for _, e := range x { e := e; if f() != e.out { t.Error() } } }`, "TestA 1/1/2"},
		{"the side of a call", "", `func TestA(t *testing.T) { a := 1; if a != f() { t.Error() }; got := 1; if got != f() { t.Error() } }`, "TestA 2/1/3"},
		{"a literal and a call", "", `func TestA(t *testing.T) { if f() != 4 { t.Error() } }`, "TestA 1/1/2"},
		{"a literal and a call in more", "", `func TestA(t *testing.T) { if f() != 4 || b { t.Error() } }`, "TestA 1/0/2"},
		{"a literal and a variable", "", `func TestA(t *testing.T) { n := f(); if n != 4 { t.Error() } }`, "TestA 1/1/3"},
		{"a literal and a name of another file", "", `func TestA(t *testing.T) { if n != 4 { t.Error() } }`, "TestA 1/0/2"},
		{"a bound", "", `func TestA(t *testing.T) { if f() < 4 { t.Error() }; if 4 > f() || g() { t.Error() } }`, "TestA 2/2/3"},
		{"no bound", "", `func TestA(t *testing.T) { if f() < g() { t.Error() }; if 3 < 4 { t.Error() }; if f() < 1<<n { t.Error() } }`, "TestA 3/1/3"},
		{"a bound that is computed", "", `func TestA(t *testing.T) { if d := f(); d > 0.01*math.Abs(g()) { t.Error() }; if !(f() >= c.want-0.1) { t.Error() } }`, "TestA 2/2/3"},
		{"the target of an error", "", `func TestA(t *testing.T) { if !errors.As(f(), &e) || e.n != 3 { t.Fatal() }; if !errors.As(f(), &e) { t.Error() } }`, "TestA 2/1/3"},
		{"one of two bounds", "", `func TestA(t *testing.T) { if f() < 4 && g() { t.Error() } }`, "TestA 1/0/2"},
		{"a bound by its name", "", `func TestA(t *testing.T) { most := g(); const least = 3; if f() > most { t.Error() }; if f() < least { t.Error() } }`, "TestA 2/2/3"},
		{"an order of its own", "", `func TestA(t *testing.T) { if f().Cmp(V{1}) < 0 { t.Error() }; w := f(); if !f().Less(w) { t.Error() }; if !f().Less(1) { t.Error() } }`, "TestA 3/2/3"},
		{"a matcher of its own", "", `func TestA(t *testing.T) { if !f().Has("a") || !f().Is("b") || f().Has("c") { t.Error() } }`, "TestA 1/1/2"},
		{"testify's bounds", "", `func TestA(t *testing.T) { assert.Greater(t, f(), 3); assert.InDelta(t, 3, f(), 0.1); assert.True(t, f() < 3); assert.LessOrEqual(t, f(), 3) }`, "TestA 1/3/3"},
		{"without generics", "go1.17", `func TestA(t *testing.T) { want := 1; if f() != want { t.Error() }; assert.Equal(t, 1, f()); assert.Len(t, f(), 1) }`, "TestA 1/1/3"},
		{"testify", "", `func TestA(t *testing.T) { assert.Equal(t, 1, f()); assert.NoError(t, f()); assert.Truef(t, f(), "x"); assert.Equal(t, nil, f()); assert.Equal(t, f()...) }`, "TestA 2/1/3"},
		{"testify object", "", `func TestA(t *testing.T) { a := assert.New(t); a.Equal(1, f()) }`, "TestA 0/1/3"},
		{"helper", "", `func TestA(t *testing.T) { check(t) }; func TestB(t *testing.T) { other(t) }; func check(t testing.TB) { if f() { t.Error() } }; func other(t *testing.T) { check(t) }`, "TestA 1/0/2\nTestB 1/0/2"},
		{"test that another calls", "", `func TestA(t *testing.T) { f(); g() }; func TestB(t *testing.T) { TestA(t) }`, "TestA 0/0/3\nTestB 0/0/5"},
		{"suite", "", `func (s *Suite) TestA() {}; func (s *Suite) TestB(c *check.C) {}; func (s *Suite) TestC(n int) {}`, "Suite.TestA: a method of a suite: the test that runs the suite decides whether it runs\nSuite.TestB: a method of a suite: the test that runs the suite decides whether it runs"},
		{"examples", "", "func ExampleA() {\n\tf()\n\t// Output: x\n}\nfunc ExampleB() {\n\t// Output: x\n\n\t// no\n}", "ExampleA 0/0/2"},
		{"no body", "", `func TestA(t *testing.T)`, "TestA: it has no body"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lang := test.lang
			if lang == "" {
				lang = "go1.20"
			}
			f, err := ParseGo("a_test.go", []byte(head+test.body+"\n"), lang)
			if err != nil {
				t.Fatal(err)
			}
			if got := described(f); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestGoRefuses(t *testing.T) {
	t.Parallel()
	many := "package a\nimport \"testing\"\nfunc TestA(t *testing.T) {\n" + strings.Repeat("if f() { t.Error() }\n", maxGoSites+1) + "}\n"
	tests := []struct{ name, src, lang, want string }{
		{"no Go", "package", "go1.20", "does not parse"},
		{"too large", "package a\n" + strings.Repeat("//\n", maxGoSource/3), "go1.20", "at most"},
		{"too many sites", many, "go1.20", "more than"},
		{"redeclared", "package a\nvar len = 3\n", "go1.20", "redeclares len"},
		{"redeclared by an import", "package a\nimport string \"strings\"\n", "go1.20", "redeclares string"},
		{"no version", "package a\n", "1.20", "version"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseGo("dir/a_test.go", []byte(test.src), test.lang)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "dir/a_test.go") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestGoOrders holds Edit against orders that do not fit the file, and against
// its own word that it is a function of the orders.
func TestGoOrders(t *testing.T) {
	t.Parallel()
	src := []byte("package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { if f() { t.Error() } }\n\nfunc TestB(t *testing.T) {}\n")
	f, err := parseGo("a_test.go", src)
	if err != nil {
		t.Fatal(err)
	}
	a, b := f.Tests()[0].Sites[0].ID, f.Tests()[1].Sites[0].ID
	for name, o := range map[string]Orders{
		"unknown test":    {Sabotage: map[string]Order{"TestC": {}}},
		"unknown site":    {Sabotage: map[string]Order{"TestA": {Site: 99}}},
		"another's site":  {Sabotage: map[string]Order{"TestA": {Site: b}}},
		"negative":        {Sabotage: map[string]Order{"TestA": {Site: a, Evaluation: -1}}},
		"trace, no key":   {Trace: "/trace"},
		"trace, bad key":  {Trace: "/trace", Key: "a b"},
		"trace, key path": {Trace: "/trace", Key: "a/b"},
	} {
		if _, err := f.Edit(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	texts := map[string]string{}
	for name, o := range map[string]Orders{
		"plain": {}, "seed": {Seed: [32]byte{1}}, "key": {Key: "a"}, "trace": {Trace: "/trace", Key: "a"},
		"sabotage": {Sabotage: map[string]Order{"TestA": {Site: a}}},
	} {
		one, err := f.Edit(o)
		if err != nil {
			t.Fatal(err)
		}
		two, err := f.Edit(o)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("%s: the same orders give two texts", name)
		}
		if texts[string(one)] != "" {
			t.Errorf("%s and %s give one text", name, texts[string(one)])
		}
		texts[string(one)] = name
	}
}

// TestGoOldLanguage holds an edit for a module without generics against the
// text: nothing in it has type parameters.
func TestGoOldLanguage(t *testing.T) {
	t.Parallel()
	src := []byte("package a\n\nimport (\n\t\"testing\"\n\t\"github.com/stretchr/testify/assert\"\n)\n\nfunc TestA(t *testing.T) {\n" +
		"\twant := 3\n\tif f() != want || want != 4 { t.Error() }\n\tif f() != 3 { t.Error() }\n\tassert.Equal(t, want, f())\n\tassert.Len(t, f(), want)\n}\n")
	for lang, want := range map[string]bool{"go1.16": false, "go1.18": true} {
		f, err := ParseGo("a_test.go", src, lang)
		if err != nil {
			t.Fatal(err)
		}
		out, err := f.Edit(Orders{})
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(out, []byte("[T ")); got != want {
			t.Errorf("%s: type parameters %v\n%s", lang, got, out)
		}
	}
}

// TestGoFormsAlike holds a neutral and a sabotaged edit against each other:
// nothing but numbers differs, and the literal of a matcher of its own.
func TestGoFormsAlike(t *testing.T) {
	t.Parallel()
	for name, f := range styledFiles(t) {
		for seed := range byte(20) {
			o := Orders{Seed: [32]byte{seed}, Sabotage: map[string]Order{}}
			plain, err := f.Edit(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range f.Tests() {
				if n := len(test.Sites); n > 0 {
					o.Sabotage[test.Name] = Order{Site: test.Sites[int(seed)%n].ID}
				}
			}
			other, err := f.Edit(o)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(goNumber.ReplaceAll(plain, nil), goNumber.ReplaceAll(other, nil)) {
				t.Errorf("%s, seed %d: the forms differ", name, seed)
			}
			if len(o.Sabotage) > 0 && bytes.Equal(plain, other) {
				t.Errorf("%s, seed %d: the sabotage has no effect", name, seed)
			}
		}
	}
}

var goNumber = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+|"a b[a-z]*"`)

// styledFiles are the test files of testdata/styles.txtar.
func styledFiles(t *testing.T) map[string]File {
	t.Helper()
	return newStyled(t).files
}

// edited checks what holds for every edit: the result parses, nothing is
// removed, and every line stays where it was.
func edited(src []byte, f File, o Orders) error {
	out, err := f.Edit(o)
	if err != nil {
		return err
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", out, parser.SkipObjectResolution); err != nil {
		return fmt.Errorf("the edit does not parse: %w\n%s", err, out)
	}
	was, is := bytes.SplitAfter(src, []byte("\n")), bytes.SplitAfter(out, []byte("\n"))
	if len(is) < len(was) {
		return fmt.Errorf("%d lines became %d", len(was), len(is))
	}
	for i, line := range was {
		rest := line
		for _, c := range is[i] {
			if len(rest) > 0 && rest[0] == c {
				rest = rest[1:]
			}
		}
		if len(rest) > 0 {
			return fmt.Errorf("line %d lost text: %q became %q", i+1, line, is[i])
		}
	}
	return nil
}

// TestGoEditKeepsLines edits files of this module with many seeds.
func TestGoEditKeepsLines(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../*_test.go")
	if err != nil || len(names) == 0 {
		t.Fatal("no test files to try", err)
	}
	for i, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parseGo(name, src)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range byte(12) {
			o := Orders{Seed: [32]byte{seed, byte(i)}, Key: "k", Sabotage: map[string]Order{}}
			if seed%4 == 3 {
				o.Trace = "/trace \"quoted\"\n"
			}
			for _, test := range f.Tests() {
				if n := len(test.Sites); n > 0 && seed > 0 {
					o.Sabotage[test.Name] = Order{Site: test.Sites[int(seed)%n].ID, Evaluation: int(seed) % 3}
				}
			}
			if err := edited(src, f, o); err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
		}
	}
}

func FuzzGo(f *testing.F) {
	for _, s := range []string{
		"package a\nimport \"testing\"\nfunc TestA(t *testing.T) { if f() != 4 { t.Error(1) } }",
		"package a; import . \"testing\"; func TestA(_ *T) { switch { case a: } }",
		"//go:build go1.18\r\npackage a // x\r\nimport \"testing\"\r\nfunc TestA(*testing.T) { go func() {}()\r\n }",
		"package a\nimport \"testing\"\nfunc TestA(t *testing.T) { if x := `a\r\nb`; x != `a\r\nb` /* c */ { t.Error() }; L: for { break L } }",
		"package a\nimport a \"github.com/stretchr/testify/assert\"\nimport \"testing\"\nfunc FuzzA(f *testing.F) { a.Equal(f, 1, 2); f.Fuzz(func(t *testing.T) {}) }",
		"package a\nfunc ExampleA() { f() /* Output: 3 */ }",
	} {
		f.Add([]byte(s), byte(0), "go1.20")
	}
	f.Fuzz(func(t *testing.T, src []byte, seed byte, lang string) {
		file, err := ParseGo("a_test.go", src, lang)
		if err != nil {
			return
		}
		o := Orders{Seed: [32]byte{seed}, Key: "k", Sabotage: map[string]Order{}}
		for _, test := range file.Tests() {
			if n := len(test.Sites); n > 0 && seed%2 == 0 {
				o.Sabotage[test.Name] = Order{Site: test.Sites[int(seed)%n].ID}
			}
		}
		if seed%5 == 0 {
			o.Trace = "/trace"
		}
		if err := edited(src, file, o); err != nil {
			t.Fatal(err)
		}
	})
}

// TestGoCertain: a failing statement is certain only where a test that passes
// has come by it.
func TestGoCertain(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		"f(); g()":                             true,
		"for range x { if f() { t.Fatal() } }": true,
		"c := g(); defer c.Close(); f()":       true,
		"f(); h(func() int { return 1 })":      true,
		"if f() { return }; g()":               false,
		"defer expectPanic(t); f()":            false,
		"defer func() { f() }(); f()":          false,
		"f(); t.Fatal()":                       false,
	} {
		f, err := parseGo("a_test.go", []byte("package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { "+body+" }\n"))
		if err != nil {
			t.Fatal(err)
		}
		certain := false
		for _, s := range f.Tests()[0].Sites {
			certain = certain || s.Certain
		}
		if certain != want {
			t.Errorf("%s: %t, want %t", body, certain, want)
		}
	}
}

// TestGoCertainAssertions: an assertion is certain as a statement of the test's own
// body, in a test that passes only at its end.
func TestGoCertainAssertions(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"if got := f(); got != 4 { t.Error(got) }":                                                                 "flip expect",
		"g(); if err := f(); err != nil { t.Fatal(err) }":                                                          "flip",
		"for range x { if got := f(); got != 4 { t.Error(got) } }":                                                 "",
		"if x { if got := f(); got != 4 { t.Error(got) } }":                                                        "",
		"if got := f(); got != 4 { t.Error(got) }; if x { return }":                                                "",
		"if x { t.Log(1) } else if got := f(); got != 4 { t.Error(got) }":                                          "",
		"t.Run(\"a\", func(t *testing.T) { if got := f(); got != 4 { t.Error(1) } })":                              "flip expect",
		"t.Run(\"a\", func(t *testing.T) { if got := f(); got != 4 { t.Error(1) }; if x { return } })":             "",
		"for _, x := range []int{1} { t.Run(x, func(t *testing.T) { if got := f(); got != x { t.Error(got) } }) }": "flip expect",
		"rows := []int{1}; for _, x := range rows { if got := f(); got != x { t.Error(got) } }":                    "flip expect",
		"for _, x := range []int{1} { if x == 1 { continue }; if got := f(); got != x { t.Error(got) } }":          "",
		"for _, x := range []int{} { if got := f(); got != x { t.Error(got) } }":                                   "",
	} {
		f, err := parseGo("a_test.go", []byte("package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { "+body+" }\n"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range f.Tests()[0].Sites {
			if s.Certain && s.Kind != Fail {
				got = append(got, string(s.Kind))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
