package twin

import (
	"slices"

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
	cTests       = form.Lazy(`(?i)test|check|verif|assert|expect|should|case|spec|suite|^main$`)
	cFailLabel   = form.Lazy(`(?i)(?:fail|err|bad|abort)`)
	cNonZero     = form.Lazy(`^(?:[1-9][0-9]*|EXIT_FAILURE|MUNIT_FAIL|MUNIT_ERROR)$`)
)

// failing says whether statements report that something is wrong.
func (b *cBody) failing(s span) bool {
	p := b.p
	for i := s.from; i < s.to; i++ {
		if p.text(i) == "{" && p.closing(i) > 0 {
			i = p.closing(i) // an inner block has a condition of its own
		} else if p.is(i, braceName) && b.failure(i) {
			return true
		}
	}
	return false
}

// tests says whether the function is called like a test: another one may give 1 back, or
// go to its end, for many reasons.
func (b *cBody) tests() bool { return cTests().MatchString(b.t.Name) }

// failure says whether what begins at a token reports a failure.
func (b *cBody) failure(i int) bool {
	p := b.p
	word, next := p.text(i), p.text(i+1)
	switch {
	case p.text(i-1) == "." || p.operator(i-2, "->"): // of a structure
		return false
	case word == "return":
		return b.tests() && b.returnsWrong(i+1)
	case word == "goto":
		return b.tests() && cFailLabel().MatchString(next)
	case next == "(":
		return cFailCall().MatchString(word) || cFailExit().MatchString(word) && cNonZero().MatchString(p.text(i+2)) && p.text(i+3) == ")"
	case !cFailCounter().MatchString(word) || cResult().MatchString(word) && !b.tests():
		return false
	}
	if next == "=" && p.text(i+2) == word && p.text(i+3) == "+" {
		return true
	}
	return p.operator(i+1, "++") || p.operator(i-2, "++") || p.operator(i+1, "+=") && cNonZero().MatchString(p.text(i+3)) ||
		next == "=" && cNonZero().MatchString(p.text(i+2)) && p.text(i+3) == ";"
}

// returnsWrong says whether a literal is given back, up to the semicolon, that is not the
// one of a function which finds nothing wrong.
func (b *cBody) returnsWrong(i int) bool {
	sign := ""
	if b.p.text(i) == "-" {
		sign = "-"
		i++
	}
	literal := b.p.text(i)
	wrong := cNonZero().MatchString(literal)
	if b.last != "" { // the other end of the function is the good one
		wrong = sign+literal != b.last && (wrong || slices.Contains([]string{"0", "false", "FALSE"}, literal))
	}
	return wrong && b.p.text(i+1) == ";"
}
