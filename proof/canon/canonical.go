package canon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"remit/proof/reason"
)

const (
	// MaxBytes bounds the text of one value. The largest document that is
	// hashed as JSON is an event list; 64 MiB is a run of several hundred
	// thousand events.
	MaxBytes = 64 << 20
	// MaxDepth bounds how many arrays and objects may be open at once. It
	// keeps recursive readers in every language far from their stack limits.
	MaxDepth = 128
)

// Canonicalize parses src strictly and returns its canonical form. It fails
// on everything outside the hashed subset that the package comment defines.
func Canonicalize(src []byte) ([]byte, error) {
	c := borrow()
	defer c.release()
	if err := c.run(src); err != nil {
		return nil, err
	}
	return bytes.Clone(c.out), nil
}

// Check returns nil if and only if src is exactly its own canonical form.
func Check(src []byte) error {
	c := borrow()
	defer c.release()
	if err := c.run(src); err != nil {
		return err
	}
	if bytes.Equal(src, c.out) {
		return nil
	}
	at := 0
	for at < min(len(src), len(c.out)) && src[at] == c.out[at] {
		at++
	}
	return reason.Errorf(reason.NotCanonical, "text differs from its canonical form at byte %d", at)
}

// canonicalizer holds the state of one pass: tokens come from dec, canonical
// bytes go to out. A pass over an object appends its members in the order of
// the text and then, only if needed, puts them in order in place.
type canonicalizer struct {
	src     bytes.Buffer
	dec     *jsontext.Decoder
	out     []byte
	members []member // a stack: the members of all objects that are open
	scratch []byte
}

// member is one object member in canonicalizer.out.
type member struct {
	key        []byte // unescaped; escaping changes the order
	start, end int    // "key":value without the comma
}

// keepBytes is the largest buffer that goes back to the pool, so that one
// large document does not stay in memory for good.
const keepBytes = 1 << 20

var pool = sync.Pool{New: func() any {
	return &canonicalizer{dec: jsontext.NewDecoder(new(bytes.Buffer))}
}}

func borrow() *canonicalizer { return pool.Get().(*canonicalizer) }

func (c *canonicalizer) release() {
	if cap(c.out) > keepBytes || cap(c.scratch) > keepBytes || cap(c.members) > keepBytes/64 {
		return
	}
	c.src = bytes.Buffer{} // do not pin the caller's bytes
	c.dec.Reset(&c.src)
	clear(c.members)
	c.out, c.members, c.scratch = c.out[:0], c.members[:0], c.scratch[:0]
	pool.Put(c)
}

// run leaves the canonical form of src in c.out.
func (c *canonicalizer) run(src []byte) error {
	if len(src) > MaxBytes {
		return reason.Errorf(reason.NotCanonical, "text has %d bytes, more than %d", len(src), MaxBytes)
	}
	// The decoder reads a bytes.Buffer without copying it. It never writes to
	// the buffer, so src stays as it is.
	c.src = *bytes.NewBuffer(src[:len(src):len(src)])
	c.dec.Reset(&c.src)
	if err := c.value(0, false); err != nil {
		return err
	}
	switch _, err := c.dec.ReadToken(); {
	case err == nil:
		return c.refuse(0, "more than one value in the text")
	case !errors.Is(err, io.EOF):
		return c.syntax(err)
	}
	return nil
}

// value appends the next value. depth counts the open containers around it;
// decimal says that the value may be a decimal.
func (c *canonicalizer) value(depth int, decimal bool) error {
	switch c.dec.PeekKind() {
	case '{':
		return c.object(depth + 1)
	case '[':
		return c.array(depth + 1)
	case '"':
		_, err := c.text(c.scratch[:0])
		return err
	case '0':
		raw, err := c.dec.ReadValue()
		if err != nil {
			return c.syntax(err)
		}
		if problem := numberProblem(raw, decimal); problem != "" {
			return c.refuse(len(raw), "number %s %s", quote(raw), problem)
		}
		c.out = append(c.out, raw...)
		return nil
	default: // true, false, null, or bad syntax, which ReadValue names
		raw, err := c.dec.ReadValue()
		if err != nil {
			return c.syntax(err)
		}
		c.out = append(c.out, raw...)
		return nil
	}
}

