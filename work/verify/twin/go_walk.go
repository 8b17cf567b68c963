package twin

import (
	"go/ast"
	"go/token"
)

// goForm is what is edited at a place.
type goForm int

const (
	formCond    goForm = iota // a condition: flip
	formErr                   // an argument of type error: flip
	formNil                   // an argument that is nil or not: flip
	formWrap                  // an expected value, by a generic helper: expect
	formAny                   // an expected value that is passed as an interface: expect
	formPair                  // an expected literal, typed by the pure expression compared with it: expect
	formCompare               // the comparison of a call with a literal, or one of an order: expect
	formTarget                // a pointer to what an error is looked for as: expect
	formLonger                // a literal text that becomes a longer one: expect
	formFirst                 // the start of a body: fail
	formStmt                  // a statement between or after others: fail
	formPrint                 // a statement of an example: fail
)

func (f goForm) public() Kind {
	switch f {
	case formCond, formErr, formNil:
		return Flip
	case formWrap, formAny, formPair, formCompare, formTarget, formLonger:
		return Expect
	default:
		return Fail
	}
}

// goPlace is one place that is edited. Its text is [at,end); a statement goes
// before at, which is end.
type goPlace struct {
	form    goForm
	at, end int
	line    int
	t       *goName // the test's handle, where the form or named needs one
	fails   bool    // a condition that is true, or a value that is not nil, fails the test
	named   bool    // offers are chosen among by the name of the running test
	offers  []goOffer
	before  bool        // a statement needs a semicolon before it
	other   string      // formPair: the text of the other side
	op      int         // formCompare: offset of the operator
	equal   bool        // formCompare: the operator is ==
	order   token.Token // formCompare: the operator of an order, if it is one
	last    bool        // formStmt: nothing follows it
	part    bool        // a value of which it is asked whether another one holds it
	far     int         // another value is more than all (1) or less (-1), where there is such
	loose   bool        // whether another value makes the test fail depends on what is asked
	certain bool        // it is reached whenever the test passes
	outcome bool        // formFirst: a trace records how the test of this body ends
}

// goOffer is one site: a place in one test.
type goOffer struct {
	test string
	id   int
}

// goName is a handle of package testing: a parameter that has a name, or one
// that is given a name.
type goName struct {
	name  string
	at    int  // offset of the insertion that names it
	blank bool // it is called "_", to which the name is added
	none  bool // it has no name at all
}

// goLit says what is known of the caller of a function literal.
type goLit int

const (
	litLoose  goLit = iota // anything may call it, anywhere
	litDirect              // it is called in the goroutine of the test
	litTest                // package testing calls it with a handle of its own
)

// goWalk visits a declaration and adds its places. It is a value: what holds for
// the children of a node is set in a copy.
type goWalk struct {
	f     *goFile
	users []string // tests that a site here can belong to
	named bool     // they share it
	async bool     // in a goroutine that the code starts
	loose bool     // in a literal of an unknown caller
	ends  bool     // of a condition: the test ends where it fails
	lit   goLit    // of literals that are children of the node
	// certain is set for the body of a test that passes only at its end, and in a
	// statement of one.
	certain bool
}

// Visit implements ast.Visitor.
func (w goWalk) Visit(n ast.Node) ast.Visitor {
	lit := w.lit
	w.lit = litLoose
	switch n := n.(type) {
	case *ast.FuncDecl, *ast.BlockStmt, *ast.ExprStmt, *ast.GenDecl, *ast.DeclStmt:
		w.lit = litDirect
	case *ast.ParenExpr, *ast.DeferStmt:
		w.lit = lit
	case *ast.AssignStmt, *ast.ValueSpec:
		w.lit = litDirect
	case *ast.GoStmt:
		w.async = true
	case *ast.CallExpr:
		w.lit = w.callee(n)
		w.at(n).assertion(n)
		w.f.says = append(w.f.says, w.f.reportIn(n)...)
	case *ast.FuncLit:
		w.literal(n, lit)
	case *ast.IfStmt:
		w.at(n).ifStmt(n)
	case *ast.SwitchStmt:
		w.switchStmt(n)
	}
	return w
}

// at is the walk for the places of one statement.
func (w goWalk) at(n ast.Node) goWalk {
	w.certain = w.f.straight[n]
	return w
}

// callee says what is known of literals that a call is made of.
func (w *goWalk) callee(call *ast.CallExpr) goLit {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.FuncLit:
		return litDirect
	case *ast.SelectorExpr:
		_, kind := w.f.testing(fun.X)
		switch {
		case kind == kindNone:
		case fun.Sel.Name == "Run" || fun.Sel.Name == "Fuzz":
			return litTest
		case fun.Sel.Name == "Cleanup":
			return litDirect
		}
	}
	return litLoose
}

