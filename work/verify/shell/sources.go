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
			if call, name, _ := commandOf(n.Y.Cmd); call != nil && (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && len(call.Args) == 1 && isShell(name) {
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
