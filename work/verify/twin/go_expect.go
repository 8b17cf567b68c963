package twin

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"

	"remit/proof/form"
)

// goExpected are names that people give to what a test expects.
var goExpected = form.Lazy(`^(want|wanted|exp|expect|expected|golden)([A-Z0-9_].*)?$|(Want|Expected|_want|_expected)$`)

// goSides says which arguments of a function can be what is expected.
type goSides int

const (
	sideBoth   goSides = iota
	sideSecond         // the second: the first may well be more than it
)

// goEqual are functions that say whether their arguments fit, goDiffs those that
// say how they differ.
var (
	goEqual = map[string]goSides{
		"reflect.DeepEqual": sideBoth, "bytes.Equal": sideBoth, "slices.Equal": sideBoth, "maps.Equal": sideBoth,
		"cmp.Equal": sideBoth, "strings.EqualFold": sideBoth,
		"errors.Is": sideSecond, "strings.Contains": sideSecond, "strings.HasPrefix": sideSecond, "strings.HasSuffix": sideSecond,
	}
	goDiffs = map[string]goSides{"cmp.Diff": sideBoth}
)

// expected adds the expected values of a condition that fails the test when it
// is as positive says: those of which another value makes it so. Top says that
// nothing but parentheses is round the expression.
func (w goWalk) expected(cond ast.Expr, positive, top bool) {
	switch e := cond.(type) {
	case *ast.ParenExpr:
		w.expected(e.X, positive, top)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			w.expected(e.X, !positive, false)
		}
	case *ast.CallExpr:
		if !positive {
			w.compared(e, goEqual)
			w.method(e)
			w.target(e)
		}
	case *ast.BinaryExpr:
		switch {
		case e.Op == token.LOR && positive, e.Op == token.LAND && !positive:
			w.expected(e.X, positive, false)
			w.expected(e.Y, positive, false)
		case e.Op == token.NEQ && positive, e.Op == token.EQL && !positive:
			w.comparison(e, top)
		case goOrders[e.Op] != 0:
			w.bound(e, positive)
		}
	}
}

// compared adds the expected argument of a call of one of the functions.
func (w goWalk) compared(call *ast.CallExpr, functions map[string]goSides) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || call.Ellipsis.IsValid() {
		return
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || goObject(x) != nil || w.f.imports[x.Name] == "" || len(call.Args) < 2 {
		return
	}
	sides, ok := functions[x.Name+"."+sel.Sel.Name]
	first, second := call.Args[0], call.Args[1]
	switch {
	case !ok:
	case sides == sideBoth:
		if e := w.f.expectedOf(first, second); e != nil {
			w.value(e, false)
		}
	case w.f.plain(second), x.Name == "strings" && goText(second), x.Name == "errors" && goNamed(second):
		w.value(second, sel.Sel.Name == "Contains")
	}
}

// goAsks are methods that say whether their argument fits: whether another value
// is one that nothing holds by accident, or one far off.
var goAsks = map[string]goPlace{
	"Equal": {}, "Equals": {}, "IsEqual": {}, "Eq": {},
	"Contains": {part: true}, "Includes": {part: true}, "Has": {part: true}, "HasPrefix": {part: true}, "HasSuffix": {part: true},
	"Less": {far: -1}, "Before": {far: -1}, "After": {far: 1},
}

// method adds the argument of a method that says whether a value fits it. The type
// that a literal gets there is not known, so it is altered where it stands.
func (w goWalk) method(call *ast.CallExpr) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 1 {
		return
	}
	p, ok := goAsks[sel.Sel.Name]
	switch text := call.Args[0]; {
	case !ok:
	case p.part && goText(text):
		w.add(goPlace{form: formLonger, loose: true}, text.Pos(), text.End(), !w.named)
	case w.f.asks(call) != "":
		w.argument(text, p)
	}
}

// target adds the target of errors.As, where the test ends without it: what comes
// behind it uses what was not found.
func (w goWalk) target(call *ast.CallExpr) {
	if pkg, name := w.f.from(call.Fun); pkg == "errors" && name == "As" && len(call.Args) == 2 && w.ends {
		w.add(goPlace{form: formTarget}, call.Args[1].Pos(), call.Args[1].End(), !w.named)
	}
}

