package shell

import (
	"fmt"
	"maps"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// counts says which of the variables that scripts count their failures in a file names more
// often than it did, and "" where there is none: set to another value, it has them forgotten
// between one assertion and the next.
func counts(was, is *syntax.File, names map[string]bool) string {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		had, _ := mentions(was, name)
		if n, line := mentions(is, name); n > had {
			return fmt.Sprintf("line %d: it names %s, by which the tests say whether they failed", line, name)
		}
	}
	return ""
}

// counters finds the variables that a script exits with, that are in the condition that it
// ends with, or that it counts with.
func counters(tree *syntax.File, names map[string]bool) {
	note := func(n syntax.Node) {
		syntax.Walk(n, func(n syntax.Node) bool {
			if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil && syntax.ValidName(p.Param.Value) {
				names[p.Param.Value] = true
			}
			return true
		})
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if _, name, _ := commandOf(n); name == "exit" {
				note(n)
			}
		case *syntax.Assign: // fails=$((fails + 1))
			if n.Name == nil || n.Value == nil {
				break
			}
			syntax.Walk(n.Value, func(x syntax.Node) bool {
				if lit, ok := x.(*syntax.Lit); ok && lit.Value == n.Name.Value {
					names[lit.Value] = true
				}
				return true
			})
		case *syntax.UnaryArithm: // ((fails++))
			if w, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.Inc || n.Op == syntax.Dec) && syntax.ValidName(w.Lit()) {
				names[w.Lit()] = true
			}
		case *syntax.BinaryArithm: // ((fails += 1))
			if w, ok := n.X.(*syntax.Word); ok && n.Op >= syntax.AddAssgn && n.Op <= syntax.SubAssgn && syntax.ValidName(w.Lit()) {
				names[w.Lit()] = true
			}
		}
		return true
	})
	if n := len(tree.Stmts); n > 0 {
		switch cmd := tree.Stmts[n-1].Cmd.(type) {
		case *syntax.TestClause, *syntax.ArithmCmd:
			note(cmd)
		case *syntax.CallExpr:
			if _, name, _ := commandOf(cmd); name == "[" || name == "test" {
				note(cmd)
			}
		case *syntax.BinaryCmd:
			note(cmd.X)
		}
	}
}

// mentions is how often a variable is named other than for its value, outside of functions
// that have one of that name of their own, and the last line of these.
func mentions(tree *syntax.File, name string) (n int, line uint) {
	for _, s := range tree.Stmts {
		found, at, own := 0, uint(0), false
		note := func(x syntax.Node) { found, at = found+1, x.Pos().Line() }
		syntax.Walk(s, func(x syntax.Node) bool {
			switch x := x.(type) {
			case *syntax.DeclClause:
				if x.Variant.Value == "local" {
					own = own || slices.ContainsFunc(x.Args, func(a *syntax.Assign) bool { return a.Name != nil && a.Name.Value == name })
				}
			case *syntax.Lit:
				if x.Value == name {
					note(x)
				}
			case *syntax.ParamExp: // its value, but for ${fails:=0}
				if x.Exp == nil || x.Exp.Op != syntax.AssignUnset && x.Exp.Op != syntax.AssignUnsetOrNull {
					return x.Param == nil || x.Param.Value != name
				}
			}
			return true
		})
		if found > 0 && !own {
			n, line = n+found, at
		}
	}
	return n, line
}
