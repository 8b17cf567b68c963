package shell

import (
	"bytes"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// library is a file that is read in: its functions, and what it does besides.
type library struct {
	functions map[string]*syntax.FuncDecl
	texts     map[string]string // of the functions, printed in one form
	order     []string          // the functions and what is done, as they follow each other
	top       []*syntax.Stmt    // what is done when the file is read
	topText   string
	// constants are variables that get a text as the file is read, and nothing else.
	constants []*syntax.Assign
}

// constants are the variables that a statement gives a text without variables or commands.
func constants(s *syntax.Stmt) (names []*syntax.Assign) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) > 0 || len(s.Redirs) > 0 || s.Background || s.Negated {
		return nil
	}
	for _, a := range call.Assigns {
		if a.Name == nil || a.Append || a.Index != nil || a.Array != nil {
			return nil
		}
		if a.Value != nil && strings.ContainsAny(printed(a.Value), "$`") && !quotedOnce(a.Value) {
			return nil
		}
		names = append(names, a)
	}
	return names
}

// quotedOnce says whether a word is one text in single quotes.
func quotedOnce(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	q, ok := w.Parts[0].(*syntax.SglQuoted)
	return ok && !q.Dollar
}

func newLibrary(tree *syntax.File) (*library, error) {
	l := &library{functions: map[string]*syntax.FuncDecl{}, texts: map[string]string{}}
	for _, s := range tree.Stmts {
		f, ok := s.Cmd.(*syntax.FuncDecl)
		if names := constants(s); len(names) > 0 {
			l.constants = append(l.constants, names...)
			continue
		}
		if !ok || s.Background || s.Negated || len(s.Redirs) > 0 || f.Name == nil {
			l.top = append(l.top, s)
			l.topText += printed(s) + "\n"
			l.order = append(l.order, "\n"+printed(s))
			continue
		}
		l.order = append(l.order, f.Name.Value)
		if l.functions[f.Name.Value] != nil {
			return nil, fmt.Errorf("line %d: a second function %s", f.Pos().Line(), f.Name.Value)
		}
		l.functions[f.Name.Value], l.texts[f.Name.Value] = f, printed(f)
	}
	return l, nil
}

func printed(n syntax.Node) string {
	var b bytes.Buffer
	_ = syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n) // a buffer takes all, and a parsed tree has a form
	return b.String()
}

// ownRun says whether a statement is only done when the file is run as a program:
// if [ "${BASH_SOURCE[0]}" = "$0" ], or a list that begins so.
func ownRun(s *syntax.Stmt) bool {
	switch cmd := s.Cmd.(type) {
	case *syntax.IfClause:
		return cmd.Else == nil && len(cmd.Cond) == 1 && !cmd.Cond[0].Negated && itself().MatchString(printed(cmd.Cond[0]))
	case *syntax.BinaryCmd:
		return cmd.Op == syntax.AndStmt && !cmd.X.Negated && itself().MatchString(printed(cmd.X)) ||
			cmd.Op == syntax.OrStmt && !cmd.X.Negated && notItself().MatchString(printed(cmd.X))
	}
	return false
}

const (
	sourceWord = `"?(?:\$BASH_SOURCE|\$\{BASH_SOURCE(?:\[0\])?\})"?`
	nameWord   = `"?(?:\$0|\$\{0\})"?`
	// The name of the program alone, and one that it is compared with.
	ownName = `^\[\[? "?(?:\$\{0##\*/\}|\$\(basename (?:-- )?"?\$0"?\))"? `
	aName   = ` "?[A-Za-z0-9._-]+"? \]\]?$`
)

var (
	itself    = form.Lazy(between(`==?`) + `|` + ownName + `==?` + aName)
	notItself = form.Lazy(between(`!=`) + `|` + ownName + `!=` + aName)
)

func between(operator string) string {
	return `^\[\[? (?:` + sourceWord + ` ` + operator + ` ` + nameWord + `|` + nameWord + ` ` + operator + ` ` + sourceWord + `) \]\]?$`
}
