package canon

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"remit/proof/reason"
)

// maxShown bounds how much hostile text an error repeats.
const maxShown = 80

// refuse reports the value that was read last. width is the length of its
// text, so that the offset names its first byte.
func (c *canonicalizer) refuse(width int, format string, args ...any) *reason.Error {
	at := c.dec.InputOffset() - int64(width)
	return notCanonical(c.dec.StackPointer(), at, fmt.Sprintf(format, args...), nil)
}

// syntax reports text that is not strict JSON at all.
func (c *canonicalizer) syntax(err error) *reason.Error {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return notCanonical(syntactic.JSONPointer, syntactic.ByteOffset, syntactic.Err.Error(), err)
	}
	message := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		message = "text ends before the value does"
	}
	return notCanonical(c.dec.StackPointer(), c.dec.InputOffset(), message, err)
}

func notCanonical(at jsontext.Pointer, offset int64, message string, cause error) *reason.Error {
	return &reason.Error{
		Code:    reason.NotCanonical,
		Message: fmt.Sprintf("%s (byte %d)", message, offset),
		Field:   printable([]byte(at)),
		Err:     cause,
	}
}

// quote makes hostile text safe to print: ASCII only, bounded, in quotes.
func quote(b []byte) string {
	if len(b) > maxShown {
		return strconv.QuoteToASCII(string(b[:maxShown])) + "…"
	}
	return strconv.QuoteToASCII(string(b))
}

// printable is quote without the quotes, for JSON pointers.
func printable(b []byte) string {
	q := quote(b)
	if len(b) > maxShown {
		return q[1:len(q)-len(`"…`)] + "…"
	}
	return q[1 : len(q)-1]
}
