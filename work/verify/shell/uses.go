package shell

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// uses are the commands that a text runs.
type uses struct {
	// calls are those whose end or result the shell itself sees: all but those that
	// only give their output to it.
	calls   map[string]bool
	named   map[string]bool // every one, those for their output as well
	defines map[string]bool // functions
	// dynamic says that a command is taken from a variable or a text, so that any name
	// in the text may be one; anyDynamic says so of those for their output too.
	dynamic, anyDynamic bool
	// computed says that such a name may be put together, so that it is not in the text.
	computed bool
	// mentions are names in a text or an argument: a command that is taken from a variable
	// may be one of them.
	mentions map[string]bool
	// code are commands whose output is run as code.
	code map[string]bool
	// leaves says that something other than the last statement may end the script with
	// success; traps that a trap is set, and trapEnds that one may decide how it ends.
	leaves, traps, trapEnds bool
}

func (u *uses) join(o *uses) {
	u.init()
	maps.Copy(u.calls, o.calls)
	maps.Copy(u.named, o.named)
	maps.Copy(u.code, o.code)
	maps.Copy(u.mentions, o.mentions)
	u.dynamic, u.anyDynamic, u.computed = u.dynamic || o.dynamic, u.anyDynamic || o.anyDynamic, u.computed || o.computed
}

func (u *uses) init() {
	if u.calls == nil {
		u.calls, u.named, u.defines, u.code, u.mentions = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
}

// add takes in what a part of a script runs.
func (u *uses) add(n syntax.Node) {
	u.init()
	var last syntax.Node
	if f, ok := n.(*syntax.File); ok && len(f.Stmts) > 0 {
		last = f.Stmts[len(f.Stmts)-1].Cmd
	}
	names := map[syntax.Node]bool{} // of commands and functions
	walk(n, func(n syntax.Node, output bool) {
		switch n := n.(type) {
		case *syntax.Lit:
			if !names[n] {
				identifiers(n.Value, u.mentions)
			}
		case *syntax.SglQuoted:
			identifiers(n.Value, u.mentions)
		case *syntax.FuncDecl:
			if n.Name != nil {
				u.defines[n.Name.Value], names[n.Name] = true, true
			}
		case *syntax.Stmt:
			u.input(n, output)
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				if len(n.Args[0].Parts) == 1 {
					names[n.Args[0].Parts[0]] = true
				}
				u.command(n.Args, output)
				u.leaves = u.leaves || !output && syntax.Node(n) != last && leaves(n.Args)
			}
		case *syntax.DeclClause:
			if n.Variant.Value == "export" && strings.Contains(printed(n), "-f") {
				u.indirect(output) // a shell that is started can call it
			}
			for _, a := range n.Args {
				if a.Name == nil {
					u.runsOutput(a.Value)
				}
			}
		case *syntax.CoprocClause:
			u.indirect(output)
		}
	})
}

func (u *uses) indirect(output bool) {
	u.anyDynamic = true
	u.dynamic = u.dynamic || !output
}

// command takes in one command with its arguments.
func (u *uses) command(args []*syntax.Word, output bool) {
	name, plain := literal(args[0])
	if !plain {
		u.indirect(output)
		u.computed = u.computed || !output && !wholeVariable(args[0])
		return
	}
	u.named[name] = true
	if !output {
		u.calls[name] = true
	}
	u.shells(args, output)
	switch name {
	case "eval", "trap", "alias", ".", "source":
		u.traps = u.traps || name == "trap"
		for i, w := range args[1:] {
			u.runsOutput(w)
			if name == "." || name == "source" {
				continue
			}
			text, plain := literal(w)
			u.trapEnds = u.trapEnds || name == "trap" && i == 0 && (!plain || strings.Contains(text, "exit"))
			if !plain {
				u.indirect(output)
				continue
			}
			for _, word := range identifier().FindAllString(text, -1) {
				u.named[word] = true
				u.calls[word] = u.calls[word] || !output
			}
		}
	case "command", "builtin", "exec", "time", "env", "nohup":
		if rest := args[1:]; len(rest) > 0 {
			if flag, plain := literal(rest[0]); plain && strings.HasPrefix(flag, "-") {
				if strings.ContainsAny(flag, "vV") && name == "command" {
					return // it asks whether there is such a command
				}
				rest = rest[1:]
			}
			if len(rest) > 0 {
				u.command(rest, output)
			}
		}
	case "mapfile", "readarray", "complete", "compgen", "bind", "enable", "hash":
		u.indirect(output)
	}
}

// leaves says whether a command ends the script, and may end it with success.
func leaves(args []*syntax.Word) bool {
	name, _ := literal(args[0])
	if name != "exit" {
		return false
	}
	if len(args) < 2 {
		return true
	}
	status, plain := literal(args[1])
	return plain && status == "0"
}

// runsOutput notes the commands whose output a word of eval and the like holds.
func (u *uses) runsOutput(w *syntax.Word) {
	syntax.Walk(w, func(n syntax.Node) bool {
		if _, name, plain := commandOf(n); plain {
			u.code[name] = true
		}
		return true
	})
}

