package verify

import (
	"slices"
	"strings"

	"remit/work/verify/results"
)

// edited are the runners whose tests the package twin edits.
var edited = []string{"gotest", "gotext", "pytest", "unittest", "node", "mocha", "jest", "vitest", "cargo", "nextest", "phpunit", "rspec", "minitest", "surefire", "gradle", "ctest", "bats", "tap"}

// languages are those whose tests can be edited.
const languages = "Go, Python, JavaScript, Rust, PHP, Ruby, Java, bats, shell or C"

// noSuite says why there is nothing to edit: no test, or one in a language without an
// editor, of which it was not seen whether it can fail.
func noSuite(s *suite, ran []CommandResult) string {
	if len(s.left) > 0 {
		return "the test files cannot be edited: " + s.left[0]
	}
	var others []string
	for i := range ran {
		if r := ran[i].Runner; r != "" && !slices.Contains(edited, r) && !slices.Contains(others, r) {
			others = append(others, r)
		}
	}
	if len(others) == 0 {
		return "the base has no test file of " + languages
	}
	slices.Sort(others)
	return "not seen whether the tests of " + strings.Join(others, ", ") + " can fail: what can be edited are tests of " + languages
}

// unreached says whether no test of a language has come by one of its edits,
// although the commands may run some.
func (s *suite) unreached(lang string, plain []CommandResult, runs ...*twinRun) bool {
	has := false
	for _, f := range s.files {
		if f.lang != lang || len(f.tests) == 0 {
			continue
		}
		has = true
		for _, r := range runs {
			for _, tv := range r.views {
				if fileTrace(tv.trace, f) != nil {
					return false
				}
			}
		}
	}
	mayRun := slices.ContainsFunc(plain, func(c CommandResult) bool {
		if c.direct {
			return len(s.outcomes(&c)) > 0
		}
		return strings.Contains(c.Runner, results.GoText) || c.Runner == "" && c.DurationMS > minTestMS
	})
	return has && mayRun
}

// minTestMS is less than any Go test takes to be built and run.
const minTestMS = 100
