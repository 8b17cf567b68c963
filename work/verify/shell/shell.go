// Package shell judges changes of shell libraries that test scripts read into
// themselves.
//
// A script that runs . ./lib.sh lends its own shell to lib.sh: what that file does
// can end the script, take the place of its functions and assertions, or set its
// variables. So a change of such a file is taken for a change of the tests, unless it
// can be seen that the change stays within functions, and that these give the tests
// nothing but their output, or are plain enough that the shell which calls them goes
// on as before. No code is run to find out.
package shell

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// Script is a shell script that takes part in the tests: its path, and its text in
// the base.
type Script struct{ Path, Text string }

// maxScript bounds a script that is read, in bytes.
const maxScript = 1 << 20

var (
	// Other shells have other rules than those that are followed here.
	otherShell = form.Lazy(`^#![^\n]*\b(?:zsh|ksh|mksh|fish|csh|tcsh|rc)\b`)
	bashOnly   = form.Lazy(`^#![^\n]*\bbash\b`)
)

// Reaches says how the change of a file from before to after could reach the shells
// of the tests, in words that begin with the line or function, and "" when it cannot.
// The scripts are all shell scripts of the base that take part in the tests, the file
// itself not among them. A text that does not parse, one above 1 MiB and a script for
// another shell than sh and bash make it a change that can.
func Reaches(before, after string, scripts []Script) string {
	dialects := []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX}
	for _, s := range append(slices.Clone(scripts), Script{Text: before}, Script{Text: after}) {
		if otherShell().MatchString(s.Text) {
			return "it is read by a shell other than sh and bash"
		}
		if len(s.Text) > maxScript {
			return "it is read with a script of more than 1 MiB"
		}
		if bashOnly().MatchString(s.Text) && s.Text != after {
			dialects = dialects[:1]
		}
	}
	judged := false
	for _, dialect := range dialects {
		c := change{words: map[string]bool{}, sets: map[string]bool{}}
		if !c.read(dialect, before, scripts) {
			continue
		}
		judged = true
		tree, err := parse(dialect, after)
		if err != nil {
			return "it does not parse: " + err.Error()
		}
		if c.head, err = newLibrary(tree); err != nil {
			return err.Error()
		}
		if why := c.reaches(); why != "" {
			return why
		}
	}
	if !judged {
		return "the scripts that read it are not understood"
	}
	return ""
}

func parse(dialect syntax.LangVariant, text string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(dialect)).Parse(strings.NewReader(text), "")
}

// library is a file that is read in: its functions, and what it does besides.
type library struct {
	functions map[string]*syntax.FuncDecl
	texts     map[string]string // of the functions, printed in one form
	top       []*syntax.Stmt    // what is done when the file is read
	topText   string
}

func newLibrary(tree *syntax.File) (*library, error) {
	l := &library{functions: map[string]*syntax.FuncDecl{}, texts: map[string]string{}}
	for _, s := range tree.Stmts {
		f, ok := s.Cmd.(*syntax.FuncDecl)
		if !ok || s.Background || s.Negated || len(s.Redirs) > 0 || f.Name == nil {
			l.top = append(l.top, s)
			l.topText += printed(s) + "\n"
			continue
		}
		if l.functions[f.Name.Value] != nil {
			return nil, fmt.Errorf("line %d: a second function %s", f.Pos().Line(), f.Name.Value)
		}
		l.functions[f.Name.Value], l.texts[f.Name.Value] = f, printed(f)
	}
	return l, nil
}

func printed(n syntax.Node) string {
	var b bytes.Buffer
	_ = syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n) // a buffer takes all, and a parsed tree has a form
	return b.String()
}

// change is a library in the base and after a change, and what the scripts of the
// tests do with it.
type change struct {
	base, head *library
	scripts    uses
	words      map[string]bool // names in the scripts, wherever they are
	sets       map[string]bool // variables that the scripts set
}

// read parses what the base has, and says whether all of it is of the dialect.
func (c *change) read(dialect syntax.LangVariant, before string, scripts []Script) bool {
	tree, err := parse(dialect, before)
	if err != nil {
		return false
	}
	if c.base, err = newLibrary(tree); err != nil {
		return false
	}
	for _, s := range scripts {
		tree, err := parse(dialect, s.Text)
		if err != nil {
			return false
		}
		c.scripts.add(tree)
		maps.Copy(c.sets, assigned(tree))
		for _, w := range identifier().FindAllString(s.Text, -1) {
			c.words[w] = true
		}
	}
	return true
}

var identifier = form.Lazy(`[A-Za-z_][A-Za-z0-9_.:-]*`)

// reaches is the judgement: see Reaches.
func (c *change) reaches() string {
	if c.base.topText != c.head.topText {
		return "it changes what is done when the file is read, outside of its functions"
	}
	if strings.Contains(c.base.topText, "alias ") {
		return "it has aliases"
	}
	top := uses{}
	for _, s := range c.head.top {
		if !ownRun(s) {
			top.add(s)
		}
	}
	c.scripts.join(&top)
	for _, name := range slices.Sorted(maps.Keys(c.head.functions)) {
		if c.base.functions[name] == nil {
			if why := c.fresh(name); why != "" {
				return why
			}
		}
		if c.base.texts[name] == c.head.texts[name] {
			own := uses{}
			own.add(c.head.functions[name].Body)
			// What is called by name in an argument is called from here.
			c.scripts.dynamic, c.scripts.anyDynamic = c.scripts.dynamic || own.dynamic, c.scripts.anyDynamic || own.anyDynamic
			c.scripts.computed = c.scripts.computed || own.computed
		}
	}
	return c.called()
}

