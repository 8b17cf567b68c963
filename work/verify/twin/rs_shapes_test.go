package twin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rsProgram is a file of Rust that uses shapes at three sites, one of each kind of row.
type rsProgram struct {
	edit   *rsEdit
	checks []string
}

func newRSProgram(n int) *rsProgram {
	f := &rsFile{textFile: newTextFile(nil, seed(n))}
	f.spots = []*spot{{kind: Flip}, {kind: Flip}, {kind: Flip}}
	f.sites = make([]rsPlace, 3)
	return &rsProgram{edit: newRSEdit(f, Orders{Seed: seed(n)})}
}

func (p *rsProgram) rows(n int) []siteRow {
	var out []siteRow
	for number, order := range map[int]*Order{neutralSite: nil, alwaysSite: {}, thirdSite: {Evaluation: 3}} {
		out = append(out, newSiteRow(newChoices("rust", seed(n), seed(n), strconv.Itoa(number)), number, order))
	}
	return out
}

// check has the program hold that a statement fails, or does not.
func (p *rsProgram) check(what string, number int, statement string, fails bool) {
	statement = strings.NewReplacer("$n", strconv.Itoa(number), "^", "m::", "@", "assert_eq", "~", "assert_ne", "?", "i32", "$=", "==").Replace(statement)
	p.checks = append(p.checks, fmt.Sprintf("    hold(%q, %t, || { %s });", fmt.Sprint(what, " ", number), fails, statement))
}

// run compiles what was checked, with every warning an error.
func (p *rsProgram) run(t *testing.T) {
	t.Helper()
	compiler := needRust(t)
	dir := t.TempDir()
	text := "#![deny(warnings)]\n#[allow(dead_code, non_upper_case_globals, unused_extern_crates)]\nmod m {\nextern crate std as " + p.edit.std + ";\n" + strings.Join(p.edit.pieces, "\n") + "\n}\n" +
		"fn hold(what: &str, fails: bool, f: impl FnOnce()) {\n    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err() != fails {\n        println!(\"{}\", what);\n    }\n}\n" +
		"fn main() {\n    std::panic::set_hook(Box::new(|_| ()));\n" + strings.Join(p.checks, "\n") + "\n    println!(\"done\");\n}\n"
	name, program := filepath.Join(dir, "a.rs"), filepath.Join(dir, "a")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), compiler, "--edition", "2018", "-C", "debuginfo=0", "-o", program, name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.5000s\n%s", err, out, text)
	}
	if out, err := exec.CommandContext(t.Context(), program).CombinedOutput(); err != nil || string(out) != "done\n" {
		t.Errorf("%v %.3000s\n%s", err, out, text)
	}
}

// together says whether a run tries two rows with each other: each row with one or two, and
// with all of them where REMIT_CHEATS=all asks for it.
func together(i, j, n int) bool { return i%n == j%n || os.Getenv("REMIT_CHEATS") == "all" }

// TestRustShapes tries each shape of the catalogue in both forms, and each way of
// deciding with each comparison.
func TestRustShapes(t *testing.T) {
	t.Parallel()
	p := newRSProgram(1)
	for i, core := range rsCores {
		for j, window := range rsWindows {
			if !together(i, j, len(rsCores)) {
				continue
			}
			p.edit.core = p.edit.names.global()
			p.edit.defineCore(core, window, p.rows(i*100+j))
			for number, want := range map[int]string{neutralSite: "00000", alwaysSite: "11111", thirdSite: "00100"} {
				p.check(fmt.Sprint("core ", i, j), number, fmt.Sprintf("assert!((0..5).map(|_| if m::%s($n) { '1' } else { '0' }).eq(%q.chars()))", p.edit.core, want), false)
			}
		}
	}
	both := func(what, statement string) {
		p.check(what, neutralSite, statement, false)
		p.check(what, alwaysSite, statement, true)
	}
	for i, wrap := range rsWraps {
		for j, flip := range rsFlips {
			if !together(i, j, len(rsWraps)) {
				continue
			}
			s, what := p.edit.flipped(wrap, flip), fmt.Sprint("flip ", i, j)
			both(what, "assert!("+s.open+"1 + 1 == 2"+s.close+", \"x\");")
			both(what, "assert!(!("+s.open+"1 + 1 == 3"+s.close+"));")
		}
	}
	for i, ask := range rsAsks {
		for j, use := range rsCompares {
			if !together(i, j, len(rsCompares)) {
				continue
			}
			s, what := p.edit.asked(use, ask), fmt.Sprint("compare ", i, j)
			compare := func(a, b string) string {
				return s.open + a + "), &(" + b + s.tail + ", \"{}\", 1)" + s.close + ";"
			}
			both(what, compare(`"a".to_string()`, `"a"`))
			p.check(what, neutralSite, compare("vec![2]", "[1]"), true)
			p.check(what, alwaysSite, compare("vec![2]", "[1]"), false)
		}
		for j, failing := range rsFailing {
			if together(i, j, len(rsFailing)) {
				both(fmt.Sprint("failing ", i, j), p.edit.asked(rsUse{failing, "", ""}, ask).open)
			}
		}
	}
	for i, statement := range rsStatements {
		for j, body := range rsThrows {
			if together(i, j, len(rsStatements)) {
				both(fmt.Sprint("statement ", i, j), p.edit.statement(statement, body).open)
			}
		}
	}
	for i, body := range rsBodies {
		s := p.edit.body(body, rsWrap{})
		both(fmt.Sprint("body ", i), "fn t() -> i32 {"+s.open+" if 1 > 2 { return 3; } 4 "+s.close+"} assert_eq!(t(), 4);")
	}
	for i, body := range rsSwallows {
		s := p.edit.body(body, rsWrap{})
		what := fmt.Sprint("swallow ", i)
		p.check(what, neutralSite, s.open+" panic!() "+s.close, true)
		p.check(what, alwaysSite, s.open+" panic!() "+s.close, false)
		p.check(what, neutralSite, s.open+" if false { panic!() } "+s.close, false)
	}
	p.run(t)
}

// TestRustNumbers: another number has a type that the first one may have, and what is no
// plain text gets no longer.
func TestRustNumbers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1", "9", "99", "127", "128", "200", "255", "256", "32767", "65535", "65536", "2147483647", "4294967295", "9223372036854775807", "1.5", `"abc"`, "'x'", `b"a1"`, `b'z'`, `r#"a"#`, `""`} {
		l := literal{text: text, in: rsGrammar}
		if !l.changeable() {
			t.Errorf("%s stays", text)
			continue
		}
		for n := range 200 {
			other := l.other(newChoices("rust", seed(n), seed(0), text), []string{"999", "255", `"xyz"`, "'b'", `r#"b"#`})
			if other == text || widthOf(other) > widthOf(text) || text != `""` && len(other) != len(text) {
				t.Errorf("%s for %s", other, text)
			}
			if _, err := lexRust(other); err != nil {
				t.Errorf("%s for %s: %v", other, text, err)
			}
		}
	}
	for _, text := range []string{"'.'", `b""`, `r""`, "1_000", "0xff", `"\x41"`, "\"a\nb\"", "x", "1e5"} {
		if (literal{text: text, in: rsGrammar}).changeable() {
			t.Errorf("%s is changed", text)
		}
	}
}
