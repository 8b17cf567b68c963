package twin

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The lexers of PHP and Ruby answer one question, where tokens and brackets are, and
// refuse a text in which they cannot be sure: a file that is refused is not
// controlled, and one that is misread would be edited wrongly.

// scriptKind is what a token is.
type scriptKind byte

const (
	scriptName     scriptKind = iota + 1 // identifiers, keywords and constants
	scriptVariable                       // $name, @name
	scriptNumber                         //
	scriptString                         // of any form, a symbol and a heredoc's beginning too
	scriptPattern                        // a regular expression
	scriptPunct                          //
)

// scriptToken is one token. Of a bracket, mate is the index of the other one.
type scriptToken struct {
	kind       scriptKind
	start, end int
	line       bool // there is a line break in front of it
	mate       int
}

// Bounds of a file.
const (
	maxScriptSource = 2 << 20
	maxScriptTokens = 500_000
	maxScriptDepth  = 100 // strings with expressions in each other
)

var (
	errScriptEnd     = errors.New("a string, a comment or a bracket has no end")
	errScriptBracket = errors.New("a bracket that closes another one")
)

// tokenized is a text with its tokens.
type tokenized struct {
	src    string
	tokens []scriptToken
}

// text is the text of a token, "" behind the last one and in front of the first.
func (p *tokenized) text(i int) string {
	if i < 0 || i >= len(p.tokens) {
		return ""
	}
	return p.src[p.tokens[i].start:p.tokens[i].end]
}

func (p *tokenized) is(i int, kind scriptKind) bool {
	return i >= 0 && i < len(p.tokens) && p.tokens[i].kind == kind
}

// closing is the bracket that closes the one at i, or -1.
func (p *tokenized) closing(i int) int {
	if i < 0 || i >= len(p.tokens) || p.tokens[i].mate < i {
		return -1
	}
	return p.tokens[i].mate
}

// split cuts a range of tokens at a punctuator that is in no bracket.
func (p *tokenized) split(a span, at string) (out []span) {
	from := a.from
	for i := a.from; i < a.to; i++ {
		switch {
		case p.closing(i) > 0:
			i = p.closing(i)
		case p.is(i, scriptPunct) && p.text(i) == at:
			out = append(out, span{from, i})
			from = i + 1
		}
	}
	if from < a.to {
		out = append(out, span{from, a.to})
	}
	return out
}

// scriptLexer is what both lexers have in common.
type scriptLexer struct {
	tokenized
	at    int
	depth int
	open  []int // brackets that are open
	line  bool
}

// begin checks what any file has to be.
func (l *scriptLexer) begin(src string) error {
	l.src = src
	if len(src) > maxScriptSource || !utf8.ValidString(src) || strings.ContainsRune(src, 0) {
		return errors.New("it is too long, or not UTF-8")
	}
	return nil
}

// where says in which line an error is.
func (l *scriptLexer) where(err error) error {
	return fmt.Errorf("line %d: %w", 1+strings.Count(l.src[:min(l.at, len(l.src))], "\n"), err)
}

// add appends a token that ends here.
func (l *scriptLexer) add(kind scriptKind, start int) {
	l.tokens = append(l.tokens, scriptToken{kind: kind, start: start, end: l.at, line: l.line, mate: -1})
	l.line = false
}

// last is the text of the token that was read last.
func (l *scriptLexer) last() string { return l.text(len(l.tokens) - 1) }

// pair notes a bracket that opens, or closes the one that was opened last and is
// among those that it may close.
func (l *scriptLexer) pair(opens bool, closes ...string) error {
	n := len(l.tokens) - 1
	if opens {
		l.open = append(l.open, n)
		return nil
	}
	if len(l.open) == 0 {
		return errScriptBracket
	}
	last := l.open[len(l.open)-1]
	for _, text := range closes {
		if l.text(last) == text {
			l.open = l.open[:len(l.open)-1]
			l.tokens[last].mate, l.tokens[n].mate = n, last
			return nil
		}
	}
	return errScriptBracket
}

// read reads tokens to the bracket that closes what was open at the beginning, or to
// the end of the text, with what a language reads.
func (l *scriptLexer) read(closing string, space, token func() error, ended func() bool) error {
	base := len(l.open)
	for {
		if err := space(); err != nil {
			return err
		}
		if l.at >= len(l.src) || ended() {
			if closing != "" || len(l.open) > base {
				return errScriptEnd
			}
			return nil
		}
		if closing != "" && len(l.open) == base && strings.HasPrefix(l.src[l.at:], closing) {
			return nil
		}
		if err := token(); err != nil {
			return err
		}
		if len(l.tokens) > maxScriptTokens {
			return errors.New("it has too many tokens")
		}
	}
}

// nested reads an expression within a string, to the brace that closes it. Its
// tokens are not kept: nothing in it is edited.
func (l *scriptLexer) nested(until func(closing string) error) error {
	if l.depth++; l.depth > maxScriptDepth {
		return errors.New("strings are too deep within each other")
	}
	tokens, open, line := l.tokens, l.open, l.line
	l.tokens, l.open, l.line = nil, nil, false
	err := until("}")
	l.tokens, l.open, l.line = tokens, open, line
	l.depth--
	if err != nil {
		return err
	}
	l.at++
	return nil
}

// lineEnd is the offset of the next line break, or the end of the text.
func (l *scriptLexer) lineEnd() int {
	if i := strings.IndexByte(l.src[l.at:], '\n'); i >= 0 {
		return l.at + i
	}
	return len(l.src)
}

// digits passes over a number, or what looks like one.
func (l *scriptLexer) digits() {
	hex := strings.HasPrefix(l.src[l.at:], "0x") || strings.HasPrefix(l.src[l.at:], "0X")
	digit := func(i int) bool { return i < len(l.src) && l.src[i] >= '0' && l.src[i] <= '9' }
	for dot := false; l.at < len(l.src); l.at++ {
		switch c := l.src[l.at]; {
		case c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z':
		case c == '.' && !dot && !hex && digit(l.at+1):
			dot = true
		case (c == '+' || c == '-') && !hex && l.src[l.at-1]|0x20 == 'e' && digit(l.at+1):
		default:
			return
		}
	}
}

// scriptNameByte says whether a byte is one of a name.
func scriptNameByte(c byte) bool {
	return c == '_' || c >= utf8.RuneSelf || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// word passes over a name.
func (l *scriptLexer) word() {
	for l.at < len(l.src) && scriptNameByte(l.src[l.at]) {
		l.at++
	}
}
