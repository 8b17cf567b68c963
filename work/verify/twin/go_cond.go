package twin

import (
	"go/ast"
	"go/token"
)

// goFailing is what is known of statements that report a failure.
type goFailing struct {
	t    *goName // the handle that reports it, nil if none does
	ends bool    // the test ends there
	safe bool    // they can run although nothing failed
}

// ifStmt adds the condition of an if whose branch fails the test.
func (w goWalk) ifStmt(s *ast.IfStmt) {
	known := w.f.evaluated(s.Cond, s.Init)
	then := w.f.failing(s.Body.List, known)
	var other goFailing
	if e, ok := s.Else.(*ast.BlockStmt); ok {
		other = w.f.failing(e.List, known)
	}
	switch {
	case then.t != nil && other.t != nil:
		w.condition(s.Cond, s.Init, goFailing{t: then.t}, true)
	case then.t != nil:
		w.condition(s.Cond, s.Init, then, true)
	case other.t != nil:
		w.condition(s.Cond, s.Init, other, false)
	}
}

// switchStmt adds the conditions of a switch without a tag.
func (w goWalk) switchStmt(s *ast.SwitchStmt) {
	if s.Tag != nil {
		return
	}
	for _, c := range s.Body.List {
		c, ok := c.(*ast.CaseClause)
		if !ok || len(c.List) != 1 {
			continue
		}
		if then := w.f.failing(c.Body, w.f.evaluated(c.List[0], s.Init)); then.t != nil {
			w.condition(c.List[0], nil, then, true)
		}
	}
}

// condition adds a condition and what is expected in it. Turning one is a site
// where the report can run although nothing failed, in the goroutine of the
// test if it ends the test.
func (w goWalk) condition(cond ast.Expr, init ast.Stmt, then goFailing, whenTrue bool) {
	offered := then.safe && !w.async && (!w.loose || !then.ends)
	w.add(goPlace{form: formCond, t: then.t, fails: whenTrue}, cond.Pos(), cond.End(), offered)
	if !offered {
		return
	}
	w.ends = then.ends
	w.expected(cond, whenTrue, true)
	if a, ok := init.(*ast.AssignStmt); ok && len(a.Rhs) == 1 {
		if call, ok := a.Rhs[0].(*ast.CallExpr); ok {
			w.compared(call, goDiffs)
		}
	}
}

// failing looks for a report of a failure among statements.
func (f *goFile) failing(list []ast.Stmt, known map[string]bool) goFailing {
	out := goFailing{safe: true}
	for _, s := range list {
		name, method, args := f.report(s)
		switch {
		case name == "":
			out.safe = out.safe && f.harmless(s, known)
			continue
		case goReports[method]:
			if out.t == nil {
				out.t = &goName{name: name}
			}
		}
		for _, a := range args {
			out.safe = out.safe && f.safe(a, known)
		}
		if goEnds[method] {
			out.ends = out.ends || out.t != nil
			return out
		}
	}
	return out
}

// goReports are the methods of a handle that fail its test, goNotes those that
// do not.
var (
	goReports = map[string]bool{"Error": true, "Errorf": true, "Fatal": true, "Fatalf": true, "Fail": true, "FailNow": true}
	goNotes   = map[string]bool{"Log": true, "Logf": true, "Helper": true}
)

// report returns the parts of a statement that calls a report or a note of a
// handle.
func (f *goFile) report(s ast.Stmt) (name, method string, args []ast.Expr) {
	x, ok := s.(*ast.ExprStmt)
	if !ok {
		return "", "", nil
	}
	call, ok := x.X.(*ast.CallExpr)
	if !ok {
		return "", "", nil
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !goReports[sel.Sel.Name] && !goNotes[sel.Sel.Name] {
		return "", "", nil
	}
	if name, kind := f.testing(sel.X); kind != kindNone {
		return name, sel.Sel.Name, call.Args
	}
	return "", "", nil
}

// harmless says whether a statement can run where it was not meant to.
func (f *goFile) harmless(s ast.Stmt, known map[string]bool) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt:
		for _, r := range s.Results {
			if !f.safe(r, known) {
				return false
			}
		}
		return true
	case *ast.BranchStmt:
		return s.Tok != token.FALLTHROUGH
	case *ast.EmptyStmt:
		return true
	}
	return false
}

// evaluated are the texts of the expressions that were evaluated whatever cond
// is, and of those of which it is asked whether they are nil, with a mark.
func (f *goFile) evaluated(cond ast.Expr, init ast.Stmt) map[string]bool {
	known := map[string]bool{}
	f.evaluate(cond, known)
	if a, ok := init.(*ast.AssignStmt); ok {
		for _, r := range a.Rhs {
			f.evaluate(r, known)
		}
	}
	return known
}

const goMayBeNil = "nil? "

func (f *goFile) evaluate(e ast.Expr, known map[string]bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				f.evaluate(n.X, known)
				return false
			}
			for _, pair := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
				if id, ok := pair[0].(*ast.Ident); ok && id.Name == "nil" {
					known[goMayBeNil+f.text(pair[1])] = true
				}
			}
		case *ast.CallExpr, *ast.IndexExpr, *ast.SelectorExpr, *ast.StarExpr, *ast.SliceExpr, *ast.TypeAssertExpr:
			if n.End()-n.Pos() <= 200 {
				known[f.text(n)] = true
			}
		}
		return true
	})
}

// goPure are functions that can be called with any values.
var goPure = map[string]bool{
	"fmt.Sprint": true, "fmt.Sprintf": true, "fmt.Sprintln": true, "reflect.TypeOf": true, "reflect.DeepEqual": true,
	"strconv.Quote": true, "strconv.Itoa": true, "strings.Join": true, "strings.TrimSpace": true, "hex.EncodeToString": true,
	"hex.Dump": true, "cmp.Diff": true,
}

// safe says whether an expression can be evaluated whatever the values in it
// are, nil among them.
func (f *goFile) safe(e ast.Expr, known map[string]bool) bool {
	if e == nil {
		return true
	}
	if e.End()-e.Pos() <= 200 && known[f.text(e)] {
		return true
	}
	switch e := e.(type) {
	case *ast.Ident, *ast.BasicLit, *ast.FuncLit:
		return true
	case *ast.SelectorExpr:
		return !known[goMayBeNil+f.text(e.X)] && f.safe(e.X, known)
	case *ast.ParenExpr:
		return f.safe(e.X, known)
	case *ast.UnaryExpr:
		return e.Op != token.ARROW && f.safe(e.X, known)
	case *ast.BinaryExpr:
		return e.Op != token.QUO && e.Op != token.REM && f.safe(e.X, known) && f.safe(e.Y, known)
	case *ast.KeyValueExpr:
		return f.safe(e.Value, known)
	case *ast.CompositeLit:
		return f.allSafe(e.Elts, known)
	case *ast.CallExpr:
		return f.pureCall(e) && f.allSafe(e.Args, known)
	}
	return false
}

func (f *goFile) allSafe(list []ast.Expr, known map[string]bool) bool {
	for _, e := range list {
		if !f.safe(e, known) {
			return false
		}
	}
	return true
}

func (f *goFile) pureCall(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return goBuiltin(call, "len", "cap", "string", "int", "int64", "uint64", "float64", "uint32", "byte", "rune", "bool")
	case *ast.ArrayType:
		return fun.Len == nil
	case *ast.SelectorExpr:
		x, ok := fun.X.(*ast.Ident)
		return ok && goObject(x) == nil && f.imports[x.Name] != "" && goPure[x.Name+"."+fun.Sel.Name]
	}
	return false
}
