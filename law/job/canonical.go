package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
)

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
