package secret

import (
	"slices"
	"strings"
)

// Scanner looks for a fixed set of credentials and for all shapes. It does not
// change after New and may be used from several goroutines.
type Scanner struct {
	patterns []pattern
	auto     *automaton
	searched int
	not      []Unsearched
	reach    int // the furthest that any match looks from its anchor
}

// New makes a scanner for the values of credentials. A value that is given
// twice is searched for once, under its first name.
func New(values []Value) *Scanner {
	s := &Scanner{}
	seen := map[string]bool{}
	for _, v := range values {
		if seen[v.Value] {
			continue
		}
		seen[v.Value] = true
		why := unfit(v.Value)
		if why == "" && s.searched == MaxValues {
			why = "is one too many"
		}
		if why != "" {
			s.not = append(s.not, Unsearched{v.Name, why})
			continue
		}
		s.searched++
		s.patterns = append(s.patterns, spellings(v)...)
	}
	for i := range shapes {
		for _, a := range shapes[i].anchors {
			s.patterns = append(s.patterns, pattern{text: []byte(a), shape: &shapes[i]})
		}
	}
	for i := range s.patterns {
		s.reach = max(s.reach, s.patterns[i].reach())
	}
	s.auto = compile(s.patterns)
	return s
}

// Searched is how many credentials are searched for.
func (s *Scanner) Searched() int { return s.searched }

// NotSearched lists the credentials that are not searched for.
func (s *Scanner) NotSearched() []Unsearched { return slices.Clone(s.not) }

// reach is how far from its anchor a pattern may have to be compared.
func (p *pattern) reach() int {
	if p.shape != nil {
		return p.shape.reach
	}
	return 2*len(p.text) + anchorBytes
}

// start finds where the anchor that ends at w[:end] began. Line breaks inside
// a credential are not counted; a shape has none.
func (p *pattern) start(w []byte, end int) (int, bool) {
	anchor := p.anchor()
	if p.shape != nil {
		at := end - len(anchor)
		return at, at >= 0 && string(w[at:end]) == string(anchor)
	}
	at := end
	for left := len(anchor); left > 0; {
		if at == 0 || end-at > lookBehind {
			return 0, false
		}
		at--
		if w[at] != '\n' && w[at] != '\r' {
			left--
		}
	}
	return at, true
}

// match compares the whole pattern whose anchor is w[at:end].
func (p *pattern) match(w []byte, at, end int) (from, to int, ok bool) {
	if p.shape != nil {
		return p.shape.match(w[:min(len(w), at+p.shape.reach)], at, end)
	}
	rest := p.text[len(p.anchor()):]
	limit := min(len(w), at+p.reach())
	for len(rest) > 0 {
		switch {
		case end == limit:
			return 0, 0, false
		case w[end] == rest[0]:
			rest = rest[1:]
		case w[end] != '\n' && w[end] != '\r':
			return 0, 0, false
		}
		end++
	}
	return at, end, true
}

// rule is the rule that a pattern belongs to.
func (p *pattern) rule() Rules {
	if p.shape != nil {
		return Shapes
	}
	return Values
}

// finding describes a match at an offset.
func (p *pattern) finding(text []byte, offset int64) Finding {
	f := Finding{Kind: Credential, Name: p.name, Encoding: p.encoding, Offset: offset, Length: int64(len(text)), Digest: p.digest}
	if p.shape != nil {
		f.Kind, f.Encoding, f.Digest = p.shape.kind, "raw", digestPrefix(text)
	}
	return f
}

// Redact replaces every secret in a text by its marker, until none is left: to
// take one out can bring the next one to a border where it shows.
func (s *Scanner) Redact(text string) string {
	for range maxPasses {
		next := s.redactOnce(text)
		if next == text {
			return text
		}
		text = next
	}
	return "[redacted]"
}

// maxPasses bounds how often a text is redacted anew. Each pass leaves only
// markers where it found something, so that more than a few do not happen.
const maxPasses = 8

func (s *Scanner) redactOnce(text string) string {
	if !s.Suspects([]byte(text)) {
		return text
	}
	var out strings.Builder
	done := int64(0)
	scan := s.Stream(All, func(f Finding, _ []byte) {
		out.WriteString(text[done:f.Offset])
		out.WriteString(f.Marker())
		done = f.Offset + f.Length
	})
	_, _ = scan.Write([]byte(text)) // a Stream has no errors
	scan.Close()
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// Suspects reports whether anything in a text begins as a secret does. It is
// much cheaper than a scan, and what it does not suspect holds no secret.
func (s *Scanner) Suspects(text []byte) bool {
	n, _ := s.auto.skip(0, text)
	return n > 0
}

// Redact replaces every secret in a text by [redacted:kind]. To redact more
// than one text with the same values, make a [Scanner].
func Redact(text string, values []Value) string { return New(values).Redact(text) }