// commandOf is a simple command, nil where a node is none, with its name; plain is set
// where that is a text.
func commandOf(n syntax.Node) (call *syntax.CallExpr, name string, plain bool) {
	call, ok := n.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil, "", false
	}
	name, plain = literal(call.Args[0])
	return call, name, plain
}

// literal is the text of a word without variables or commands, as the shell reads it.
func literal(w *syntax.Word) (text string, plain bool) {
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(part.Value, `\*?{~`) {
				return "", false // an expansion may make another text of it
			}
			text += part.Value
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false
			}
			text += part.Value
		case *syntax.DblQuoted:
			inner, plain := quotedParts(part.Parts)
			if !plain || part.Dollar {
				return "", false
			}
			text += inner
		default:
			return "", false
		}
	}
	// A class of characters, [a-z], is an expansion too; [ alone is a command.
	if text != "[" && text != "[[" && strings.Contains(text, "[") && len(w.Parts) == 1 {
		if _, unquoted := w.Parts[0].(*syntax.Lit); unquoted {
			return "", false
		}
	}
	return text, true
}

func quotedParts(parts []syntax.WordPart) (text string, plain bool) {
	for _, part := range parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || strings.Contains(lit.Value, `\`) {
			return "", false
		}
		text += lit.Value
	}
	return text, true
}

// wholeVariable says whether a word is one variable and nothing else, "$@" or $cmd.
func wholeVariable(w *syntax.Word) bool {
	parts := w.Parts
	if len(parts) == 1 {
		if q, ok := parts[0].(*syntax.DblQuoted); ok {
			parts = q.Parts
		}
	}
	if len(parts) != 1 {
		return false
	}
	p, ok := parts[0].(*syntax.ParamExp)
	return ok && p.Exp == nil && p.Repl == nil && p.Slice == nil && !p.Excl
}

// walk visits the nodes of a script, with whether what runs there only gives its
// output to the shell: in $(…), in <(…), and before a | that it is read behind.
func walk(n syntax.Node, visit func(n syntax.Node, output bool)) {
	var stack []bool
	writes := map[syntax.Node]bool{}
	syntax.Walk(n, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		output := len(stack) > 0 && stack[len(stack)-1] || writes[n]
		switch n := n.(type) {
		case *syntax.CmdSubst:
			// ${ …; } runs in the shell itself. What reads files or exits is a script of its own.
			output = output || !n.TempFile && !n.ReplyVar && !ownScript(n)
		case *syntax.ProcSubst:
			output = output || !ownScript(n)
		case *syntax.BinaryCmd:
			if isPipe(n.Op) && simple(n.X) {
				writes[n.X] = true
			}
		}
		visit(n, output)
		stack = append(stack, output)
		return true
	})
}

func isPipe(op syntax.BinCmdOperator) bool { return op == syntax.Pipe || op == syntax.PipeAll }

// simple says whether a statement is one command, or a pipe of such.
func simple(s *syntax.Stmt) bool {
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		return true
	case *syntax.BinaryCmd:
		return isPipe(cmd.Op) && simple(cmd.X) && simple(cmd.Y)
	}
	return false
}

// ownScript says whether a part of a script reads files into itself, or ends by itself.
func ownScript(n syntax.Node) (is bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		_, name, _ := commandOf(n)
		is = is || slices.Contains([]string{".", "source", "exit", "exec"}, name)
		return true
	})
	return is
}

// calculated are the names in the calculations of a part of a script.
func calculated(n syntax.Node) map[string]bool {
	names := map[string]bool{}
	syntax.Walk(n, func(n syntax.Node) bool {
		calculation := false
		switch n := n.(type) {
		case *syntax.BinaryTest:
			calculation = calculates(n.Op)
		case *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.LetClause, *syntax.CStyleLoop, *syntax.BinaryArithm, *syntax.UnaryArithm:
			calculation = true
		}
		if calculation {
			identifiers(words(n), names)
		}
		return true
	})
	return names
}

// identifiers adds the names in a text.
func identifiers(text string, names map[string]bool) {
	for _, w := range identifier().FindAllString(text, -1) {
		names[w] = true
	}
}

// words are the texts and names in a part of a script.
func words(n syntax.Node) (text string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if lit, ok := n.(*syntax.Lit); ok {
			text += " " + lit.Value
		}
		return true
	})
	return text
}

// assigned are the variables that a part of a script sets, as far as it names them.
func assigned(n syntax.Node) map[string]bool {
	names := map[string]bool{}
	walk(n, func(n syntax.Node, output bool) {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				names[n.Name.Value] = true
			}
		case *syntax.WordIter:
			names[n.Name.Value] = true
		case *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.LetClause:
			identifiers(printed(n), names)
		case *syntax.CallExpr:
			if _, name, _ := commandOf(n); slices.Contains([]string{"read", "printf", "getopts", "mapfile", "readarray", "local", "export", "readonly", "let"}, name) {
				for _, a := range n.Args[1:] {
					identifiers(printed(a), names)
				}
			}
		}
	})
	return names
}
