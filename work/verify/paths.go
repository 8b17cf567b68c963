package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"remit/work/verify/results"
)

// The default idea of what is a test, by path alone. It errs on the side of
// too much: a file that is wrongly called a test costs a second run, one that
// is wrongly called code can be weakened unseen.
var (
	testDirs  = []string{"test", "tests", "testing", "__tests__", "__snapshots__", "__mocks__", "testdata", "e2e"}
	testNames = regexp.MustCompile(`^(?:` + strings.Join([]string{
		`.*_test\.(?:go|py|rb|exs|dart|c|cc|cpp|rs)`,
		`test_.*\.(?:py|rb|c|cc|cpp|rs)`, `tests?\.(?:py|rs)`,
		`.*_spec\.(?:rb|lua)`,
		`.*[.-](?:test|spec)\.[cm]?[jt]sx?(?:\.snap)?`,
		`.*(?:Test|Tests|TestCase|IT|Spec)\.(?:java|kt|kts|scala|groovy|cs|php|swift)`,
		`.*\.(?:bats|feature)`,
	}, "|") + `)$`)

	// Files that a runner, a build or an interpreter reads by itself: they
	// can change what "the tests pass" means without a test being touched.
	runnerNames = regexp.MustCompile(`^(?:` + strings.Join([]string{
		`conftest\.py`, `\.?pytest\.(?:ini|toml)`, `unittest\.cfg`, `nose2?\.cfg`, `noxfile\.py`, `\.coveragerc`,
		`sitecustomize\.py`, `usercustomize\.py`, `.*\.pth`, `.*\.pyc`,
		`go\.work(?:\.sum)?`, `\.env(?:\..*)?`, `\.envrc`,
		`(?:jest|vitest|karma|playwright|cypress|ava|wdio)\.(?:config|conf)\..*`, `\.mocharc.*`, `\.nycrc.*`, `\.taprc`,
		`phpunit\.xml.*`, `\.rspec`, `testng\.xml`, `nextest\.toml`,
	}, "|") + `)$`)
	runnerDirs = []string{"__pycache__", ".pytest_cache", ".cargo", "node_modules", "site-packages"}

	// Modules in an import root that stand in front of the framework's own.
	shadows = regexp.MustCompile(`^(?:src/|lib/|tests?/)?(?:unittest|pytest|_pytest|pluggy|nose2?)(?:\.py|/__init__\.py)$`)

	// Assertion libraries that are vendored: an assertion that cannot fail.
	assertionDirs = []string{"stretchr/testify", "onsi/gomega", "onsi/ginkgo", "google/go-cmp", "gotest.tools"}
)

// DefaultTestPath says whether a path, slash-separated and relative, holds
// tests, their data or the configuration of their runner.
func DefaultTestPath(p string) bool {
	if runnerConfig(p) || testNames.MatchString(path.Base(p)) {
		return true
	}
	segments := strings.Split(p, "/")
	return slices.ContainsFunc(segments, func(s string) bool { return slices.Contains(testDirs, s) })
}

// runnerConfig says whether a file steers a runner and does nothing else.
func runnerConfig(p string) bool {
	if runnerNames.MatchString(path.Base(p)) || shadows.MatchString(p) {
		return true
	}
	segments := strings.Split(p, "/")
	if slices.ContainsFunc(segments, func(s string) bool { return slices.Contains(runnerDirs, s) }) {
		return true
	}
	return slices.ContainsFunc(assertionDirs, func(d string) bool { return strings.Contains("/"+p+"/", "/"+d+"/") })
}

var (
	scriptWord = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)
	scriptName = regexp.MustCompile(`\.(?:sh|bash|zsh|bats|mk|mak)$|(?i:test|check|verify)|^(?:gradlew|mvnw)`)
	splitWords = regexp.MustCompile("[\\s;&|()<>`'\"=$]+")
	makefile   = regexp.MustCompile(`(?:^|/)(?:GNUmakefile|[Mm]akefile|[^/]*\.(?:mk|mak))$`)
)

// anyMakefile, in a set of scripts, is every file that make may read.
const anyMakefile = "*.mk"

// isScript says whether a path is one of the scripts. A makefile of another
// name can take the place of the one that is there, so for make it does not
// matter whether the base has the file; a script that is new there cannot have
// been bent.
func isScript(scripts map[string]bool, p string, inBase bool) bool {
	return scripts[p] && inBase || scripts[anyMakefile] && makefile.MatchString(p)
}

// commandScripts are the files of the tree that the commands themselves run:
// a script that is named by a command, or the makefile behind `make`. The
// patch may not redefine the question that it has to answer.
func commandScripts(commands []string) map[string]bool {
	scripts := make(map[string]bool)
	for _, command := range commands {
		_, runner, _ := results.Augment(command)
		for i, w := range splitWords.Split(command, -1) {
			base := path.Base(w)
			switch base {
			case "make", "gmake":
				scripts[anyMakefile] = true
			case "just":
				scripts["justfile"], scripts["Justfile"] = true, true
			case "task":
				scripts["Taskfile.yml"], scripts["Taskfile.yaml"] = true, true
			case "rake":
				scripts["Rakefile"] = true
			}
			// The arguments of a known runner are tests, which have their own rule.
			if runner == "" && scriptWord.MatchString(w) && (scriptName.MatchString(base) || i == 0 && strings.HasPrefix(w, "./")) {
				scripts[path.Clean(w)] = true
			}
		}
	}
	return scripts
}
