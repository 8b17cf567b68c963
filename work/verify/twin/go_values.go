package twin

import (
	"fmt"
	"strings"
)

// value returns what goes round a value that a helper passes on, or changes if
// its place is turned. For a pair the value follows one of the type that it has
// to have.
func (g *goGen) value(s goSpot, form goForm) (open, end string) {
	f := g.fields(3)
	d := g.decide(s, f[0])
	typ, generic := "T", "[T interface{}]"
	switch form {
	case formErr:
		typ, generic = "error", ""
	case formNil, formAny:
		typ, generic = "interface{}", ""
	}
	param, lead := f[1]+" "+typ, ""
	if form == formPair {
		param, lead = "_, "+param, "pair "
	}
	side := g.draw.coin()
	what := fmt.Sprint("value ", lead, form, d.what, side)
	name := g.helper(what, func(name string) {
		params := param + ", " + d.param
		if side {
			params = d.param + ", " + param
		}
		g.decl("func %s%s(%s) %s {\n\tif %s {\n%s\n\t}\n\treturn %s\n}", name, generic, params, typ, d.turned, g.changed(form, f[1], f[2]), f[1])
	})
	if side {
		return name + "(" + d.arg + ", ", ")"
	}
	return name + "(", ", " + d.arg + ")"
}

// compare returns what goes round the comparison of two values, of which the
// second is changed if the place is turned.
func (g *goGen) compare(s goSpot, equal bool) (open, end string) {
	f := g.fields(4)
	d := g.decide(s, f[0])
	op := map[bool]string{true: "==", false: "!="}[equal]
	side := g.draw.coin()
	name := g.helper(fmt.Sprint("compare ", op, d.what, side), func(name string) {
		params := f[1] + ", " + f[2] + " T, " + d.param
		if side {
			params = d.param + ", " + f[1] + ", " + f[2] + " T"
		}
		copied := "\t\t" + f[3] + " := " + f[2] + "\n\t\t" + g.alter() + "(" + g.pkg("reflect") + ".ValueOf(&" + f[3] + ").Elem(), 0)\n\t\treturn " +
			f[1] + " " + op + " " + f[3]
		g.decl("func %s[T comparable](%s) bool {\n\tif %s {\n%s\n\t}\n\treturn %s %s %s\n}", name, params, d.turned, copied, f[1], op, f[2])
	})
	if side {
		return name + "(" + d.arg + ", ", ")"
	}
	return name + "(", ", " + d.arg + ")"
}

// changed returns the statements of a helper that return another value than v.
// They copy it first: v itself stays where it was, so that passing it on does
// not allocate.
func (g *goGen) changed(form goForm, v, other string) string {
	switch form {
	case formErr:
		return "\t\tif " + v + " == nil {\n\t\t\treturn " + g.pkg("errors") + ".New(" + g.message() + ")\n\t\t}\n\t\treturn nil"
	case formNil:
		return "\t\tif !" + g.isSet() + "(" + v + ") {\n\t\t\treturn " + g.message() + "\n\t\t}\n\t\treturn nil"
	default:
		return "\t\t" + other + " := " + v + "\n\t\t" + g.alter() + "(" + g.pkg("reflect") + ".ValueOf(&" + other + ").Elem(), 0)\n\t\treturn " + other
	}
}

// isSet declares the function that says whether a value is not nil, as the
// libraries of assertions see it.
func (g *goGen) isSet() string {
	return g.helper("is set", func(name string) {
		f := g.fields(2)
		g.decls = append(g.decls, strings.NewReplacer("$set", name, "$v", f[0], "$w", f[1], "$r.", g.pkg("reflect")+".").Replace(goIsSet))
	})
}

const goIsSet = `func $set($v interface{}) bool {
	if $v == nil {
		return false
	}
	switch $w := $r.ValueOf($v); $w.Kind() {
	case $r.Chan, $r.Func, $r.Map, $r.Ptr, $r.Slice, $r.UnsafePointer:
		return !$w.IsNil()
	}
	return true
}`

// alter declares the function that makes a variable hold another value of its
// type, and says whether there was one that it could make.
func (g *goGen) alter() string {
	return g.helper("alter", func(name string) {
		f := g.fields(4)
		g.decls = append(g.decls, strings.NewReplacer(
			"$alter", name, "$v", f[0], "$depth", f[1], "$word", g.message(), "$w", f[2], "$i", f[3],
			"$r.", g.pkg("reflect")+".", "$errors", g.pkg("errors"),
		).Replace(goAlter))
	})
}

const goAlter = `func $alter($v $r.Value, $depth int) bool {
	if $depth > 6 || !$v.CanSet() {
		return false
	}
	switch $v.Kind() {
	case $r.Bool:
		$v.SetBool(!$v.Bool())
	case $r.Int, $r.Int8, $r.Int16, $r.Int32, $r.Int64:
		$v.SetInt($v.Int() + 1)
	case $r.Uint, $r.Uint8, $r.Uint16, $r.Uint32, $r.Uint64, $r.Uintptr:
		$v.SetUint($v.Uint() + 1)
	case $r.Float32, $r.Float64:
		$w := $v.Float()
		if $v.SetFloat($w*2 + 1); $v.Float() == $w || $v.Float() != $v.Float() {
			$v.SetFloat(1.5)
		}
	case $r.Complex64, $r.Complex128:
		$v.SetComplex($v.Complex() + 1)
	case $r.String:
		$v.SetString($v.String() + $word)
	case $r.Slice:
		$w := $r.MakeSlice($v.Type(), $v.Len()+1, $v.Len()+1)
		$r.Copy($w, $v)
		$v.Set($w)
	case $r.Map:
		$w := $r.MakeMap($v.Type())
		for _, $i := range $v.MapKeys() {
			$w.SetMapIndex($i, $v.MapIndex($i))
		}
		$i := $r.Zero($v.Type().Key())
		if $w.MapIndex($i).IsValid() {
			$w.SetMapIndex($i, $r.Value{})
		} else {
			$w.SetMapIndex($i, $r.Zero($v.Type().Elem()))
		}
		$v.Set($w)
	case $r.Ptr:
		$w := $r.New($v.Type().Elem())
		if !$v.IsNil() {
			$w.Elem().Set($v.Elem())
			$alter($w.Elem(), $depth+1)
		}
		$v.Set($w)
	case $r.Interface:
		if $v.IsNil() {
			$w := $r.ValueOf($errors.New($word))
			if !$w.Type().AssignableTo($v.Type()) {
				return false
			}
			$v.Set($w)
			return true
		}
		$w := $r.New($v.Elem().Type()).Elem()
		$w.Set($v.Elem())
		if !$alter($w, $depth+1) {
			return false
		}
		$v.Set($w)
	case $r.Array:
		return $v.Len() > 0 && $alter($v.Index(0), $depth+1)
	case $r.Struct:
		for $i := 0; $i < $v.NumField(); $i++ {
			if $alter($v.Field($i), $depth+1) {
				return true
			}
		}
		$w := $r.Zero($v.Type())
		if $v.IsZero() {
			return false
		}
		$v.Set($w)
	case $r.Chan, $r.Func:
		if $v.IsNil() {
			return false
		}
		$v.Set($r.Zero($v.Type()))
	default:
		return false
	}
	return true
}`
