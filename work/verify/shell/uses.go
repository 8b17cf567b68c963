package shell

import (
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
}

func (u *uses) join(o *uses) {
	u.init()
	for name := range o.calls {
		u.calls[name] = true
	}
	for name := range o.named {
		u.named[name] = true
	}
	u.dynamic, u.anyDynamic, u.computed = u.dynamic || o.dynamic, u.anyDynamic || o.anyDynamic, u.computed || o.computed
}

func (u *uses) init() {
	if u.calls == nil {
		u.calls, u.named, u.defines = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
}

// add takes in what a part of a script runs.
func (u *uses) add(n syntax.Node) {
	u.init()
	walk(n, func(n syntax.Node, output bool) {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				u.defines[n.Name.Value] = true
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				u.command(n.Args, output)
			}
		case *syntax.DeclClause:
			if n.Variant.Value == "export" && strings.Contains(printed(n), "-f") {
				u.indirect(output) // a shell that is started can call it
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
	switch name {
	case "eval", "trap", "alias":
		for _, w := range args[1:] {
			text, plain := literal(w)
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

// literal is the text of a word without variables or commands, as the shell reads it.
func literal(w *syntax.Word) (text string, plain bool) {
	return literalParts(w.Parts)
}

func literalParts(parts []syntax.WordPart) (text string, plain bool) {
	for _, part := range parts {
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
	if text != "[" && text != "[[" && strings.Contains(text, "[") && len(parts) == 1 {
		if _, unquoted := parts[0].(*syntax.Lit); unquoted {
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
			// ${ …; } runs in the shell itself.
			output = output || !n.TempFile && !n.ReplyVar
		case *syntax.ProcSubst:
			output = true
		case *syntax.BinaryCmd:
			if slices.Contains([]syntax.BinCmdOperator{syntax.Pipe, syntax.PipeAll}, n.Op) {
				writes[n.X] = true
			}
		}
		visit(n, output)
		stack = append(stack, output)
		return true
	})
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
			for _, w := range identifier().FindAllString(printed(n), -1) {
				names[w] = true
			}
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				return
			}
			if name, _ := literal(n.Args[0]); slices.Contains([]string{"read", "printf", "getopts", "mapfile", "readarray", "local", "export", "readonly", "let"}, name) {
				for _, a := range n.Args[1:] {
					for _, w := range identifier().FindAllString(printed(a), -1) {
						names[w] = true
					}
				}
			}
		}
	})
	return names
}
