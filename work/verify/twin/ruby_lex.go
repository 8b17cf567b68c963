package twin

import (
	"errors"
	"slices"
	"strings"

	"remit/proof/form"
)

// rubyLexer reads one text of Ruby.
type rubyLexer struct {
	scriptLexer
	heredocs []rubyHeredoc
	names    map[string]bool // variables that get a value somewhere
	end      int             // where the program ends
}

// lexRuby splits a text into tokens.
func lexRuby(src string) (*rubyLexer, error) {
	l := &rubyLexer{names: map[string]bool{}}
	if err := l.begin(src); err != nil {
		return nil, err
	}
	if strings.Contains(src, "\r") {
		return nil, errors.New("it has carriage returns")
	}
	l.end = len(src)
	if at := rubyEnd().FindStringIndex(src); at != nil {
		l.end = at[0]
	}
	l.src = src[:l.end]
	for _, m := range rubyAssigned().FindAllStringSubmatch(l.src, -1) {
		for name := range strings.FieldsFuncSeq(m[1]+m[2]+m[3], func(r rune) bool { return strings.ContainsRune(", *&:()|", r) }) {
			l.names[name] = true
		}
	}
	err := l.until("")
	if err == nil && len(l.heredocs) > 0 {
		err = errScriptEnd
	}
	if err != nil {
		return nil, l.where(err)
	}
	l.src = src
	return l, nil
}

var (
	rubyEnd      = form.Lazy(`(?m)^__END__$`)
	rubyAssigned = form.Lazy(`([a-z_]\w*(?:\s*,\s*\*?[a-z_]\w*)*)\s*(?:[-+*/|&]|\|\||&&|<<)?=|\|([^|\n]*)\||def\s+[\w.?!]+\(([^)]*)\)`)
)

// until reads tokens to a closing bracket, or to the end of the text.
func (l *rubyLexer) until(closing string) error {
	return l.read(closing, l.space, l.token, func() bool { return false })
}

// space passes over white space, comments and the texts of heredocs.
func (l *rubyLexer) space() error {
	for l.at < len(l.src) {
		rest := l.src[l.at:]
		switch c := rest[0]; {
		case c == '#':
			l.at = l.lineEnd()
		case strings.HasPrefix(rest, "\\\n"):
			l.at += 2
		case c == '\n':
			l.at++
			l.line = true
			if l.depth > 0 && len(l.heredocs) > 0 {
				return errors.New("a heredoc within a string")
			}
			for _, h := range l.heredocs {
				if err := l.heredoc(h); err != nil {
					return err
				}
			}
			l.heredocs = nil
			if strings.HasPrefix(l.src[l.at:], "=begin") {
				at := rubyComment().FindStringIndex(l.src[l.at:])
				if at == nil {
					return errScriptEnd
				}
				l.at += at[1]
			}
		case c == ' ' || c == '\t':
			l.at++
		default:
			return nil
		}
	}
	return nil
}

var rubyComment = form.Lazy(`(?m)^=end\b.*$`)

// Words by what follows them: an expression, or nothing that belongs to them.
var (
	rubyBefore   = strings.Fields("if unless while until and or not return when in then do else elsif case begin ensure rescue yield break next super defined? puts p raise")
	rubyClosed   = strings.Fields("self nil true false end redo retry __FILE__ __LINE__ __method__")
	rubyOpens    = strings.Fields("do begin def class module case for if unless while until")
	rubyModified = strings.Fields("if unless while until")
	rubyJumps    = strings.Fields("return break next redo retry raise yield super")
)

// operand says whether an expression begins here for sure, and sure is false where
// the last token may be a method without parentheses.
func (l *rubyLexer) operand() (begins, sure bool) {
	n := len(l.tokens)
	if n == 0 || l.line {
		return true, true
	}
	text := l.last()
	switch l.tokens[n-1].kind {
	case scriptName:
		if l.member(n-1) || l.text(n-2) == "def" {
			return false, false
		}
		switch {
		case l.names[text]:
			return false, true
		case slices.Contains(rubyBefore, text), strings.HasSuffix(text, ":"):
			return true, true
		case slices.Contains(rubyClosed, text), text[0] >= 'A' && text[0] <= 'Z':
			return false, true
		}
		return false, false
	case scriptPunct:
		return !slices.Contains([]string{")", "]", "}"}, text), true
	}
	return false, true
}