func (c *canonicalizer) array(depth int) error {
	if err := c.open(depth); err != nil {
		return err
	}
	c.out = append(c.out, '[')
	for first := true; c.dec.PeekKind() != ']'; first = false {
		if !first {
			c.out = append(c.out, ',')
		}
		if err := c.value(depth, false); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	return c.shut()
}

func (c *canonicalizer) object(depth int) error {
	if err := c.open(depth); err != nil {
		return err
	}
	base := len(c.members)
	c.out = append(c.out, '{')
	for c.dec.PeekKind() != '}' {
		if len(c.members) > base {
			c.out = append(c.out, ',')
		}
		start := len(c.out)
		key, err := c.text(nil)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(key, func(b byte) bool { return b >= 0x80 }) {
			return c.refuse(0, "key %s is not ASCII", quote(key))
		}
		c.out = append(c.out, ':')
		// key may lie in c.out; it stays valid because reordering happens
		// only in bytes behind it.
		if err := c.value(depth, isDecimalKey(key)); err != nil {
			return err
		}
		c.members = append(c.members, member{key: key, start: start, end: len(c.out)})
	}
	c.reorder(c.members[base:])
	clear(c.members[base:]) // keys may point into old buffers
	c.members = c.members[:base]
	c.out = append(c.out, '}')
	return c.shut()
}

// open consumes the bracket that opens a container, shut the one that ends it.
func (c *canonicalizer) open(depth int) error {
	if depth > MaxDepth {
		return c.refuse(0, "nested more than %d deep", MaxDepth)
	}
	return c.shut()
}

func (c *canonicalizer) shut() error {
	if _, err := c.dec.ReadToken(); err != nil {
		return c.syntax(err)
	}
	return nil
}

// text appends the next string, which may be an object key, and returns its
// unescaped bytes. Escaped ones are unescaped into buf.
func (c *canonicalizer) text(buf []byte) ([]byte, error) {
	// Where a key is due, ReadValue accepts nothing but a string.
	raw, err := c.dec.ReadValue()
	if err != nil {
		return nil, c.syntax(err)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		c.out = append(c.out, raw...) // valid and without escapes is canonical
		return c.out[len(c.out)-len(raw)+1 : len(c.out)-1], nil
	}
	plain, err := jsontext.AppendUnquote(buf, []byte(raw))
	if err != nil {
		return nil, c.syntax(err)
	}
	if buf != nil {
		c.scratch = plain[:0] // keep what has grown
	}
	c.out, err = jsontext.AppendQuote(c.out, plain)
	if err != nil {
		return nil, c.syntax(err)
	}
	return plain, nil
}

// reorder sorts the members of one object, which are the tail of c.out.
// The decoder has already refused duplicate keys.
func (c *canonicalizer) reorder(members []member) {
	byKey := func(a, b member) int { return bytes.Compare(a.key, b.key) }
	if slices.IsSortedFunc(members, byKey) {
		return
	}
	start := members[0].start
	slices.SortFunc(members, byKey)
	c.scratch = c.scratch[:0]
	for i, m := range members {
		if i > 0 {
			c.scratch = append(c.scratch, ',')
		}
		c.scratch = append(c.scratch, c.out[m.start:m.end]...)
	}
	copy(c.out[start:], c.scratch)
}

// MaxDecimalDigits bounds the digits before the point of a decimal. With the
// two behind it that makes 15, which an IEEE 754 double keeps exactly.
const MaxDecimalDigits = 13

// maxInteger is 2^53−1 (RFC 7493, section 2.2).
const maxInteger = "9007199254740991"

// decimalKeys are final_confidence and step_utility of a receipt, and
// confidence, which is what a replay calls the former.
var decimalKeys = [...]string{"final_confidence", "step_utility", "confidence"}

func isDecimalKey(key []byte) bool {
	for _, k := range decimalKeys {
		if string(key) == k {
			return true
		}
	}
	return false
}

// numberProblem says why a valid JSON number is outside the hashed subset, ""
// if it is inside. The rules look at the text and not at a parsed value:
// parsing is where readers begin to differ.
func numberProblem(raw []byte, decimal bool) string {
	if bytes.ContainsAny(raw, "eE") {
		return "has an exponent"
	}
	digits, negative := bytes.CutPrefix(raw, []byte("-"))
	whole, places, point := bytes.Cut(digits, []byte("."))
	switch {
	case point && bytes.HasSuffix(places, []byte("0")):
		return "ends in a zero behind the point; whole numbers are written as integers"
	case point && !decimal:
		return "is a decimal; only the values of " + strings.Join(decimalKeys[:], ", ") + " may be"
	case point && len(places) > 2:
		return "has more than two places"
	case point && len(whole) > MaxDecimalDigits:
		return "has too many digits"
	case negative && !point && string(whole) == "0":
		return "is negative zero"
	case len(whole) > len(maxInteger),
		len(whole) == len(maxInteger) && string(whole) > maxInteger:
		return "is outside ±(2^53−1)"
	}
	return ""
}

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