// fresh says why a function that the base does not have may not be there.
func (c *change) fresh(name string) string {
	line := c.head.functions[name].Pos().Line()
	switch {
	case isBuiltin(name) || strings.HasPrefix(name, "command_not_found") || !plainName().MatchString(name):
		return fmt.Sprintf("line %d: a function takes the name of the command %s", line, name)
	case c.scripts.named[name] || c.scripts.anyDynamic && c.words[name]:
		return fmt.Sprintf("line %d: the tests call %s, and the base does not define it here", line, name)
	}
	return ""
}

var plainName = form.Lazy(`^[A-Za-z_][A-Za-z0-9_.:-]*$`)

// called follows what the shells of the tests call themselves, and not for its output.
func (c *change) called() string {
	var next []string
	all := maps.Clone(c.base.functions)
	maps.Copy(all, c.head.functions)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if c.scripts.calls[name] || c.scripts.dynamic && c.words[name] || c.scripts.computed {
			next = append(next, name)
		}
	}
	seen := map[string]bool{}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		now := c.head.functions[name]
		if c.base.texts[name] != c.head.texts[name] {
			if why := c.within(name); why != "" {
				return why
			}
		}
		own := uses{}
		own.add(now.Body)
		for _, callee := range slices.Sorted(maps.Keys(own.calls)) {
			if c.head.functions[callee] != nil {
				next = append(next, callee)
			} else if c.base.functions[callee] != nil {
				return callee + ": the function is gone"
			}
		}
	}
	return ""
}

// asserts finds names of functions that tell a test that it failed.
var asserts = form.Lazy(`(?i)^(?:assert|expect|check|verify|ensure|fail|should|must|describe)|(?:^|[_.:-])(?:assert|expect|check|test|verify|fail|pass|ok|same|equals?|eq|should|must|ensure|report|spec|suite|die|abort|tap)s?(?:$|[_.:-])` +
	`|^(?:is|isnt|it|run|diff|compare|like|t|cmp|match|contains|done|finish|summary)$|^test[A-Z]|[a-z](?:Equals?|Test|Fail(?:ed|s)?|Passed)$`)

// within says why a function that the shells of the tests call is not changed within
// what it may do.
func (c *change) within(name string) string {
	now, before := c.head.functions[name], c.base.functions[name]
	switch {
	case now == nil:
		return name + ": the function is gone"
	case asserts().MatchString(name):
		return fmt.Sprintf("line %d: %s may be an assertion, and the tests call it themselves", now.Pos().Line(), name)
	}
	was := hazards{}
	if before != nil {
		was = c.hazardsOf(before)
		for what := range was {
			if what == "exit" || strings.HasPrefix(what, "exit ") || c.sets[strings.TrimPrefix(what, setsPrefix)] {
				return fmt.Sprintf("line %d: %s ends the tests or sets their variables (%s)", now.Pos().Line(), name, what)
			}
		}
	}
	is := c.hazardsOf(now)
	for _, what := range slices.Sorted(maps.Keys(is)) {
		if len(is[what]) > len(was[what]) {
			return fmt.Sprintf("line %d: %s has %s, in a shell of the tests", is[what][0], name, what)
		}
	}
	return c.newCalls(name)
}

// newCalls says why a function may not call what it did not call before: another
// one that may do more than it.
func (c *change) newCalls(name string) string {
	before, now := uses{}, uses{}
	if f := c.base.functions[name]; f != nil {
		before.add(f.Body)
	}
	now.add(c.head.functions[name].Body)
	seen := map[string]bool{}
	var next []string
	for callee := range now.calls {
		if !before.calls[callee] {
			next = append(next, callee)
		}
	}
	for slices.Sort(next); len(next) > 0; next = next[1:] {
		callee := next[0]
		f := c.head.functions[callee]
		if f == nil && c.scripts.defines[callee] {
			return fmt.Sprintf("line %d: %s calls %s of the tests", c.head.functions[name].Pos().Line(), name, callee)
		}
		if f == nil || seen[callee] {
			continue
		}
		seen[callee] = true
		for what := range c.hazardsOf(f) {
			return fmt.Sprintf("line %d: %s calls %s, which has %s", c.head.functions[name].Pos().Line(), name, callee, what)
		}
		own := uses{}
		own.add(f.Body)
		next = append(next, slices.Sorted(maps.Keys(own.calls))...)
	}
	return ""
}

// ownRun says whether a statement is only done when the file is run as a program:
// if [ "${BASH_SOURCE[0]}" = "$0" ], or a list that begins so.
func ownRun(s *syntax.Stmt) bool {
	switch cmd := s.Cmd.(type) {
	case *syntax.IfClause:
		return cmd.Else == nil && len(cmd.Cond) == 1 && !cmd.Cond[0].Negated && itself().MatchString(printed(cmd.Cond[0]))
	case *syntax.BinaryCmd:
		return cmd.Op == syntax.AndStmt && !cmd.X.Negated && itself().MatchString(printed(cmd.X)) ||
			cmd.Op == syntax.OrStmt && !cmd.X.Negated && notItself().MatchString(printed(cmd.X))
	}
	return false
}

const (
	sourceWord = `"?(?:\$BASH_SOURCE|\$\{BASH_SOURCE(?:\[0\])?\})"?`
	nameWord   = `"?(?:\$0|\$\{0\})"?`
)

var (
	itself    = form.Lazy(between(`==?`))
	notItself = form.Lazy(between(`!=`))
)

func between(operator string) string {
	return `^\[\[? (?:` + sourceWord + ` ` + operator + ` ` + nameWord + `|` + nameWord + ` ` + operator + ` ` + sourceWord + `) \]\]?$`
}
