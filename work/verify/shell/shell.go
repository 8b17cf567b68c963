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
	"fmt"
	"maps"
	"path"
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
	}
	if strings.Contains(after, "\r") {
		return "it has carriage returns, which shells and editors read otherwise"
	}
	if bashAlone(scripts) {
		dialects = dialects[:1]
	}
	judged := false
	for _, dialect := range dialects {
		c := change{words: map[string]bool{}, sets: map[string]bool{}, used: map[*syntax.FuncDecl]*uses{}, hazards: map[*syntax.FuncDecl]hazards{}}
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

// bashAlone says whether bash runs each of the scripts: by its first line, or as another
// one calls it.
func bashAlone(scripts []Script) bool {
	called := map[string][]string{} // by the shell, the words behind it
	for _, s := range scripts {
		for _, m := range startsShell().FindAllStringSubmatchIndex(s.Text, -1) {
			if before := m[0] - 1; before >= 0 && !strings.ContainsRune(" \t\r\n\f\v/;&|('\"", rune(s.Text[before])) {
				continue
			}
			word := behindShell().FindStringSubmatch(s.Text[m[1]:])[1]
			called[s.Text[m[2]:m[3]]] = append(called[s.Text[m[2]:m[3]]], word)
		}
	}
	for _, s := range scripts {
		if s.Path == "" { // a command: sh has it, but what it reads is not its own
			if strings.Contains(s.Text, ". ") || strings.Contains(s.Text, "source ") {
				return false
			}
			continue
		}
		by := func(program string) bool {
			return slices.ContainsFunc(called[program], func(word string) bool { return namesFile(word, path.Base(s.Path)) })
		}
		if by("sh") || by("dash") || !bashOnly().MatchString(s.Text) && !by("bash") {
			return false
		}
	}
	return true
}

var (
	startsShell = form.Lazy(`(bash|dash|sh)[ \t]+`)
	behindShell = form.Lazy(`^(?:-[a-z]+[ \t]+)*([^\s;&|]*)`)
)

// namesFile says whether a word of a script ends with a name, but for quotes and brackets
// behind it.
func namesFile(word, name string) bool {
	for at := strings.Index(word, name); at >= 0; {
		end := at + len(name)
		if end == len(word) || strings.IndexByte(`)'"`, word[end]) >= 0 {
			return true
		}
		more := strings.Index(word[at+1:], name)
		if more < 0 {
			return false
		}
		at += 1 + more
	}
	return false
}

func parse(dialect syntax.LangVariant, text string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(dialect)).Parse(strings.NewReader(text), "")
}

// change is a library in the base and after a change, and what the scripts of the
// tests do with it.
type change struct {
	base, head *library
	scripts    uses
	words      map[string]bool // names in the scripts, wherever they are
	sets       map[string]bool // variables that the scripts set
	own        uses            // what the library does in the base
	evaluates  bool            // it runs what variables hold
	calculated map[string]bool // names in calculations, there or in the scripts
	used       map[*syntax.FuncDecl]*uses
	hazards    map[*syntax.FuncDecl]hazards
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
	c.calculated = calculated(tree)
	for _, s := range scripts {
		tree, err := parse(dialect, s.Text)
		if err != nil {
			return false
		}
		c.scripts.add(tree)
		maps.Copy(c.sets, assigned(tree))
		maps.Copy(c.calculated, calculated(tree))
		identifiers(s.Text, c.words)
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
	if why := c.readsItself(); why != "" {
		return why
	}
	if why := c.constant(); why != "" {
		return why
	}
	for _, name := range slices.Sorted(maps.Keys(c.head.functions)) {
		if c.base.functions[name] == nil {
			if why := c.fresh(name); why != "" {
				return why
			}
		}
		if c.base.texts[name] == c.head.texts[name] {
			own := c.usesOf(c.head.functions[name])
			maps.Copy(c.scripts.mentions, own.mentions)
			// What is called by name in an argument is called from here.
			c.scripts.dynamic, c.scripts.anyDynamic = c.scripts.dynamic || own.dynamic, c.scripts.anyDynamic || own.anyDynamic
			c.scripts.computed = c.scripts.computed || own.computed
		} else if why := c.everywhere(name); why != "" {
			return why
		}
	}
	return c.called()
}

// readsItself judges what is done when the file is read.
func (c *change) readsItself() string {
	common := func(l *library) []string {
		return slices.DeleteFunc(slices.Clone(l.order), func(item string) bool {
			return item[0] != '\n' && (c.base.functions[item] == nil || c.head.functions[item] == nil)
		})
	}
	top := uses{}
	for _, s := range c.head.top {
		if !ownRun(s) {
			top.add(s)
		}
	}
	c.own.join(&top)
	for _, f := range c.base.functions {
		c.own.add(f.Body)
		c.evaluates = c.evaluates || evaluates(f.Body)
	}
	for _, s := range c.base.top {
		c.evaluates = c.evaluates || evaluates(s)
	}
	for _, name := range c.reached(top.named) {
		if !slices.Equal(common(c.base), common(c.head)) {
			return "it changes the order in which the file is read, and that calls " + name
		}
		if c.base.texts[name] != c.head.texts[name] {
			return name + " is called when the file is read"
		}
	}
	c.scripts.join(&top)
	return ""
}

// constant judges the texts that variables get as the file is read: they may be other
// ones where nothing runs, calculates or sets what is in them.
func (c *change) constant() string {
	texts := func(l *library) map[string]string {
		out := map[string]string{}
		for _, a := range l.constants {
			out[a.Name.Value] += printed(a) + "\n"
		}
		return out
	}
	was, is := texts(c.base), texts(c.head)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was[name] == is[name] {
			continue
		}
		set := false
		for _, f := range c.base.functions {
			set = set || assigned(f.Body)[name]
		}
		if c.evaluates || set || c.sets[name] || c.calculated[name] || ownVariable().MatchString(name) || was[name] == "" && (c.words[name] || c.mentionedInBase(name)) {
			return "it sets " + name + ", on which the tests or its functions depend"
		}
	}
	return ""
}

