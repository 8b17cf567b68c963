package twin

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// Modules whose exports are assertions, and what is called to load one.
var jsAssertModules = strings.Fields("assert node:assert assert/strict node:assert/strict power-assert uvu/assert")

// jsDenoAsserts finds the names of the library of Deno, which projects often hand on by a
// module of their own.
var jsDenoAsserts = form.Lazy(`^assert(?:(?:Not)?(?:Strict)?Equals|AlmostEquals|(?:Greater|Less)(?:OrEqual)?|Throws|Rejects|StringIncludes|ArrayIncludes|ObjectMatch|(?:Not)?Match|Exists|False|(?:Not)?InstanceOf|IsError)$`)

// Modules whose exports make tests and groups; that of Node is a function, too.
var jsTestModules = strings.Fields("node:test vitest @jest/globals mocha bun:test")

// Assertions by what they compare: the argument that is the expected value.
var (
	jsAssertEquals = map[string]int{
		"equal": 1, "strictEqual": 1, "deepEqual": 1, "deepStrictEqual": 1, "deepLooseEqual": 1, "lengthOf": 1, "sameMembers": 1,
		"sameDeepMembers": 1, "sameOrderedMembers": 1, "closeTo": 1, "approximately": 1, "propertyVal": 2, "typeOf": 1, "is": 1,
		"assertEquals": 1, "assertStrictEquals": 1, "assertAlmostEquals": 1, "assertStringIncludes": 1, "assertArrayIncludes": 1, "assertObjectMatch": 1,
	}
	jsAssertErrors = map[string]int{"throws": 1, "rejects": 1, "assertThrows": 1, "assertRejects": 1, "assertInstanceOf": 1}
	jsMatchEquals  = map[string]int{
		// jest and vitest
		"toBe": 0, "toEqual": 0, "toStrictEqual": 0, "toHaveLength": 0, "toMatchObject": 0, "toBeCloseTo": 0, "toHaveProperty": 1,
		"toHaveBeenCalledTimes": 0, "toHaveReturnedWith": 0,
		"toContainEqual": 0,
		// chai and should
		"equal": 0, "equals": 0, "eq": 0, "eql": 0, "eqls": 0, "lengthOf": 0, "length": 0, "property": 1, "a": 0, "an": 0,
		"members": 0, "closeTo": 0, "approximately": 0, "exactly": 0, "callCount": 0,
	}
	jsMatchErrors = map[string]int{"toThrow": 0, "toThrowError": 0, "throw": 0, "throws": 0, "rejectedWith": 0, "toBeInstanceOf": 0, "instanceof": 0, "instanceOf": 0}
	jsMatchWhole  = strings.Fields("toBe toEqual toStrictEqual toHaveBeenCalledTimes equal strictEqual deepEqual deepStrictEqual eql eqls equals eq")
)

// imports notes the names that modules of assertions and of runners have in the file.
func (p *jsParser) imports() {
	p.roots, p.names, p.makers = map[string]bool{"assert": true}, map[string]string{}, map[string]string{}
	for i := range p.tokens {
		if word := p.text(i); (word == "import" || word == "export") && p.name(i) && p.tokens[i].mate < 0 && p.text(i+1) != "(" && p.text(i+1) != "." && p.topLevel(i) {
			p.file.module = true
		}
		if !p.is(i, jsString) {
			continue
		}
		module := strings.Trim(p.text(i), `'"`)
		whole, named := p.assertModule, p.assertName
		if slices.Contains(jsTestModules, module) {
			whole, named = p.testModule, p.testName
		} else if !slices.Contains(jsAssertModules, module) {
			whole, named = func(string) {}, p.denoName
		}
		at := -1 // the last token of what gets the module
		switch {
		case p.text(i-1) == "from":
			at = i - 2
		case p.text(i-1) == "(" && p.text(i-2) == "require" && p.text(i-3) == "=":
			at = i - 4
		}
		switch {
		case p.text(at) == "}" && p.tokens[at].mate >= 0:
			p.named(p.tokens[at].mate, at, named)
			if at = p.tokens[at].mate - 1; p.text(at) == "," && p.is(at-1, jsName) { // import assert, { equal }
				whole(p.text(at - 1))
			}
		case p.is(at, jsName):
			whole(p.text(at))
		}
	}
}

func (p *jsParser) assertModule(local string) { p.roots[local] = true }

// denoName notes an assertion of Deno's library, wherever it comes from.
func (p *jsParser) denoName(original, local string) {
	if jsDenoAsserts().MatchString(original) {
		p.names[local] = original
	}
}

func (p *jsParser) assertName(original, local string) {
	switch original {
	case "strict", "default", "assert", "ok":
		p.roots[local] = true
	default:
		p.names[local] = original
	}
}

// testModule notes the name of a module that is called as "test" is.
func (p *jsParser) testModule(local string) { p.makers[local] = "test" }

func (p *jsParser) testName(original, local string) {
	if original == "default" {
		original = "test"
	}
	p.makers[local] = original
}

