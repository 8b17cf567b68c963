package twin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The lexer of JavaScript and TypeScript is written here: the parser of esbuild is
// internal to it, the one of github.com/tdewolff/parse reads no TypeScript, and what
// an editor of test files needs is less than either. It answers one question, where
// tokens and brackets are, and refuses a text in which it cannot be sure: a file that
// is refused is not controlled, and one that is misread would be edited wrongly.

// jsKind is what a token is.
type jsKind byte

const (
	jsName     jsKind = iota + 1 // identifiers and keywords
	jsNumber                     //
	jsString                     //
	jsTemplate                   // from one backtick to the other
	jsRegexp                     //
	jsMarkup                     // an element of JSX, from < to the end of its closing tag
	jsPunct                      //
)

// jsToken is one token. Of a bracket, mate is the index of the other one.
type jsToken struct {
	kind       jsKind
	start, end int
	line       bool // there is a line break in front of it
	mate       int
}

// jsDialect is what a file may hold, by its name.
type jsDialect struct{ types, markup bool }

// Bounds of a file.
const (
	maxJSSource = 2 << 20
	maxJSTokens = 500_000
	maxJSDepth  = 200 // templates and elements within each other
)

// jsLexer reads one text.
type jsLexer struct {
	jsDialect
	src    string
	at     int
	depth  int
	tokens []jsToken
	open   []int // brackets that are open
	line   bool
}

var (
	errJSEnd     = errors.New("a string, a template, a comment or a bracket has no end")
	errJSBracket = errors.New("a bracket that closes another one")
)

// lexJS splits a text into tokens.
func lexJS(src string, d jsDialect) ([]jsToken, error) {
	if len(src) > maxJSSource || !utf8.ValidString(src) {
		return nil, errors.New("it is too long, or not UTF-8")
	}
	l := &jsLexer{jsDialect: d, src: src}
	if strings.HasPrefix(src, "#!") {
		l.at = l.lineEnd()
	}
	err := l.until("")
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", 1+strings.Count(src[:min(l.at, len(src))], "\n"), err)
	}
	return l.tokens, nil
}

// until reads tokens to the bracket that closes what was open at the beginning, or
// to the end of the text.
func (l *jsLexer) until(closing string) error {
	base := len(l.open)
	for {
		if err := l.space(); err != nil {
			return err
		}
		if l.at >= len(l.src) {
			if closing != "" || len(l.open) > base {
				return errJSEnd
			}
			return nil
		}
		if closing != "" && len(l.open) == base && strings.HasPrefix(l.src[l.at:], closing) {
			return nil
		}
		if err := l.token(); err != nil {
			return err
		}
		if len(l.tokens) > maxJSTokens {
			return errors.New("it has too many tokens")
		}
	}
}

// space passes over white space and comments.
func (l *jsLexer) space() error {
	for l.at < len(l.src) {
		rest := l.src[l.at:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case strings.HasPrefix(rest, "//"):
			l.at = l.lineEnd()
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return errJSEnd
			}
			l.line = l.line || strings.ContainsAny(rest[:end+2], "\n\r\u2028\u2029")
			l.at += end + 4
		case jsBreaks(r):
			l.line = true
			l.at += size
		case unicode.IsSpace(r) || r == '\ufeff':
			l.at += size
		default:
			return nil
		}
	}
	return nil
}

func jsBreaks(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }

// lineEnd is the offset of the next line break, or the end of the text.
func (l *jsLexer) lineEnd() int {
	if i := strings.IndexFunc(l.src[l.at:], jsBreaks); i >= 0 {
		return l.at + i
	}
	return len(l.src)
}

// add appends a token that ends here.
func (l *jsLexer) add(kind jsKind, start int) {
	l.tokens = append(l.tokens, jsToken{kind: kind, start: start, end: l.at, line: l.line, mate: -1})
	l.line = false
}

// token reads one token.
func (l *jsLexer) token() error {
	start := l.at
	rest := l.src[start:]
	c := rest[0]
	switch {
	case c == '\'' || c == '"':
		if err := l.quoted(c); err != nil {
			return err
		}
		l.add(jsString, start)
	case c == '`':
		if err := l.template(); err != nil {
			return err
		}
		l.add(jsTemplate, start)
	case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		l.number()
		l.add(jsNumber, start)
	case c == '/' && l.operand():
		if err := l.regexp(); err != nil {
			return err
		}
		l.add(jsRegexp, start)
	case c == '<' && l.markup && l.operand() && l.element():
		if err := l.readElement(); err != nil {
			return err
		}
		l.add(jsMarkup, start)
	case c == '#' || jsNameRune(rest):
		if c == '#' {
			l.at++
		}
		for l.at < len(l.src) && jsNameRune(l.src[l.at:]) {
			_, size := utf8.DecodeRuneInString(l.src[l.at:])
			l.at += size
		}
		l.add(jsName, start)
	default:
		return l.punct()
	}
	return nil
}

