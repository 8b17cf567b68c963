// Package shell reads the shell scripts that tests are, and what these read into
// themselves.
//
// A script that runs . ./lib.sh lends its own shell to lib.sh: what that file does
// can end the script, take the place of its functions and assertions, or set its
// variables. What comes of that is for the control of the verifier to find, which has
// the script fail. What takes the place of a command, so that no edit of the script is
// of use, is found here. No code is run to find out.
package shell

import (
	"bytes"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// Script is a shell script that takes part in the tests: its path, and its text in
// the base.
type Script struct{ Path, Text string }

// maxScript bounds a script that is read, in bytes.
const maxScript = 1 << 20

func parse(dialect syntax.LangVariant, text string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(dialect)).Parse(strings.NewReader(text), "")
}

func printed(n syntax.Node) string {
	var b bytes.Buffer
	_ = syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n) // a buffer takes all, and a parsed tree has a form
	return b.String()
}

// commands are the names of what scripts run, and of the functions that they define.
type commands struct{ named, defines map[string]bool }

// add takes in a part of a script. Of what is run by a name in an argument or a text
// (env, sh -c, trap) each word counts.
func (u *commands) add(n syntax.Node) {
	words := func(n syntax.Node) {
		for _, word := range identifier().FindAllString(printed(n), -1) {
			u.named[word] = true
		}
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				u.defines[n.Name.Value] = true
			}
		case *syntax.Stmt:
			for _, r := range n.Redirs {
				if _, name, _ := commandOf(n.Cmd); r.Hdoc != nil && isShell(name) {
					words(r.Hdoc)
				}
			}
		case *syntax.CallExpr:
			_, name, plain := commandOf(n)
			if plain {
				u.named[name] = true
			}
			if isShell(name) || runsOthers().MatchString(name) {
				for _, w := range n.Args[1:] {
					words(w)
				}
			}
		}
		return true
	})
}

var (
	identifier = form.Lazy(`[A-Za-z_][A-Za-z0-9_.:-]*`)
	runsOthers = form.Lazy(`^(?:eval|trap|alias|command|builtin|exec|time|env|nohup|timeout|xargs|sudo|nice|find)$`)
)

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
