package verify

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"remit/proof/form"
)

var (
	scriptWord = form.Lazy(`^[A-Za-z0-9._/-]+$`)
	scriptName = form.Lazy(`\.(?:sh|bash|zsh|bats|mk|mak)$|(?i:test|check|verify)|^(?:gradlew|mvnw)`)
	splitWords = form.Lazy("[\\s;&|()<>`'\"=$]+")
	assignment = whenUsed(`^\s*(?:(?:export|override|private)\s+)*([A-Za-z0-9_.-]+)\s*(\+|[?!]|:{1,3})?=(.*)$`)
	directive  = whenUsed(`^\s*(?:[a-z]*vpath|ifn?eq|ifn?def|else|endif|-?include|sinclude|define|endef|export|unexport|override|undefine|load)(?:\s|\(|$)`)
	variable   = whenUsed(`\$(?:\([A-Za-z0-9_.-]+\)|\{[A-Za-z0-9_.-]+\}|[A-Za-z0-9])`)
	makefile   = form.Lazy(`(?:^|/)(?:GNUmakefile|[Mm]akefile(?:\.(?:in|am|inc|common))?|configure(?:\.(?:ac|in))?|[^/]*\.(?:mk|mak))$`)
	// What makefiles read beside other makefiles, and what their recipes may make.
	includeLine    = whenUsed(`^ *(?:-?include|sinclude)[ \t]+(.+)`)
	makeFunction   = whenUsed(`\$[({](shell|wildcard|file)[ \t]+((?:[^(){}]|\([^()]*\))*)[)}]`)
	makesDirectory = whenUsed(`^[ \t]*[@+-]*(?:mkdir|install[ \t]+-d|touch[ \t]+\$@)\b`)
	cmakeFile      = whenUsed(`(?:\.cmake(?:\.in)?|(?:^|/)CMake(?:User)?Presets\.json)$`)
	compiles       = whenUsed(`^\t[@+-]*(?:\$[({](?:CC|CXX|LD|AR|LINK[.A-Za-z]*)[)}]|(?:[a-z0-9_]+-)*(?:cc|c\+\+|gcc|g\+\+|clang|clang\+\+|ld|ar))[ \t]`)
	sourceName     = whenUsed(`^[A-Za-z0-9_./-]+\.(?:c|cc|cpp|cxx|C|h|hh|hpp|hxx|o|obj|lo|S|s|f|f90|m|mm|y|l)$`)
	asksTarget     = whenUsed(`(?i)(?:^|[^a-z])(?:self|unit|run)?[-_]?(?:tests?|check|verify|specs?|lint|suite|ci)(?:[^a-z]|$)`)
	// Headers of test frameworks, whose assertions a patch could replace.
	shadowsHeader = form.Lazy(`(?:^|/)(?:assert\.h|cassert|check\.h|cmocka\.h|unity\.h|doctest(?:/doctest)?\.h|catch(?:2/[^/]*)?\.hpp|gtest/[^/]*\.h|gmock/[^/]*\.h|CUnit/[^/]*\.h|criterion/[^/]*\.h)$|\.[gp]ch$`)

	// A script that runs tests, or whatever it is given.
	runsTests = inLines(`\b(?:go|cargo|npm|yarn|pnpm|bun|deno|mvn|gradle|gradlew|dotnet|swift|mix|make|dune|zig|rake|rails|sbt|bazel)["', \t]+`+
		`(?:(?:-[^\s]+(?:[ \t]+[^\s-][^\s]*)?|run|exec)["', \t]+)*:?(?:test|check|verify)\b`+
		`|\b(?:py\.?test|unittest|nose2|tox|nox|jest|vitest|mocha|ctest|bats|rspec|minitest|phpunit|gotestsum|ginkgo|nextest)\b`+
		`|\bruby[ \t](?:[^\n;&|]*[ \t/"':])?(?:test|spec)/`+
		`|(?:^|[;&|]|(?:^|[^=])\(|\bexec|\benv|\btime)[ \t]*"?\$(?:@|\*|\{@\})"?`,
		"test", "check", "verify", "tox", "nox", "jest", "mocha", "bats", "rspec", "phpunit", "spec/", "gotestsum", "ginkgo", "nose2", "$@", "$*", "${@}")
	// Programs that read a file of their own, where a script calls them.
	callsTool = inLines(`(?:^|[;&|(@{"'\[]|\bthen|\bdo|\belse|\bexec|\benv|\btime)[ \t]*(?:[A-Za-z_]+=[^\s]*[ \t]+)*(make|gmake|just|task|rake|tox|nox|mix|sbt)\b`,
		"make", "just", "task", "rake", "tox", "nox", "mix", "sbt")
	toolDirs = []string{"hack", "script", "scripts", "ci", ".ci", "tool", "tools", "build", "dev", "devel", "make", "automation", ".github", ".gitlab", ".circleci", ".buildkite"}
	asksName = whenUsed(`(?i)(?:^|[^a-z]|run|unit)(?:tests?|check|verify|lint|ci)(?:[^a-z]|$)`)
	// Files that an interpreter reads, by name; others say so in their first line.
	scriptExt = whenUsed(`\.(?:sh|bash|zsh|ksh|fish|py|pl|rb|php|[cm]?[jt]s|lua|awk|tcl|ps1|bat|cmd|mk|mak)$`)

	changesDir = inLines(`(?:\bcd|\bpushd|\s-C|--prefix|--cwd|--directory|\s-w)[ \t=]+["']?([A-Za-z0-9._/-]+)`,
		"cd ", "cd\t", "pushd", "-C", "--prefix", "--cwd", "--directory", "-w")
	// Directories that are built in.
	buildsIn = inLines(`\s(?:-B|--build|--test-dir|--build-dir|-C)[ \t=]*["']?([A-Za-z0-9._/-]+)`, "-B", "--build", "--test-dir", "-C")
	// Files that a shell only asks for.
	asksFile = inLines(`(?:\[\[?|\btest)[ \t]+(?:![ \t]+)?-[efxsdrL][ \t]+["']?([A-Za-z0-9_.][A-Za-z0-9._/-]*)`, "[", "test")
	sources  = inLines(`(?:^|[;&|({'"]|\bthen|\bdo|\belse)[ \t]*(?:\.|source)[ \t]+((?:\$\([^)\n]*\)|"(?:\$\([^)\n]*\)|[^"\n])*"|'[^'\n]*'|[^\s;&|"'])+)`,
		". ", ".\t", "source")
	includes = inLines(`^[ \t]*(?:-?include|sinclude)[ \t]+([^\n]+)|\bmake[ \t][^\n;&|]*-f[ \t]*([^\s;&|]+)`,
		"include", "-f")
	goRun = inLines(`\bgo[ \t]+run[ \t]+(?:-[^\s]+[ \t]+)*([A-Za-z0-9._/-]+)`,
		"go run", "go\trun", "go  run")
	runModule = inLines(`\bpython[0-9.]*[ \t]+(?:-[A-Za-z]+[ \t]+)*-m[ \t]+([A-Za-z_][A-Za-z0-9_.]*)`,
		"-m")
	npmScript = inLines(`\b(?:npm|pnpm|yarn|bun)(?:[ \t]+(?:--(?:prefix|cwd|dir|filter|workspace)|-[CFw])[ \t]+[^\s]+|[ \t]+--?[^\s]+)*[ \t]+(?:run(?:-script)?[ \t]+(?:--?[^\s]+[ \t]+)*)?([A-Za-z0-9][A-Za-z0-9:_.-]*)`,
		"npm", "yarn", "bun")
)

