package twin

import (
	"regexp"
	"slices"
	"strings"

	"remit/proof/form"
)

var (
	// A word of the name says that it is an assertion.
	cAsserts = form.Lazy(`(?i)(?:^|_)(?:assert|asserts|check|checks|require|required|expect|expects|verify|ensure|cond|fail_unless|fail_if|ok|is_true|istrue|must|assertion)(?:_|$)|^(?:CU_ASSERT|BOOST_|g_assert)|(?-i:^TEST$|^l(?:ok|equal|[fs]equal)$)`) // the last are minctest's
	// Another word says that it compares something.
	cEqual = form.Lazy(`(?i)(?:^|_)(?:n?eq|ne|equals?|equal_to|not|n?str|strn?eq|streq|strn?cmp|strings?|strcase\w*|mem|memory|memcmp|int|uint|u?int\d*|u?long|u?short|u?char|s?size|double|float|dbl|flt|ptr|pointer|hex\d*|bits?|lt|le|gt|ge|lte|gte|near|close|within|range|in_range|cmp|is|val|value|num|bytes?|array|buf|text|char)(?:_|$)|\d$|^l[fs]?equal$`)
	// The first argument of these is a condition although they are not written as macros are.
	cLower = form.Lazy(`^(?:assert|assert_true|assert_false|ck_assert|ck_assert_msg|fail_unless|fail_if|cr_assert|cr_expect|munit_assert|munit_assert_true|munit_assert_false|mu_assert|mu_check|test_cond|g_assert|g_assert_true|g_assert_false|tap_ok|ok|lok)$`)
	// Of a bound another one may be as good.
	cBounds = form.Lazy(`(?i)(?:^|_)(?:gt|lt|ge|le|gte|lte|greater|less|near|close|within|range|in_range|bits?|cmp_ok)(?:_|$)`)
	// Such a condition has to be false.
	cContrary = form.Lazy(`(?i)(?:^|_)(?:false|not|fail_if|isfalse|null)(?:_|$)`)
	// Assertions that are made when a file is compiled, about types, or about what ends a program.
	cNever = form.Lazy(`(?i)static_assert|_Static_assert|static_require|(?:^|_)(?:throws?\w*|nothrow|no_throw|death|exits?|dies|that|same|type|null|nullptr|nonnull|signal)(?:_|$)`)
)

// assertion notes the places of an assertion whose name is at a token.
func (b *cBody) assertion(i int) {
	p := b.p
	name := p.text(i)
	if p.text(i+1) != "(" || p.closing(i+1) < 0 || !cAsserts().MatchString(name) || cNever().MatchString(name) || !b.stands(i) {
		return
	}
	args := p.split(i + 1)
	if len(args) == 0 {
		return
	}
	b.some = true
	usable, defined := b.macro(name)
	if defined && !usable {
		return
	}
	macro := strings.ToUpper(name) == name || cLower().MatchString(name) || defined || len(args) == 1 && b.asks(args[0])
	if macro && !cEqual().MatchString(strings.TrimPrefix(strings.ToLower(name), "is_")) {
		at := 0
		if len(args) > 1 && p.is(args[0].from, braceText) && !p.is(args[1].from, braceText) {
			at = 1 // the message stands in front
		}
		if at == 1 && defined && !b.decides(name, at) {
			return // of the text and another value something is made, and the two are compared
		}
		if len(args) == 1 || at == 1 && len(args) == 2 || at == 0 && p.is(args[1].from, braceText) {
			b.asserted(i, name, args[at])
			return
		}
	}
	if cBounds().MatchString(name) || cContrary().MatchString(name) && strings.Contains(strings.ToLower(name), "not") || strings.Contains(strings.ToLower(name), "_ne") {
		return // of what something is not another value says nothing
	}
	if len(args) == 3 && p.is(args[1].from, bracePunct) { // munit: an operator stands between the two
		args[1] = args[2]
	}
	if len(args) > 2 && p.is(args[0].from, braceText) {
		args = args[1:] // a name or a message, it seems
	}
	for _, a := range args[:min(len(args), 2)] { // behind them are a length, a line, a message
		b.expected(i, a, b.certain(i))
	}
}

// asserted notes an assertion that is about a condition.
func (b *cBody) asserted(i int, name string, condition span) {
	form := scriptTurn
	if cContrary().MatchString(name) {
		form = scriptFalse
	}
	b.asserts = b.condition(i, condition, form) && name == "assert" || b.asserts
}

// asks says whether an expression looks like a condition: a call, or one with an operator
// that gives yes or no.
func (b *cBody) asks(a span) bool {
	p := b.p
	if p.is(a.from, braceName) && p.text(a.from+1) == "(" && p.closing(a.from+1) == a.to-1 {
		return !b.p.plus
	}
	for i := a.from; i < a.to; i++ {
		if p.closing(i) > 0 {
			i = p.closing(i)
		} else if p.text(i) == "!" || p.operator(i, "==") || p.operator(i, "&&") || p.operator(i, "||") || p.is(i, bracePunct) && (p.text(i) == "<" || p.text(i) == ">") && !p.operator(i-1, "->") && !b.p.plus {
			return true
		}
	}
	return false
}

// stands says whether a token begins a statement.
func (b *cBody) stands(i int) bool {
	before := b.p.text(i - 1)
	if b.p.is(i-1, braceText) {
		return false
	}
	if before == ")" { // of an if, a loop or a macro
		return true
	}
	return slices.Contains([]string{";", "{", "}", "else", "do", ":"}, before)
}

// macro says whether the file defines a macro of a name, and whether its arguments can be
// other ones: they are no parts of names.
func (b *cBody) macro(name string) (usable, defined bool) {
	if b.p.macros == nil {
		b.p.macros = map[string]string{}
		for _, m := range cDefine().FindAllSubmatch(b.p.file.src, -1) {
			b.p.macros[string(m[1])] = string(m[2])
		}
	}
	text, defined := b.p.macros[name]
	return defined && !strings.Contains(text, "##"), defined
}

// decides says whether a macro of the file asks one of its arguments: if (!(test)).
func (b *cBody) decides(name string, at int) bool {
	params, body, ok := strings.Cut(b.p.macros[name], ")")
	names := strings.Split(params, ",")
	if !ok || at >= len(names) {
		return false
	}
	p := regexp.QuoteMeta(strings.TrimSpace(names[at]))
	asked, err := regexp.Compile(`(?:if|while)\s*\(\s*!?\s*(?:\(\s*` + p + `\s*\)|` + p + `)\s*\)|!\s*\(?\s*` + p + `\b|\b` + p + `\s*\)?\s*\?|(?i:assert\w*|check\w*|ok)\s*\([^;]*\b` + p + `\b`)
	return err == nil && asked.MatchString(body)
}

// cDefine is a macro with parameters, and the lines that it goes on in.
var cDefine = form.Lazy(`(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)\(((?:[^\n]*\\\r?\n)*[^\n]*)`)
