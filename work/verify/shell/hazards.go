package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// What a script can do to the shell that reads it, other than to define a function. It is
// a list: what hides better is for the control of the verifier to find.

// takers are builtin commands that give a name to other code, or run a text.
var takers = strings.Fields("eval alias enable hash trap")

// governs is a word that begins with a variable by which a shell finds commands, or what
// it reads by itself, and that may set it.
var governs = form.Lazy(`^(?:PATH|BASH_ENV|ENV|BASH_CMDS|BASH_ALIASES|SHELLOPTS|BASHOPTS|LD_(?:PRELOAD|LIBRARY_PATH|AUDIT))(?:\+?=|\[|$)`)

// passing is a place for code that is made while the script runs.
var passing = form.Lazy(`^/(?:dev|proc|tmp|var/tmp|run)/`)

// takesAway visits what can take the place of a command of the shell that reads a script,
// end it, or keep it from running what it reads, in words without the line.
func takesAway(tree *syntax.File, note func(what string, line uint)) {
	own := map[string]bool{}
	functions(tree, func(f *syntax.FuncDecl) { own[f.Name.Value] = true })
	loosened(tree, note)
	var visit func(n syntax.Node) bool
	visit = func(n syntax.Node) bool {
		what := ""
		switch n := n.(type) {
		case *syntax.DeclClause:
			if n.Variant.Value == "local" { // it ends with the function
				return slices.ContainsFunc(n.Args, func(a *syntax.Assign) bool { return a.Name == nil })
			}
		case *syntax.Assign:
			if n.Name != nil && governs().MatchString(n.Name.Value) {
				what = n.Name.Value + "=" + canTake
			} else if n.Value != nil {
				what = named(n.Value)
			}
		case *syntax.WordIter:
			if governs().MatchString(n.Name.Value) {
				what = n.Name.Value + "=" + canTake
			}
		case *syntax.ParamExp:
			if n.Param != nil && strings.HasPrefix(n.Param.Value, "BASH_") && governs().MatchString(n.Param.Value) && n.Exp != nil {
				what = n.Param.Value + "=" + canTake
			}
		case *syntax.CallExpr:
			if what = taken(n, own); what != "" {
				note(what, n.Pos().Line())
			}
			if _, name, _ := commandOf(n); len(n.Args) > 0 && !keeps(name) { // its variables are set for it alone
				for _, w := range n.Args {
					here(w, visit)
				}
				return false
			}
			return true
		}
		if what != "" {
			note(what, n.Pos().Line())
		}
		return true
	}
	here(tree, visit)
	atOnce(tree, note)
}

const canTake = " can take the place of a command"

// taken says what a command takes away, wherever it stands.
func taken(call *syntax.CallExpr, own map[string]bool) string {
	args := unwrapped(call.Args)
	if len(args) == 0 {
		return ""
	}
	name, plain := spelt(args[0])
	if !plain {
		if madeUp(args[0]) {
			return "a command whose name is put together" + canTake
		}
		name = ""
	}
	if slices.Contains(takers, name) {
		return name + canTake
	}
	option := func(letters string) bool {
		return slices.ContainsFunc(args[1:], func(w *syntax.Word) bool {
			text, plain := literal(w)
			return plain && len(text) > 1 && text[0] == '-' && text[1] != '-' && strings.ContainsAny(text, letters)
		})
	}
	switch name {
	case ".", "source":
		if len(args) > 1 && !ofTree(args[1]) {
			return "it reads what is no file of the repository, which" + canTake
		}
		return ""
	case "set", "shopt":
		off := slices.ContainsFunc(args[1:], func(w *syntax.Word) bool {
			text, _ := literal(w)
			return text == "noexec" || text == "onecmd"
		})
		if words := args[1:]; name == "set" && len(words) > 0 {
			text, _ := literal(words[0])
			off = off || strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--") && strings.ContainsAny(text, "nt")
		}
		if off {
			return "the shell runs nothing any more"
		}
		return ""
	case "mapfile", "readarray":
		if option("C") {
			return name + " -C" + canTake
		}
	case "unset":
		if option("f") && slices.ContainsFunc(args[1:], func(w *syntax.Word) bool {
			text, plain := literal(w)
			return !plain || text != "" && text[0] != '-' && !own[text]
		}) {
			return "unset -f takes away a function"
		}
	case "echo", "env", "type", "[", "test":
		return ""
	case "printf":
		if !printsInto(args) {
			return ""
		}
	}
	for i, w := range args[1:] {
		if what := named(w); what != "" && (i == 0 || governs().MatchString(beginning(w))) {
			return what
		}
	}
	return ""
}