// member says whether a token stands behind a dot.
func (l *rubyLexer) member(i int) bool { return l.text(i-1) == "." || l.text(i-1) == "&." }

// rubyPuncts are the punctuators of more than one character, longer ones first.
var rubyPuncts = strings.Fields(`**= <=> === ... <<= >>= &&= ||= ** == != >= <= && || =~ !~ += -= *= /= %= &= |= ^= << >> .. :: -> => &.`)

// token reads one token.
func (l *rubyLexer) token() error {
	start, rest := l.at, l.src[l.at:]
	c := rest[0]
	begins, sure := l.operand()
	// Behind a method without parentheses what has a space in front of it and none
	// behind it is taken for an argument.
	next := byte(0)
	if len(rest) > 1 {
		next = rest[1]
	}
	argument := !sure && !begins && start > 0 && strings.IndexByte(" \t", l.src[start-1]) >= 0 && next != ' ' && next != '=' && next != '\n'
	literal := begins || argument
	switch {
	case c == '"' || c == '`', c == '\'':
		l.at++
		if err := l.delimited(0, c, c != '\''); err != nil {
			return err
		}
		if l.at < len(l.src) && l.src[l.at] == ':' && !strings.HasPrefix(l.src[l.at:], "::") && c != '`' && l.last() != "?" {
			l.at++ // a key
			l.add(scriptName, start)
			return nil
		}
		l.add(scriptString, start)
	case c == '/' && literal:
		l.at++
		if err := l.delimited(0, '/', true); err != nil {
			return err
		}
		l.options()
		l.add(scriptPattern, start)
	case c == '%' && literal && rubyPercent().MatchString(rest):
		return l.percent()
	case c == '?' && literal && rubyChar().MatchString(rest):
		l.at += len(rubyChar().FindStringSubmatch(rest)[1])
		l.add(scriptString, start)
	case strings.HasPrefix(rest, "<<") && rubyHere().MatchString(rest) && l.here(literal):
		m := rubyHere().FindStringSubmatch(rest)
		l.heredocs = append(l.heredocs, rubyHeredoc{m[2] + m[3] + m[4], m[1] != "", m[3] != ""})
		l.at += len(m[0])
		l.add(scriptString, start)
	case c == ':' && next == '"':
		l.at += 2
		if err := l.delimited(0, '"', true); err != nil {
			return err
		}
		l.add(scriptString, start)
	case c == ':' && next == '`' && (start == 0 || l.src[start-1] != ':'):
		l.at += 2 // the method that does what stands in backquotes
		l.add(scriptString, start)
	case c == ':' && rubySymbol().MatchString(rest) && (start == 0 || l.src[start-1] != ':'):
		l.at += len(rubySymbol().FindString(rest))
		l.add(scriptString, start)
	case c >= '0' && c <= '9':
		l.digits()
		l.add(scriptNumber, start)
	case c == '@' || c == '$':
		m := rubyVariable().FindString(rest)
		if m == "" {
			return errors.New("a character that is no part of a program")
		}
		l.at += len(m)
		l.add(scriptVariable, start)
	case scriptNameByte(c):
		return l.name()
	default:
		return l.punct()
	}
	return nil
}

var (
	rubyPercent  = form.Lazy(`^%(?:[wWiIqQrsx][^\sA-Za-z0-9]|[(\[{<|!/])`)
	rubyChar     = form.Lazy(`^(\?(?:\\.|[^\s\\]))(?:[^A-Za-z0-9_]|$)`)
	rubyHere     = form.Lazy(`^<<([-~]?)(?:"([A-Za-z_]\w*)"|'([A-Za-z_]\w*)'|([A-Z_a-z]\w*))`)
	rubySymbol   = form.Lazy(`^:(?:[A-Za-z_\x{80}-\x{10ffff}][\w\x{80}-\x{10ffff}]*[?!=]?|\[\]=?|<=>|===?|=~|\*\*|[+-]@|<<|>>|<=|>=|!=|[-+*/%<>!~^&|])`)
	rubyVariable = form.Lazy(`^(?:@@?[A-Za-z_\x{80}-\x{10ffff}][\w\x{80}-\x{10ffff}]*|\$(?:[A-Za-z_]\w*|-\w|[0-9]+|[~*$?!@/\\;,.=:<>"&` + "`'+]))")
)

