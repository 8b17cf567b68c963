package depend

import (
	"fmt"
	"strconv"
	"strings"
)

// The lock files of pnpm and of yarn from 2 on are YAML that a program wrote:
// mappings and lists by indentation, texts in one line, and short collections in
// braces. That is all that is read here. Anchors and aliases, tags, several
// documents and keys of several lines are errors, so that nothing grows when it is
// read and no two readers can understand it differently.

// Bounds on such a file.
const (
	maxLockDepth = 24
	maxLockLines = 2_000_000
)

// lockMap is a mapping: of texts (string), mappings and lists ([]any). What has no
// value is nil; true and false without quotes are bool.
type lockMap = map[string]any

type lockLine struct {
	number, indent int
	text           string
}

type lockLines struct {
	lines []lockLine
	at    int
}

// readLockYAML reads the mapping of a lock file.
func readLockYAML(text []byte) (lockMap, error) {
	p := &lockLines{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		rest := strings.TrimLeft(line, " ")
		switch {
		case rest == "" || rest[0] == '#' || line == "---" && len(p.lines) == 0:
			continue
		case strings.ContainsAny(line, "\t\x00") || number > maxLockLines:
			return nil, fmt.Errorf("line %d has a tab or a NUL, or there are too many lines", number)
		case line == "---" || line == "..." || rest[0] == '%':
			return nil, fmt.Errorf("line %d begins another document", number)
		}
		p.lines = append(p.lines, lockLine{number, len(line) - len(rest), rest})
	}
	if len(p.lines) == 0 {
		return nil, fmt.Errorf("it is empty")
	}
	v, err := p.block(0, 0)
	if err != nil {
		return nil, err
	}
	if p.at < len(p.lines) {
		return nil, fmt.Errorf("line %d is not indented as those before", p.lines[p.at].number)
	}
	m, ok := v.(lockMap)
	if !ok {
		return nil, fmt.Errorf("line %d is no mapping", p.lines[0].number)
	}
	return m, nil
}