// asks is the name of a method that a call calls with one argument, whose type is
// that of the argument, "" if it is not.
func (f *goFile) asks(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 1 || call.Ellipsis.IsValid() {
		return ""
	}
	lit, isLit := call.Args[0].(*ast.CompositeLit)
	if isLit && lit.Type != nil || f.plain(call.Args[0]) {
		return sel.Sel.Name
	}
	return ""
}

// argument adds the argument of a method. What the method makes of a value far off,
// or of one more, only the base can tell.
func (w goWalk) argument(e ast.Expr, p goPlace) {
	if w.f.since("go1.18") {
		p.form, p.loose = formWrap, p.far != 0 || p.part
		w.add(p, e.Pos(), e.End(), !w.named)
	}
}

// goOrders are the operators of an order: 1 says that the second is the greater one.
var goOrders = map[token.Token]int{token.LSS: 1, token.LEQ: 1, token.GTR: -1, token.GEQ: -1}

// bound adds the comparison of an order. Whatever the numbers are, it fails the test
// when its place is turned; what is no number is on neither side of any.
func (w goWalk) bound(e *ast.BinaryExpr, positive bool) {
	f := w.f
	if call, ok := ast.Unparen(e.X).(*ast.CallExpr); ok && goLiteral(e.Y) {
		if name := f.asks(call); name == "Cmp" || name == "Compare" {
			far := goOrders[e.Op]
			if !positive {
				far = -far
			}
			w.argument(call.Args[0], goPlace{far: far})
			return
		}
	}
	if f.since("go1.18") && !goShifts(e) && (!f.fixed(e.X) || !f.fixed(e.Y)) {
		w.add(goPlace{form: formCompare, op: f.offset(e.OpPos), order: e.Op, fails: positive}, e.Pos(), e.End(), !w.named)
	}
}

// fixed says whether an expression is made of literals and of names that stand for
// one thing: constants of the file, and what packages export.
func (f *goFile) fixed(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind != token.IMAG
	case *ast.ParenExpr:
		return f.fixed(e.X)
	case *ast.UnaryExpr:
		return e.Op == token.SUB && f.fixed(e.X)
	case *ast.BinaryExpr:
		return f.fixed(e.X) && f.fixed(e.Y)
	case *ast.Ident:
		return goObject(e) != nil && goObject(e).Kind == ast.Con
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && goObject(x) == nil && f.imports[x.Name] != ""
	}
	return false
}

// goShifts says whether an expression has a shift, which takes its type from what
// is round it.
func goShifts(e ast.Expr) (shifts bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		shifts = shifts || ok && (b.Op == token.SHL || b.Op == token.SHR)
		return !shifts
	})
	return shifts
}

// goText says whether an expression is a literal string, which a parameter of
// type string gives its type.
func goText(e ast.Expr) bool {
	b, ok := e.(*ast.BasicLit)
	return ok && b.Kind == token.STRING
}

// goNamed says whether an expression is a name other than nil. One that is
// passed for an error has a type: a constant without one has no methods.
func goNamed(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return !goNil(e)
	case *ast.SelectorExpr:
		return true
	}
	return false
}

// value adds an expression whose type is known to be that of a variable.
func (w goWalk) value(e ast.Expr, part bool) {
	if w.f.since("go1.18") {
		w.add(goPlace{form: formWrap, part: part}, e.Pos(), e.End(), !w.named)
	}
}

// comparison adds the side that calls no code. What is compared with nil has
// no other side than what the test got.
func (w goWalk) comparison(e *ast.BinaryExpr, top bool) {
	f := w.f
	if goNil(e.X) || goNil(e.Y) {
		return
	}
	for _, side := range [][2]ast.Expr{{e.Y, e.X}, {e.X, e.Y}} {
		if goLiteral(side[0]) {
			if f.since("go1.18") {
				w.literalOf(e, side[0], side[1], top)
			}
			return
		}
	}
	if side := f.expectedOf(e.X, e.Y); side != nil {
		w.value(side, false)
	}
}

