package verify

import (
	"errors"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
)

var phpTestName = form.Lazy(`^(?:.*[Tt]ests?|.*TestCase|test.*)\.php$`)

// phpTestFile says whether a file of PHP may hold tests.
func phpTestFile(p string) bool {
	segments := strings.Split(path.Dir(p), "/")
	return strings.HasSuffix(p, ".php") && !slices.Contains(segments, "vendor") && phpTestName().MatchString(path.Base(p))
}

// javaTestFile says whether a file of Java may hold tests.
func javaTestFile(p string) bool { return strings.HasSuffix(p, ".java") && DefaultTestPath(p) }

// sourceOfC is how the name of a source of C or C++ ends.
const sourceOfC = `\.(?:c|cc|cpp|cxx)`

// cTestFile says whether a file of C or C++ may hold tests, and no framework for them.
func cTestFile(p string) bool {
	return cSource().MatchString(p) && DefaultTestPath(p) && !cFramework().MatchString(p)
}

var (
	cSource    = form.Lazy(sourceOfC + `$`)
	cFramework = form.Lazy(`(?i)(?:^|/)(?:unity(?:_\w+)?|munit|minunit|cmocka|greatest|acutest|utest|ctest|catch\w*|doctest|gtest\w*|gmock\w*)` + sourceOfC + `$|(?:^|/)(?:vendor|third[_-]?party|external?|deps|googletest|googlemock)/`)
)

// ownStatus are properties of CMake by which a test passes with another exit status.
var ownStatus = form.Lazy(`\b(?:PASS_REGULAR_EXPRESSION|WILL_FAIL)\b`)

// leaveOwnStatus takes files of C and scripts out where CMake goes by something else than the exit
// status of their tests.
func (s *suite) leaveOwnStatus(t *laidTree, all []string) {
	if !s.byStatus() {
		return
	}
	at := slices.IndexFunc(all, func(p string) bool {
		if path.Base(p) != "CMakeLists.txt" && path.Ext(p) != ".cmake" {
			return false
		}
		text, err := t.read(p)
		return err == nil && ownStatus().Match(text)
	})
	if at < 0 {
		return
	}
	s.files = slices.DeleteFunc(s.files, func(f *suiteFile) bool { return f.byStatus() })
	s.leave(all[at], errors.New("it has tests that pass with another exit status (PASS_REGULAR_EXPRESSION, WILL_FAIL)"))
}

// javaCase begins what surefire and others write behind the name of a method: its
// parameters, or a number.
const javaCase = "([{"

// phpDataSet is between the name of a test of PHPUnit and that of a row.
const phpDataSet = " with data set "

// namedIndex finds tests by what their runner calls them, a class and a method: nil
// where several have the name.
type namedIndex map[string]*suiteTest

func (x namedIndex) add(f *suiteFile) {
	for _, t := range f.tests {
		if _, twice := x[t.name]; twice {
			x[t.name] = nil
		} else {
			x[t.name] = t
		}
	}
}

// test is the test of an identity, nil if there is none or more than one.
func (x namedIndex) test(id string) *suiteTest {
	name, _, _ := strings.Cut(id, phpDataSet)
	if at := strings.IndexAny(name, javaCase); at > 0 {
		name = name[:at]
	}
	return x[name]
}
