package shell

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// ofBats are functions that bats has, and those that libraries for it have.
var ofBats = form.Lazy(`^(?:run|load|skip|setup\w*|teardown\w*|bats_\w+|batslib_\w+|(?:assert|refute)(?:_\w+)?)$`)

// Shadows says how the change of a file from before to after takes something away from
// the tests that read it into their shell, in words that begin with the line, and "" where
// it does not: a function that the base does not have with the name of one of bats, of the
// tests or of a command that they use, a new call that can make one, one that ends the
// shell when the file is read, or a variable that they count their failures in. The tests
// are scripts, or files of bats and what they load.
func Shadows(before, after string, tests []Script) string {
	was, err := parse(syntax.LangBash, before)
	if err != nil {
		was = &syntax.File{}
	}
	is, err := parse(syntax.LangBash, after)
	if err != nil || len(after) > maxScript {
		if len(was.Stmts) > 0 {
			return "it does not parse any more"
		}
		return "" // it is no script, in the base neither
	}
	had, makes := map[string]bool{}, map[string]int{}
	functions(was, func(f *syntax.FuncDecl) { had[f.Name.Value] = true })
	takesAway(was, func(what string, _ uint) { makes[what]++ })
	u, vars, bats := commands{named: map[string]bool{}, defines: map[string]bool{}}, newVariables(), false
	for _, t := range tests {
		tree, err := parse(syntax.LangBats, t.Text)
		if err != nil {
			continue
		}
		vars.add(tree)
		for _, s := range tree.Stmts {
			if test, ok := s.Cmd.(*syntax.TestDecl); ok {
				bats = true
				u.add(test.Body)
			} else {
				u.add(s)
			}
		}
	}
	why := vars.counts(was, is)
	functions(is, func(f *syntax.FuncDecl) {
		name, line := f.Name.Value, f.Pos().Line()
		switch {
		case why != "" || had[name]:
		case builtin(name), strings.HasPrefix(name, "command_not_found"), bats && ofBats().MatchString(name):
			why = fmt.Sprintf("line %d: a function takes the name of the command %s", line, name)
		case u.defines[name] || u.named[name] && (Program(name) || name == "fail" || name == "flunk"):
			why = fmt.Sprintf("line %d: a function takes the name of %s, which the tests use", line, name)
		}
	})
	takesAway(is, func(what string, line uint) {
		if makes[what]--; makes[what] < 0 && why == "" {
			why = fmt.Sprintf("line %d: %s", line, what)
		}
	})
	return why
}

// functions visits the functions of a script.
func functions(tree *syntax.File, visit func(*syntax.FuncDecl)) {
	here(tree, func(n syntax.Node) bool {
		if f, ok := n.(*syntax.FuncDecl); ok && f.Name != nil {
			visit(f)
		}
		return true
	})
}
