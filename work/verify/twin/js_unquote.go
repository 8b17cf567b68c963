package twin

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsUnquote is the text that the inside of a string stands for.
func jsUnquote(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'n', 't', 'r', 'b', 'f', 'v', '0':
			b.WriteByte("\n\t\r\b\f\v\x00"[strings.IndexByte("ntrbfv0", c)])
		case '\n':
		case 'x', 'u':
			r, size := jsCode(s[i:])
			b.WriteRune(r)
			i += size - 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// jsCode reads a character that is written as a number, and how long that is.
func jsCode(s string) (r rune, size int) {
	digits, size := "", 0
	switch {
	case strings.HasPrefix(s, "u{"):
		inner, _, ok := strings.Cut(s[2:], "}")
		if ok {
			digits, size = inner, len(inner)+3
		}
	case s[0] == 'x' && len(s) >= 3:
		digits, size = s[1:3], 3
	case s[0] == 'u' && len(s) >= 5:
		digits, size = s[1:5], 5
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || n > utf8.MaxRune {
		return rune(s[0]), 1
	}
	return rune(n), size
}
