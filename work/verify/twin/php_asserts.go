package twin

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// phpWanted is what the first argument of an assertion is.
type phpWanted struct {
	way   way
	whole bool // it is compared as a whole, with no tolerance
	class bool // only where it is a literal, or the name of a class
}

// phpExpected are assertions whose first argument is what they expect, and what is
// waited for.
var phpExpected = map[string]phpWanted{
	"assertSame": {whole: true}, "assertEquals": {whole: true}, "assertCount": {whole: true}, "assertEqualsCanonicalizing": {}, "assertEqualsIgnoringCase": {},
	"assertStringEqualsFile": {class: true}, "assertJsonStringEqualsJsonString": {class: true}, "assertXmlStringEqualsXmlString": {class: true},
	"assertInstanceOf": {class: true}, "assertStringStartsWith": {class: true}, "assertStringEndsWith": {class: true},
	"assertEqualsWithDelta": {way: wayAbove}, "assertArrayHasKey": {way: wayFar}, "assertContains": {way: wayFar}, "assertContainsEquals": {way: wayFar},
	"assertStringContainsString": {way: wayPart}, "assertStringContainsStringIgnoringCase": {way: wayPart},
	"assertMatchesRegularExpression": {way: wayMatch}, "assertRegExp": {way: wayMatch},
	"assertGreaterThan": {way: wayAbove}, "assertGreaterThanOrEqual": {way: wayAbove}, "assertLessThan": {way: wayBelow}, "assertLessThanOrEqual": {way: wayBelow},
	"expectException": {class: true}, "expectExceptionCode": {class: true}, "expectExceptionMessage": {way: wayPart}, "expectExceptionMessageMatches": {way: wayMatch},
	"expectOutputString": {class: true},
}

// phpPairs are assertions and their contraries, where the one is not the other with
// "Not" in its name.
var phpPairs = [][2]string{
	{"assertGreaterThan", "assertLessThanOrEqual"}, {"assertLessThan", "assertGreaterThanOrEqual"},
	{"assertMatchesRegularExpression", "assertDoesNotMatchRegularExpression"}, {"assertRegExp", "assertNotRegExp"},
	{"assertStringContainsString", "assertStringNotContainsString"}, {"assertStringContainsStringIgnoringCase", "assertStringNotContainsStringIgnoringCase"},
	{"assertStringStartsWith", "assertStringStartsNotWith"}, {"assertStringEndsWith", "assertStringEndsNotWith"},
	{"assertFileExists", "assertFileDoesNotExist"}, {"assertDirectoryExists", "assertDirectoryDoesNotExist"},
	{"assertArrayHasKey", "assertArrayNotHasKey"}, {"assertObjectHasProperty", "assertObjectNotHasProperty"}, {"assertObjectHasAttribute", "assertObjectNotHasAttribute"},
	{"assertStringEqualsFile", "assertStringNotEqualsFile"}, {"assertFileEquals", "assertFileNotEquals"}, {"assertFinite", "assertInfinite"},
	{"assertJsonStringEqualsJsonString", "assertJsonStringNotEqualsJsonString"}, {"assertXmlStringEqualsXmlString", "assertXmlStringNotEqualsXmlString"},
	{"assertStringMatchesFormat", "assertStringNotMatchesFormat"}, {"assertIsReadable", "assertIsNotReadable"}, {"assertIsWritable", "assertIsNotWritable"},
}

// phpNegated are assertions whose contrary has "Not" behind "assert", or behind
// "assertIs".
var phpNegated = form.Lazy(`^assert(Is)?(Not)?((?:Same|Equals|EqualsCanonicalizing|EqualsIgnoringCase|EqualsWithDelta|Contains|ContainsEquals|Count|Empty|InstanceOf|True|False|Null|SameSize)|` +
	`(?:Array|Bool|Float|Int|Numeric|Object|Resource|String|Scalar|Callable|Iterable))$`)

// phpContrary is the assertion that holds where another one does not, "" if there is
// none.
func phpContrary(name string) string {
	for _, pair := range phpPairs {
		if i := slices.Index(pair[:], name); i >= 0 {
			return pair[1-i]
		}
	}
	m := phpNegated().FindStringSubmatch(name)
	if m == nil || (m[1] == "Is") != strings.Contains("Array Bool Float Int Numeric Object Resource String Scalar Callable Iterable", m[3]) {
		return ""
	}
	if m[2] == "" {
		return "assert" + m[1] + "Not" + m[3]
	}
	return "assert" + m[1] + m[3]
}

// phpGrammar is how literals are written in PHP.
var phpGrammar = &grammar{yes: "true", no: "false", errors: phpErrors(), text: phpLiteral, pattern: phpPattern}

var phpLiteral = form.Lazy(`^()(?:'(?:[^'\\]|\\['\\])*'|"(?:[^"\\$\n]|\\[ntr\\"$])*")$`)

// phpPattern is a string, or in it a regular expression between slashes and the like.
var phpPattern = form.Lazy(`^(?:['"]/((?:[^'"\\/$]|\\.|\$/)+)/[a-zA-Z]*['"]|['"]#((?:[^'"\\#$]|\\.)+)#[a-zA-Z]*['"]|['"]~((?:[^'"\\~$]|\\.)+)~[a-zA-Z]*['"]|'((?:[^'\\]|\\.)*)'|"((?:[^"\\$]|\\.)*)")$`)