// jsNameRune says whether a text begins with a character of a name.
func jsNameRune(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || r == '$' || r == '\u200c' || r == '\u200d' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// jsPuncts are the punctuators of more than one character, longer ones first.
var jsPuncts = strings.Fields(`>>>= ... === !== **= <<= >>= &&= ||= ??= >>> => == != <= >= && || ?? ?. ++ -- += -= *= /= %= &= |= ^= << >> **`)

// punct reads a punctuator, and matches brackets.
func (l *jsLexer) punct() error {
	start, rest := l.at, l.src[l.at:]
	if strings.HasPrefix(rest, "<!--") || l.line && strings.HasPrefix(rest, "-->") {
		return errors.New("a comment in the form of HTML")
	}
	if strings.HasPrefix(rest, "/") && l.after("}") {
		return errors.New("a slash behind a brace, which divides or begins an expression")
	}
	for _, p := range jsPuncts {
		if strings.HasPrefix(rest, p) && (p != "?." || len(rest) < 3 || rest[2] < '0' || rest[2] > '9') {
			l.at += len(p)
			l.add(jsPunct, start)
			return nil
		}
	}
	if !strings.ContainsRune("(){}[];,<>+-*/%&|^!~?:=.@", rune(rest[0])) {
		return errors.New("a character that is no part of a program")
	}
	l.at++
	l.add(jsPunct, start)
	n := len(l.tokens) - 1
	switch rest[0] {
	case '(', '[', '{':
		l.open = append(l.open, n)
	case ')', ']', '}':
		if len(l.open) == 0 {
			return errJSBracket
		}
		last := l.open[len(l.open)-1]
		if i := strings.IndexByte("([{", l.src[l.tokens[last].start]); ")]}"[i] != rest[0] {
			return errJSBracket
		}
		l.open = l.open[:len(l.open)-1]
		l.tokens[last].mate, l.tokens[n].mate = n, last
	}
	return nil
}

// after says whether the last token is a punctuator.
func (l *jsLexer) after(text string) bool {
	n := len(l.tokens)
	return n > 0 && l.tokens[n-1].kind == jsPunct && l.src[l.tokens[n-1].start:l.tokens[n-1].end] == text
}

// jsBefore are keywords that an expression follows.
var jsBefore = strings.Fields("return typeof instanceof in of new delete void throw case do else yield await default extends")

// jsControl are keywords whose parentheses are no operand.
var jsControl = []string{"if", "for", "while", "with"}

// operand says whether an expression begins here, so that a slash begins a regular
// expression. Behind a brace it is not known; see punct.
func (l *jsLexer) operand() bool { return jsOperand(l.src, l.tokens, l.types) }

func jsOperand(src string, tokens []jsToken, types bool) bool {
	n := len(tokens)
	if n == 0 {
		return true
	}
	t := tokens[n-1]
	text := src[t.start:t.end]
	member := n > 1 && slices.Contains([]string{".", "?."}, src[tokens[n-2].start:tokens[n-2].end])
	switch {
	case t.kind == jsName:
		return !member && slices.Contains(jsBefore, text)
	case t.kind != jsPunct:
		return false
	case text == ")":
		if t.mate < 1 {
			return false
		}
		before := tokens[t.mate-1]
		if t.mate > 1 && tokens[t.mate-2].kind == jsPunct && src[tokens[t.mate-2].start:tokens[t.mate-2].end] == "." {
			return false
		}
		word := src[before.start:before.end]
		if word == "await" && t.mate > 1 && src[tokens[t.mate-2].start:tokens[t.mate-2].end] == "for" {
			return true
		}
		return before.kind == jsName && slices.Contains(jsControl, word)
	case text == "!" && types && !t.line:
		return jsOperand(src, tokens[:n-1], false)
	}
	return !slices.Contains([]string{"]", "}", "++", "--"}, text)
}

// quoted reads a string.
func (l *jsLexer) quoted(quote byte) error {
	for l.at++; l.at < len(l.src); l.at++ {
		switch l.src[l.at] {
		case quote:
			l.at++
			return nil
		case '\\':
			if l.at++; strings.HasPrefix(l.src[l.at:], "\r\n") {
				l.at++
			}
		case '\n', '\r':
			return errJSEnd
		}
	}
	return errJSEnd
}

// number reads a number, or what looks like one.
func (l *jsLexer) number() {
	hex := strings.HasPrefix(l.src[l.at:], "0x") || strings.HasPrefix(l.src[l.at:], "0X")
	for ; l.at < len(l.src); l.at++ {
		c := l.src[l.at]
		exponent := !hex && (c == '+' || c == '-') && strings.ContainsRune("eE", rune(l.src[l.at-1]))
		if c != '.' && c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && !exponent {
			return
		}
	}
}

// regexp reads a regular expression.
func (l *jsLexer) regexp() error {
	class := false
	for l.at++; l.at < len(l.src); l.at++ {
		switch c := l.src[l.at]; {
		case c == '\n' || c == '\r':
			return errJSEnd
		case c == '\\':
			l.at++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			for l.at++; l.at < len(l.src) && l.src[l.at]|0x20 >= 'a' && l.src[l.at]|0x20 <= 'z'; l.at++ {
			}
			return nil
		}
	}
	return errJSEnd
}
