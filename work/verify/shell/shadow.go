package shell

import (
	"fmt"
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// ofBats are functions that bats has, and those that libraries for it have.
var ofBats = form.Lazy(`^(?:run|load|skip|setup\w*|teardown\w*|bats_\w+|batslib_\w+|(?:assert|refute)(?:_\w+)?)$`)

// Shadows says how the change of a file from before to after takes something away from
// the tests of bats that read it, in words that begin with the line, and "" where it does
// not: a function that the base does not have with the name of one of bats, of the tests or
// of a command that they use, or a new call that can make one. The tests are the files of
// bats and what they load.
func Shadows(before, after string, tests []Script) string {
	is, err := parse(syntax.LangBash, after)
	if err != nil || len(after) > maxScript {
		if was, err := parse(syntax.LangBash, before); err == nil && len(was.Stmts) > 0 {
			return "it does not parse any more"
		}
		return "" // it is no script, in the base neither
	}
	had, makes := map[string]bool{}, map[string]int{}
	if was, err := parse(syntax.LangBash, before); err == nil {
		shadowing(was, func(name string, _ uint) { had[name] = true }, func(what string, _ uint) { makes[what]++ })
	}
	u := uses{}
	u.init()
	for _, t := range tests {
		tree, err := parse(syntax.LangBats, t.Text)
		if err != nil {
			continue
		}
		for _, s := range tree.Stmts {
			if test, ok := s.Cmd.(*syntax.TestDecl); ok {
				u.add(test.Body)
			} else {
				u.add(s)
			}
		}
	}
	why := ""
	shadowing(is, func(name string, line uint) {
		_, builtin := builtin(name)
		switch {
		case why != "" || had[name]:
		case builtin, ofBats().MatchString(name):
			why = fmt.Sprintf("line %d: a function takes the name of the command %s", line, name)
		case u.defines[name] || u.named[name] && (Program(name) || name == "fail" || name == "flunk"):
			why = fmt.Sprintf("line %d: a function takes the name of %s, which the tests use", line, name)
		}
	}, func(what string, line uint) {
		if makes[what]--; makes[what] < 0 && why == "" {
			why = fmt.Sprintf("line %d: %s can take the place of a command", line, what)
		}
	})
	return why
}

// shadowing visits the functions of a script, and the commands that can make one.
func shadowing(tree *syntax.File, function, makes func(name string, line uint)) {
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				function(n.Name.Value, n.Pos().Line())
			}
		case *syntax.Assign:
			if n.Name != nil && slices.Contains([]string{"PATH", "BASH_ENV", "ENV"}, n.Name.Value) {
				makes(n.Name.Value+"=", n.Pos().Line())
			}
		case *syntax.CallExpr:
			if _, name, _ := commandOf(n); slices.Contains([]string{"alias", "eval", "enable", "hash", "trap"}, name) {
				makes(name, n.Pos().Line())
			}
		}
		return true
	})
}
