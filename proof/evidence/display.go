package evidence

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DisplayPath is how a path of the repository stands in a document. A path is
// bytes and a document is UTF-8, so a path that is not plain text (control
// bytes, not UTF-8, or a leading quote) is quoted as git quotes it: in double
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
	for _, c := range p {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}