// expectedOf returns which of two values that are compared is what the test
// expects: by its name, as a field of a row of a table, or by its position, of
// those that call no code. It returns nil if neither is known.
func (f *goFile) expectedOf(x, y ast.Expr) ast.Expr {
	for _, side := range []ast.Expr{y, x} {
		if f.isExpected(side) {
			return side
		}
	}
	for _, side := range []ast.Expr{y, x} {
		if _, ok := ast.Unparen(side).(*ast.SelectorExpr); ok && f.plain(side) && goRow(side) {
			return side
		}
	}
	for _, side := range []ast.Expr{y, x} {
		if f.plain(side) && !goGot().MatchString(f.text(side)) {
			return side
		}
	}
	return nil
}

// goGot are names that people give to what a test got.
var goGot = form.Lazy(`^(got|actual|result|res|have|out|output|err)([A-Z0-9_.\[].*)?$`)

// goRow says whether a field is one of a variable of a range.
func goRow(e ast.Expr) bool {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.Ident:
			a, ok := goObject(x).Decl.(*ast.AssignStmt)
			if !ok || len(a.Rhs) != 1 {
				return false
			}
			if u, ok := a.Rhs[0].(*ast.UnaryExpr); ok && u.Op == token.RANGE {
				return true
			}
			// A copy of the variable for a closure: tc := tc
			id, ok := a.Rhs[0].(*ast.Ident)
			if !ok || id.Name != x.Name || goObject(id) == nil || goObject(id) == goObject(x) {
				return false
			}
			e = id
		default:
			return false
		}
	}
}

// literalOf adds a literal that is compared with other. A literal has no type,
// so it gets that of the other side; a form that is not sure to compile is not
// used.
func (w goWalk) literalOf(e *ast.BinaryExpr, lit, other ast.Expr, top bool) {
	f := w.f
	call, isCall := ast.Unparen(other).(*ast.CallExpr)
	switch {
	case isCall && goBuiltin(call, "len", "cap"):
		if b, ok := lit.(*ast.BasicLit); ok && b.Kind == token.INT {
			w.value(lit, false)
		}
	case f.plain(other):
		text := f.text(other)
		if len(text) <= 200 && !strings.ContainsAny(text, "\n\r") {
			w.add(goPlace{form: formPair, other: text}, lit.Pos(), lit.End(), !w.named)
		}
	case isCall && top && f.since("go1.20") && lit == e.Y:
		p := goPlace{form: formCompare, op: f.offset(e.OpPos), equal: e.Op == token.EQL}
		w.add(p, e.Pos(), e.End(), !w.named)
	}
}

// isExpected says whether an expression is a variable that holds what is
// expected, or a field of one.
func (f *goFile) isExpected(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return goVariable(e) && goExpected().MatchString(e.Name)
	case *ast.SelectorExpr:
		return goExpected().MatchString(e.Sel.Name) && f.plain(e.X)
	}
	return false
}

// plain says whether an expression is made of variables of the file, fields
// and elements: it has a type, and can be evaluated twice.
func (f *goFile) plain(e ast.Expr) bool {
	for ; e != nil; e = goOperand(e) {
		switch x := e.(type) {
		case *ast.Ident:
			return goVariable(x)
		case *ast.IndexExpr:
			if !f.index(x.Index) {
				return false
			}
		case *ast.IndexListExpr:
			return false
		}
	}
	return false
}

// goOperand is what an expression takes a field, an element or the target of, nil
// if it does not.
func goOperand(e ast.Expr) ast.Expr {
	switch x := e.(type) {
	case *ast.SelectorExpr:
		return x.X
	case *ast.ParenExpr:
		return x.X
	case *ast.StarExpr:
		return x.X
	case *ast.IndexExpr:
		return x.X
	case *ast.IndexListExpr:
		return x.X
	}
	return nil
}

// index says whether an index can be evaluated twice.
func (f *goFile) index(e ast.Expr) bool {
	_, ok := e.(*ast.BasicLit)
	return ok || f.plain(e)
}

// goLiteral says whether an expression is a literal that fits every type it may
// be meant for after an increment is made at run time.
func goLiteral(e ast.Expr) bool {
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.SUB {
		e = u.X
	}
	b, ok := e.(*ast.BasicLit)
	if !ok {
		return false
	}
	if b.Kind == token.INT {
		_, err := strconv.ParseInt(b.Value, 0, 32)
		return err == nil
	}
	return b.Kind != token.IMAG
}