// block reads the mapping or list whose lines have this indentation.
func (p *lockLines) block(indent, depth int) (any, error) {
	l := p.lines[p.at]
	if depth > maxLockDepth || l.indent != indent {
		return nil, fmt.Errorf("line %d nests too deep, or is not indented as those before", l.number)
	}
	if l.text == "-" || strings.HasPrefix(l.text, "- ") {
		return p.list(indent)
	}
	out := lockMap{}
	for p.at < len(p.lines) && p.lines[p.at].indent == indent {
		l := p.lines[p.at]
		key, rest, err := cutKey(l.text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("line %d has the key %.100q a second time", l.number, key)
		}
		p.at++
		if out[key], err = p.value(rest, l, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// value reads what stands behind a key: in its line, or in those below.
func (p *lockLines) value(rest string, l lockLine, depth int) (any, error) {
	if rest != "" && strings.Trim(rest, "|>-+0123456789") == "" && (rest[0] == '|' || rest[0] == '>') {
		for p.at < len(p.lines) && p.lines[p.at].indent > l.indent {
			p.at++ // a text of several lines is a remark of a package's author
		}
		return "", nil
	}
	if rest != "" {
		f := &flow{text: rest}
		v, err := f.value(0, "")
		if err == nil && f.rest() != "" {
			err = fmt.Errorf("%.50q stands behind a value", f.rest())
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		return v, nil
	}
	if p.at == len(p.lines) {
		return nil, nil
	}
	switch next := p.lines[p.at]; {
	case next.indent > l.indent:
		return p.block(next.indent, depth+1)
	case next.indent == l.indent && strings.HasPrefix(next.text, "- "):
		return p.list(l.indent)
	}
	return nil, nil
}

// list reads texts, one in a line.
func (p *lockLines) list(indent int) ([]any, error) {
	var out []any
	for p.at < len(p.lines) && p.lines[p.at].indent == indent && strings.HasPrefix(p.lines[p.at].text, "- ") {
		l := p.lines[p.at]
		p.at++
		f := &flow{text: strings.TrimSpace(l.text[2:])}
		v, err := f.value(0, "")
		if err == nil && f.rest() != "" {
			err = fmt.Errorf("%.50q stands behind a value", f.rest())
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("line %d is no entry of a list", p.lines[p.at].number)
	}
	return out, nil
}

// cutKey splits a line at the colon behind its key.
func cutKey(line string) (key, rest string, err error) {
	f := &flow{text: line}
	if key, err = f.scalar(":"); err != nil {
		return "", "", err
	}
	rest = f.rest()
	if !strings.HasPrefix(rest, ":") || len(rest) > 1 && rest[1] != ' ' || key == "" {
		return "", "", fmt.Errorf("%.50q is no key with a colon", line)
	}
	return key, strings.TrimSpace(rest[1:]), nil
}

// flow reads a value within one line.
type flow struct {
	text string
	at   int
}

func (f *flow) rest() string { return strings.TrimLeft(f.text[min(f.at, len(f.text)):], " ") }

// value reads a text, or a collection in braces or brackets. ends are the characters
// that end a text without quotes.
func (f *flow) value(depth int, ends string) (any, error) {
	f.at = len(f.text) - len(f.rest())
	switch {
	case depth > maxLockDepth:
		return nil, fmt.Errorf("braces nest deeper than %d", maxLockDepth)
	case strings.HasPrefix(f.rest(), "{"):
		return f.braces(depth)
	case strings.HasPrefix(f.rest(), "["):
		return f.brackets(depth)
	}
	quoted := strings.HasPrefix(f.rest(), "'") || strings.HasPrefix(f.rest(), `"`)
	text, err := f.scalar(ends)
	switch {
	case err != nil || quoted:
	case text == "true" || text == "false":
		return text == "true", nil
	case text == "null" || text == "~" || text == "":
		return nil, nil
	}
	return text, err
}

func (f *flow) braces(depth int) (any, error) {
	out := lockMap{}
	for f.at++; ; f.at++ {
		f.at = len(f.text) - len(f.rest())
		if len(out) == 0 && f.peek() == '}' {
			break
		}
		key, err := f.scalar(":")
		if err != nil {
			return nil, err
		}
		if f.at = len(f.text) - len(f.rest()); f.peek() != ':' {
			return nil, fmt.Errorf("%.50q is no key with a colon", key)
		}
		f.at++
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("it has the key %.100q a second time", key)
		}
		if out[key], err = f.value(depth+1, ",}]"); err != nil {
			return nil, err
		}
		if f.at = len(f.text) - len(f.rest()); f.peek() != ',' {
			break
		}
	}
	if f.peek() != '}' {
		return nil, fmt.Errorf("a brace is not closed in its line")
	}
	f.at++
	return out, nil
}

func (f *flow) brackets(depth int) (any, error) {
	out := []any{}
	for f.at++; ; f.at++ {
		f.at = len(f.text) - len(f.rest())
		if len(out) == 0 && f.peek() == ']' {
			break
		}
		v, err := f.value(depth+1, ",}]")
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if f.at = len(f.text) - len(f.rest()); f.peek() != ',' {
			break
		}
	}
	if f.peek() != ']' {
		return nil, fmt.Errorf("a bracket is not closed in its line")
	}
	f.at++
	return out, nil
}

func (f *flow) peek() byte {
	if f.at < len(f.text) {
		return f.text[f.at]
	}
	return 0
}

// scalar reads a text up to one of the characters; a colon ends it only before a
// space or the end.
func (f *flow) scalar(ends string) (string, error) {
	rest := f.text[f.at:]
	switch {
	case rest == "":
		return "", nil
	case rest[0] == '\'':
		return f.single(rest)
	case rest[0] == '"':
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", fmt.Errorf("%.50q is no text in quotes", rest)
		}
		f.at += len(quoted)
		return strconv.Unquote(quoted)
	case strings.ContainsRune("&*!|>%@`?", rune(rest[0])) && (rest[0] != '?' || len(rest) == 1 || rest[1] == ' '):
		return "", fmt.Errorf("%.50q is an alias, a tag or another thing that no lock file needs", rest)
	}
	end := len(rest)
	for i := range len(rest) {
		colon := rest[i] == ':' && (i+1 == len(rest) || rest[i+1] == ' ')
		if strings.IndexByte(ends, rest[i]) >= 0 && (rest[i] != ':' || colon) {
			end = i
			break
		}
		if colon || rest[i] == '#' && i > 0 && rest[i-1] == ' ' {
			return "", fmt.Errorf("%.50q has a second key, or a remark", rest)
		}
	}
	f.at += end
	return strings.TrimRight(rest[:end], " "), nil
}

func (f *flow) single(rest string) (string, error) {
	for i := 1; i < len(rest); i++ {
		if rest[i] != '\'' {
			continue
		}
		if i+1 < len(rest) && rest[i+1] == '\'' {
			i++
			continue
		}
		f.at += i + 1
		return strings.ReplaceAll(rest[1:i], "''", "'"), nil
	}
	return "", fmt.Errorf("%.50q is not closed in its line", rest)
}
