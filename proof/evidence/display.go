package evidence

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DisplayPath is how a path of the repository stands in a document. A path is
// bytes and a document is UTF-8, so a path that is not plain text (characters
// that are unseen, not UTF-8, or a leading quote) is quoted as git quotes it: in double
// quotes, with \n, \t, \", \\ and octal escapes. Every path has one form and
// two paths never share one.
func DisplayPath(p string) string {
	if plainPath(p) {
		return p
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func plainPath(p string) bool {
	if strings.HasPrefix(p, `"`) || !utf8.ValidString(p) {
		return false
	}
	return !strings.ContainsFunc(p, unseen)
}

// unseen are the characters that show nothing and change how the text around
// them is shown: controls (also those above 0x7f, which begin escape sequences
// on some terminals), line separators, and what turns the direction of writing
// round or has no width. The list is fixed, so that the form of a path does not
// depend on the version of Unicode that a program knows.
func unseen(c rune) bool {
	switch {
	case c < ' ', c >= 0x7f && c <= 0x9f, c == 0xad, c == 0x61c, c == 0xfeff,
		c >= 0x200b && c <= 0x200f, c >= 0x2028 && c <= 0x202e, c >= 0x2060 && c <= 0x206f:
		return true
	}
	return false
}

// CutText shortens text at a rune boundary and makes it valid UTF-8.
func CutText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xC0 == 0x80 {
		limit--
	}
	return text[:limit] + "…"
}
