package twin

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// javaGrammar is how literals are written in Java.
var javaGrammar = &grammar{yes: "true", no: "false", errors: javaErrors(), text: javaLiteral, pattern: javaPattern, typed: true}

var (
	javaLiteral = form.Lazy(`^()(?:"(?:[^"\\\n]|\\[ntrbf\\"'])*"|'(?:[^'\\\n]|\\[ntrbf\\"'])')$`)
	javaPattern = form.Lazy(`^"((?:[^"\\\n]|\\.)*)"$`)
)

// javaErrors are exceptions of java.lang, and those that are waited for in their place:
// of another branch, so that none is a kind of the other.
func javaErrors() map[string][]string {
	out := map[string][]string{}
	for name := range strings.FieldsSeq("IllegalArgumentException IllegalStateException UnsupportedOperationException ArithmeticException NullPointerException " +
		"IndexOutOfBoundsException ClassCastException NumberFormatException") {
		for other := range strings.FieldsSeq("EnumConstantNotPresentException NegativeArraySizeException ArrayStoreException IllegalMonitorStateException") {
			out[name] = append(out[name], other)
		}
	}
	return out
}

// javaEquals are assertions of JUnit and TestNG with an expected value: the first
// argument, or the second where the first is computed.
var javaEquals = strings.Fields("assertEquals assertArrayEquals assertIterableEquals")

// javaChained are methods behind assertThat(…). of AssertJ and Truth, and matchers of
// Hamcrest, and how what they expect is altered.
var javaChained = map[string]way{
	"isEqualTo": wayNear, "hasSize": wayNear, "hasToString": wayNear, "hasMessage": wayNear, "isEqualByComparingTo": wayNear, "isEqualToIgnoringCase": wayNear, "hasValue": wayNear,
	"contains": wayFar, "containsExactly": wayNear, "containsExactlyInAnyOrder": wayNear, "containsOnly": wayNear, "containsSequence": wayNear, "containsKey": wayFar, "containsEntry": wayNear,
	"containsKeys": wayFar, "containsValue": wayFar, "containsIgnoringCase": wayPart, "hasMessageContaining": wayPart, "hasMessageThat": wayNear,
	"startsWith": wayNear, "endsWith": wayNear, "isGreaterThan": wayAbove, "isGreaterThanOrEqualTo": wayAbove, "isLessThan": wayBelow, "isLessThanOrEqualTo": wayBelow, "isAtLeast": wayAbove, "isAtMost": wayBelow,
}

var javaMatchers = map[string]way{
	"is": wayNear, "equalTo": wayNear, "containsString": wayPart, "startsWith": wayNear, "endsWith": wayNear, "hasItem": wayFar, "hasItems": wayNear, "hasSize": wayNear, "contains": wayNear,
	"containsInAnyOrder": wayNear, "arrayContaining": wayNear, "hasKey": wayFar, "hasValue": wayFar, "hasEntry": wayNear, "greaterThan": wayAbove, "greaterThanOrEqualTo": wayAbove,
	"lessThan": wayBelow, "lessThanOrEqualTo": wayBelow, "equalToIgnoringCase": wayNear,
}

// assertion notes the places of an assertion whose name is at a token.
func (b *javaBody) assertion(i int) {
	p := b.p
	name := p.text(i)
	if !p.is(i, braceName) || p.text(i+1) != "(" || p.closing(i+1) < 0 || p.text(i-1) == "new" {
		return
	}
	first := i // where the statement begins, with a class in front
	for p.text(first-1) == "." && p.is(first-2, braceName) {
		first -= 2
	}
	args := p.split(i + 1)
	switch {
	case name == "assertTrue" || name == "assertFalse":
		b.condition(first, name, args)
	case name == "assertNull" || name == "assertNotNull" || name == "assertSame" || name == "assertInstanceOf":
		b.object(first, name, args)
	case slices.Contains(javaEquals, name):
		b.equals(first, name, args)
	case name == "assertThrows" || name == "assertThrowsExactly":
		b.throws(first, i, args)
	case name == "assertThat" && first == i || strings.HasSuffix(p.src[p.tokens[first].start:p.tokens[i].end], "ssertions.assertThat") ||
		strings.HasSuffix(p.src[p.tokens[first].start:p.tokens[i].end], "Assert.assertThat") || strings.HasSuffix(p.src[p.tokens[first].start:p.tokens[i].end], "Truth.assertThat"):
		b.fluent(first, i, args)
	}
}

// place is one of an assertion that begins at a token: an expression in it.
func (b *javaBody) place(first int, a span, form scriptForm, s spot) scriptPlace {
	start, end := b.p.bytes(a)
	return scriptPlace{spot: s, form: form, start: start, end: end, statement: b.p.tokens[first].start, certain: b.certain(first)}
}

// begins says whether a token begins a statement, so that nothing is made of its value.
func (b *javaBody) begins(i int) bool { return slices.Contains([]string{";", "{", "}"}, b.p.text(i-1)) }

// condition notes the condition of assertTrue or assertFalse.
func (b *javaBody) condition(first int, name string, args []span) {
	p := b.p
	begins, last := p.messages(first, name)
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && !begins && !last {
		return
	}
	a := args[0]
	if len(args) == 2 && begins {
		a = args[1]
	}
	if p.function(a) {
		return
	}
	b.add(b.place(first, a, scriptTurn, spot{kind: Flip}))
}

// function says whether an expression is a lambda or the name of a method, which have no
// type of their own.
func (p *javaParser) function(a span) bool {
	for i := a.from; i < a.to; i++ {
		if p.operator(i, "->") || p.operator(i, "::") {
			return true
		}
		if p.closing(i) > 0 {
			i = p.closing(i)
		}
	}
	return false
}