// name reads a name, a keyword or a key.
func (l *rubyLexer) name() error {
	start := l.at
	l.word()
	rest := l.src[l.at:]
	if rest != "" && (rest[0] == '?' || rest[0] == '!') && (len(rest) < 2 || rest[1] != '=' || strings.HasPrefix(rest[1:], "==") || strings.HasPrefix(rest[1:], "=~")) {
		l.at++
		rest = rest[1:]
	}
	n := len(l.tokens)
	member, word := l.member(n), l.src[start:l.at]
	if strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "::") && l.last() != "?" && (!member || n <= 0) {
		l.at++ // a key
		l.add(scriptName, start)
		return nil
	}
	if l.last() == "def" && n > 0 && !l.member(n-1) || l.last() == "alias" || l.last() == "undef" {
		l.add(scriptName, start)
		return nil
	}
	begins, _ := l.operand()
	modifies := slices.Contains(rubyModified, word) && (!begins || n > 0 && !l.line && slices.Contains(rubyJumps, l.last()))
	opens := slices.Contains(rubyOpens, word) && !member && !modifies
	if word == "do" && opens && l.loops() {
		opens = false
	}
	if word == "def" && opens && l.endless() {
		opens = false
	}
	if word == "BEGIN" || word == "END" && !member {
		return errors.New("a block that runs at the beginning or the end")
	}
	l.add(scriptName, start)
	switch {
	case opens:
		return l.pair(true)
	case word == "end" && !member:
		return l.pair(false, rubyOpens...)
	}
	return nil
}

// loops says whether a "do" belongs to the loop in front of it in its line.
func (l *rubyLexer) loops() bool {
	if len(l.open) == 0 {
		return false
	}
	at := l.open[len(l.open)-1]
	if !slices.Contains([]string{"while", "until", "for"}, l.text(at)) {
		return false
	}
	for _, t := range l.tokens[at+1:] {
		if t.line {
			return false
		}
	}
	return !l.line
}

// rubyEndless is a method that is one expression.
var rubyEndless = form.Lazy(`^[ \t]+(?:self\.)?(?:[A-Za-z_\x{80}-\x{10ffff}][\w\x{80}-\x{10ffff}]*[?!]?|\[\]|[-+*/%<>=!~^&|]+)(?:\([^()\n]*\)[ \t]*|[ \t]+)=[ \t\n]`)

// endless says whether a method without an end begins behind a "def".
func (l *rubyLexer) endless() bool { return rubyEndless().MatchString(l.src[l.at:]) }

// punct reads a punctuator, and matches brackets.
func (l *rubyLexer) punct() error {
	start, rest := l.at, l.src[l.at:]
	l.at++
	for _, p := range rubyPuncts {
		if strings.HasPrefix(rest, p) {
			l.at = start + len(p)
			break
		}
	}
	if l.at == start+1 && !strings.ContainsRune("(){}[];,<>+-*/%&|^!~?:=.", rune(rest[0])) {
		return errors.New("a character that is no part of a program")
	}
	if n := len(l.tokens); n > 0 && l.last() == "def" && !l.member(n-1) { // an operator's own name
		if m := rubySymbol().FindString(":" + rest); m != "" {
			l.at = start + len(m) - 1
		}
		l.add(scriptName, start)
		return nil
	}
	l.add(scriptPunct, start)
	switch l.last() {
	case "(", "[", "{":
		return l.pair(true)
	case ")":
		return l.pair(false, "(")
	case "]":
		return l.pair(false, "[")
	case "}":
		return l.pair(false, "{")
	}
	return nil
}
