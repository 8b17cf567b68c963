package twin

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/proof/form"
)

// rsProject is a file with what people write in one: code and its tests.
const rsProject = `//! A crate: "quotes" and 'ticks'.
#![deny(warnings, missing_docs, unsafe_code)]
/* nested /* comment */ with " */

use std::fmt;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd)]
pub enum Shape<'a> {
    /// A dot.
    Dot,
    /// A line.
    Line { /// Its length.
        length: u8, /// Its name.
        name: &'a str },
}

impl<'a> fmt::Display for Shape<'a> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self, '"')
    }
}

/// Adds.
pub fn add(a: i32, b: i32) -> i32 {
    a + b
}

/// Reads.
pub fn read(text: &str) -> Result<u8, std::num::ParseIntError> {
    text.parse()
}

/// Panics.
pub fn boom(text: &str) -> i32 {
    panic!("no {}", text)
}

macro_rules! twice {
    ($name:ident, $x:expr) => {
        #[test]
        fn $name() {
            assert_eq!(super::add($x, $x), 2 * $x);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    twice!(by_macro, 4);

    fn same<T: PartialEq>(a: T, b: T) {
        assert!(a == b);
    }

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
        assert_eq!(3, add(1, 2), "three is {} and {a}", 1 + 2, a = 'x');
        assert_ne!(add(1, 1), 3);
        assert!(add(1, 1) == 2 && add(2, 2) > 3, "two");
        debug_assert_eq!(add(0, 0), 0i32);
        std::assert_eq!(add(0, 1), 0x1);
    }

    #[test]
    fn one_line() { assert_eq!(add(2, 2), 4) }

    #[test]
    fn texts() {
        assert_eq!(
            Shape::Line { length: 3, name: "x" }.to_string(), // a comment
            "Line { length: 3, name: \"x\" }\"",
        );
        assert_eq!(r#"a"b"#.replace('"', "'"), "a'b".to_string());
        assert_eq!(*"abc", *"abc");
        assert_eq!("abc".chars().next(), Some('a'));
        assert_eq!("abc".as_bytes(), b"abc");
        assert_eq!("a b".split(' ').collect::<Vec<_>>(), vec!["a", "b"]);
        assert!("abc".contains("ab"));
        assert!("abc".starts_with('a'), "a {}", "message");
        assert_eq!("x".repeat(3).len(), 3usize);
        assert_eq!(1.cmp(&2), Ordering::Less);
    }

    #[test]
    fn errors() -> Result<(), Box<dyn std::error::Error>> {
        let got = read("7")?;
        assert_eq!(got, 7);
        assert!(matches!(read("200"), Ok(200)));
        assert!(read("x").is_err());
        if read("1")? != 1 {
            panic!("one");
        }
        Ok(())
    }

    #[test]
    fn values() {
        let want = Shape::Line { length: 250, name: "long" };
        let got = Shape::Line { length: 250, name: "long" };
        assert_eq!(got.clone(), want);
        let list = [1, 2, 3];
        assert_eq!(list, [1, 2, 3]);
        assert_eq!(&list[..2], &[1, 2]);
        assert!((0.1 + 0.2 - 0.3_f64).abs() < 1.0e-9);
        assert!(list.len() as f64 > 2.5);
        assert_eq!((list[0], "x", true), (1, "x", true));
        assert_eq!(i8::min_value(), -128);
        match got {
            Shape::Line { length, .. } => assert_eq!(length, 250),
            Shape::Dot => unreachable!(),
        }
        same(1, 1);
    }

    #[test]
    fn tables() {
        for (a, b, want) in [(1, 2, 3), (3, 4, 7)] {
            assert_eq!(add(a, b), want);
        }
        let cases = vec![("1", 1u8), ("2", 2)];
        for &(text, n) in &cases {
            assert_eq!(read(text), Ok(n), "{}", text);
        }
        (0..3).for_each(|i| assert_eq!(add(i, 1), i + 1));
    }

    #[test]
    #[should_panic(expected = "no way")]
    fn panics() {
        boom("way");
    }

    #[test]
    #[should_panic]
    fn panics_somehow() {
        let _ = read("y").unwrap();
    }

    #[test]
    fn returns_early() {
        let text = read("9").unwrap();
        'outer: loop {
            if text > 8 { break 'outer; }
        }
        if text == 9 { return; }
        assert!(false);
    }

    #[test]
    #[ignore]
    fn ignored() { assert_eq!(1, 2); }

    #[test]
    fn nothing() {}

    mod deep {
        #[test]
        fn inner() {
            let r#type = super::super::add(1, 1);
            assert_eq!(r#type, 2);
            assert_eq!(line!(), 166);
        }
    }
}
`

// rustc is the compiler, "" where there is none.
func rustc() string {
	out, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		return ""
	}
	return filepath.Join(strings.TrimSpace(string(out)), "bin", "rustc")
}

func needRust(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles with rustc")
	}
	at := rustc()
	if at == "" {
		t.Skip("NO RUST ON THIS HOST: rustc --print sysroot fails")
	}
	return at
}

var rsLine = form.Lazy(`(?m)^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)`)

// ranRust compiles and runs a file and returns what became of its tests.
func ranRust(t *testing.T, compiler, edition string, text []byte) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	name, program := filepath.Join(dir, "lib.rs"), filepath.Join(dir, "tests")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, compiler, "--test", "--edition", edition, "-C", "debuginfo=0", "-o", program, name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput() // tests that fail make it fail
	found := make(map[string]bool)
	for _, m := range rsLine().FindAllStringSubmatch(string(out), -1) {
		found[m[1]] = m[2] == "ok"
	}
	if len(found) < 5 {
		t.Fatalf("%d tests ran\n%s\n%s", len(found), out, text)
	}
	return found
}

func mustParseRust(t *testing.T, src string) File {
	t.Helper()
	f, err := ParseRust([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRustRun: neutral edits change no verdict and compile without a warning, and each
// sabotage makes its test fail and no other.
func TestRustRun(t *testing.T) {
	t.Parallel()
	compiler := needRust(t)
	f := mustParseRust(t, rsProject)
	every := os.Getenv("REMIT_CHEATS") == "all"
	editions := []string{"2021", "2018", "2024", "2015"}
	if !every {
		editions = editions[:1]
	}
	for n, edition := range editions {
		text := mustEdit(t, f, Orders{Seed: seed(n)})
		if failed := notOK(ranRust(t, compiler, edition, text)); len(failed) > 0 {
			t.Fatalf("neutral, seed %d: %q\n%s", n, failed, text)
		}
	}
	most := 0
	for _, test := range f.Tests() {
		most = max(most, len(test.Sites))
	}
	for round := range most {
		if !every && round != most/2 { // one of each kind
			continue
		}
		sabotage, want := map[string]Order{}, []string{}
		for _, test := range f.Tests() {
			if len(test.Sites) <= round {
				continue
			}
			site := test.Sites[len(test.Sites)-1-round]
			if test.Name == "tests::returns_early" && !site.Certain && site.Line > 150 || test.Name == "tests::ignored" {
				continue
			}
			sabotage[test.Name] = Order{Site: site.ID}
			want = append(want, test.Name)
		}
		text := mustEdit(t, f, Orders{Seed: seed(100 + round), Sabotage: sabotage})
		failed := notOK(ranRust(t, compiler, "2021", text))
		if slices.Sort(want); !slices.Equal(failed, want) {
			t.Errorf("round %d: %q fail, want %q\n%s", round, failed, want, text)
		}
	}
}
