package twin

import (
	"errors"
	"regexp"
	"strings"

	"remit/proof/form"
)

// phpLexer reads one text of PHP.
type phpLexer struct {
	scriptLexer
	ended bool // by ?>, behind which is nothing
}

// lexPHP splits a text into tokens.
func lexPHP(src string) (*phpLexer, error) {
	l := &phpLexer{}
	if err := l.begin(src); err != nil {
		return nil, err
	}
	open := phpOpen().FindString(src)
	if open == "" {
		return nil, errors.New("it does not begin with <?php")
	}
	l.at = len(open)
	if err := l.until(""); err != nil {
		return nil, l.where(err)
	}
	return l, nil
}

var phpOpen = form.Lazy(`^(?:#![^\n]*\n)?<\?php(?:[ \t\r\n]|$)`)

// until reads tokens to a closing bracket, or to the end of the text.
func (l *phpLexer) until(closing string) error {
	return l.read(closing, l.space, l.token, func() bool { return l.ended })
}

// space passes over white space and comments.
func (l *phpLexer) space() error {
	for l.at < len(l.src) {
		rest := l.src[l.at:]
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "//"), c == '#' && !strings.HasPrefix(rest, "#["):
			end := l.lineEnd()
			if i := strings.Index(l.src[l.at:end], "?>"); i >= 0 {
				end = l.at + i
			}
			if strings.Contains(strings.TrimSuffix(l.src[l.at:end], "\r"), "\r") {
				return errors.New("a carriage return ends a comment")
			}
			l.at = end
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return errScriptEnd
			}
			l.line = l.line || strings.Contains(rest[:end+2], "\n")
			l.at += end + 4
		case strings.HasPrefix(rest, "?>"):
			if strings.TrimSpace(rest[2:]) != "" || l.depth > 0 {
				return errors.New("it has text that is not PHP")
			}
			l.ended = true
			return nil
		case c == '\n':
			l.line = true
			l.at++
		case c == ' ' || c == '\t' || c == '\r':
			l.at++
		default:
			return nil
		}
	}
	return nil
}

// phpPuncts are the punctuators of more than one character, longer ones first.
var phpPuncts = strings.Fields(`<<= >>= **= ??= === !== <=> ... ?-> -> => :: ++ -- += -= *= /= .= %= &= |= ^= && || ?? << >> ** == != <> <= >= #[`)

// token reads one token.
func (l *phpLexer) token() error {
	start, rest := l.at, l.src[l.at:]
	c := rest[0]
	switch {
	case c == '\'':
		end := phpSingle().FindString(rest)
		if end == "" {
			return errScriptEnd
		}
		l.at += len(end)
		l.add(scriptString, start)
	case c == '"' || c == '`':
		l.at++
		if err := l.interpolated(func() bool { return l.src[l.at] == c }); err != nil {
			return err
		}
		l.at++
		l.add(scriptString, start)
	case strings.HasPrefix(rest, "<<<"):
		if err := l.heredoc(); err != nil {
			return err
		}
		l.add(scriptString, start)
	case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		l.digits()
		l.add(scriptNumber, start)
	case c == '$' && len(rest) > 1 && scriptNameByte(rest[1]) && (rest[1] < '0' || rest[1] > '9'):
		l.at++
		l.word()
		l.add(scriptVariable, start)
	case scriptNameByte(c) || c == '\\':
		for l.at < len(l.src) && (scriptNameByte(l.src[l.at]) || l.src[l.at] == '\\') {
			l.at++
		}
		l.add(scriptName, start)
		if strings.EqualFold(l.src[start:l.at], "__halt_compiler") {
			return errors.New("it ends its own source")
		}
	default:
		return l.punct()
	}
	return nil
}

var phpSingle = form.Lazy(`^'(?:[^'\\]|(?s:\\.))*'`)

// punct reads a punctuator, and matches brackets.
func (l *phpLexer) punct() error {
	start, rest := l.at, l.src[l.at:]
	l.at++
	for _, p := range phpPuncts {
		if strings.HasPrefix(rest, p) {
			l.at = start + len(p)
			break
		}
	}
	if l.at == start+1 && !strings.ContainsRune("(){}[];,<>+-*/%&|^!~?:=.@$", rune(rest[0])) {
		return errors.New("a character that is no part of a program")
	}
	l.add(scriptPunct, start)
	switch l.last() {
	case "(", "[", "{", "#[":
		return l.pair(true)
	case ")":
		return l.pair(false, "(")
	case "]":
		return l.pair(false, "[", "#[")
	case "}":
		return l.pair(false, "{")
	}
	return nil
}

// interpolated passes over a text with expressions in it, to where it ends.
func (l *phpLexer) interpolated(ends func() bool) error {
	for l.at < len(l.src) {
		rest := l.src[l.at:]
		switch {
		case ends():
			return nil
		case rest[0] == '\\':
			l.at += 2
		case strings.HasPrefix(rest, "{$"), strings.HasPrefix(rest, "${"):
			l.at += 1 + strings.IndexByte(rest[:2], '{')
			if err := l.nested(l.until); err != nil {
				return err
			}
		default:
			l.at++
		}
	}
	return errScriptEnd
}

var phpHeredoc = form.Lazy(`^<<<[ \t]*(?:"([A-Za-z_][A-Za-z0-9_]*)"|'([A-Za-z_][A-Za-z0-9_]*)'|([A-Za-z_][A-Za-z0-9_]*))\r?\n`)

// heredoc reads a heredoc or a nowdoc: to the first line that begins with its label.
func (l *phpLexer) heredoc() error {
	m := phpHeredoc().FindStringSubmatch(l.src[l.at:])
	if m == nil || l.depth > 0 {
		return errors.New("a heredoc that cannot be read")
	}
	label := m[1] + m[2] + m[3]
	body := l.at + len(m[0])
	at := regexp.MustCompile(`(?m)^[ \t]*` + label + `(?:[^A-Za-z0-9_\x{80}-\x{10ffff}]|$)`).FindStringIndex(l.src[body:])
	if at == nil {
		return errScriptEnd
	}
	end := body + at[0] + strings.Index(l.src[body+at[0]:], label)
	l.at = body
	if m[2] == "" { // an expression that goes over the end was misread
		if err := l.interpolated(func() bool { return l.at >= body+at[0] }); err != nil {
			return err
		}
		if l.at > max(body+at[0], body) {
			return errors.New("a heredoc that cannot be read")
		}
	}
	l.at = end + len(label)
	return nil
}