// phpErrors are exceptions of PHP, and those that are expected in their place: of
// another branch, so that no class of the code under test is one of both.
func phpErrors() map[string][]string {
	logic, runtime := strings.Fields("DomainException LengthException OutOfRangeException"), strings.Fields("RangeException OverflowException UnderflowException")
	out := map[string][]string{}
	add := func(names string, others ...string) {
		for name := range strings.FieldsSeq(names) {
			for _, front := range []string{"", `\`} {
				for _, o := range others {
					out[front+name+"::class"] = append(out[front+name+"::class"], front+o+"::class")
				}
			}
		}
	}
	add("InvalidArgumentException LogicException BadFunctionCallException BadMethodCallException DomainException LengthException OutOfRangeException", runtime...)
	add("RuntimeException OutOfBoundsException RangeException OverflowException UnderflowException UnexpectedValueException", logic...)
	add("TypeError ValueError ArgumentCountError", "ArithmeticError", "DivisionByZeroError")
	add("ArithmeticError DivisionByZeroError", "TypeError", "ValueError")
	return out
}

// leaf is the literal that a range of tokens is, without text if it is none.
func (p *phpParser) leaf(a span, w way) literal {
	if a.from >= a.to {
		return literal{}
	}
	l := literal{at: p.tokens[a.from].start, text: p.src[p.tokens[a.from].start:p.tokens[a.to-1].end], in: phpGrammar, way: w}
	single := a.to == a.from+1
	signed := w != wayNear && a.to == a.from+2 && p.text(a.from) == "-" && p.is(a.from+1, scriptNumber)
	class := w == wayNear && a.to == a.from+3 && p.text(a.from+1) == "::" && p.text(a.from+2) == "class"
	if single && p.text(a.from) != "" && !p.is(a.from, scriptVariable) && strings.HasPrefix(l.text, "`") || !single && !signed && !class || !l.changeable() {
		return literal{}
	}
	return l
}

// leaves are the literals of a value that can be changed: itself, or what is in its
// arrays.
func (p *phpParser) leaves(a span, depth int) (out []literal) {
	if l := p.leaf(a, wayNear); l.text != "" {
		return []literal{l}
	}
	if depth > maxScriptDepth || a.to-a.from < 2 {
		return nil
	}
	if p.text(a.from) == "-" && a.to == a.from+2 {
		return p.leaves(span{a.from + 1, a.to}, depth)
	}
	open := a.from
	if p.word(open) == "array" {
		open++
	}
	if p.closing(open) != a.to-1 || p.text(open) != "[" && (open == a.from || p.text(open) != "(") {
		return nil
	}
	for _, part := range p.split(span{open + 1, a.to - 1}, ",") {
		if pair := p.split(part, "=>"); len(pair) == 2 {
			part = pair[1]
		}
		out = append(out, p.leaves(part, depth+1)...)
	}
	return out
}

// literal notes a literal, or a variable that is one, of which another one is altered
// in a way.
func (b *phpBody) literal(i int, a span, e phpWanted) {
	s := b.value(i, a)
	if l := b.p.leaf(a, e.way); l.text != "" {
		s.leaves = []literal{l}
	} else if l := b.p.leaf(b.origin(a), e.way); l.text != "" {
		s.origin = []literal{l}
	} else {
		return
	}
	b.add(s)
}

// expected notes an expected value.
func (b *phpBody) expected(i int, a span, e phpWanted) {
	s := b.value(i, a)
	s.whole = e.whole
	s.leaves = b.p.leaves(a, 0)
	for _, l := range s.leaves {
		b.p.file.pooled(l)
	}
	if len(s.leaves) == 0 {
		s.origin = b.p.leaves(b.origin(a), 0)
	}
	if len(s.leaves)+len(s.origin) == 0 && (e.class || !b.inert(a)) {
		return
	}
	b.add(s)
}

// value is the place of an expected value.
func (b *phpBody) value(i int, a span) scriptPlace {
	p := b.p
	return scriptPlace{spot: spot{kind: Expect, value: true}, form: scriptValue, start: p.tokens[a.from].start, end: p.tokens[a.to-1].end,
		statement: p.tokens[i].start, certain: b.certain(i)}
}

// origin is the value that a variable gets in a statement of the test, when it is
// used in one other place only.
func (b *phpBody) origin(a span) span {
	p := b.p
	if a.to != a.from+1 || !p.is(a.from, scriptVariable) {
		return span{}
	}
	uses, at := 0, 0
	for i := b.brace + 1; i < b.end; i++ {
		if p.text(i) == p.text(a.from) {
			uses++
			if p.text(i+1) == "=" && b.certain(i) {
				at = i
			}
		}
	}
	name := p.text(a.from)[1:]
	if uses != 2 || at == 0 || strings.Contains(p.src[p.tokens[b.brace].start:p.tokens[b.end].end], "compact(") || b.inString(name) {
		return span{}
	}
	return span{at + 2, b.statementEnd(at)}
}

// inString says whether a string of the test has a variable in it.
func (b *phpBody) inString(name string) bool {
	for i := b.brace + 1; i < b.end; i++ {
		if b.p.is(i, scriptString) && strings.Contains(b.p.text(i), name) && strings.Contains(b.p.text(i), "$") {
			return true
		}
	}
	return false
}

// inert says whether a value calls nothing and changes nothing.
func (b *phpBody) inert(a span) bool {
	p := b.p
	for i := a.from; i < a.to; i++ {
		switch word := p.text(i); {
		case p.is(i, scriptString) && !phpLiteral().MatchString(word):
			return false
		case slices.Contains([]string{"(", "=", "++", "--", "->", "?->", "&", "$", "@"}, word), slices.Contains([]string{"new", "function", "fn", "yield", "include", "require", "clone", "throw", "print", "match"}, p.word(i)):
			return false
		}
	}
	return true
}
