package twin

import (
	"errors"
	"strings"
)

// nested reads an expression within a template or an element, to the brace that
// closes it. Its tokens are not kept: nothing in it is edited.
func (l *jsLexer) nested() error {
	if l.depth++; l.depth > maxJSDepth {
		return errors.New("templates or elements are too deep within each other")
	}
	tokens, open, line := l.tokens, l.open, l.line
	l.tokens, l.open = nil, nil
	err := l.until("}")
	count := len(l.tokens)
	l.tokens, l.open, l.line = tokens, open, line
	l.depth--
	if err != nil {
		return err
	}
	if count > maxJSTokens {
		return errors.New("it has too many tokens")
	}
	l.at++
	return nil
}

// template reads a template, from one backtick to the other.
func (l *jsLexer) template() error {
	for l.at++; l.at < len(l.src); {
		switch rest := l.src[l.at:]; {
		case rest[0] == '`':
			l.at++
			return nil
		case rest[0] == '\\':
			l.at += 2
		case strings.HasPrefix(rest, "${"):
			l.at += 2
			if err := l.nested(); err != nil {
				return err
			}
		default:
			l.at++
		}
	}
	return errJSEnd
}

// element says whether an element of JSX begins here, and not a type: behind the
// angle is a name or its end, and in TypeScript no list of type parameters.
func (l *jsLexer) element() bool {
	rest := strings.TrimLeft(l.src[l.at+1:], " \t\r\n")
	if rest == "" {
		return false
	}
	if rest[0] == '>' {
		return true
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return !jsTagRune(r) })
	if end <= 0 {
		return false
	}
	behind := strings.TrimLeft(rest[end:], " \t\r\n")
	return !l.types || !strings.HasPrefix(behind, ",") && !strings.HasPrefix(behind, "extends ") && !strings.HasPrefix(behind, "=")
}

func jsTagRune(r rune) bool {
	return r == '_' || r == '$' || r == '-' || r == '.' || r == ':' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' || r >= 0x80
}

// readElement reads an element of JSX with its children. The children are read in
// one loop: how deep they are is counted, since names of tags that do not match are
// an error of the program and not one of the reader.
func (l *jsLexer) readElement() error {
	open := 0
	for {
		closes, empty, err := l.tag()
		switch {
		case err != nil:
			return err
		case closes:
			open--
		case !empty:
			open++
		}
		if open <= 0 {
			if open < 0 {
				return errJSBracket
			}
			return nil
		}
		if err := l.children(); err != nil {
			return err
		}
	}
}

// children reads text and expressions up to the next tag.
func (l *jsLexer) children() error {
	for l.at < len(l.src) {
		switch l.src[l.at] {
		case '<':
			return nil
		case '{':
			l.at++
			if err := l.nested(); err != nil {
				return err
			}
		case '}', '>':
			return errors.New("a bracket in the text of an element")
		default:
			l.at++
		}
	}
	return errJSEnd
}

// tag reads one tag, from < to >.
func (l *jsLexer) tag() (closes, empty bool, err error) {
	l.at++
	for first := true; ; first = false {
		if err := l.space(); err != nil {
			return false, false, err
		}
		if l.at >= len(l.src) {
			return false, false, errJSEnd
		}
		switch c := l.src[l.at]; {
		case c == '>':
			l.at++
			return closes, empty, nil
		case c == '/':
			closes, empty = first, !first
			l.at++
		case c == '{':
			l.at++
			if err := l.nested(); err != nil {
				return false, false, err
			}
		case c == '"' || c == '\'': // without escapes, over several lines
			end := strings.IndexByte(l.src[l.at+1:], c)
			if end < 0 {
				return false, false, errJSEnd
			}
			l.at += end + 2
		case c == '=' || jsTagRune(rune(c)):
			l.at++
		default:
			return false, false, errors.New("an element of another form than JSX has")
		}
	}
}
