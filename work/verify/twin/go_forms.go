package twin

import "strings"

// condition returns what goes round a condition.
func (g *goGen) condition(s goSpot) (open, end string) {
	turned, kept := g.when(s.bank, s.index, true), g.when(s.bank, s.index, false)
	switch g.draw.below(8) {
	case 0:
		return "(", ") == (" + kept + ")"
	case 1:
		return "(", ") != (" + turned + ")"
	case 2:
		return "(" + turned + ") != (", ")"
	case 3:
		return "(" + kept + ") == (", ")"
	case 4:
		return "!((", ") == (" + turned + "))"
	case 5:
		return "!((" + kept + ") != (", "))"
	case 6:
		n, value := g.noisy()
		if value {
			return "(" + n + ") == ((", ") == (" + kept + "))"
		}
		return "(" + n + ") == ((", ") == (" + turned + "))"
	default:
		n, value := g.noisy()
		if value {
			return "((" + kept + ") != (", ")) != (" + n + ")"
		}
		return "((" + turned + ") != (", ")) != (" + n + ")"
	}
}

// helper declares a function once for each thing that it does in this file.
func (g *goGen) helper(what string, declare func(name string)) string {
	if g.memo[what] == "" {
		g.memo[what] = g.name()
		declare(g.memo[what])
	}
	return g.memo[what]
}

// decision is an argument that says whether something is turned, as the
// parameter of a helper and as what the caller passes.
type decision struct {
	what   string // tells the helpers apart
	arg    string
	param  string // with its type
	turned string // what is true in the helper if it is turned
}

// decide draws how a helper learns whether its place is turned. Param is the name of the parameter.
func (g *goGen) decide(s goSpot, param string) decision {
	switch g.draw.below(4) {
	case 0:
		return decision{"turned", g.when(s.bank, s.index, true), param + " bool", param}
	case 1:
		return decision{"kept", g.when(s.bank, s.index, false), param + " bool", "!" + param}
	default:
		what := "bank"
		for i, b := range g.banks {
			if b == s.bank {
				what += string(rune('a' + i))
			}
		}
		return decision{what, s.index, param + " int", s.bank.lhs(param) + " == " + s.bank.rhs(param)}
	}
}

// handleType is the part of a handle that helpers need. Every handle of package
// testing has it.
const handleType = "interface {\n\tCleanup(func())\n\tError(...interface{})\n\tErrorf(string, ...interface{})\n\tFail()\n}"

// report is a statement that fails the test of handle t.
func (g *goGen) report(t string) string {
	switch g.draw.below(4) {
	case 0:
		return t + ".Fail()"
	case 1:
		return t + `.Errorf("%s", ` + g.message() + ")"
	default:
		return t + ".Error(" + g.message() + ")"
	}
}

// failing returns a statement that fails the test if its place is turned.
func (g *goGen) failing(s goSpot, t string, last bool) string {
	switch g.draw.below(8) {
	case 0:
		return "switch { case " + g.when(s.bank, s.index, true) + ": " + g.report(t) + " }"
	case 1:
		return "for " + g.when(s.bank, s.index, true) + " { " + g.report(t) + "; break }"
	case 2:
		return "switch { case " + g.when(s.bank, s.index, false) + ": default: " + g.report(t) + " }"
	case 3:
		if last {
			return "if " + g.when(s.bank, s.index, true) + " { " + t + ".Fatal(" + g.message() + ") }"
		}
		return "if " + g.when(s.bank, s.index, true) + " { " + t + ".Error(" + g.message() + ") }"
	case 4, 5:
		return g.guard(s, t, "")
	default:
		return "if " + g.when(s.bank, s.index, true) + " { " + g.report(t) + " }"
	}
}

// first returns a statement that fails the test at the end of its body, however
// the body ends. The literal of a function would shift the numbers by which the
// runtime names the ones in the test, so a helper holds it.
func (g *goGen) first(s goSpot, t string) string {
	switch g.draw.below(4) {
	case 0:
		return "defer " + g.guard(s, t, "")
	case 1:
		return "defer " + g.guard(s, t, "func()") + "()"
	case 2:
		return g.guard(s, t, "cleanup")
	default:
		return t + ".Cleanup(" + g.guard(s, t, "func()") + ")"
	}
}

// guard returns the call of a helper that fails the test of handle t if its
// place is turned: at once, by the function that it returns, or in a cleanup.
func (g *goGen) guard(s goSpot, t, how string) string {
	f := g.fields(2)
	d := g.decide(s, f[0])
	params, args := []string{d.param, f[1] + " " + handleType}, []string{d.arg, t}
	side := "left"
	if g.draw.coin() {
		side = "right"
		params[0], params[1], args[0], args[1] = params[1], params[0], args[1], args[0]
	}
	name := g.helper("guard "+d.what+" "+how+" "+side, func(name string) {
		body := "if " + d.turned + " {\n\t\t" + g.report(f[1]) + "\n\t}"
		switch how {
		case "func()":
			body = "return func() {\n\t" + body + "\n\t}"
		case "cleanup":
			body = f[1] + ".Cleanup(func() {\n\t" + body + "\n\t})"
		}
		result := ""
		if how == "func()" {
			result = " func()"
		}
		g.decl("func %s(%s)%s {\n\t%s\n}", name, strings.Join(params, ", "), result, body)
	})
	return name + "(" + strings.Join(args, ", ") + ")"
}

// print returns a statement that adds to the output of an example.
func (g *goGen) print(s goSpot) string {
	out := func() string {
		return g.pkg("os") + ".Stdout.WriteString(" + strings.TrimSuffix(g.message(), `"`) + `\n")`
	}
	switch g.draw.below(5) {
	case 0:
		return "if " + g.when(s.bank, s.index, true) + " { " + out() + " }"
	case 1:
		return "switch { case " + g.when(s.bank, s.index, true) + ": " + out() + " }"
	case 2:
		return "for " + g.when(s.bank, s.index, true) + " { " + out() + "; break }"
	default:
		f := g.field()
		d := g.decide(s, f)
		name := g.helper("print "+d.what, func(name string) {
			g.decl("func %s(%s) {\n\tif %s {\n\t\t%s\n\t}\n}", name, d.param, d.turned, out())
		})
		call := name + "(" + d.arg + ")"
		if g.draw.coin() {
			return "defer " + call
		}
		return call
	}
}
