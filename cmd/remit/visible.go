package main

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// visible writes text so that it cannot drive a terminal or hide what stands
// there: what is not printable is shown as \x1b, \u202e and the like, and bytes
// that are no UTF-8 as \xff. Line ends and tabs stay.
type visible struct {
	w    io.Writer
	rest []byte // the beginning of a character of which the end was not written yet
}

func (v *visible) Write(p []byte) (int, error) {
	in := append(v.rest, p...)
	out := make([]byte, 0, len(in))
	for len(in) > 0 && utf8.FullRune(in) {
		c, size := utf8.DecodeRune(in)
		switch {
		case c == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, in[0])
		case c == '\n', c == '\t', unicode.IsPrint(c):
			out = append(out, in[:size]...)
		case c < utf8.RuneSelf:
			out = fmt.Appendf(out, `\x%02x`, c)
		case c <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = fmt.Appendf(out, `\U%08x`, c)
		}
		in = in[size:]
	}
	v.rest = append(v.rest[:0], in...)
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what is left of a character that has no end.
func (v *visible) Close() error {
	for _, b := range v.rest {
		if _, err := fmt.Fprintf(v.w, `\x%02x`, b); err != nil {
			return err
		}
	}
	v.rest = nil
	return nil
}
