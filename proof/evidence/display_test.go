//go:build !race

package evidence_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"remit/proof/canon"
	"remit/proof/evidence"
)

// undisplay is the inverse of DisplayPath, written from its documentation.
func undisplay(t *rapid.T, shown string) string {
	body, quoted := strings.CutPrefix(shown, `"`)
	if !quoted {
		return shown
	}
	body, ended := strings.CutSuffix(body, `"`)
	if !ended {
		t.Fatalf("%q has no closing quote", shown)
	}
	var out []byte
	for len(body) > 0 {
		c := body[0]
		body = body[1:]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		switch body[0] {
		case 'n':
			out, body = append(out, '\n'), body[1:]
		case 't':
			out, body = append(out, '\t'), body[1:]
		case '"', '\\':
			out, body = append(out, body[0]), body[1:]
		default:
			n, err := strconv.ParseUint(body[:3], 8, 8)
			if err != nil {
				t.Fatalf("escape in %q: %v", shown, err)
			}
			out, body = append(out, byte(n)), body[3:]
		}
	}
	return string(out)
}

// TestDisplayPath: every path can stand in a document, comes back from it, and
// shares its form with no other.
func TestDisplayPath(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"calc/add.go":   "calc/add.go",
		"a b":           "a b",
		"naïve.go":      "naïve.go",
		"tab\there":     `"tab\there"`,
		"a\u202eog.b":   `"a\342\200\256og.b"`,
		"a\u009b2Jb":    `"a\302\2332Jb"`,
		"zero\u200bw":   `"zero\342\200\213w"`,
		"line\nbreak":   `"line\nbreak"`,
		`"quoted"`:      `"\"quoted\""`,
		`back\slash`:    `back\slash`,
		"\xff\xfe":      `"\377\376"`,
		"é\x01":         `"\303\251\001"`,
		"del\x7f":       `"del\177"`,
		`"back\slash`:   `"\"back\\slash"`,
		"\x1b[31mred":   `"\033[31mred"`,
		"end of text\r": `"end of text\015"`,
	} {
		if got := evidence.DisplayPath(in); got != want {
			t.Errorf("DisplayPath(%q) = %s, want %s", in, got, want)
		}
	}
	path := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.StringOfN(rapid.RuneFrom([]rune("\"\\nt0127\n\té")), 0, 12, -1))
	rapid.Check(t, func(rt *rapid.T) {
		a, b := path.Draw(rt, "a"), path.Draw(rt, "b")
		shown := evidence.DisplayPath(a)
		if back := undisplay(rt, shown); back != a {
			rt.Fatalf("%q is shown as %s, which reads as %q", a, shown, back)
		}
		if a != b && shown == evidence.DisplayPath(b) {
			rt.Fatalf("%q and %q are both shown as %s", a, b, shown)
		}
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			rt.Fatalf("%q is not plain text", shown)
		}
		if _, err := canon.Marshal(shown); err != nil {
			rt.Fatal(err)
		}
	})
}