// topLevel says whether a token begins a line or a statement, as an import does.
func (p *jsParser) topLevel(i int) bool {
	return i == 0 || p.tokens[i].line || p.text(i-1) == ";" || p.text(i-1) == "}"
}

// named notes the names in the braces of an import.
func (p *jsParser) named(open, end int, note func(original, local string)) {
	for i := open + 1; i < end; i++ {
		if !p.is(i, jsName) {
			continue
		}
		original, local := p.text(i), p.text(i)
		if next := p.text(i + 1); (next == "as" || next == ":") && p.is(i+2, jsName) {
			local = p.text(i + 2)
			i += 2
		}
		if original != "type" {
			note(original, local)
		}
	}
}

// assertion notes the places of an assertion that begins at a token.
func (b *jsBody) assertion(i int) {
	p := b.p
	if !p.is(i, jsName) {
		return
	}
	word := p.text(i)
	switch {
	case word == "should" && p.member(i) && p.text(i-1) == ".":
		b.should(i)
	case p.member(i):
	case word == "expect" && p.text(i+1) == "(":
		b.expectation(i)
	case word == "if" && p.text(i+1) == "(":
		b.throwing(i)
	case word == "sinon" && p.text(i+1) == "." && p.text(i+2) == "assert":
		b.called(i)
	case p.roots[word] || word == "t" && p.text(i+1) == "." && p.text(i+2) == "assert":
		b.called(i)
	case p.names[word] != "" && p.text(i+1) == "(":
		b.call(jsTurnCall, i, i+1, i+1, p.names[word])
	}
}

// called notes the places of assert(…), assert.equal(…) or t.assert.equal(…).
func (b *jsBody) called(i int) {
	p, at := b.p, i+1
	for p.text(at) == "." && p.is(at+1, jsName) {
		at += 2
	}
	switch {
	case p.text(at) != "(" || !p.is(at, jsPunct):
	case at == i+1:
		b.call(jsTurnBare, i, at, at, "ok")
	default:
		b.call(jsTurnMember, i, at-2, at, p.text(at-1))
	}
}

// call notes the places of a call of an assertion, which is taken from what ends in
// front of a token.
func (b *jsBody) call(form jsForm, i, root, paren int, method string) {
	p := b.p
	args, ok := p.arguments(paren)
	if !ok || len(args) == 0 || method == "fail" || strings.Contains(method, "napshot") || method == "AssertionError" ||
		p.text(i-1) == "new" || p.text(p.closing(paren)+1) == "=>" {
		return
	}
	end := p.closing(paren)
	t := jsPlace{form: form, root: p.between(i, root), call: p.between(root, paren+1)}
	b.turn(t, i, args[0], args[0].to, end)
	n, compares := jsAssertEquals[method]
	switch {
	case slices.Contains(jsTrue, method), compares && n == 1 && len(args) > 1 && p.isTrue(args[1]):
		if b.truth(i, args[0], false) {
			return
		}
	case b.fits(i, args, jsAssertFits[method]):
		return
	}
	if n, errors := jsAssertErrors[method]; errors && len(args) > n {
		b.expected(i, args[n], true, false)
		return
	}
	if !compares || len(args) <= n {
		return
	}
	whole := slices.Contains(jsMatchWhole, method)
	if n == 1 && p.plain(args[0]) && !p.plain(args[1]) { // the expected value comes first
		b.expected(i, args[0], false, whole)
		return
	}
	b.expected(i, args[n], false, whole)
}

// isTrue says whether an argument is the word true.
func (p *jsParser) isTrue(a span) bool { return a.to == a.from+1 && p.text(a.from) == "true" }

// between is the text from one token to the end of the one in front of another.
func (p *jsParser) between(from, to int) string {
	if from >= to {
		return ""
	}
	return p.src[p.tokens[from].start:p.tokens[to-1].end]
}

// plain says whether an argument is a literal as a whole.
func (p *jsParser) plain(a span) bool {
	return a.to == a.from+1 && (p.is(a.from, jsString) || p.is(a.from, jsNumber) || slices.Contains([]string{"true", "false", "null", "undefined"}, p.text(a.from)))
}

// turn notes a flip of an assertion from its first token to the last one; behind is
// the first token of what follows the value and what the assertion is taken from.
func (b *jsBody) turn(t jsPlace, i int, value span, behind, last int) {
	p := b.p
	start, end := p.tokens[i].start, p.tokens[value.to-1].end
	t.head, t.value, t.skip = p.tokens[value.from].start-start, end, p.tokens[behind-1].end-end
	if strings.ContainsAny(t.root+t.call, "\n\r/") || strings.ContainsAny(p.src[start:start+t.head]+p.src[end:end+t.skip], "\n\r/") {
		return // it stays on its line
	}
	if p.bound[last+1] > p.bound[value.to] {
		return // what is behind the value is put into a function
	}
	t.spot, t.start, t.end, t.statement, t.certain = spot{kind: Flip}, start, p.tokens[last].end, start, b.certain(i)
	b.add(t)
}

