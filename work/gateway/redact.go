package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"remit/law/secret"
)

// secrets are the values that no record and no answer shows: the provider's
// credential, the proxy's password, the engine's token.
type secrets struct {
	scanner  *secret.Scanner
	patterns []pattern
	least    int             // bytes of the shortest pattern
	shift    [1 << 16]uint16 // how far a window may move that ends in these two bytes
}

// pattern is one spelling of a secret, and what stands in its place.
type pattern struct{ text, marker []byte }

func newSecrets(values ...secret.Value) *secrets {
	var given []secret.Value
	for _, v := range values {
		if v.Value != "" {
			given = append(given, v)
		}
	}
	s := &secrets{scanner: secret.New(given)}
	innocent := map[string]bool{} // too short or too common to be a secret
	for _, n := range s.scanner.NotSearched() {
		innocent[n.Name] = true
	}
	for _, v := range given {
		if innocent[v.Name] {
			continue
		}
		marker := []byte(secret.Finding{Kind: secret.Credential, Name: v.Name}.Marker())
		for _, text := range spellings(v.Value) {
			s.patterns = append(s.patterns, pattern{[]byte(text), marker})
		}
	}
	s.prepare()
	return s
}

// prepare fills the table of the search after Wu and Manber: most windows can
// move by nearly the length of the shortest pattern, so that a large body is
// searched for all patterns in the time of reading a part of it.
func (s *secrets) prepare() {
	if len(s.patterns) == 0 {
		return
	}
	s.least = len(s.patterns[0].text)
	for _, p := range s.patterns {
		s.least = min(s.least, len(p.text))
	}
	for i := range s.shift {
		s.shift[i] = uint16(s.least - 1)
	}
	for _, p := range s.patterns {
		for i := range s.least - 1 {
			pair := int(p.text[i])<<8 | int(p.text[i+1])
			s.shift[pair] = min(s.shift[pair], uint16(s.least-2-i))
		}
	}
}

// find is the first and longest secret in a text.
func (s *secrets) find(b []byte) (at int, found pattern) {
	for end := s.least; end <= len(b); {
		if move := s.shift[int(b[end-2])<<8|int(b[end-1])]; move > 0 {
			end += int(move)
			continue
		}
		at = end - s.least
		for _, p := range s.patterns {
			if len(p.text) > len(found.text) && bytes.HasPrefix(b[at:], p.text) {
				found = p
			}
		}
		if found.text != nil {
			return at, found
		}
		end++
	}
	return -1, found
}

// spellings are the forms in which a value may stand in a body or header.
func spellings(value string) []string {
	digits := hex.EncodeToString([]byte(value))
	out := []string{value, url.QueryEscape(value), digits, strings.ToUpper(digits)}
	if quoted, err := json.Marshal(value); err == nil {
		out = append(out, string(quoted[1:len(quoted)-1]))
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 { // a text around it moves it to one of three alignments
			encoded := enc.EncodeToString(append(make([]byte, shift), value...))
			out = append(out, encoded[(8*shift+5)/6:8*(shift+len(value))/6])
		}
	}
	seen := map[string]bool{}
	kept := out[:0]
	for _, text := range out {
		if len(text) >= secret.MinValue && !seen[text] {
			seen[text] = true
			kept = append(kept, text)
		}
	}
	return kept
}

// clean takes secrets out of a short text, and whatever looks like a key.
func (s *secrets) clean(text string) string { return s.scanner.Redact(string(s.redact([]byte(text)))) }

// redact takes secrets out of a whole body.
func (s *secrets) redact(body []byte) []byte {
	f := filter{secrets: s}
	return f.pass(body, true)
}

// filter takes secrets out of a text that comes in pieces. It keeps back only
// what may be the beginning of a secret, so that it delays nothing else; what
// ends in a line break is never kept back, since no secret holds one.
type filter struct {
	secrets *secrets
	held    []byte
}

// pass returns what may go on: p itself if there is nothing to do. The result
// is valid until the next call.
func (f *filter) pass(p []byte, end bool) []byte {
	if len(f.secrets.patterns) == 0 {
		return p
	}
	if len(f.held) > 0 {
		p = append(f.held, p...)
		f.held = nil
	}
	p = f.secrets.replace(p)
	if end || len(p) == 0 || p[len(p)-1] == '\n' {
		return p
	}
	keep := f.secrets.beginning(p)
	f.held = bytes.Clone(p[len(p)-keep:])
	return p[:len(p)-keep]
}

// replace puts markers in the places of all secrets, also where letters of one
// are written as JSON may write every letter (\u0073). That is looked for in a
// piece alone: the gateway passes on whole events and whole bodies.
func (s *secrets) replace(p []byte) []byte {
	p = s.replacePlain(p)
	if !bytes.Contains(p, []byte(`\u00`)) && !bytes.Contains(p, []byte(`\/`)) {
		return p
	}
	plain, at := unescaped(p)
	var out []byte
	from, done := 0, 0 // of plain, and of p
	for {
		i, found := s.find(plain[from:])
		if i < 0 {
			break
		}
		first := from + i
		from = first + len(found.text)
		out = append(append(out, p[done:at[first]]...), found.marker...)
		done = at[from]
	}
	if out == nil {
		return p
	}
	return append(out, p[done:]...)
}

// unescaped is a text without the escapes of JSON that stand for ASCII, and
// where each of its bytes, and its end, is in the text. More than one backslash
// before an escape is JSON inside of JSON.
func unescaped(p []byte) (plain []byte, at []int) {
	plain, at = make([]byte, 0, len(p)), make([]int, 0, len(p)+1)
	for i := 0; i < len(p); {
		start, c := i, p[i]
		i++
		if c == '\\' {
			next := start
			for next < len(p) && p[next] == '\\' {
				next++
			}
			switch {
			case next < len(p) && p[next] == '/':
				c, i = '/', next+1
			case next+5 <= len(p) && p[next] == 'u' && p[next+1] == '0' && p[next+2] == '0':
				var b [1]byte
				if _, err := hex.Decode(b[:], p[next+3:next+5]); err == nil && b[0] < 0x80 {
					c, i = b[0], next+5
				}
			}
		}
		plain, at = append(plain, c), append(at, start)
	}
	return plain, append(at, len(p))
}

// replacePlain puts markers in the places of secrets that stand there as they
// are.
func (s *secrets) replacePlain(p []byte) []byte {
	var out []byte
	for {
		at, found := s.find(p)
		if at < 0 {
			if out == nil {
				return p
			}
			return append(out, p...)
		}
		out = append(append(out, p[:at]...), found.marker...)
		p = p[at+len(found.text):]
	}
}

// beginning is the length of the longest end of p that begins a secret.
func (s *secrets) beginning(p []byte) int {
	longest := 0
	for _, c := range s.patterns {
		for n := min(len(c.text)-1, len(p)); n > longest; n-- {
			if bytes.HasSuffix(p, c.text[:n]) {
				longest = n
			}
		}
	}
	return longest
}