// mentionedInBase says whether a name stands in the library of the base.
func (c *change) mentionedInBase(name string) bool {
	if strings.Contains(c.base.topText, name) {
		return true
	}
	for _, text := range c.base.texts {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}

// reached are the functions that some commands come to, whatever for.
func (c *change) reached(named map[string]bool) []string {
	seen := map[string]bool{}
	for next := slices.Sorted(maps.Keys(named)); len(next) > 0; next = next[1:] {
		f := c.head.functions[next[0]]
		if f == nil {
			f = c.base.functions[next[0]]
		}
		if f == nil || seen[next[0]] {
			continue
		}
		seen[next[0]] = true
		next = append(next, slices.Sorted(maps.Keys(c.usesOf(f).named))...)
	}
	return slices.Sorted(maps.Keys(seen))
}

// usesOf are the commands that a function runs.
func (c *change) usesOf(f *syntax.FuncDecl) *uses {
	if c.used[f] == nil {
		c.used[f] = &uses{}
		c.used[f].add(f.Body)
	}
	return c.used[f]
}

// evaluates says whether a part of a script runs what a variable with a name holds.
func evaluates(n syntax.Node) (is bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		call, name, plain := commandOf(n)
		is = is || name == "eval" || name == "trap" || call != nil && !plain && !positional(call.Args[0])
		return true
	})
	return is
}

// positional says whether a word is made of the arguments of a function.
func positional(w *syntax.Word) bool {
	text := strings.Trim(printed(w), `"`)
	return slices.Contains([]string{"$@", "$*", "$1", "${@}", "${1}"}, text)
}

// reachesOut finds what reaches a shell from any of its children.
var reachesOut = form.Lazy(`\b(?:p?kill|killall|PPID|BASHPID)\b|\$\$|/proc/|/dev/(?:fd|tcp|udp)|<&|>&[0-9]{2}|\bcoproc\b`)

// everywhere says why a changed function may not be as it is, whatever it is called for.
func (c *change) everywhere(name string) string {
	count := func(text string) int { return len(reachesOut().FindAllString(text, -1)) }
	if count(c.head.texts[name]) > count(c.base.texts[name]) {
		return fmt.Sprintf("line %d: %s has %s", c.head.functions[name].Pos().Line(), name, reachesOut().FindString(c.head.texts[name]))
	}
	if slices.Contains(c.reached(c.scripts.code), name) {
		return name + ": the tests run its output as code"
	}
	return ""
}

// fresh says why a function that the base does not have may not be there.
func (c *change) fresh(name string) string {
	line := c.head.functions[name].Pos().Line()
	_, is := builtin(name)
	switch {
	case is || strings.HasPrefix(name, "command_not_found") || !plainName().MatchString(name):
		return fmt.Sprintf("line %d: a function takes the name of the command %s", line, name)
	case c.own.named[name] && !c.own.defines[name]:
		return fmt.Sprintf("line %d: a function takes the name of the command %s, which the file uses", line, name)
	case c.scripts.anyDynamic && asserts().MatchString(name):
		return fmt.Sprintf("line %d: a new function %s, which the tests may call by its name", line, name)
	case (c.scripts.named[name] || c.scripts.anyDynamic && c.scripts.mentions[name]) && (c.scripts.defines[name] || Program(name)):
		return fmt.Sprintf("line %d: a function takes the name of %s, which the tests use", line, name)
	}
	return ""
}

var plainName = form.Lazy(`^[A-Za-z_][A-Za-z0-9_.:-]*$`)
