package twin

import (
	"errors"
	"slices"
	"strings"

	"remit/proof/form"
)

// cDialect is how C and C++ are split into tokens, behind maskC.
var cDialect = braceDialect{puncts: "(){}[];,<>+-*/%&|^!~?:=.", literal: cText}

// cDirective is a line for the preprocessor, with those that it goes on in.
type cDirective struct {
	start, end int // of the text, end behind the line break
	name       string
}

// cMask is a text in which directives are blank, and line breaks behind a backslash.
type cMask struct {
	src        string
	out        []byte
	at         int
	directives []cDirective
	branches   []cBranch // of conditions that are open
}

// cBranch is a part of the text that is there under a condition: of several only the
// first is looked at, so that brackets match.
type cBranch struct{ taken, skipped bool }

// maskC blanks what is no text of the program, and keeps offsets.
func maskC(src string) (masked string, directives []cDirective, err error) {
	m := &cMask{src: src, out: []byte(src)}
	if strings.HasPrefix(src, "\ufeff") {
		m.at = len("\ufeff")
	}
	begins := true // nothing but space was in this line
	for m.at < len(src) {
		rest := src[m.at:]
		switch c := rest[0]; {
		case m.skipping() && (c != '#' || !begins):
			m.blank(m.at + 1)
			begins = begins && strings.IndexByte(" \t\r\f\v", c) >= 0 || c == '\n'
			continue
		case c == '\n':
			begins = true
			m.at++
			continue
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
			if c == '\v' {
				m.out[m.at] = ' '
			}
			m.at++
			continue
		case c == '#' && begins:
			if err := m.directive(); err != nil {
				return "", nil, err
			}
			continue
		case strings.HasPrefix(rest, "//"):
			m.blank(m.lineEnd())
			continue
		case strings.HasPrefix(rest, "/*"):
			end := commentEnd(rest, false)
			if end < 0 {
				return "", nil, errBraceEnd
			}
			m.blank(m.at + end)
			continue
		case m.broken() > 0:
			m.blank(m.at + m.broken())
			continue
		default:
			if err := m.word(); err != nil {
				return "", nil, err
			}
		}
		begins = false
	}
	return string(m.out), m.directives, nil
}

// word passes over a literal, a number or a character.
func (m *cMask) word() error {
	end, _, err := cText(m.src, m.at)
	switch {
	case err != nil:
		return err
	case end > m.at:
		m.at = end
	case m.src[m.at] >= '0' && m.src[m.at] <= '9':
		for m.at < len(m.src) && (wordRune(m.src[m.at:]) || m.src[m.at] == '\'' && m.at+1 < len(m.src) && wordRune(m.src[m.at+1:])) {
			if m.src[m.at] == '\'' { // 1'000 in C++
				m.out[m.at] = '_'
			}
			m.at++
		}
	case wordRune(m.src[m.at:]):
		m.at = wordEnd(m.src, m.at)
	default:
		m.at++
	}
	return nil
}

// broken is how long a line break behind a backslash is here, 0 where none is.
func (m *cMask) broken() int {
	for _, s := range []string{"\\\n", "\\\r\n"} {
		if strings.HasPrefix(m.src[m.at:], s) {
			return len(s)
		}
	}
	return 0
}

// blank puts spaces up to an offset, but for line breaks.
func (m *cMask) blank(to int) {
	for ; m.at < to; m.at++ {
		if m.out[m.at] != '\n' && m.out[m.at] != '\r' {
			m.out[m.at] = ' '
		}
	}
}

// lineEnd is where a line ends, and those that it goes on in.
func (m *cMask) lineEnd() int {
	i := m.at
	for i < len(m.src) {
		end := strings.IndexByte(m.src[i:], '\n')
		if end < 0 {
			return len(m.src)
		}
		if !strings.HasSuffix(strings.TrimSuffix(m.src[i:i+end], "\r"), "\\") {
			return i + end
		}
		i += end + 1
	}
	return i
}

// directive blanks a directive; a comment in it may go on in further lines.
func (m *cMask) directive() error {
	start, end := m.at, m.lineEnd()
	for i := start; i < end; {
		rest := m.src[i:]
		if text, _, err := cText(m.src, i); err == nil && text > i && text <= end {
			i = text
		} else if strings.HasPrefix(rest, "/*") {
			size := commentEnd(rest, false)
			if size < 0 {
				return errBraceEnd
			}
			i += size
			if i > end {
				m.at = i
				end = m.lineEnd()
			}
		} else if strings.HasPrefix(rest, "//") {
			break
		} else {
			i++
		}
	}
	m.at = start
	name := strings.TrimLeft(m.src[start+1:end], " \t")
	m.blank(end)
	d := cDirective{start, min(end+1, len(m.src)), name[:wordEnd(name, 0)]}
	m.directives = append(m.directives, d)
	m.branch(d.name, strings.TrimSpace(name[len(d.name):]))
	return nil
}

// branch notes which part of a condition follows.
func (m *cMask) branch(name, condition string) {
	last := len(m.branches) - 1
	switch {
	case name == "if" || name == "ifdef" || name == "ifndef":
		never := name == "if" && cNone().MatchString(condition) || name != "ifndef" && cElsewhere().MatchString(condition)
		m.branches = append(m.branches, cBranch{taken: !never, skipped: never})
	case last < 0:
	case name == "else" || strings.HasPrefix(name, "elif"):
		m.branches[last] = cBranch{taken: true, skipped: m.branches[last].taken}
	case name == "endif":
		m.branches = m.branches[:last]
	}
}

// cNone is a condition that never holds.
var cNone = form.Lazy(`^\(?0\)?\s*(?:/[*/].*)?$`)

// cElsewhere is one that holds where no run takes place.
var cElsewhere = form.Lazy(`^(?:defined\s*\(?\s*)?_*(?:WIN(?:32|64)_*|MSC_VER|APPLE_*|MINGW\w*|CYGWIN_*|FreeBSD_*|OpenBSD_*)\b`)

// skipping says whether what follows is left out.
func (m *cMask) skipping() bool {
	return slices.ContainsFunc(m.branches, func(b cBranch) bool { return b.skipped })
}

// cText reads strings and characters with what is in front of them, raw strings of C++
// among them.
func cText(src string, at int) (end int, kind braceKind, err error) {
	i := at
	for i < len(src) && i < at+3 && strings.IndexByte("LuU8R", src[i]) >= 0 {
		i++
	}
	if i >= len(src) || src[i] != '"' && src[i] != '\'' || i > at && src[at] == '8' {
		return 0, 0, nil
	}
	if i > at && src[i-1] == 'R' && src[i] == '"' {
		open := strings.IndexByte(src[i:], '(')
		if open < 0 || open > 17 {
			return 0, 0, errors.New("a raw string has no beginning")
		}
		close := strings.Index(src[i+open:], ")"+src[i+1:i+open]+`"`)
		if close < 0 {
			return 0, 0, errBraceEnd
		}
		return i + open + close + open + 1, braceText, nil
	}
	quote := src[i]
	for i++; i < len(src) && src[i] != '\n'; i++ {
		switch src[i] {
		case '\\':
			if strings.HasPrefix(src[i:], "\\\r\n") {
				i++
			}
			i++
		case quote:
			return i + 1, braceText, nil
		}
	}
	return 0, 0, errBraceEnd
}
