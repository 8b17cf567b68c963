package twin

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// Names under which runners have tests and groups of tests.
var (
	jsTestNames  = strings.Fields("test it specify fit xit xtest xspecify")
	jsGroupNames = strings.Fields("describe suite context fdescribe xdescribe xcontext")
	jsModifiers  = strings.Fields("only skip todo ignore concurrent sequential serial failing fails each for runIf skipIf shuffle")
	jsSkips      = strings.Fields("skip todo ignore")
)

// span is a range of tokens: of an argument, of a body.
type span struct{ from, to int }

// arguments are the arguments of a call, by the parenthesis that opens them. ok is
// false where a comma may belong to a type.
func (p *jsParser) arguments(paren int) (args []span, ok bool) {
	end := p.closing(paren)
	if end < 0 {
		return nil, false
	}
	from, types := paren+1, 0
	for i := from; i < end; i++ {
		switch text := p.text(i); {
		case p.closing(i) > 0:
			i = p.closing(i)
		case !p.is(i, jsPunct):
		case text == "<" && p.file.types:
			types++
		case strings.Trim(text, ">") == "" && types > 0:
			types -= len(text)
		case text == "," && types > 0:
			return nil, false
		case text == ",":
			args = append(args, span{from, i})
			from = i + 1
		}
	}
	if from < end {
		args = append(args, span{from, end})
	}
	for _, a := range args {
		if a.from == a.to || p.text(a.from) == "..." {
			return nil, false
		}
	}
	return args, true
}

// jsCall is a call that makes a test or a group.
type jsCall struct {
	paren     int
	table     int // the parenthesis of the table of .each, 0 if there is none
	each      bool
	why       string // why its tests say nothing
	group     bool
	anyMember bool
	deno      bool // Deno.test
}

// callAt reads a call of a runner up to its parenthesis.
func (p *jsParser) callAt(i int) (c jsCall, ok bool) {
	if !p.is(i, jsName) {
		return c, false
	}
	name := p.text(i)
	c.anyMember = p.member(i)
	if original, imported := p.makers[name]; imported && !c.anyMember {
		name = original
	}
	if c.anyMember && name == "test" && p.text(i-1) == "." && p.text(i-2) == "Deno" && !p.member(i-2) {
		c.anyMember, c.deno = false, true
	}
	c.group = slices.Contains(jsGroupNames, name)
	if !c.group && !slices.Contains(jsTestNames, name) {
		return c, false
	}
	if name[0] == 'x' {
		c.why = "it is skipped"
	}
	j := i + 1
	for p.text(j) == "." && p.is(j+1, jsName) && slices.Contains(jsModifiers, p.text(j+1)) {
		word := p.text(j + 1)
		j += 2
		if slices.Contains(jsSkips, word) {
			c.why = "it is skipped"
		}
		switch word {
		case "failing", "fails":
			c.why = "it is expected to fail"
		case "each", "for", "runIf", "skipIf":
			c.each = c.each || word == "each" || word == "for"
			if word == "each" && p.text(j) == "(" {
				c.table = j
			}
			if p.is(j, jsTemplate) {
				j++
				continue
			}
			if p.text(j) != "(" || p.closing(j) < 0 {
				return c, false
			}
			j = p.closing(j) + 1
		}
	}
	c.paren = j
	return c, p.text(j) == "(" && p.is(j, jsPunct) && p.closing(j) > 0
}

// testAt notes the test or the group that begins at a token. For a test it returns
// the token at which it ends: what is made within it belongs to it.
func (p *jsParser) testAt(i int) (end int) {
	c, ok := p.callAt(i)
	if !ok {
		return -1
	}
	end = p.closing(c.paren)
	if next := p.text(end + 1); next == "{" || next == ":" && !p.tokens[end+1].line { // a method of this name
		return -1
	}
	args, ok := p.arguments(c.paren)
	if !ok || len(args) == 0 {
		return -1
	}
	title := []string{"", ""}
	if p.is(args[0].from, jsString) || p.is(args[0].from, jsTemplate) {
		title = p.title(args[0], c.each)
	} else if deno, rest := p.denoTest(c, args); deno != nil {
		title, args = deno, rest
	} else if c.anyMember || len(args) < 2 {
		return -1
	}
	if c.anyMember && len(args) < 2 { // such as /x/.test("text")
		return -1
	}
	why := c.why
	if n := len(p.groups); n > 0 {
		title = jsTitles(p.groups[n-1].title, title)
		if p.groups[n-1].why != "" {
			why = p.groups[n-1].why
		}
	}
	if c.group {
		p.groups = append(p.groups, jsGroup{end, title, why})
		return -1
	}
	t := jsTest{Test: Test{Title: title, Line: p.file.line(p.tokens[i].start), Why: why}}
	if p.skipped(args) && why == "" {
		t.Why = "it is skipped"
	}
	if t.Why == "" {
		p.test(&t, c, args)
	}
	p.found = append(p.found, t)
	return end
}

// denoTest reads a test without a title in front of it, as Deno takes one: a function whose
// name is its title, or an object. It returns the title, nil where there is none, and the
// arguments with the function of an object behind it.
func (p *jsParser) denoTest(c jsCall, args []span) (title []string, rest []span) {
	if !c.deno {
		return nil, nil
	}
	for _, a := range args {
		if f, ok := p.functionIn(a); ok && f.name != "" {
			return []string{f.name}, args
		}
		if p.text(a.from) == "{" && p.closing(a.from) == a.to-1 {
			if title, fn, known := p.denoObject(a); known {
				return title, []span{a, fn}
			}
		}
	}
	return nil, nil
}

