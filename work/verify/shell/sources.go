package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Sources are the words that a script reads files by, as they are written: those of . and
// source, of what eval gets from a command, and of the files that a shell reads first.
func Sources(text string) (words []string) {
	tree, err := parse(syntax.LangBash, text)
	if err != nil {
		return nil
	}
	add := func(args []*syntax.Word) {
		for _, w := range args {
			words = append(words, printed(w))
		}
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil && (n.Name.Value == "BASH_ENV" || n.Name.Value == "ENV") {
				words = append(words, printed(n.Value))
			}
		case *syntax.BinaryCmd:
			if call, name, _ := commandOf(n.Y.Cmd); call != nil && isPipe(n.Op) && len(call.Args) == 1 && isShell(name) {
				words = append(words, printed(n.X))
			}
		case *syntax.CallExpr:
			args := n.Args
			for len(args) > 1 {
				name, _ := literal(args[0])
				if name != "command" && name != "builtin" && name != "exec" && name != "env" {
					break
				}
				args = args[1:]
			}
			if len(args) < 2 {
				return true
			}
			name, _ := literal(args[0])
			switch {
			case name == "." || name == "source" || strings.TrimPrefix(printed(args[0]), `\`) == ".":
				add(args[1:])
			case name == "eval" || isShell(name):
				code := name == "eval"
				for i, w := range args[1:] {
					text, plain := literal(w)
					switch {
					case plain && name != "eval" && takesCode(text):
						code = true
					case strings.HasPrefix(text, "--rcfile") || strings.HasPrefix(text, "--init-file"):
						add(args[1+i:])
					case plain && code:
						words = append(words, Sources(text)...)
					case !plain && code && strings.Contains(printed(w), "$("):
						add([]*syntax.Word{w})
					}
				}
			}
		}
		return true
	})
	return words
}

// shells takes in the script that a shell is started with: sh -c '…', also behind env,
// timeout and the like.
func (u *uses) shells(args []*syntax.Word, output bool) {
	started := false
	for i, w := range args {
		text, plain := literal(w)
		switch {
		case plain && isShell(text):
			started = true
		case started && plain && takesCode(text) && i+1 < len(args):
			u.script(args[i+1], output)
			return
		}
	}
}

// input takes in a script that a shell reads from a here-document.
func (u *uses) input(s *syntax.Stmt, output bool) {
	if _, name, _ := commandOf(s.Cmd); !isShell(name) {
		return
	}
	for _, r := range s.Redirs {
		if r.Hdoc != nil {
			u.script(r.Hdoc, output)
		} else if r.Op == syntax.WordHdoc {
			u.script(r.Word, output)
		}
	}
}

// script takes in what a word says as a script.
func (u *uses) script(w *syntax.Word, output bool) {
	text, ok := "", true
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			text += n.Value
		case *syntax.SglQuoted:
			text += n.Value
		case *syntax.ParamExp:
			name := "x"
			if n.Param != nil {
				name = n.Param.Value
			}
			text += "$" + name
			return false
		case *syntax.CmdSubst, *syntax.ArithmExp, *syntax.ProcSubst:
			ok = false
			return false
		}
		return true
	})
	tree, err := parse(syntax.LangBash, text)
	if !ok || err != nil {
		u.indirect(output)
		u.runsOutput(w)
		return
	}
	walk(tree, func(n syntax.Node, inner bool) {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				u.defines[n.Name.Value] = true
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				u.command(n.Args, output || inner)
			}
		}
	})
}
