package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"remit/proof/form"
	"remit/work/verify/results"
)

// The default idea of what is a test, by path alone. It errs on the side of
// too much: a file that is wrongly called a test costs a second run, one that
// is wrongly called code can be weakened unseen.
var (
	testDirs  = []string{"test", "tests", "testing", "__tests__", "__snapshots__", "__mocks__", "testdata", "e2e"}
	testNames = form.Lazy(`^(?:` + strings.Join([]string{
		`.*_test\.(?:go|py|rb|exs|dart|rs)`,
		`test_.*\.(?:py|rb|rs)`, `tests?\.(?:py|rs)`,
		`(?:tests?|smoke|(?:unit)?tests?[_-].*|.*[_-](?:unit)?tests?|unittests?|.*(?:Test|Tests))\.(?:c|cc|cpp|cxx|h|hh|hpp|hxx|m|mm)`,
		`.*_spec\.(?:rb|lua)`,
		`.*[.-](?:test|spec)\.[cm]?[jt]sx?(?:\.snap)?`, `(?:tests?|test-.*|.*_test)\.[cm]?[jt]sx?`,
		`.*(?:Test|Tests|TestCase|IT|Spec)\.(?:java|kt|kts|scala|groovy|cs|php|swift)`,
		`.*\.(?:bats|feature)`,
	}, "|") + `)$`)

	// Files that a runner, a build or an interpreter reads by itself: they
	// can change what "the tests pass" means without a test being touched.
	// Those of each runner are in its row of the table in package results.
	runnerNames = sync.OnceValue(func() *regexp.Regexp {
		names := []string{
			`\.env(?:\..*)?`, `\.envrc`, `(?:karma|playwright|cypress|ava|wdio)\.(?:config|conf|workspace|projects).*`,
			`\.npmrc`, `\.yarnrc.*`, `\.pnpmfile\.cjs`,
		}
		for _, a := range results.Adapters() {
			names = append(names, a.Config...)
		}
		return regexp.MustCompile(`^(?:` + strings.Join(names, "|") + `)$`)
	})
	runnerDirs = []string{"__pycache__", ".pytest_cache", ".cargo", ".mvn", ".bundle", "node_modules", "site-packages"}

	// Metadata of Python packages: wherever it lies on the search path, its entry
	// points load plugins. Python compares the names without regard to case.
	metadata = form.Lazy(`(?i)(?:\.(?:dist-info|egg-info|egg)|^egg-info)$`)

	// Modules in an import root that stand in front of the framework's own.
	shadows = form.Lazy(`^(?:src/|lib/|tests?/)?(?:unittest|pytest|_pytest|pluggy|nose2?)(?:\.py|/__init__\.py)$` +
		`|^(?:lib/|tests?/|spec/)?minitest(?:\.rb|/(?:assertions|autorun|expectations|mock|parallel|spec|test|unit)\.rb)$`)

	// Packages of test frameworks of Java: the JVM takes a class of the product first.
	frameworkPackage = form.Lazy(`^(.*/)?(?:(?:org/(?:junit|hamcrest|opentest4j|testng|assertj|mockito|easymock|spockframework|scalatest)|junit/(?:framework|extensions|runner|textui)|com/google/common/truth|io/kotest|org/apache/maven/surefire)/` +
		`(?:.*\.(?:java|kt|groovy|scala|class)$)|META-INF/services/org\.(?:junit|testng))`)

	// Assertion libraries that are vendored: an assertion that cannot fail.
	assertionDirs = []string{"stretchr/testify", "onsi/gomega", "onsi/ginkgo", "google/go-cmp", "gotest.tools"}
)

// DefaultTestPath says whether a path, slash-separated and relative, holds
// tests, their data or the configuration of their runner.
func DefaultTestPath(p string) bool {
	if runnerConfig(p) || testNames().MatchString(path.Base(p)) {
		return true
	}
	segments := strings.Split(p, "/")
	return slices.ContainsFunc(segments, func(s string) bool { return slices.Contains(testDirs, s) })
}

// runnerConfig says whether a file steers a runner and does nothing else. Code
// that a build runs (build.rs, the body of setup.py) is code: what it writes over
// tests or configuration is seen after the run.
func runnerConfig(p string) bool {
	if runnerNames().MatchString(path.Base(p)) || shadows().MatchString(p) {
		return true
	}
	segments := strings.Split(p, "/")
	if slices.ContainsFunc(segments, func(s string) bool { return slices.Contains(runnerDirs, s) || metadata().MatchString(s) }) {
		return true
	}
	return slices.ContainsFunc(assertionDirs, func(d string) bool { return strings.Contains("/"+p+"/", "/"+d+"/") })
}
