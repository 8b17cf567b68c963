package shell

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// What of a script lasts in the shell that reads it: what is done there and not in a shell
// of its own, the options that it leaves, and what is done as soon as it is read.

// here visits what a script does in the shell that reads it, and not in one of its own.
func here(n syntax.Node, visit func(syntax.Node) bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.Stmt:
			if n.Background {
				return false
			}
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll { // the last one may be done here: lastpipe
				here(n.Y, visit)
				return false
			}
		}
		return visit(n)
	})
}

// keeps says whether the shell may keep the variables that stand in front of a command:
// one that POSIX calls special.
func keeps(name string) bool {
	return slices.Contains(strings.Fields(". : source eval exec exit export readonly return set shift times trap unset"), name)
}

// loosened visits the options that a script leaves so that assertions do not find what
// they did: one that is set back in the script is for a part of it.
func loosened(tree *syntax.File, note func(what string, line uint)) {
	lines, back := map[string]uint{}, map[string]bool{}
	here(tree, func(n syntax.Node) bool {
		call, name, _ := commandOf(n)
		if call == nil || name != "set" && name != "shopt" {
			return true
		}
		sign, long := "", false
		for _, w := range call.Args[1:] {
			text, plain := literal(w)
			switch {
			case !plain || text == "--" || text == "-":
				return true
			case long || name == "shopt" && !strings.HasPrefix(text, "-"):
				long = false
				loose := sign == "+" && (text == "errexit" || text == "pipefail") || sign == "-s" && text == "nocasematch" || sign == "-u" && (text == "inherit_errexit" || text == "errexit" || text == "pipefail")
				if loose {
					lines[text] = call.Pos().Line()
				} else if sign != "" {
					back[text] = true
				}
			case name == "shopt":
				if strings.Contains(text, "s") {
					sign = "-s"
				} else if strings.Contains(text, "u") {
					sign = "-u"
				}
			case strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+"):
				if sign, long = text[:1], strings.HasSuffix(text, "o"); strings.Contains(text, "e") && sign == "+" {
					lines["errexit"] = call.Pos().Line()
				} else if strings.Contains(text, "e") {
					back["errexit"] = true
				}
			}
		}
		return true
	})
	for _, option := range slices.Sorted(maps.Keys(lines)) {
		if !back[option] {
			note("the option "+option+" is changed, by which assertions find less", lines[option])
		}
	}
}

// reading visits what is done as soon as a file is read, where a name that is not in the
// text may be any.
type reading struct {
	note      func(what string, line uint)
	functions map[string]*syntax.Stmt // of the file, those that were not called yet
}

// atOnce visits what a file does when it is read.
func atOnce(tree *syntax.File, note func(what string, line uint)) {
	r := &reading{note, map[string]*syntax.Stmt{}}
	functions(tree, func(f *syntax.FuncDecl) { r.functions[f.Name.Value] = f.Body })
	r.statements(tree.Stmts, true)
}

// statements visits some: always says that they are done whatever is asked.
func (r *reading) statements(stmts []*syntax.Stmt, always bool) {
	for _, s := range stmts {
		what := ""
		switch cmd := s.Cmd.(type) {
		case *syntax.CallExpr:
			args := unwrapped(cmd.Args)
			what = doneAtOnce(args, always)
			if len(args) > 0 && r.functions[args[0].Lit()] != nil {
				body := r.functions[args[0].Lit()]
				delete(r.functions, args[0].Lit())
				r.statements([]*syntax.Stmt{body}, false)
			}
		case *syntax.DeclClause:
			ref := cmd.Variant.Value != "export" && declaresWith(cmd, "n")
			for _, a := range cmd.Args {
				if _, plain := literal(valueOf(a)); !plain && (a.Name == nil || ref) {
					what = anyVariable
				}
			}
		case *syntax.Block:
			r.statements(cmd.Stmts, always)
		case *syntax.IfClause:
			for at := cmd; at != nil; at = at.Else {
				r.statements(slices.Concat(at.Cond, at.Then), false)
			}
		case *syntax.WhileClause:
			r.statements(slices.Concat(cmd.Cond, cmd.Do), false)
		case *syntax.ForClause:
			r.statements(cmd.Do, false)
		case *syntax.CaseClause:
			for _, item := range cmd.Items {
				r.statements(item.Stmts, false)
			}
		case *syntax.BinaryCmd:
			if cmd.Op != syntax.Pipe && cmd.Op != syntax.PipeAll {
				r.statements([]*syntax.Stmt{cmd.X}, false)
			}
			r.statements([]*syntax.Stmt{cmd.Y}, false)
		case *syntax.TimeClause:
			if cmd.Stmt != nil {
				r.statements([]*syntax.Stmt{cmd.Stmt}, always)
			}
		}
		if what != "" {
			r.note(what, s.Pos().Line())
		}
	}
}

const anyVariable = "a variable whose name is not in the text may be one by which the shell finds commands"

// doneAtOnce says what a command may take away because it is done when the file is read.
func doneAtOnce(args []*syntax.Word, always bool) string {
	if len(args) == 0 {
		return ""
	}
	name, plain := spelt(args[0])
	if !plain {
		if strings.Contains(printed(args[0]), "/") { // a program
			return ""
		}
		return "a command whose name is not in the text" + canTake
	}
	var sets []*syntax.Word
	switch name {
	case "exit", "exec":
		if always && (name == "exit" || len(args) > 1) {
			return name + " ends what reads the file"
		}
	case "read", "mapfile", "readarray", "getopts", "unset":
		sets = args[1:]
	case "printf":
		if printsInto(args) {
			sets = args[1:min(3, len(args))]
		}
	}
	for _, w := range sets {
		if _, plain := literal(w); !plain {
			return anyVariable
		}
	}
	return ""
}

// printsInto says whether a printf sets a variable: printf -v NAME.
func printsInto(args []*syntax.Word) bool {
	text, _ := literal(args[min(1, len(args)-1)])
	return strings.HasPrefix(text, "-v")
}

// declaresWith says whether a declare, or one of its kind, has an option of one letter.
func declaresWith(d *syntax.DeclClause, letter string) bool {
	return slices.ContainsFunc(d.Args, func(a *syntax.Assign) bool {
		text, _ := literal(valueOf(a))
		return a.Name == nil && strings.HasPrefix(text, "-") && strings.Contains(text, letter)
	})
}

// valueOf is the word that is assigned, an empty one where there is none.
func valueOf(a *syntax.Assign) *syntax.Word {
	if a.Value == nil {
		return &syntax.Word{}
	}
	return a.Value
}
