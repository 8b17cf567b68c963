package shell

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// variables are those of the scripts of the tests that what they read is to leave alone.
type variables struct {
	failures map[string]bool // by which they say whether they failed
	set      map[string]bool // which they set themselves
	commands map[string]bool // by which they name commands
	asked    map[string]bool // whose value is used other than to be printed
	printed  map[string]bool // whose value is printed
	expect   map[string]bool // which are called like what they expect, their functions' own too
}

func newVariables() *variables {
	return &variables{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

// counts says which of the variables of the tests a file sets that it did not, and "" where
// there is none: set to another value, failures are forgotten between one assertion and
// the next, and made readonly or set before the tests do, others stay as the file has them.
func (v *variables) counts(was, is *syntax.File) string {
	read, readBefore := withoutFunctions(is), withoutFunctions(was)
	for _, name := range slices.Sorted(maps.Keys(v.failures)) {
		had, _ := mentions(was, name)
		if n, line := mentions(is, name); n > had && (v.asked[name] || !v.printed[name]) {
			return fmt.Sprintf("line %d: it names %s, by which the tests say whether they failed", line, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.commands)) {
		had, _ := mentions(was, name)
		if n, line := mentions(is, name); n > 0 && had == 0 && !v.set[name] {
			return fmt.Sprintf("line %d: it sets %s, by which the tests name a command", line, name)
		}
	}
	locked, before := readonly(is), readonly(was)
	for _, name := range slices.Sorted(maps.Keys(v.set)) {
		had, _ := mentions(was, name)
		n, line := mentions(read, name)
		if at, yes := locked[name]; yes {
			if _, before := before[name]; !before {
				return fmt.Sprintf("line %d: it fixes the value of %s, which the tests set", at, name)
			}
		}
		if n > 0 && had == 0 && v.asked[name] {
			return fmt.Sprintf("line %d: it sets %s, which the tests set and use", line, name)
		}
		if line := reads(read, name, true); line > 0 && reads(readBefore, name, true) == 0 {
			return fmt.Sprintf("line %d: it ends what reads the file by what %s is, which the tests set", line, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.expect)) {
		sets, _ := mentions(is, name)
		if line := reads(is, name, false); line > 0 && sets == 0 && reads(was, name, false) == 0 {
			return fmt.Sprintf("line %d: it reads %s, by which the tests say what they expect", line, name)
		}
	}
	return ""
}

// withoutFunctions is what a script does when it is read.
func withoutFunctions(tree *syntax.File) *syntax.File {
	return &syntax.File{Stmts: slices.DeleteFunc(slices.Clone(tree.Stmts), func(s *syntax.Stmt) bool {
		_, function := s.Cmd.(*syntax.FuncDecl)
		return function
	})}
}

// expected is the name of a variable of what a test expects.
var expected = form.Lazy(`(?i)expect|^want|_want$|golden`)

// reads is the line in which a script asks for the value of a variable, 0 where it does
// not; in a statement that can end the shell, if that is asked for.
func reads(tree *syntax.File, name string, ends bool) (line uint) {
	for _, s := range tree.Stmts {
		at, exits := uint(0), false
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.ParamExp:
				if n.Param != nil && n.Param.Value == name {
					at = n.Pos().Line()
				}
			case *syntax.CallExpr:
				_, word, _ := commandOf(n)
				fails := false // for sure
				if len(n.Args) == 2 {
					status, err := strconv.Atoi(n.Args[1].Lit())
					fails = err == nil && status != 0
				}
				exits = exits || word == "exit" && !fails
			case *syntax.FuncDecl:
				return !ends
			}
			return true
		})
		if at > 0 && (exits || !ends) {
			line = at
		}
	}
	return line
}

// readonly are the variables that a script gives attributes that stay, with their lines.
func readonly(tree *syntax.File) map[string]uint {
	names := map[string]uint{}
	here(tree, func(n syntax.Node) bool {
		d, ok := n.(*syntax.DeclClause)
		if !ok || d.Variant.Value != "readonly" && !declaresWith(d, "g") {
			return true
		}
		for _, a := range d.Args {
			if a.Name != nil {
				names[a.Name.Value] = d.Pos().Line()
			}
		}
		return true
	})
	return names
}

// add takes in a script.
func (v *variables) add(tree *syntax.File) {
	counters(tree, v.failures)
	set := func(name string) {
		if syntax.ValidName(name) {
			v.set[name] = true
			if expected().MatchString(name) {
				v.expect[name] = true
			}
		}
	}
	var inside []string // the variable that is assigned
	own := map[string]bool{}
	printing := 0
	var visit func(n syntax.Node) bool
	visit = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DeclClause:
			for _, a := range n.Args {
				if a.Name != nil && n.Variant.Value == "local" {
					own[a.Name.Value] = true
				}
			}
		case *syntax.Assign:
			if n.Name == nil {
				return true
			}
			set(n.Name.Value)
			if n.Value != nil {
				inside = append(inside, n.Name.Value)
				syntax.Walk(n.Value, visit)
				inside = inside[:len(inside)-1]
			}
			return false
		case *syntax.WordIter:
			set(n.Name.Value)
		case *syntax.CallExpr:
			_, name, _ := commandOf(n)
			if name == "read" || name == "mapfile" || name == "readarray" {
				for _, w := range n.Args[1:] {
					set(w.Lit())
				}
			}
			if len(n.Args) > 0 {
				syntax.Walk(n.Args[0], func(n syntax.Node) bool {
					if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil && syntax.ValidName(p.Param.Value) {
						v.commands[p.Param.Value] = true
					}
					return true
				})
			}
			if name == "echo" || name == "printf" {
				printing++
				for _, w := range n.Args[1:] {
					syntax.Walk(w, visit)
				}
				printing--
				return false
			}
		case *syntax.ParamExp:
			if n.Param == nil || slices.Contains(inside, n.Param.Value) {
				break
			}
			if printing > 0 {
				v.printed[n.Param.Value] = true
			} else {
				v.asked[n.Param.Value] = true
			}
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause:
			syntax.Walk(n, func(n syntax.Node) bool {
				if w, ok := n.(*syntax.Word); ok && syntax.ValidName(w.Lit()) && !slices.Contains(inside, w.Lit()) && printing == 0 {
					v.asked[w.Lit()] = true
				}
				u, counting := n.(*syntax.UnaryArithm)
				b, adding := n.(*syntax.BinaryArithm)
				if counting = counting && (u.Op == syntax.Inc || u.Op == syntax.Dec); adding && b.Op >= syntax.AddAssgn && b.Op <= syntax.SubAssgn {
					counting = true
				}
				return !counting
			})
		}
		return true
	}
	syntax.Walk(tree, visit)
	for name := range own {
		delete(v.set, name)
	}
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
		here(s, func(x syntax.Node) bool {
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
