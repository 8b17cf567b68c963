package twin

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// branch is the statement that begins at a token, without its braces.
func (b *cBody) branch(i int) span {
	if b.p.text(i) == "{" {
		return span{i + 1, b.p.closing(i)}
	}
	return span{i, min(b.statementEnd(i)+1, b.end)}
}

var (
	cFailCall    = form.Lazy(`(?i)(?:^|_)(?:fail\w*|failure|die|bad|mismatch|not_?ok|nok|test_error)$|^(?:abort|longjmp|siglongjmp)$|^(?:ADD_FAILURE|GTEST_FAIL)$`)
	cFailExit    = form.Lazy(`^(?:exit|_exit|_Exit|quick_exit)$`)
	cFailCounter = form.Lazy(`(?i)(?:^|_|n|num)(?:fail\w*|err(?:s|ors?|cnt|count)?|bad|wrong|miss\w*|nok|broken|status|result|rc|ret|retval|res|exit_?code)$`)
	cResult      = form.Lazy(`(?i)(?:^|_)(?:status|result|rc|ret|retval|res)$`)
	cOutcome     = form.Lazy(`^(?:[0-9]+|true|false|TRUE|FALSE|EXIT_SUCCESS|MUNIT_OK)$`)
	cTests       = form.Lazy(`(?i)test|check|verif|assert|expect|should|case|spec|suite|^main$|^TEST`)
	cFailLabel   = form.Lazy(`(?i)(?:fail|err|bad|abort)`)
	cNonZero     = form.Lazy(`^(?:[1-9][0-9]*|EXIT_FAILURE|MUNIT_FAIL|MUNIT_ERROR)$`)
)

// failing says whether statements report that something is wrong, and notes the first by
// which they do.
func (b *cBody) failing(s span) bool {
	p := b.p
	found := ""
	for i := s.from; i < s.to && found == ""; i++ {
		if p.text(i) == "{" && p.closing(i) > 0 {
			i = p.closing(i) // an inner block has a condition of its own
			continue
		}
		if !p.is(i, braceName) {
			continue
		}
		found = b.failure(i)
	}
	if found != "" && !strings.HasPrefix(found, "goto") && !slices.Contains(b.fails, found) && !b.inner(strings.TrimRight(strings.Fields(found)[0], "+;")) {
		b.fails = append(b.fails, found)
	}
	return found != ""
}

// tests says whether the function is called like a test: another one may give 1 back, or
// go to its end, for many reasons.
func (b *cBody) tests() bool { return cTests().MatchString(b.t.Name) }

// inner says whether a block in the function declares a name.
func (b *cBody) inner(name string) bool {
	p := b.p
	for i := b.brace + 1; i < b.end; i++ {
		if p.is(i, braceName) && p.text(i) == name && b.parent[i] != b.brace && p.is(i-1, braceName) && p.text(i-1) != "else" && p.text(i-1) != "do" {
			return true
		}
	}
	return false
}

// failure is a statement that reports a failure, made of what begins at a token.
func (b *cBody) failure(i int) string {
	p := b.p
	word, next := p.text(i), p.text(i+1)
	if p.text(i-1) == "." || p.operator(i-2, "->") { // of a structure
		return ""
	}
	switch {
	case word == "return" && next == ";" && b.void: // what ends a void function says nothing by itself
		return ""
	case word == "return" && (p.text(i+2) == ";" || next == "-" && p.text(i+3) == ";"):
		literal := next
		if next == "-" {
			literal = "-" + p.text(i+2)
		}
		wrong := cNonZero().MatchString(strings.TrimPrefix(literal, "-"))
		if b.last != "" { // the other end of the function is the good one
			wrong = literal != b.last && (wrong || slices.Contains([]string{"0", "false", "FALSE"}, literal))
		}
		if wrong && b.tests() {
			return "return " + literal + ";"
		}
	case cFailExit().MatchString(word) && next == "(" && cNonZero().MatchString(p.text(i+2)) && p.text(i+3) == ")":
		return word + "(" + p.text(i+2) + ");"
	case word == "goto" && cFailLabel().MatchString(next) && b.tests():
		return "goto " + next + ";"
	case word == "abort" && next == "(":
		return "abort();"
	case next == "(" && cFailCall().MatchString(word):
		return "__builtin_trap();"
	case cResult().MatchString(word) && !b.tests():
		return ""
	case cFailCounter().MatchString(word) && (p.operator(i+1, "++") || p.operator(i-2, "++")):
		return word + "++;"
	case cFailCounter().MatchString(word) && p.operator(i+1, "+=") && cNonZero().MatchString(p.text(i+3)):
		return word + " += 1;"
	case cFailCounter().MatchString(word) && next == "=" && cNonZero().MatchString(p.text(i+2)) && p.text(i+3) == ";":
		return word + " = " + p.text(i+2) + ";"
	}
	return ""
}
