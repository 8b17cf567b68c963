package twin

import (
	"strings"
	"testing"
)

// FuzzShell: an edited file is a script again, whatever it was.
func FuzzShell(f *testing.F) {
	f.Add(batsProject, true)
	for _, src := range shScripts {
		f.Add(src, false)
	}
	f.Add("if [ a = b ]; then exit 1; elif [[ x == *\"y\"* ]]; then :; else fail; fi; (( a == 1 )) || { x=1; false; }", false)
	f.Add("@test '' {((0))}", true)
	f.Add("@test \"a\" { [[ $x == *foo* && ! $y == 'z' ]]; run -1 x; ! [ a = b ]; cat <<E | grep -q \"E\"\nE\n}", true)
	f.Fuzz(func(t *testing.T, src string, bats bool) {
		name := map[bool]string{true: "a.bats", false: "a.sh"}[bats]
		file, err := ParseShell(name, []byte(src))
		if err != nil {
			return
		}
		for _, trace := range []string{"", "/tmp/t"} {
			text := mustEdit(t, file, Orders{Seed: seed(len(src)), Sabotage: everyTest(file), Trace: trace, Key: "k"})
			if _, err := ParseShell(name, text); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	})
}

// TestShellPlaces: what is edited, and what is not.
func TestShellPlaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		src  string
		want string // the kinds of main, in their order
	}{
		"a condition that ends it":      {"[ a = \"b\" ] || exit 1\n:\n", "flip expect fail"},
		"a condition that does not":     {"[ a = \"b\" ] || echo no\nexit 0\n", ""},
		"a contrary one":                {"if [ a != \"b\" ]; then exit 2; fi\n:\n", "flip expect fail"},
		"one that skips":                {"[ a = b ] || exit 0\n[ c = d ] || exit 1\n:\n", "flip expect fail"},
		"a loop":                        {"while [ a = b ]; do [ c = d ] || exit 1; done\n:\n", "flip expect fail"},
		"a calculation with an effect":  {"set -e\n(( n++ ))\n(( n == 1 ))\n:\n", "flip fail"},
		"another script":                {"for t in *; do sh \"$t\" || exit 1; done\n:\n", ""},
		"a variable that is set for it": {"A=b grep -q x f || exit 1\n:\n", ""},
		"strict":                        {"set -eu\n[ a = b ]\n! [ a = b ]\ngrep -v x f\n[ a = b ] && :\n", "flip expect flip fail"},
		"a message at the end":          {"assert_eq 4 \"$(y)\" message\nassert_eq '' \"$(z)\" other\n:\n", "expect expect expect expect fail"},
		"a counter":                     {"check x 4 \"$(y)\"\nis \"$(y)\" 'a b' message\n:\n", "expect expect fail"},
		"patterns":                      {"[[ $a == *\"b\"* && $c == d* ]] || exit 1\n:\n", "flip expect expect fail"},
	} {
		f, err := ParseShell("tests/a.sh", []byte(tc.src))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var kinds []string
		for _, test := range f.Tests() {
			for _, s := range test.Sites {
				kinds = append(kinds, string(s.Kind))
			}
		}
		if got := strings.Join(kinds, " "); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	for name, src := range map[string]string{"zsh": "#!/bin/zsh\n:\n", "carriage returns": "[ a = b ]\r\n", "no script": "if then\n"} {
		if _, err := ParseShell("a.sh", []byte(src)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