var (
	// linted is what a checker of shell scripts looks at, and does not run.
	linted = whenUsed(`\b(?:shellcheck|shfmt|(?:ba|da)?sh[ \t]+-n)\b[^\n;&|]*`)
	// remark is a line that is a remark, or does what a function is given: $1 is kept.
	remark      = whenUsed(`(?m)^([ \t]*)(?:#[^!\n][^\n]*|"?\$(?:@|\*|\{@\})"?[^\n]*)$`)
	testLibrary = whenUsed(`(?i)(?:^|[^a-z])(?:tests?|testing|assert(?:s|ions?)?|expect|spec|shunit2?|harness|runner)(?:[^a-z]|$)`)
)

// callsMake has calls of make stand as it is called.
var callsMake = strings.NewReplacer("$(MAKE)", "make", "${MAKE}", "make")

// namesConfig finds a configuration, or a module that is loaded first, where an
// option of a runner names it.
var namesConfig = inLines(`(?:^|[\s"',\[])(?:-c|-r|--(?:config(?:-?[Ff]ile)?|inifile|rcfile|settings|require|import|loader|setup-?[Ff]iles?[A-Za-z]*|globalSetup|reporter|file))(?:["', \t=]+)([A-Za-z0-9._/-]+\.(?:ini|cfg|toml|json|ya?ml|conf|xml|[cm]?[jt]s))(?:["',\s\]]|$)`,
	"-c", "-r", "--")

// lineFinder finds an expression in the lines of a text. Most lines have none of
// its words, which is quicker to see.
type lineFinder struct {
	re    func() *regexp.Regexp
	words []string // of which a line must have one
}

func inLines(expression string, words ...string) lineFinder {
	return lineFinder{whenUsed(expression), words}
}

// whenUsed compiles an expression at its first use: most starts of the program
// need none of them.
func whenUsed(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// all returns what the groups of the expression match, at most n times.
func (f lineFinder) all(text string, n int) [][]string {
	var found [][]string
	for line := range strings.Lines(text) {
		if len(found) < n && slices.ContainsFunc(f.words, func(w string) bool { return strings.Contains(line, w) }) {
			found = append(found, f.re().FindAllStringSubmatch(strings.TrimRight(line, "\r\n"), n-len(found))...)
		}
	}
	return found
}

// in says whether the expression matches anywhere in a text.
func (f lineFinder) in(text string) bool { return len(f.all(text, 1)) > 0 }

// fileWords are the words of a text that may be names of files, each once and
// maxReachWords at most. Variables and quotes fall away: "$ROOT/hack/run" is ROOT
// and /hack/run.
func fileWords(text string) []string {
	var words []string
	said := map[string]bool{}
	for w := range strings.FieldsFuncSeq(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._/@+!-", c)
	}) {
		if len(words) == maxReachWords {
			break
		}
		if !said[w] {
			said[w] = true
			words = append(words, w)
		}
	}
	return words
}
