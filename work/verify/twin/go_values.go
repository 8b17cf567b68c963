package twin

import (
	"fmt"
	"go/token"
	"strconv"
	"strings"
)

// value returns what goes round a value that a helper passes on, or changes if
// its place is turned. For a pair the value follows one of the type that it has
// to have.
func (g *goGen) value(s goSpot, p *goPlace) (open, end string) {
	form := p.form
	f := g.fields(3)
	d := g.decide(s, f[0])
	typ, generic := "T", "[T interface{}]"
	switch form {
	case formErr:
		typ, generic = "error", ""
	case formNil, formAny, formTarget:
		typ, generic = "interface{}", ""
	}
	param, lead := f[1]+" "+typ, ""
	if form == formPair {
		param, lead = "_, "+param, "pair "
	}
	side := g.draw.coin()
	what := fmt.Sprint("value ", lead, form, p.part, p.far, d.what, side)
	name := g.helper(what, func(name string) {
		params := param + ", " + d.param
		if side {
			params = d.param + ", " + param
		}
		g.decl("func %s%s(%s) %s {\n\tif %s {\n%s\n\t}\n\treturn %s\n}", name, generic, params, typ, d.turned, g.changed(p, f[1], f[2]), f[1])
	})
	if side {
		return name + "(" + d.arg + ", ", ")"
	}
	return name + "(", ", " + d.arg + ")"
}

// operator is the operator of a comparison.
func (p *goPlace) operator() string {
	switch {
	case p.order != token.ILLEGAL:
		return p.order.String()
	case p.equal:
		return "=="
	}
	return "!="
}

// compare returns what goes round the comparison of two values. If the place is
// turned, one of them is changed, or the order is what fails the test for all that
// is on a side of something.
func (g *goGen) compare(s goSpot, p *goPlace) (open, end string) {
	f := g.fields(4)
	d := g.decide(s, f[0])
	side := g.draw.coin()
	name := g.helper(fmt.Sprint("compare ", p.operator(), p.fails, d.what, side), func(name string) {
		params := f[1] + ", " + f[2] + " T, " + d.param
		if side {
			params = d.param + ", " + f[1] + ", " + f[2] + " T"
		}
		constraint, changed := "comparable", "\t\treturn false"
		switch {
		case p.order == token.ILLEGAL:
			changed = "\t\t" + f[3] + " := " + f[2] + "\n\t\t" + g.alter(false) + "(" + g.pkg("reflect") + ".ValueOf(&" + f[3] + ").Elem(), 0)\n\t\treturn " +
				f[1] + " " + p.operator() + " " + f[3]
		case p.fails:
			changed = "\t\treturn " + f[1] + " == " + f[1] + " && " + f[2] + " == " + f[2]
		}
		if p.order != token.ILLEGAL {
			constraint = g.ordered()
		}
		g.decl("func %s[T %s](%s) bool {\n\tif %s {\n%s\n\t}\n\treturn %s %s %s\n}", name, constraint, params, d.turned, changed, f[1], p.operator(), f[2])
	})
	if side {
		return name + "(" + d.arg + ", ", ")"
	}
	return name + "(", ", " + d.arg + ")"
}

// ordered declares the types that have an order.
func (g *goGen) ordered() string {
	return g.helper("ordered", func(name string) {
		g.decl("type %s interface {\n\t~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64 | ~string\n}", name)
	})
}

// changed returns the statements of a helper that return another value than v.
// They copy it first: v itself stays where it was, so that passing it on does
// not allocate.
func (g *goGen) changed(p *goPlace, v, other string) string {
	switch p.form {
	case formErr:
		return "\t\tif " + v + " == nil {\n\t\t\treturn " + g.pkg("errors") + ".New(" + g.message() + ")\n\t\t}\n\t\treturn nil"
	case formNil:
		return "\t\tif !" + g.isSet() + "(" + v + ") {\n\t\t\treturn " + g.message() + "\n\t\t}\n\t\treturn nil"
	case formTarget:
		return "\t\tvar " + other + " *" + g.failure() + "\n\t\treturn &" + other
	default:
		alter := g.alter(p.part)
		if p.far != 0 {
			alter = g.past(p.far)
		}
		return "\t\t" + other + " := " + v + "\n\t\t" + alter + "(" + g.pkg("reflect") + ".ValueOf(&" + other + ").Elem(), 0)\n\t\treturn " + other
	}
}

