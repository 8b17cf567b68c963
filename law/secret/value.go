package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

const (
	// MinValue is the length of the shortest credential that is searched for,
	// in bytes. What is shorter stands in innocent text by chance.
	MinValue = 8
	// MaxValues bounds the size of the automaton.
	MaxValues = 256

	// piece is how much of a credential is one pattern. A longer one is
	// several, so that the window of a scan stays small.
	piece = 1024
	// minVaried is how many different bytes a credential has at least.
	minVaried = 5
	// minDigits is the length of the shortest credential that is only digits:
	// a shorter one is a date or a count somewhere.
	minDigits = 12
)

// words are default passwords and placeholders that stand in ordinary text.
var words = map[string]bool{
	"changeit": true, "changeme": true, "disabled": true, "localhost": true, "password": true, "password1": true, "passw0rd": true,
	"postgres": true, "postgresql": true, "rabbitmq": true, "redacted": true, "root1234": true, "test1234": true, "testing1": true,
	"undefined": true, "username": true, "12345678": true, "123456789": true, "1234567890": true,
}

// unfit says why a credential is not searched for, "" if it is.
func unfit(value string) string {
	seen := map[byte]bool{}
	for i := range len(value) {
		seen[value[i]] = true
	}
	digits := strings.Trim(value, "0123456789") == ""
	switch {
	case value == "":
		return "is empty"
	case len(value) < MinValue:
		return fmt.Sprintf("is shorter than %d bytes", MinValue)
	case words[strings.ToLower(value)]:
		return "is a common word"
	case len(seen) < minVaried:
		return fmt.Sprintf("has fewer than %d different bytes", minVaried)
	case digits && len(value) < minDigits:
		return fmt.Sprintf("is a number of fewer than %d digits", minDigits)
	}
	return ""
}

// pattern is one spelling of a credential, or the beginning of a shape.
type pattern struct {
	text     []byte // without line breaks
	name     string
	encoding string
	digest   string
	shape    *shape // nil for a credential
}

// spellings are the patterns of one credential.
func spellings(v Value) []pattern {
	digest := digestPrefix([]byte(v.Value))
	seen := map[string]bool{}
	var out []pattern
	add := func(encoding, text string) {
		text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
		if len(text) >= MinValue && !seen[text] {
			seen[text] = true
			out = append(out, pattern{text: []byte(text), name: v.Name, encoding: encoding, digest: digest})
		}
	}
	for _, part := range pieces(v.Value) {
		add("raw", part)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for shift := range 3 {
				add("base64", aligned(enc, part, shift))
			}
		}
		add("hex", hex.EncodeToString([]byte(part)))
		add("hex", strings.ToUpper(hex.EncodeToString([]byte(part))))
		for _, escaped := range []string{url.QueryEscape(part), url.PathEscape(part)} {
			add("url", escaped)
			add("url", lowerEscapes(escaped))
		}
		for _, quoted := range quotations(part) {
			add("json", quoted)
		}
	}
	return out
}

// pieces cuts a long credential; the last piece may be longer than the others.
func pieces(value string) []string {
	var out []string
	for len(value) > piece+MinValue {
		out = append(out, value[:piece])
		value = value[piece:]
	}
	return append(out, value)
}

// aligned encodes text as it looks inside a longer base64 text, after shift
// bytes of something else: only the characters that depend on nothing but text.
func aligned(enc *base64.Encoding, text string, shift int) string {
	encoded := enc.EncodeToString(append(make([]byte, shift), text...))
	first := (8*shift + 5) / 6
	last := 8 * (shift + len(text)) / 6
	return encoded[first:last]
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(escaped[i+1:i+3]))
		}
	}
	return string(b)
}

// quotations are the ways in which JSON writers spell a string.
func quotations(text string) []string {
	html, err := json.Marshal(text)
	if err != nil {
		return nil // not reached: every string has an encoding
	}
	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if enc.Encode(text) != nil {
		return nil // as above
	}
	inner := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	bare, careful := inner(strings.TrimSuffix(plain.String(), "\n")), inner(string(html))
	return []string{bare, careful, strings.ReplaceAll(bare, "/", `\/`), strings.ReplaceAll(careful, "/", `\/`)}
}
