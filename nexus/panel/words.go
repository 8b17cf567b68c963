package panel

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// inert replaces every character of a page that is unseen or turns the direction
// of text by its code point, such as ⟨U+202E⟩. Markup has none of them, so what is
// left to replace was written by an agent, a repository or a provider.
func inert(page []byte) []byte {
	if !bytes.ContainsFunc(page, hidden) && utf8.Valid(page) {
		return page
	}
	out := make([]byte, 0, len(page)+64)
	for i := 0; i < len(page); {
		r, n := utf8.DecodeRune(page[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, "⟨%02X⟩", page[i])
		case hidden(r):
			out = fmt.Appendf(out, "⟨U+%04X⟩", r)
		default:
			out = append(out, page[i:i+n]...)
		}
		i += n
	}
	return out
}

// hidden reports whether a character is unseen, or moves others.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ' || r == 0x7f:
		return true
	case r < 0x80:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) ||
		r == 0x115F || r == 0x1160 || r == 0x3164 || r == 0xFFA0
}

// took is a duration for people.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh %02dm", int(d.Hours()), int(d.Minutes())%60)
}

// money is an amount in dollars, whole: two places at least, and as many more, up to
// six, as it has.
func money(micro int64) string {
	text := fmt.Sprintf("%06d", micro%1_000_000)
	return fmt.Sprintf("$%d.%s", micro/1_000_000, text[:2]+strings.TrimRight(text[2:], "0"))
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1_000_000)
}

// thousands is a number with its thousands apart.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// shortDigest is the beginning and the end of a digest.
func shortDigest(d string) string {
	algorithm, hex, found := strings.Cut(d, ":")
	if !found {
		algorithm, hex = "", d
	} else {
		algorithm += ":"
	}
	if len(hex) < 12 {
		return d
	}
	return algorithm + hex[:4] + "…" + hex[len(hex)-2:]
}

// clip cuts a text that is too long for where it stands.
func clip(most int, text string) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// count is a number with its noun, which gets an s.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(int64(n)) + " " + noun + "s"
}

// instant reads a time of a journal; zero where there is none.
func instant(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