// failure declares a type of errors that nothing is.
func (g *goGen) failure() string {
	return g.helper("failure", func(name string) {
		f := g.field()
		g.decl("type %s struct{ %s string }\n\nfunc (%s *%s) Error() string { return %s.%s }", name, f, f, name, f, f)
	})
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
// type, and says whether there was one that it could make. The other value is like
// the one that was there, as the author of the test could have written it; where
// part is set it is one that what holds the value does not hold by accident.
func (g *goGen) alter(part bool) string {
	what, code := "alter", strings.Replace(goAlter, "$text", goAlterText, 1)
	if part {
		what, code = "alter part", strings.Replace(goAlter, "$text", goExtendText, 1)
	}
	return g.helper(what, func(name string) {
		f := g.fields(6)
		words := []string{
			"$alter", name, "$v", f[0], "$depth", f[1], "$word", g.message(), "$w", f[2], "$i", f[3], "$c", f[4], "$k", f[5],
			"$add", strconv.Itoa(1 + g.draw.below(4)), "$at", strconv.Itoa(g.draw.below(1000)), "$by", strconv.Itoa(1 + g.draw.below(9)),
			"$r.", g.pkg("reflect") + ".", "$errors", g.pkg("errors"),
		}
		if !part {
			words = append(words, "$s.", g.pkg("strings")+".")
		}
		g.decls = append(g.decls, strings.NewReplacer(words...).Replace(code))
	})
}

// goAlterText makes a text another one of its length and its letters, goExtendText
// a longer one.
const (
	goAlterText = `		$w := []byte($v.String())
		for $i := range $w {
			$i = ($i + $at) % len($w)
			for _, $c := range [...]string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"} {
				if $k := $s.IndexByte($c, $w[$i]); $k >= 0 {
					$w[$i] = $c[($k+$by)%len($c)]
					$v.SetString(string($w))
					return true
				}
			}
		}
		$v.SetString($v.String() + $word)`
	goExtendText = `		$v.SetString($v.String() + $word)`
)

const goAlter = `func $alter($v $r.Value, $depth int) bool {
	if $depth > 6 || !$v.CanSet() {
		return false
	}
	switch $v.Kind() {
	case $r.Bool:
		$v.SetBool(!$v.Bool())
	case $r.Int, $r.Int8, $r.Int16, $r.Int32, $r.Int64:
		$v.SetInt($v.Int() + $add)
	case $r.Uint, $r.Uint8, $r.Uint16, $r.Uint32, $r.Uint64, $r.Uintptr:
		$v.SetUint($v.Uint() + $add)
	case $r.Float32, $r.Float64:
		$w := $v.Float()
		if $v.SetFloat($w*2 + 1); $v.Float() == $w || $v.Float() != $v.Float() {
			$v.SetFloat(1.5)
		}
	case $r.Complex64, $r.Complex128:
		$v.SetComplex($v.Complex() + 1)
	case $r.String:
$text
	case $r.Slice:
		if $v.Len() > 0 && ($v.Index(0).Kind() < $r.Array || $v.Index(0).Kind() == $r.String) {
			$w := $r.MakeSlice($v.Type(), $v.Len(), $v.Len())
			$r.Copy($w, $v)
			$alter($w.Index($w.Len()-1), $depth+1)
			$v.Set($w)
			return true
		}
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

// past declares the function that makes a variable hold a value that is more than
// all that a test gets, or less, as far as its type has one, and says whether it
// could make one. A field stays where a method can still compute with it.
func (g *goGen) past(far int) string {
	up := far > 0
	return g.helper(fmt.Sprint("past ", up), func(name string) {
		f := g.fields(4)
		sign, text := "-", `""`
		if up {
			sign, text = "", `"\U0010fffd"+$word`
		}
		code := strings.NewReplacer("$sign", sign, "$text", text).Replace(goPast)
		if !up {
			code = strings.Replace(code, "$v.SetUint(^uint64(0) >> uint64(64-$v.Type().Bits()))", "$v.SetUint(0)", 1)
		}
		g.decls = append(g.decls, strings.NewReplacer("$past", name, "$v", f[0], "$depth", f[1], "$word", g.message(), "$w", f[2], "$i", f[3],
			"$by", strconv.Itoa(1+g.draw.below(8)), "$r.", g.pkg("reflect")+".").Replace(code))
	})
}

const goPast = `func $past($v $r.Value, $depth int) bool {
	if $depth > 6 || !$v.CanSet() {
		return false
	}
	switch $v.Kind() {
	case $r.Int, $r.Int8, $r.Int16, $r.Int32, $r.Int64:
		$i := $v.Type().Bits()
		if $depth > 0 && $i > 31 {
			$i = 31
		}
		$v.SetInt($sign(int64(^uint64(0)>>uint64(65-$i)) - $by))
	case $r.Uint, $r.Uint8, $r.Uint16, $r.Uint32, $r.Uint64, $r.Uintptr:
		$v.SetUint(^uint64(0) >> uint64(64-$v.Type().Bits()))
	case $r.Float32:
		$v.SetFloat($sign$by * 1e36)
	case $r.Float64:
		$v.SetFloat($sign$by * 1e300)
	case $r.String:
		$v.SetString($text)
	case $r.Struct:
		for $i := 0; $i < $v.NumField(); $i++ {
			if $past($v.Field($i), $depth+1) {
				return true
			}
		}
		return false
	case $r.Ptr:
		if $v.IsNil() {
			return false
		}
		$w := $r.New($v.Type().Elem())
		$w.Elem().Set($v.Elem())
		if !$past($w.Elem(), $depth+1) {
			return false
		}
		$v.Set($w)
	case $r.Interface:
		if $v.IsNil() {
			return false
		}
		$w := $r.New($v.Elem().Type()).Elem()
		$w.Set($v.Elem())
		if !$past($w, $depth+1) {
			return false
		}
		$v.Set($w)
	default:
		return false
	}
	return true
}`
