package twin

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rust and Java are read by one lexer. Like that of JavaScript it says where tokens
// and brackets are, and refuses a text in which it cannot be sure.

// braceKind is what a token is.
type braceKind byte

const (
	braceName   braceKind = iota + 1 // identifiers and keywords
	braceNumber                      //
	braceText                        // strings and characters
	braceTick                        // a lifetime or a label of Rust
	bracePunct                       // one character
)

// braceToken is one token. Of a bracket, mate is the index of the other one.
type braceToken struct {
	kind       braceKind
	start, end int
	mate       int
}

// braceDialect is what differs between the languages.
type braceDialect struct {
	nested bool   // comments are in comments
	puncts string // characters that are tokens
	// literal reads a string, a character or a lifetime, with what is in front of it. It
	// returns where that ends, 0 where none begins.
	literal func(src string, at int) (end int, kind braceKind, err error)
}

// Bounds of a file.
const (
	maxBraceSource = 2 << 20
	maxBraceTokens = 500_000
)

var (
	errBraceEnd     = errors.New("a string, a comment or a bracket has no end")
	errBraceBracket = errors.New("a bracket that closes another one")
	errBraceRune    = errors.New("a character that is no part of a program")
)

// lexBraces splits a text into tokens.
func lexBraces(src string, d braceDialect) ([]braceToken, error) {
	if len(src) > maxBraceSource || !utf8.ValidString(src) {
		return nil, errors.New("it is too long, or not UTF-8")
	}
	var tokens []braceToken
	var open []int
	at := 0
	fail := func(err error) ([]braceToken, error) {
		return nil, fmt.Errorf("line %d: %w", 1+strings.Count(src[:min(at, len(src))], "\n"), err)
	}
	for {
		var err error
		if at, err = skipSpace(src, at, d.nested); err != nil {
			return fail(err)
		}
		if at >= len(src) {
			break
		}
		if len(tokens) >= maxBraceTokens {
			return fail(errors.New("it has too many tokens"))
		}
		end, kind, err := d.literal(src, at)
		switch {
		case err != nil:
			return fail(err)
		case end > at:
		case src[at] >= '0' && src[at] <= '9':
			end, kind = braceNumberEnd(src, at), braceNumber
		case wordRune(src[at:]):
			end, kind = wordEnd(src, at), braceName
		case strings.IndexByte(d.puncts, src[at]) >= 0:
			end, kind = at+1, bracePunct
		default:
			return fail(errBraceRune)
		}
		tokens = append(tokens, braceToken{kind, at, end, -1})
		if kind == bracePunct && !matchBracket(src, tokens, &open) {
			return fail(errBraceBracket)
		}
		at = end
	}
	if len(open) > 0 {
		return fail(errBraceEnd)
	}
	return tokens, nil
}

// matchBracket notes the last token if it is a bracket. It is false where one closes
// another.
func matchBracket(src string, tokens []braceToken, open *[]int) bool {
	n := len(tokens) - 1
	switch c := src[tokens[n].start]; c {
	case '(', '[', '{':
		*open = append(*open, n)
	case ')', ']', '}':
		if len(*open) == 0 {
			return false
		}
		last := (*open)[len(*open)-1]
		if src[tokens[last].start] != "([{"[strings.IndexByte(")]}", c)] {
			return false
		}
		*open = (*open)[:len(*open)-1]
		tokens[last].mate, tokens[n].mate = n, last
	}
	return true
}

// skipSpace passes over white space and comments.
func skipSpace(src string, at int, nested bool) (int, error) {
	for at < len(src) {
		rest := src[at:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				return len(src), nil
			}
			if cr := strings.IndexByte(rest[:end], '\r'); cr >= 0 && cr != end-1 {
				return at, errors.New("a carriage return in a comment, which ends a line or does not")
			}
			at += end
		case strings.HasPrefix(rest, "/*"):
			size := commentEnd(rest, nested)
			if size < 0 {
				return at, errBraceEnd
			}
			at += size
		case strings.ContainsRune(" \t\n\r\f", r), at == 0 && r == '\ufeff':
			at += size
		default:
			return at, nil
		}
	}
	return at, nil
}

