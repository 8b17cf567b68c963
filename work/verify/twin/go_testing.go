package twin

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// GoTesting are the files of Go's package testing that [QuietTesting] edits.
var GoTesting = []string{"testing.go", "example.go"}

// QuietTesting edits a file of Go's package testing so that a failed test says
// nothing but its name: no message, no line, and no value of a panic. Every test
// fails in the same way then, whether it meets the bug, another expected value
// or a failing statement, and what a test wants cannot be read from its output.
//
// The edits are insertions on lines that are there, so the line numbers stay. A
// file in which a place is missing is an error: that version of Go is not known.
func QuietTesting(name string, src []byte) ([]byte, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("package testing does not parse: %w", err)
	}
	q := &goQuiet{tree: tree, offset: func(p token.Pos) int { return fset.Position(p).Offset }}
	switch name {
	case "testing.go":
		q.testing()
	case "example.go":
		q.example()
	default:
		return nil, fmt.Errorf("%s of package testing needs no edit", name)
	}
	if goImports(tree)["os"] != "os" {
		q.imports("os")
	}
	if q.err != nil {
		return nil, fmt.Errorf("%s of package testing is not one that can be edited: %w", name, q.err)
	}
	slices.SortStableFunc(q.edits, func(a, b goEdit) int { return a.at - b.at })
	return applyEdits(src, q.edits).Bytes(), nil
}

// goQuiet collects the edits of one file.
type goQuiet struct {
	tree   *ast.File
	offset func(token.Pos) int
	edits  []goEdit
	err    error
}

func (q *goQuiet) put(at token.Pos, text string) {
	q.edits = append(q.edits, goEdit{at: q.offset(at), text: text})
}

// testing edits what writes a log line, and what ends a program that panicked.
func (q *goQuiet) testing() {
	log, r := q.method("common", "log", 1)
	if log != nil {
		late := ""
		if d, _ := q.method("common", "destination", 0); d != nil {
			late = "if " + r + ".destination() == nil { panic(\"Log in goroutine after \" + " + r + ".name + \" has completed\") }; "
		}
		q.put(log.Body.Lbrace+1, " if "+r+" != nil { "+late+"return };")
	} else {
		q.missing("method log")
	}
	if write, _ := q.method("outputWriter", "Write", 1); write != nil { // since Go 1.25
		p := write.Type.Params.List[0].Names[0].Name
		q.put(write.Body.Lbrace+1, " if len("+p+") >= 0 { return len("+p+"), nil };")
	}
	run := q.function("tRunner")
	if run == nil {
		q.missing("function tRunner")
		return
	}
	done := false
	ast.Inspect(run, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
			return true
		}
		id, isName := a.Lhs[0].(*ast.Ident)
		lit, isFunc := a.Rhs[0].(*ast.FuncLit)
		if isName && isFunc && id.Name == "doPanic" {
			done = q.exits(lit.Body) == 1
		}
		return true
	})
	if !done {
		q.missing("end of a test that panics")
	}
}

// example edits what compares the output of an example.
func (q *goQuiet) example() {
	fn, _ := q.method("InternalExample", "processRunResult", -1)
	if fn == nil {
		q.missing("method processRunResult")
		return
	}
	said := 0
	ast.Inspect(fn, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || a.Tok != token.ASSIGN || len(a.Lhs) != 1 {
			return true
		}
		if id, ok := a.Lhs[0].(*ast.Ident); ok && id.Name == "fail" {
			q.put(a.End(), "; fail = \"failed\\n\"")
			said++
		}
		return true
	})
	if said == 0 || q.exits(fn.Body) == 0 {
		q.missing("comparison")
	}
}

// exits ends the program in front of each panic with a value that a test gave.
func (q *goQuiet) exits(body *ast.BlockStmt) (n int) {
	ast.Inspect(body, func(node ast.Node) bool {
		s, ok := node.(*ast.ExprStmt)
		if !ok {
			return true
		}
		call, ok := s.X.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		f, isName := call.Fun.(*ast.Ident)
		v, plain := call.Args[0].(*ast.Ident)
		if isName && plain && f.Name == "panic" && !strings.HasPrefix(v.Name, "errNil") {
			q.put(s.Pos(), "os.Exit(2); ")
			n++
		}
		return true
	})
	return n
}

// imports adds an import on the line of the first one.
func (q *goQuiet) imports(path string) {
	for _, d := range q.tree.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT && g.Lparen.IsValid() {
			q.put(g.Lparen+1, strconv.Quote(path)+";")
			return
		}
	}
	q.missing("list of imports")
}

func (q *goQuiet) missing(what string) {
	if q.err == nil {
		q.err = errors.New("it has no " + what + " as it is known")
	}
}

// method finds a method with a number of parameters, -1 for any, and the name of
// its receiver.
func (q *goQuiet) method(typ, name string, params int) (fn *ast.FuncDecl, receiver string) {
	for _, d := range q.tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil || fn.Name.Name != name || fn.Body == nil || params >= 0 && fn.Type.Params.NumFields() != params {
			continue
		}
		r := fn.Recv.List[0]
		star, ok := r.Type.(*ast.StarExpr)
		if !ok || len(r.Names) != 1 {
			continue
		}
		if id, ok := star.X.(*ast.Ident); ok && id.Name == typ {
			return fn, r.Names[0].Name
		}
	}
	return nil, ""
}

func (q *goQuiet) function(name string) *ast.FuncDecl {
	for _, d := range q.tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name && fn.Body != nil {
			return fn
		}
	}
	return nil
}

// goReport is a method of a handle that is called with words: t.Errorf.
type goReport struct {
	at, end int
	format  bool
}

// reportIn is the report or note that a call makes.
func (f *goFile) reportIn(call *ast.CallExpr) []goReport {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	if _, kind := f.testing(sel.X); kind == kindNone {
		return nil
	}
	switch sel.Sel.Name {
	case "Error", "Fatal", "Log", "Skip":
		return []goReport{{f.offset(sel.Pos()), f.offset(sel.End()), false}}
	case "Errorf", "Fatalf", "Logf", "Skipf":
		return []goReport{{f.offset(sel.Pos()), f.offset(sel.End()), true}}
	}
	return nil
}

// quiet hands the method of each report to a function that calls it with one
// word, so that all of them say the same on the same line.
func (g *goGen) quiet() {
	for _, r := range g.file.says {
		param := "...interface{}"
		if r.format {
			param = "string, " + param
		}
		name := g.helper("quiet "+param, func(name string) {
			f := g.field()
			g.decl("func %s(%s func(%s)) func(%s) {\n\treturn func(%[4]s) { %[2]s(%[5]q) }\n}", name, f, param, param, "failed")
		})
		g.edits = append(g.edits, goEdit{at: r.at, far: r.end, rank: 3, text: name + "("}, goEdit{at: r.end, far: r.at, rank: -3, text: ")"})
	}
}