// jsChain is what follows the value of an assertion: members and calls.
type jsChain struct {
	last  int // token
	names []string
	args  []span // of the last member, if it is a call
}

// chain reads members and calls from a token on.
func (p *jsParser) chain(i int) (c jsChain, ok bool) {
	for {
		switch text := p.text(i); {
		case text == "." && p.is(i+1, jsName):
			c.names, c.args = append(c.names, p.text(i+1)), nil
			i += 2
		case text == "(" && p.is(i, jsPunct) && len(c.names) > 0:
			args, fine := p.arguments(i)
			if !fine {
				return c, false
			}
			c.args = args
			i = p.closing(i) + 1
		case p.is(i, jsTemplate) && !p.tokens[i].line, text == "[", text == "?.", text == "<" && p.file.types, text == "!" && !p.tokens[i].line, text == "=" || text == "=>":
			return c, false
		default:
			c.last = i - 1
			return c, len(c.names) > 0 && i <= len(p.tokens)
		}
	}
}

// expectation notes the places of expect(…)….
func (b *jsBody) expectation(i int) {
	p := b.p
	value, ok := p.arguments(i + 1)
	if !ok || len(value) == 0 {
		return
	}
	c, ok := p.chain(p.closing(i+1) + 1)
	if !ok || slices.Contains(c.names, "should") {
		return
	}
	b.chained(jsPlace{root: "expect", call: "("}, i, value[0], value[0].to, c)
}

// should notes the places of value.should….
func (b *jsBody) should(i int) {
	p := b.p
	first := i - 1
	for range 1000 {
		before := first - 1
		switch text := p.text(before); {
		case p.is(before, jsPunct) && (text == ")" || text == "]") && p.tokens[before].mate >= 0:
			first = p.tokens[before].mate
			if !p.is(first-1, jsName) && p.text(first-1) != ")" && p.text(first-1) != "]" {
				goto found
			}
		case p.is(before, jsName) || p.is(before, jsString) || p.is(before, jsNumber):
			first = before
			if p.text(first-1) != "." {
				goto found
			}
			first--
		default:
			return
		}
	}
found:
	c, ok := p.chain(i + 1)
	if !ok || !b.begins(first) {
		return
	}
	b.chained(jsPlace{root: "($v) => $v.should", call: "(", tail: ")"}, first, span{first, i - 1}, i+1, c)
}

// begins says whether a statement of the test begins at a token, so that nothing in
// front of it belongs to its expression.
func (b *jsBody) begins(i int) bool {
	switch text := b.p.text(i - 1); text {
	case ";", "{", "}", "=>", "await", "return":
		return text != "}" || b.p.tokens[i].line
	}
	return b.p.breaks(i - 1)
}

// chained notes the places of an assertion that is a chain.
func (b *jsBody) chained(t jsPlace, i int, value span, behind int, c jsChain) {
	p := b.p
	if slices.ContainsFunc(c.names, func(n string) bool { return strings.Contains(n, "napshot") }) {
		return // it compares with what is kept elsewhere
	}
	negated := slices.ContainsFunc(c.names, func(n string) bool { return n == "not" || n == "never" })
	t.form = jsTurnChain
	if negated {
		t.form = jsTurnNot
	}
	b.turn(t, i, value, behind, c.last)
	method := c.names[len(c.names)-1]
	n, compares := jsMatchEquals[method]
	switch {
	case negated: // another value would be as good, but for nothing, which everything has
		if slices.Contains(jsAbsent, method) {
			b.fits(i, c.args, []string{string(wayNone)})
		}
		return
	case slices.Contains(jsContain, method) && b.several(i, value):
		return
	case slices.Contains(jsTrueChains, method), compares && n == 0 && len(c.args) == 1 && p.isTrue(c.args[0]):
		if b.truth(i, value, false) {
			return
		}
	case b.fits(i, c.args, jsMatchFits[method]):
		return
	}
	if p.text(c.last) != ")" {
		return
	}
	if n, errors := jsMatchErrors[method]; errors && len(c.args) > n {
		b.expected(i, c.args[n], true, false)
	}
	if compares && len(c.args) > n {
		b.expected(i, c.args[n], false, slices.Contains(jsMatchWhole, method))
	}
}

// throwing notes the condition of an if whose first statement throws.
func (b *jsBody) throwing(i int) {
	p := b.p
	end := p.closing(i + 1)
	next := end + 1
	if p.text(next) == "{" {
		next++
	}
	if end < 0 || p.text(next) != "throw" || end == i+2 {
		return
	}
	start := p.tokens[i+2].start
	b.add(jsPlace{spot: spot{kind: Flip}, form: jsCond, start: start, end: p.tokens[end-1].end, statement: start, certain: b.certain(i), negative: true})
	b.truth(i, span{i + 2, end}, true)
}