// commentEnd is the length of the comment that a text begins with, -1 if it has no end.
func commentEnd(text string, nested bool) int {
	depth := 1
	for i := 2; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "*/"):
			if depth--; depth == 0 {
				return i + 2
			}
			i++
		case nested && strings.HasPrefix(text[i:], "/*"):
			depth++
			i++
		}
	}
	return -1
}

// wordRune says whether a text begins with a character of a name.
func wordRune(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func wordEnd(src string, at int) int {
	for at < len(src) && wordRune(src[at:]) {
		_, size := utf8.DecodeRuneInString(src[at:])
		at += size
	}
	return at
}

// braceNumberEnd reads a number, or what looks like one. A dot belongs to it where no
// name and no other dot follows.
func braceNumberEnd(src string, at int) int {
	start := at
	hex := strings.HasPrefix(src[at:], "0x") || strings.HasPrefix(src[at:], "0X")
	for dots := 0; at < len(src); at++ {
		c := src[at]
		switch {
		case c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z':
		case (c == '+' || c == '-') && !hex && at > start && src[at-1]|0x20 == 'e' && strings.Trim(src[start:at-1], "0123456789_.") == "" && at+1 < len(src) && src[at+1] >= '0' && src[at+1] <= '9':
		case c == '.' && dots == 0 && !hex && (at+1 == len(src) || src[at+1] != '.' && (src[at+1] >= '0' && src[at+1] <= '9' || !wordRune(src[at+1:]))):
			dots++
		default:
			return at
		}
	}
	return at
}

// braceParser reads tokens.
type braceParser struct {
	src    string
	tokens []braceToken
}

// text is the text of a token, "" behind the last one and in front of the first.
func (p *braceParser) text(i int) string {
	if i < 0 || i >= len(p.tokens) {
		return ""
	}
	return p.src[p.tokens[i].start:p.tokens[i].end]
}

func (p *braceParser) is(i int, kind braceKind) bool {
	return i >= 0 && i < len(p.tokens) && p.tokens[i].kind == kind
}

// sequence says whether tokens have these texts, and stand side by side where they are
// one operator.
func (p *braceParser) sequence(i int, texts ...string) bool {
	for n, t := range texts {
		if p.text(i+n) != t || p.is(i+n, braceText) {
			return false
		}
	}
	return true
}

// operator says whether tokens are one operator of several characters.
func (p *braceParser) operator(i int, op string) bool {
	for n := range op {
		if !p.is(i+n, bracePunct) || p.text(i+n) != op[n:n+1] || n > 0 && p.tokens[i+n].start != p.tokens[i+n-1].end {
			return false
		}
	}
	return true
}

// closing is the bracket that closes the one at i, or -1.
func (p *braceParser) closing(i int) int {
	if i < 0 || i >= len(p.tokens) || p.tokens[i].mate < i {
		return -1
	}
	return p.tokens[i].mate
}

// split are the parts of what a bracket holds, between commas that are in no other
// bracket. A last comma begins no part.
func (p *braceParser) split(open int) (parts []span) {
	end := p.closing(open)
	from := open + 1
	for i := from; i < end; i++ {
		if p.closing(i) > 0 {
			i = p.closing(i)
		} else if p.text(i) == "," && p.is(i, bracePunct) {
			parts = append(parts, span{from, i})
			from = i + 1
		}
	}
	if from < end {
		parts = append(parts, span{from, end})
	}
	return parts
}

// at is the span of bytes of some tokens.
func (p *braceParser) bytes(s span) (start, end int) {
	return p.tokens[s.from].start, p.tokens[s.to-1].end
}
