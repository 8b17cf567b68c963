package twin

import (
	"go/ast"
	"go/token"
	"strings"
)

// goAssertion says which argument of an assertion is edited, counted after the
// handle of the test, and how.
type goAssertion struct {
	arg   int
	form  goForm
	fails bool // a condition that is true, or a value that is not nil, fails the test
	part  bool // it is asked whether another value holds it
}

// goTestify are the assertions of testify's packages assert and require. Each
// has a variant with a format, which ends in "f".
var goTestify = map[string]goAssertion{
	"True": {0, formCond, false, false}, "False": {0, formCond, true, false},
	"NoError": {0, formErr, true, false}, "Error": {0, formErr, false, false},
	"Nil": {0, formNil, true, false}, "NotNil": {0, formNil, false, false},
	"Equal": {0, formAny, false, false}, "EqualValues": {0, formAny, false, false}, "Exactly": {0, formAny, false, false},
	"ElementsMatch": {0, formAny, false, false}, "Subset": {1, formAny, false, true}, "Contains": {1, formAny, false, true},
	"Len": {1, formWrap, false, false}, "JSONEq": {0, formWrap, false, false}, "YAMLEq": {0, formWrap, false, true},
	"EqualError": {1, formWrap, false, false}, "ErrorContains": {1, formWrap, false, true}, "ErrorIs": {1, formWrap, false, false},
	"Same": {0, formAny, false, false},
}

// goTools are those of gotest.tools/assert.
var goTools = map[string]goAssertion{
	"NilError": {0, formErr, true, false}, "Equal": {1, formAny, false, false}, "DeepEqual": {1, formAny, false, false},
	"Error": {1, formWrap, false, false}, "ErrorContains": {1, formWrap, false, true}, "ErrorIs": {1, formWrap, false, false},
}

// goLibrary returns the assertions of a package, nil if they are not known.
func goLibrary(pkg string) map[string]goAssertion {
	switch {
	case strings.HasSuffix(pkg, "/testify/assert"), strings.HasSuffix(pkg, "/testify/require"):
		return goTestify
	case strings.HasPrefix(pkg, "gotest.tools/") && strings.HasSuffix(pkg, "/assert"):
		return goTools
	}
	return nil
}

// assertion adds the argument of a call that is an assertion of a library: the
// function with a handle, or the method of a value that was made with one.
func (w goWalk) assertion(call *ast.CallExpr) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || call.Ellipsis.IsValid() {
		return
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return
	}
	args := call.Args
	var p goPlace
	pkg := w.f.imports[x.Name]
	if goObject(x) != nil {
		pkg = w.f.made(x)
	} else if len(args) > 0 {
		t, kind := w.f.testing(args[0])
		if kind == kindNone {
			return
		}
		p.t, args = &goName{name: t}, args[1:]
	}
	known := goLibrary(pkg)
	a, ok := known[sel.Sel.Name]
	if !ok {
		a, ok = known[strings.TrimSuffix(sel.Sel.Name, "f")]
	}
	if !ok || a.arg >= len(args) {
		return
	}
	e := args[a.arg]
	if a.form == formWrap && (!w.f.since("go1.18") || !w.f.typed(e)) || a.form == formAny && goNil(e) {
		return
	}
	p.form, p.fails, p.part = a.form, a.fails, a.part
	w.add(p, e.Pos(), e.End(), !w.async)
}

func goNil(e ast.Expr) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && id.Name == "nil"
}

// typed says whether an expression has by itself a type that can be passed for
// an int, a string or an error, whichever the assertion wants.
func (f *goFile) typed(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.BasicLit:
		return e.Kind == token.INT || e.Kind == token.STRING
	case *ast.Ident:
		return goVariable(e)
	case *ast.CallExpr:
		return true
	case *ast.SelectorExpr:
		return f.plain(e) // what a package exports can be a constant without a type
	}
	return false
}

// made returns the package whose function New made the value of a name with a
// handle of a test.
func (f *goFile) made(id *ast.Ident) string {
	a, ok := goObject(id).Decl.(*ast.AssignStmt)
	if !ok || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
		return ""
	}
	call, ok := a.Rhs[0].(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return ""
	}
	from, name := f.from(call.Fun)
	if _, kind := f.testing(call.Args[0]); name != "New" || kind == kindNone {
		return ""
	}
	return from
}