// named says what a word is the name of that takes a command away.
func named(w *syntax.Word) string {
	if governs().MatchString(beginning(w)) {
		return strings.TrimRight(governs().FindString(beginning(w)), "+=[") + "=" + canTake
	}
	if text, plain := literal(w); plain && (slices.Contains(takers, text) || text == "source" || text == "builtin") {
		return text + canTake
	}
	return ""
}

// unwrapped are the words of a command without builtin and command in front of it.
func unwrapped(args []*syntax.Word) []*syntax.Word {
	for len(args) > 1 {
		name, _ := spelt(args[0])
		next, _ := literal(args[1])
		if name != "builtin" && name != "command" || strings.HasPrefix(next, "-") && next != "-p" && next != "--" {
			break
		}
		if args = args[1:]; strings.HasPrefix(next, "-") {
			args = args[1:]
		}
	}
	return args
}

// spelt is the name of a command: backslashes before letters are no part of it.
func spelt(w *syntax.Word) (name string, plain bool) {
	if lit := w.Lit(); strings.Contains(lit, `\`) {
		return strings.ReplaceAll(lit, `\`, ""), true
	}
	return literal(w)
}

// beginning is the text of a word up to what is not known of it.
func beginning(w *syntax.Word) string {
	text := ""
	for _, part := range w.Parts {
		one, plain := literal(&syntax.Word{Parts: []syntax.WordPart{part}})
		if quoted, ok := part.(*syntax.DblQuoted); ok && !plain && len(quoted.Parts) > 0 {
			if lit, ok := quoted.Parts[0].(*syntax.Lit); ok {
				one = lit.Value
			}
		} else if lit, ok := part.(*syntax.Lit); ok {
			one = lit.Value
		}
		if text += one; !plain {
			break
		}
	}
	return text
}

// madeUp says whether a name that is not in the text may be one of the takers by what is:
// "${e}al", or what a command prints.
func madeUp(w *syntax.Word) bool {
	lead, tail, made := "", "", false
	var parts func([]syntax.WordPart)
	parts = func(list []syntax.WordPart) {
		for _, part := range list {
			switch part := part.(type) {
			case *syntax.Lit:
				tail += part.Value
			case *syntax.SglQuoted:
				made = made || part.Dollar
				tail += part.Value
			case *syntax.DblQuoted:
				parts(part.Parts)
			default:
				if _, prints := part.(*syntax.CmdSubst); prints {
					made = true
				}
				if lead == "" {
					lead = tail
				}
				tail = ""
			}
		}
	}
	parts(w.Parts)
	if strings.Contains(lead+tail, "/") { // a program
		return false
	}
	return made || lead+tail != "" && slices.ContainsFunc(takers, func(name string) bool {
		return len(lead)+len(tail) < len(name) && strings.HasPrefix(name, lead) && strings.HasSuffix(name, tail)
	})
}

// ofTree says whether a word that a file is read by may be the name of one of the
// repository: a part of it stands there, and it is not made while the script runs.
func ofTree(w *syntax.Word) bool {
	if text, plain := literal(w); plain {
		return !passing().MatchString(text)
	}
	written := false
	for _, part := range w.Parts {
		if _, made := part.(*syntax.ProcSubst); made {
			return false
		}
	}
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			written = written || strings.Trim(n.Value, "/") != ""
		case *syntax.CmdSubst, *syntax.ParamExp:
			return false
		}
		return true
	})
	return written && !passing().MatchString(beginning(w))
}
