package twin

import (
	"strings"
	"testing"
)

// TestRustTests: the tests of a file are found, with their sites: flips, expected values
// and failing statements.
func TestRustTests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, src, want string }{
		{"plain", "#[test] fn a() { let x = f(1); assert_eq!(x, 2); }", "a 1/1/3"},
		{"module", "#[cfg(test)] mod tests { use super::*; mod deep { #[test] fn a() { assert!(f()) } } }", "tests::deep::a 1/0/1"},
		{"code beside", "fn f() { assert_eq!(1, 2); } impl X { fn test() {} } #[test] fn a() { f(); }", "a 0/0/2"},
		{"result", "#[test] fn a() -> Result<(), E> { let x = f()?; assert_ne!(x, 2); Ok(()) }", "a 1/0/3"},
		{"opaque result", "#[test] fn a() -> impl Termination { f(); Ok(()) }", "a 0/0/1"},
		{"panics", "#[test] #[should_panic(expected = \"no\")] fn a() { assert!(f()); } #[test] #[should_panic = \"x\"] fn b() { f() } #[should_panic] #[test] fn c() { f() }",
			"a 0/1/1; b 0/1/1; c 0/0/1"},
		{"values", "#[test] fn a() { assert_eq!(f(), Some(\"x\".to_string())); assert_eq!(vec![1, 2], f()); assert_eq!(f(), g()); assert_eq!(f(), Foo::new(3)); assert_eq!(f(), String::from(\"x\")); }", "a 5/3/3"},
		{"named", "#[test] fn a() { let want = 4; let other = 5; assert_eq!(f(), want); assert_eq!(f(other), other); for (x, y) in [(1, 2), (3, 4)] { assert_eq!(f(x), y); } }", "a 3/2/3"},
		{"truths", "#[test] fn a() { assert!(f() == 3); assert!(f() < 2.5); assert!(f() > 2); assert!(matches!(f(), Ok(3))); assert!(s.contains(\"x\")); assert!(!s.contains(\"x\")); assert!(a == 1 && b); }", "a 7/4/3"},
		{"condition", "#[test] fn a() { if f() != 3 { panic!(\"x\"); } if let Some(x) = g() { panic!() } if h { other() } }", "a 1/0/1"},
		{"in a macro", "#[test] fn a() { quote! { assert!(x) }; block_on(async { assert!(y) }); const X: () = assert!(true); }", "a 1/0/3"},
		{"library", "#[test] fn a() { pretty_assertions::assert_eq!(f(), 2); ::std::assert!(x); debug_assert!(y); assert_eq!{f(), 2}; }", "a 3/1/3"},
		{"async", "#[tokio::test] async fn a() { assert!(f().await); }", "a 1/0/1"},
		{"macros", "#[rstest] #[case(1)] fn a(#[case] x: u8) {} proptest! { #[test] fn b(x in 0..3) { assert!(x < 3) } } #[test_case(1)] #[test] fn c(x: u8) {} #[sqlx::test] fn d(pool: P) {} quickcheck! { fn e() {} }",
			"a: #[rstest] makes it; b: the macro proptest! makes it; c: #[test_case] makes it; d: #[sqlx::test] makes it"},
		{"macro of the file", "#[cfg(test)] mod tests { macro_rules! t { ($t:ident : $a:expr => $b:expr) => { #[test] fn $t() { assert_eq!($a.up(), $b) } }; } t!(one: \"a\" => \"A\"); t!(two: f() => g()); t!(three); }",
			"tests::one 0/1/0; tests::two: the macro t! makes it, and what it expects is no value that stands in the call"},
		{"macro with rows", "macro_rules! fib { ($($name:ident: $value:expr,)*) => { $( #[test] fn $name() { let (input, want) = $value; assert_eq!(want, f(input)); assert_eq!(g(input), want); } )* } } fib! { a: (0, 1), b: (1, \"x\"), c: z() }", "a 0/1/0; b 0/1/0; c: the macro fib! makes it, and what it expects is no value that stands in the call"},
		{"macros that are not read", "macro_rules! a { ($t:ident, $b:expr) => { #[test] fn $t() { if x { assert_eq!(f(), $b) } } }; } macro_rules! b { ($t:ident, $b:expr) => { #[test] fn $t() { assert_eq!(f($b), $b) } }; } macro_rules! c { ($t:ident, $b:literal) => { #[test] fn $t() { assert_eq!(f(), $b) } }; } " +
			"macro_rules! d { ($t:ident, $b:expr) => { #[test] #[should_panic] fn $t() { assert_eq!(f(), $b) } }; } macro_rules! e { ($t:ident, $b:expr) => { #[test] fn $t() { assert_eq!(f(), $b) } }; () => {}; } macro_rules! g { ($t:ident, $b:expr) => { #[test] fn $t() { f()?; assert_eq!(f(), $b) } }; } " +
			"a!(x, 1); b!(x, 1); c!(x, 1); d!(x, 1); e!(x, 1); g!(x, 1);", ""},
		{"twice", "#[cfg(unix)] #[test] fn a() { f() } #[cfg(windows)] #[test] fn a() { g() }", "a (1): the file has more than one test of its name; a (2): the file has more than one test of its name"},
		{"empty", "#[test] fn a() {}", "a: it has no place that can be edited"},
		{"no test", "#[bench] fn a(b: &mut B) {} // #[test] fn b() {}\nconst X: &str = \"#[test] fn c() {}\"; /* /* #[test] */ fn d() {} */", ""},
		{"ticks", "fn f<'a>(x: &'a str) -> char { '\\'' } #[test] fn a() { 'x: loop { break 'x; } assert_eq!(g('\"', b'\\\\', '\\u{1F600}', 'é'), '{'); }", "a 1/0/2"},
		{"strings", "#[test] fn a() { assert_eq!(r##\"a\"#b\"##.len(), 5); assert!(x, \"}} {}\", \"\\\"\"); let r#fn = br\"\\\"; g(1..2, 1.0.max(2.), 1.e()); }", "a 2/1/3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := mustParseRust(t, tc.src)
			if got := summary(f); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			sound(t, f, Orders{Seed: seed(1)}, lexRust)
			sound(t, f, Orders{Seed: seed(2), Trace: "/tmp/t", Key: "k"}, lexRust)
		})
	}
}