// denoObject reads { name: "title", fn: () => … } and { name: "title", fn() { … } }.
func (p *jsParser) denoObject(a span) (title []string, fn span, known bool) {
	entries, ok := p.arguments(a.from)
	for _, e := range entries {
		at := e.from
		if p.text(at) == "async" {
			at++
		}
		switch {
		case p.text(at) == "name" && p.text(at+1) == ":" && (p.is(at+2, jsString) || p.is(at+2, jsTemplate)):
			title = p.title(span{at + 2, e.to}, false)
		case p.text(at) == "fn" && p.text(at+1) == ":":
			fn = span{at + 2, e.to}
		case p.text(at) == "fn" && p.text(at+1) == "(":
			fn = span{at, e.to}
		}
	}
	return title, fn, ok && title != nil && fn.to > 0
}

// skipped says whether the options of a test say that it is not run.
func (p *jsParser) skipped(args []span) bool {
	for _, a := range args {
		if p.text(a.from) != "{" || p.closing(a.from) != a.to-1 {
			continue
		}
		for i := a.from + 1; i < a.to; i++ {
			if slices.Contains(jsSkips, p.text(i)) && p.text(i+1) == ":" && p.text(i+2) != "false" {
				return true
			}
		}
	}
	return false
}

// jsTitles joins the titles of a group and of what is in it.
func jsTitles(outer, inner []string) []string {
	out := slices.Clone(outer)
	out[len(out)-1] += TitleSeparator + inner[0]
	return append(out, inner[1:]...)
}

// TitleSeparator is between the title of a group and that of a test in it.
const TitleSeparator = " > "

// jsFormat are the parts of a title of .each that stand for a value of the row.
var jsFormat = form.Lazy(`%[sdifjoOcp#$]|\$[A-Za-z_#][A-Za-z0-9_.]*`)

// title is the text of a title, cut where a part of it is computed.
func (p *jsParser) title(a span, each bool) []string {
	text := p.text(a.from)
	pieces := []string{""}
	add := func(piece string) {
		piece = jsUnquote(piece)
		if !each {
			pieces[len(pieces)-1] += piece
			return
		}
		parts := jsFormat().Split(strings.ReplaceAll(piece, "%%", "\x00"), -1)
		pieces[len(pieces)-1] += parts[0]
		pieces = append(pieces, parts[1:]...)
	}
	inner := text[1 : len(text)-1]
	if p.is(a.from, jsString) {
		add(inner)
	} else {
		for _, piece := range jsTemplateTexts(inner) {
			add(piece)
			pieces = append(pieces, "")
		}
		pieces = pieces[:len(pieces)-1]
	}
	if a.to > a.from+1 { // a sum, or the like
		pieces = append(pieces, "")
	}
	for i := range pieces {
		pieces[i] = strings.ReplaceAll(pieces[i], "\x00", "%")
	}
	return pieces
}

// jsTemplateTexts are the texts of a template between its expressions.
func jsTemplateTexts(inner string) []string {
	var out []string
	from, depth := 0, 0
	for i := 0; i < len(inner); i++ {
		switch {
		case inner[i] == '\\':
			i++
		case depth == 0 && strings.HasPrefix(inner[i:], "${"):
			out = append(out, inner[from:i])
			depth, i = 1, i+1
		case depth > 0 && inner[i] == '{':
			depth++
		case depth > 0 && inner[i] == '}':
			if depth--; depth == 0 {
				from = i + 1
			}
		}
	}
	if depth > 0 { // a brace in a text of the expression: what follows is not known
		return append(out, "")
	}
	return append(out, inner[from:])
}

// jsFunction is a function that is written as an argument.
type jsFunction struct {
	params   span // with the parentheses, or the one name
	block    int  // the brace of its body, -1 for an expression
	body     span // what is in the braces, or the expression
	generate bool
	name     string // its own, or that of a method
}

// functionIn reads the function that an argument is.
func (p *jsParser) functionIn(a span) (f jsFunction, ok bool) {
	i := a.from
	if p.text(i) == "async" {
		i++
	}
	keyword := p.text(i) == "function"
	if keyword {
		if i++; p.text(i) == "*" {
			f.generate = true
			i++
		}
	}
	if p.is(i, jsName) && p.text(i+1) == "(" { // a method is like a function with a name
		f.name, keyword = p.text(i), true
		i++
	}
	switch {
	case p.text(i) == "(" && p.closing(i) > 0:
		f.params = span{i, p.closing(i) + 1}
	case !keyword && p.is(i, jsName):
		f.params = span{i, i + 1}
	default:
		return f, false
	}
	i = f.params.to
	if p.text(a.to-1) == "}" {
		brace := p.tokens[a.to-1].mate
		typed := p.file.types && p.text(i) == ":" && brace > i
		switch {
		case keyword && (brace == i || typed), !keyword && p.text(brace-1) == "=>" && (brace-1 == i || typed):
			f.block, f.body = brace, span{brace + 1, a.to - 1}
			return f, true
		}
	}
	if keyword || p.text(i) != "=>" || i+1 >= a.to || p.text(i+1) == "{" {
		return f, false
	}
	f.block, f.body = -1, span{i + 1, a.to}
	return f, true
}

// params are the names of the parameters of a function, "" for one that is taken
// apart; none where they are not known.
func (p *jsParser) params(f jsFunction) (names []string) {
	args := []span{f.params}
	if f.params.to-f.params.from > 1 {
		args, _ = p.arguments(f.params.from)
	}
	for _, a := range args {
		name := ""
		if p.is(a.from, jsName) {
			name = p.text(a.from)
		}
		names = append(names, name)
	}
	return names
}
