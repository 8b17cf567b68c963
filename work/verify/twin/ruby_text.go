package twin

import (
	"errors"
	"strings"
)

// Texts of Ruby: strings, heredocs and what begins with a percent sign.

// rubyHeredoc is a heredoc whose text begins at the next line.
type rubyHeredoc struct {
	label            string
	indented, quoted bool
}

// heredoc passes over the text of a heredoc and the line that ends it.
func (l *rubyLexer) heredoc(h rubyHeredoc) error {
	for l.at < len(l.src) {
		end := l.lineEnd()
		line := l.src[l.at:end]
		if h.indented {
			line = strings.TrimLeft(line, " \t")
		}
		if line == h.label {
			l.at = end // its line break is the next white space
			if l.at < len(l.src) {
				l.at++
			}
			return nil
		}
		if h.quoted {
			l.at = min(end+1, len(l.src))
			continue
		}
		if err := l.interpolated(func() bool { return l.at >= end }); err != nil {
			return err
		}
		if l.at > end+1 {
			return errors.New("a heredoc whose expression takes more than a line")
		}
		l.at = min(end+1, len(l.src))
	}
	return errScriptEnd
}

// interpolated passes over a text with expressions in it, to where it ends.
func (l *rubyLexer) interpolated(ends func() bool) error {
	for l.at < len(l.src) {
		switch rest := l.src[l.at:]; {
		case ends():
			return nil
		case rest[0] == '\\':
			l.at = min(l.at+2, len(l.src))
		case strings.HasPrefix(rest, "#{"):
			l.at += 2
			if err := l.nested(l.until); err != nil {
				return err
			}
		default:
			l.at++
		}
	}
	if ends() {
		return nil
	}
	return errScriptEnd
}

// here says whether a heredoc begins here.
func (l *rubyLexer) here(literal bool) bool {
	if l.last() == "class" {
		return false
	}
	marked := l.src[l.at+2] == '~' || l.src[l.at+2] == '-'
	upper := l.src[l.at+2] == '"' || l.src[l.at+2] == '\'' || l.src[l.at+2] >= 'A' && l.src[l.at+2] <= 'Z'
	return literal && (marked || upper)
}

// delimited passes over a text to its end. A bracket that opens it is counted.
func (l *rubyLexer) delimited(open, end byte, expressions bool) error {
	depth := 0
	for l.at < len(l.src) {
		switch c := l.src[l.at]; {
		case c == '\\':
			l.at = min(l.at+2, len(l.src))
			continue
		case c == end && depth == 0:
			l.at++
			return nil
		case c == end:
			depth--
		case c == open && open != 0:
			depth++
		case c == '#' && expressions && strings.HasPrefix(l.src[l.at:], "#{"):
			l.at += 2
			if err := l.nested(l.until); err != nil {
				return err
			}
			continue
		case c == '\n' && len(l.heredocs) > 0:
			return errors.New("a string over lines beside a heredoc")
		}
		l.at++
	}
	return errScriptEnd
}

// options passes over the letters behind a regular expression.
func (l *rubyLexer) options() {
	for l.at < len(l.src) && strings.IndexByte("imxounse", l.src[l.at]) >= 0 {
		l.at++
	}
}

// percent reads a literal that begins with a percent sign.
func (l *rubyLexer) percent() error {
	start := l.at
	kind := byte('Q')
	if l.at++; scriptNameByte(l.src[l.at]) {
		kind = l.src[l.at]
		l.at++
	}
	open := l.src[l.at]
	end := open
	if i := strings.IndexByte("([{<", open); i >= 0 {
		end = ")]}>"[i]
	} else {
		open = 0
	}
	if open == 0 && end >= 0x80 {
		return errors.New("a literal that cannot be read")
	}
	l.at++
	if err := l.delimited(open, end, strings.IndexByte("QWIrx", kind) >= 0); err != nil {
		return err
	}
	if kind == 'r' {
		l.options()
		l.add(scriptPattern, start)
		return nil
	}
	l.add(scriptString, start)
	return nil
}