// object notes the value of an assertion about an object: of a framework, as another one
// may take it as something else.
func (b *javaBody) object(first int, name string, args []span) {
	p := b.p
	begins, last := p.messages(first, name)
	want := 1
	if name == "assertSame" || name == "assertInstanceOf" {
		want = 2
	}
	if !begins && !last || len(args) < want || len(args) > want+1 || name == "assertInstanceOf" && !b.begins(first) {
		return
	}
	if begins && len(args) == want+1 {
		args = args[1:]
	}
	a := args[0]
	if name == "assertInstanceOf" {
		a = args[1]
	}
	if p.function(a) {
		return
	}
	b.add(b.place(first, a, scriptObject, spot{kind: Flip}))
}

// equals notes the expected value of an assertion that compares two.
func (b *javaBody) equals(first int, name string, args []span) {
	p := b.p
	begins, last := p.messages(first, name)
	text := func(a span) bool { return p.is(a.from, braceText) && p.text(a.from)[0] == '"' || p.function(a) }
	switch {
	case len(args) == 2:
	case begins && (len(args) == 4 || len(args) == 3 && text(args[0])):
		args = args[1:]
	case last && (len(args) == 4 || len(args) == 3 && text(args[2])):
		args = args[:len(args)-1]
	case !begins && !last || len(args) != 3 || text(args[0]) || text(args[2]):
		return
	}
	w := wayNear
	if len(args) == 3 { // the last one says how far they may be apart
		w = wayAbove
	}
	for _, a := range args[:2] {
		if p.literals(a) {
			b.expected(first, a, w, w == wayNear)
			return
		}
	}
}

// throws notes the class of exception that is waited for. Where the exception is used,
// it has to be of that class.
func (b *javaBody) throws(first, i int, args []span) {
	p := b.p
	if len(args) < 2 || !b.begins(first) || p.text(p.closing(i+1)+1) != ";" {
		return
	}
	a := args[0]
	if a.to != a.from+3 || p.text(a.from+2) != "class" || javaGrammar.errors[p.text(a.from)] == nil {
		return
	}
	l := literal{at: p.tokens[a.from].start, text: p.text(a.from), in: javaGrammar}
	b.add(b.place(first, a, scriptValue, spot{kind: Expect, value: true, leaves: []literal{l}}))
}

// fluent notes what an assertion expects that goes on behind assertThat(…), or is a
// matcher in it.
func (b *javaBody) fluent(first, i int, args []span) {
	p := b.p
	if len(args) >= 2 { // Hamcrest: (got, matcher) or (message, got, matcher)
		b.matcher(first, args[len(args)-1], 0)
		return
	}
	for at := p.closing(i+1) + 1; p.text(at) == "." && p.is(at+1, braceName) && p.text(at+2) == "(" && p.closing(at+2) > 0; {
		if w, known := javaChained[p.text(at+1)]; known {
			for _, a := range p.split(at + 2) {
				if p.literals(a) {
					b.expected(first, a, w, w == wayNear)
				}
			}
		}
		at = p.closing(at+2) + 1
	}
}

// matcher notes what a matcher expects.
func (b *javaBody) matcher(first int, a span, depth int) {
	p := b.p
	name, next := p.dotted(a.from)
	w, known := javaMatchers[name[strings.LastIndexByte(name, '.')+1:]]
	if !known || p.text(next) != "(" || p.closing(next) != a.to-1 || depth > 3 {
		return
	}
	for _, inner := range p.split(next) {
		if p.literals(inner) {
			b.expected(first, inner, w, w == wayNear)
		} else {
			b.matcher(first, inner, depth+1)
		}
	}
}

// javaMakes are what makes a value of literals: other functions are code under test.
var javaMakes = strings.Fields("new Arrays asList List of Set Map entry Optional Collections singletonList singleton BigDecimal BigInteger Integer Long Double Short Byte Character valueOf " +
	"int long double float short byte char boolean String Object true false")

// literals says whether a value is made of literals alone.
func (p *javaParser) literals(a span) bool {
	has := false
	for i := a.from; i < a.to; i++ {
		switch text := p.text(i); p.tokens[i].kind {
		case braceText, braceNumber:
			has = true
		case braceName:
			has = has || text == "true" || text == "false"
			if !slices.Contains(javaMakes, text) {
				return false
			}
		case bracePunct:
			if !strings.Contains("()[]{},.-<>", text) {
				return false
			}
		default:
			return false
		}
	}
	return has
}

// javaSuffix is the type behind a number.
var javaSuffix = form.Lazy(`^([0-9][0-9.]*)[lLdDfF]$`)

// expected notes an expected value that is made of literals.
func (b *javaBody) expected(first int, a span, w way, whole bool) {
	p := b.p
	s := b.place(first, a, scriptValue, spot{kind: Expect, value: true, whole: whole})
	for i := a.from; i < a.to; i++ {
		text := p.text(i)
		if p.is(i, bracePunct) || p.text(i-1) == "." || p.text(i-1) == "[" && p.text(i+1) == "]" {
			continue
		}
		if m := javaSuffix().FindStringSubmatch(text); m != nil && p.is(i, braceNumber) {
			text = m[1]
		}
		l := literal{at: p.tokens[i].start, text: text, in: javaGrammar, way: w}
		if p.text(i-1) == "-" && strings.Contains(" 128 32768 2147483648 9223372036854775808 ", " "+text+" ") {
			continue // the least of its type
		}
		if p.is(i, braceName) && text != "true" && text != "false" || !l.changeable() || w != wayNear && p.is(i, braceNumber) && !strings.Contains(text, ".") {
			continue // a whole number that is far from it may be none of its type
		}
		s.leaves = append(s.leaves, l)
		p.file.pooled(l)
	}
	if len(s.leaves) > 0 {
		b.add(s)
	}
}