// TestRustRefuses: a text that cannot be read for sure is an error.
func TestRustRefuses(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"open string": `f("a`, "open raw string": `r#"a"`, "open comment": "/* /* */", "open bracket": "fn a() {", "wrong bracket": "f(]", "closing": "}", "character": "a \x01 b", "backslash": `\u0061`,
		"not text": "\xff\xfe", "shell": "#!/bin/sh\n", "frontmatter": "---\n---\n", "long tick": "'ab'", "raw lifetime": "'r#a", "raw C string": `cr"\"`, "empty tick": "''", "carriage return": "// a\rb\n",
		"too long": strings.Repeat(" ", maxBraceSource+1), "digit tick": "'12",
	} {
		if f, err := ParseRust([]byte(src)); err == nil {
			t.Errorf("%s: %s", name, summary(f))
		}
	}
}

// composed is a file whose edits are known.
type composed interface {
	File
	inserts(o Orders) ([]insert, error)
	compose(inserts []insert) []byte
}

// sound holds an edited file against the original: each token that no edit takes the
// place of is there, where the edits have moved it, and the lines are the same.
func sound(t *testing.T, file File, o Orders, lex func(string) ([]braceToken, error)) {
	t.Helper()
	f := file.(composed)
	inserts, err := f.inserts(o)
	if err != nil {
		t.Fatal(err)
	}
	text := string(f.compose(inserts))
	src := string(f.compose(nil))
	before, err := lex(src)
	if err != nil {
		t.Fatal(err)
	}
	after, err := lex(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	at := make(map[int]braceToken, len(after))
	for _, tok := range after {
		at[tok.start] = tok
	}
	inOrder(inserts)
	next, moved := 0, 0
	for _, tok := range before {
		cut := false
		for ; next < len(inserts) && inserts[next].at <= tok.start; next++ {
			moved += len(inserts[next].text) - inserts[next].cut
		}
		for _, in := range inserts[:next] {
			cut = cut || in.at+in.cut > tok.start
		}
		for _, in := range inserts[next:] {
			cut = cut || in.at < tok.end // the digits of a number
		}
		now := at[tok.start+moved]
		if !cut && (now.kind != tok.kind || text[now.start:now.end] != src[tok.start:tok.end] ||
			strings.Count(text[:now.start], "\n") != strings.Count(src[:tok.start], "\n")) {
			t.Fatalf("%q at %d is %q\n%s", src[tok.start:tok.end], tok.start, text[now.start:now.end], text)
		}
	}
}

// FuzzRust: what is edited reads as before outside of the edits, and the tests of a file
// can be taken from it and put back.
func FuzzRust(f *testing.F) {
	f.Add(rsProject)
	f.Add("#[test] fn a() { assert_eq!(f(), r#\"x\"#); assert!(x < 'a' as u32, \"{}\", b'\\''); }")
	f.Add("#[cfg(all(test, unix))] mod t { #[test] #[should_panic(expected = \"x\")] fn a() { g::<'a>(1..=2) } } mod m { #[test] fn b() { for (a, b) in [(1, \"2\")] { assert_eq!(a, b) } } }")
	f.Add("/* /* */ */ fn f<'a>() {} #[tokio::test] async fn x() -> Result<(), E> { assert_ne!(a, b,); if x { panic!() } Ok(()) }")
	f.Fuzz(func(t *testing.T, src string) {
		file, err := ParseRust([]byte(src))
		if err != nil {
			return
		}
		sound(t, file, Orders{Seed: seed(len(src)), Sabotage: everyTest(file)}, lexRust)
		tests, err := RustTests([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		same, err := WithRustTests([]byte(src), []byte(src))
		if err != nil || string(same) != src {
			t.Fatalf("%v: %q", err, same)
		}
		without, err := WithRustTests([]byte(src), nil)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := RustTests(without); err != nil || len(tests) > 0 && len(left) >= len(tests) {
			t.Fatalf("%v: %q is left of %q", err, left, tests)
		}
	})
}

// everyTest sabotages the last site of each test.
func everyTest(f File) map[string]Order {
	out := make(map[string]Order)
	for _, t := range f.Tests() {
		if n := len(t.Sites); n > 0 {
			out[t.Name] = Order{Site: t.Sites[n-1].ID}
		}
	}
	return out
}

// TestRustParts: the tests of one version of a file are put into another one.
func TestRustParts(t *testing.T) {
	t.Parallel()
	const tests = "#[cfg(test)]\nmod tests { #[test] fn a() { assert_eq!(f(), 1) } }"
	for _, tc := range []struct{ name, code, tests, want string }{
		{"weakened", "fn f() { new }\n#[cfg(test)]\nmod tests { #[test] fn a() {} }\n", "fn f() {}\n" + tests + "\n", "fn f() { new }\n" + tests + "\n"},
		{"removed", "fn f() { new }\n", "fn f() {}\n" + tests, "fn f() { new }\n\n" + tests + "\n"},
		{"moved out", "fn f() { new }\n#[cfg(test)] mod tests;\n", tests, "fn f() { new }\n" + tests + "\n"},
		{"added", "fn f() {}\n#[cfg(test)] mod more { #[test] fn b() {} }\n" + tests, tests, "fn f() {}\n\n" + tests},
		{"alone", "mod m { fn g() { new } #[test] fn a() {} }", "mod m { #[test] #[ignore] fn a() { x } fn g() {} }", "mod m { fn g() { new } #[test] #[ignore] fn a() { x } }"},
		{"in a module that stays", "mod m { fn g() { new } }", "mod m { #[test] fn a() { x } }", "mod m { fn g() { new } \n#[test] fn a() { x }\n}"},
		{"in a module that is gone", "fn g() {}", "mod m { #[test] fn a() { x } }", ""},
		{"use for tests", "#[cfg(test)] use b::c; fn f() {}", "#[cfg(test)] use a::{b, c};\nfn f() { old }", " fn f() {}\n#[cfg(test)] use a::{b, c};\n"},
		{"code that tests do not have", "#[cfg(not(test))] fn f() { new } #[cfg(any(test, x))] fn g() { new }", "#[cfg(not(test))] fn f() {} #[cfg(any(test, x))] fn g() {}", "#[cfg(not(test))] fn f() { new } #[cfg(any(test, x))] fn g() { new }"},
		{"cannot be read", "fn f() { '", tests, ""},
	} {
		got, err := WithRustTests([]byte(tc.code), []byte(tc.tests))
		if string(got) != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: %v\n%s", tc.name, err, got)
		}
	}
}
