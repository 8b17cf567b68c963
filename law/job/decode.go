package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"remit/proof/reason"
)

// maxDepth bounds the nesting of a payload: no type needs more than six levels.
const maxDepth = 12

// decode reads one strict JSON object into v and returns the paths of the keys
// that it has, with list positions left out ("commands.cmd").
func decode(src []byte, limit int, v any) (map[string]bool, error) {
	if len(src) > limit {
		return nil, invalid("", "is larger than %d bytes", limit)
	}
	if !utf8.Valid(src) {
		return nil, invalid("", "is not valid UTF-8")
	}
	// encoding/json takes the last of two equal keys, matches keys without
	// regard to case and replaces broken escapes: two readers would see two
	// requests. So the form is checked first.
	given := map[string]bool{}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	first, err := d.Token()
	if err != nil || first != json.Delim('{') {
		return nil, invalid("", "is not a JSON object")
	}
	if err := strictObject(d, "", 1, given); err != nil {
		return nil, asInvalid(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid("", "has something after the JSON object")
	}
	if bytes.Contains(src, []byte(`\u`)) && loneSurrogate(src) {
		return nil, invalid("", "names half of a surrogate pair")
	}
	typed := json.NewDecoder(bytes.NewReader(src))
	typed.DisallowUnknownFields()
	if err := typed.Decode(v); err != nil {
		return nil, asInvalid(err)
	}
	return given, nil
}

func strictObject(d *json.Decoder, at string, depth int, given map[string]bool) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return invalid(at, "has a key that is not a string")
		}
		field := strings.TrimPrefix(at+"."+key, ".")
		switch {
		case seen[key]:
			return invalid(field, "stands there twice")
		// The names of an environment are data; all others are ours.
		case at != "env" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
			return invalid(at, "has the unknown key %.64q", key)
		}
		seen[key], given[field] = true, true
		if err := strictValue(d, field, depth, given); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func strictValue(d *json.Decoder, at string, depth int, given map[string]bool) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if depth >= maxDepth {
		return invalid(at, "is nested too deeply")
	}
	switch token {
	case nil:
		return invalid(at, "is null; leave it out instead")
	case json.Delim('{'):
		return strictObject(d, at, depth+1, given)
	case json.Delim('['):
		for d.More() {
			if err := strictValue(d, at, depth+1, given); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return err
	}
	return nil
}

// loneSurrogate reports whether a \u escape names half of a pair: encoding/json
// would silently put U+FFFD in its place.
func loneSurrogate(src []byte) bool {
	unit := func(i int) int { // the code unit of an escape that begins at i, -1 if none does
		if i+6 > len(src) || src[i] != '\\' || src[i+1] != 'u' {
			return -1
		}
		var n int
		if _, err := fmt.Sscanf(string(src[i+2:i+6]), "%04x", &n); err != nil {
			return -1
		}
		return n
	}
	for i := 0; i < len(src); i++ {
		if src[i] != '\\' {
			continue
		}
		switch u := unit(i); {
		case u >= 0xd800 && u < 0xdc00:
			if low := unit(i + 6); low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 11
		case u >= 0xdc00 && u <= 0xdfff:
			return true
		default:
			i++ // the escaped character cannot begin another escape
		}
	}
	return false
}

func asInvalid(err error) error {
	var known *reason.Error
	if errors.As(err, &known) {
		return known
	}
	e := invalid("", "is not a valid payload: %w", err)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		e = invalid(wrong.Field, "is a JSON %s, must be %s", wrong.Value, wrong.Type)
	}
	return e
}

// Cores is a number of processors as the wire has it: a 32-bit float that is
// widened to 64 bits before it is printed, always with a fraction.
type Cores float32

// Millis returns the number in thousandths of a processor, rounded up, so that
// a limit never grants more than what was compared.
func (c Cores) Millis() int64 { return int64(math.Ceil(float64(c)*1000 - 1e-4)) }

// String prints the number as it is hashed.
func (c Cores) String() string {
	text := strconv.FormatFloat(float64(c), 'f', -1, 64)
	if float64(c) == math.Trunc(float64(c)) {
		text += ".0"
	}
	return text
}

// MarshalJSON prints the number as it is hashed.
func (c Cores) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

// Canonical returns the bytes that Hash covers. The request must be filled.
func (r SandboxRunRequest) Canonical() []byte { return canonical(r) }

// Hash returns the job hash: bare lower-case hexadecimal.
func (r SandboxRunRequest) Hash() string { return hashOf(r.Canonical()) }

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// canonical encodes a request. A request holds strings, integers, booleans and
// Cores, so encoding it cannot fail; a panic here is a broken type, not input.
func canonical(v any) []byte {
	plain, err := json.Marshal(v)
	if err != nil {
		panic("job: encode request: " + err.Error())
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber() // the text of a number was decided above and stays
	var tree any
	if err := d.Decode(&tree); err != nil {
		panic("job: encode request: " + err.Error())
	}
	return appendValue(nil, tree)
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, key), ':')
			b = appendValue(b, v[key])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, item)
		}
		return append(b, ']')
	case string:
		return appendString(b, v)
	case json.Number:
		return append(b, v...)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

// appendString escapes what JSON demands and nothing else: encoding/json would
// also escape <, >, &, U+2028 and U+2029.
func appendString(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, `\u00`...)
			b = append(b, digits[c>>4], digits[c&15])
		}
	}
	return append(b, '"')
}
