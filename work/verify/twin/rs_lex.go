package twin

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// rsDialect is how Rust is written.
var rsDialect = braceDialect{nested: true, puncts: "(){}[];,<>+-*/%&|^!~?:=.@#$", literal: rsText}

// lexRust splits a text into tokens.
func lexRust(src string) ([]braceToken, error) {
	switch {
	case strings.HasPrefix(src, "---"):
		return nil, errors.New("it begins with frontmatter")
	case strings.HasPrefix(src, "#!") && !strings.HasPrefix(src, "#!["):
		return nil, errors.New("its first line is one for a shell")
	}
	return lexBraces(src, rsDialect)
}

// rsText reads strings, characters and lifetimes.
func rsText(src string, at int) (end int, kind braceKind, err error) {
	prefix := at
	for prefix < len(src) && prefix < at+2 && strings.IndexByte("bcr", src[prefix]) >= 0 {
		prefix++
	}
	head, rest := src[at:prefix], src[prefix:]
	raw := strings.HasSuffix(head, "r")
	switch {
	case rest == "":
		return 0, 0, nil
	case head == "cr" && (rest[0] == '"' || rest[0] == '#'):
		return 0, 0, errors.New("a raw C string, which older editions read otherwise")
	case raw && (head == "r" || head == "br") && (rest[0] == '"' || rest[0] == '#'):
		hashes := len(rest) - len(strings.TrimLeft(rest, "#"))
		if !strings.HasPrefix(rest[hashes:], `"`) {
			if head == "r" && hashes == 1 && wordRune(rest[1:]) { // a name: r#type
				return wordEnd(src, prefix+1), braceName, nil
			}
			return 0, 0, nil
		}
		size := strings.Index(rest[hashes+1:], `"`+strings.Repeat("#", hashes))
		if size < 0 {
			return 0, 0, errBraceEnd
		}
		return prefix + hashes + 1 + size + 1 + hashes, braceText, nil
	case rest[0] == '"' && (head == "" || head == "b" || head == "c"):
		return quotedEnd(src, prefix)
	case rest[0] == '\'' && (head == "" || head == "b"):
		return rsTick(src, prefix, head == "b")
	}
	return 0, 0, nil
}

// quotedEnd reads a string whose quote is at an offset.
func quotedEnd(src string, at int) (end int, kind braceKind, err error) {
	for i := at + 1; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case src[at]:
			return i + 1, braceText, nil
		}
	}
	return 0, 0, errBraceEnd
}

// rsTick reads a character or a lifetime whose quote is at an offset.
func rsTick(src string, at int, char bool) (end int, kind braceKind, err error) {
	rest := src[at+1:]
	if strings.HasPrefix(rest, `\`) {
		end, _, err := quotedEnd(src, at)
		if err == nil && (end-at > 14 || strings.ContainsRune(src[at:end], '\n')) {
			err = errBraceRune
		}
		return end, braceText, err
	}
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case size == 0 || r == '\'' || r == '\n' || r == '\r':
		return 0, 0, errBraceRune
	case strings.HasPrefix(rest[size:], "'"):
		return at + 1 + size + 1, braceText, nil
	case char || !wordRune(rest) || r >= '0' && r <= '9' || r == '$':
		return 0, 0, errBraceRune
	}
	end = wordEnd(src, at+1)
	if end < len(src) && (src[end] == '\'' || src[end] == '#') {
		return 0, 0, errBraceRune
	}
	return end, braceTick, nil
}