// literal enters a function literal.
func (w *goWalk) literal(n *ast.FuncLit, lit goLit) {
	t := w.f.handle(n.Type)
	switch {
	case t != nil:
		w.loose = false
	case lit == litLoose:
		w.loose = true
	}
	if t != nil && lit == litTest && !w.async {
		w.statements(n.Body, t)
	}
}

// handle returns the first parameter of a type of package testing.
func (f *goFile) handle(typ *ast.FuncType) *goName {
	for _, field := range typ.Params.List {
		if f.kindOf(field.Type) == kindNone {
			continue
		}
		switch {
		case len(field.Names) == 0 && len(typ.Params.List) > 1:
			return nil // to name one is to name all
		case len(field.Names) == 0:
			return &goName{at: f.offset(field.Type.Pos()), none: true}
		case field.Names[0].Name == "_":
			return &goName{at: f.offset(field.Names[0].End()), blank: true}
		default:
			return &goName{name: field.Names[0].Name}
		}
	}
	return nil
}

// outer adds the failing statements of a test function.
func (w goWalk) outer(fn *ast.FuncDecl) {
	if t := w.f.handle(fn.Type); t != nil {
		w.certain = !w.f.endsEarly(fn.Body)
		w.statements(fn.Body, t)
		if w.certain {
			w.f.straighten(fn.Body.List)
		}
		return
	}
	w.add(goPlace{form: formPrint}, fn.Body.Lbrace+1, fn.Body.Lbrace+1, true)
	if n := len(fn.Body.List); n > 0 && w.f.goesOn(fn.Body.List[n-1]) {
		end := fn.Body.List[n-1].End()
		w.add(goPlace{form: formPrint, before: true}, end, end, true)
	}
}

// statements adds the failing statements of a body with a handle: at the start,
// after the first statement, and at the end.
func (w goWalk) statements(body *ast.BlockStmt, t *goName) {
	w.add(goPlace{form: formFirst, t: t, outcome: true}, body.Lbrace+1, body.Lbrace+1, true)
	n := len(body.List)
	if n > 1 && w.f.goesOn(body.List[0]) {
		end := body.List[0].End()
		w.add(goPlace{form: formStmt, t: t, before: true}, end, end, true)
	}
	if n > 0 && w.f.goesOn(body.List[n-1]) {
		last := body.List[n-1].End()
		w.add(goPlace{form: formStmt, t: t, last: true, certain: w.certain, before: w.f.line(last) == w.f.line(body.Rbrace)}, body.Rbrace, body.Rbrace, true)
	}
}

// endsEarly says whether the body of a test may end before its end without a
// failure: by a return, or by a panic that something deferred recovers. Of what
// is deferred only calls of methods and variables without arguments are known
// not to do that, in a file that recovers nothing.
func (f *goFile) endsEarly(body *ast.BlockStmt) (early bool) {
	early = f.idents["recover"]
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt, *ast.LabeledStmt:
			early = true
		case *ast.DeferStmt:
			switch fun := n.Call.Fun.(type) {
			case *ast.SelectorExpr:
				early = early || len(n.Call.Args) > 0 && !goBasic(n.Call.Args)
			case *ast.Ident:
				early = early || len(n.Call.Args) > 0 || !goVariable(fun)
			default:
				early = true
			}
		}
		return true
	})
	return early
}

// goBasic says whether arguments are literals.
func goBasic(args []ast.Expr) bool {
	for _, a := range args {
		if _, ok := a.(*ast.BasicLit); !ok {
			return false
		}
	}
	return true
}

// add adds a place. It belongs to the tests at hand if offered.
func (w goWalk) add(p goPlace, at, end token.Pos, offered bool) {
	f := w.f
	if len(f.places) > maxGoSites {
		return // which ParseGo reports
	}
	p.at, p.end, p.line = f.offset(at), f.offset(end), f.line(at)
	p.certain = p.certain || w.certain && p.form.public() != Fail
	if w.named {
		f.shared += len(w.users)
		offered = offered && p.t != nil && f.shared <= maxGoNamed
	}
	if offered && len(w.users) > 0 {
		p.named = w.named
		for _, test := range w.users {
			p.offers = append(p.offers, goOffer{test: test})
		}
	}
	f.places = append(f.places, &p)
}

// goesOn says whether the statement after s can be reached as far as its form
// tells. It is strict: go vet reports code that cannot be.
func (f *goFile) goesOn(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return true
		}
		if goBuiltin(call, "panic") {
			return false
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		return !ok || !goEnds[sel.Sel.Name]
	case *ast.IfStmt:
		return s.Else == nil
	case *ast.ForStmt:
		return s.Cond != nil
	case *ast.AssignStmt, *ast.DeclStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt, *ast.RangeStmt:
		return true
	default:
		return false
	}
}

// goEnds are methods and functions after which a test does not go on.
var goEnds = map[string]bool{
	"Fatal": true, "Fatalf": true, "Fatalln": true, "FailNow": true, "Skip": true, "Skipf": true, "SkipNow": true,
	"Exit": true, "Goexit": true,
}
