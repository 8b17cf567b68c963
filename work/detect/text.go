package detect

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/proof/form"
)

// maxLine bounds a text of the repository that is repeated, in bytes.
const maxLine = 300

// oneLine reports whether a text may stand in remit.yaml and on a screen: short,
// and of printable characters only. Line ends of any kind, controls, direction
// overrides and invisible characters are none.
func oneLine(s string) bool {
	if s == "" || len(s) > maxLine || !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}

var plainDir = form.Lazy(`^[A-Za-z0-9_@+][A-Za-z0-9._@+-]*(?:/[A-Za-z0-9_@+.][A-Za-z0-9._@+-]*)*$`)

// shellDir reports whether a directory can be a word of a command line as it is:
// no blank, no quote, nothing that a shell reads, and no dash in front.
func shellDir(dir string) bool {
	return dir == "." || len(dir) <= maxLine && plainDir().MatchString(dir)
}

// in is the place of a file of a directory.
func in(dir, name string) string { return path.Join(dir, name) }

// globSafe reports whether a name means itself in a glob of a contract.
func globSafe(name string) bool { return oneLine(name) && !strings.ContainsAny(name, `*?[]{},\`) }

var (
	// One call, perhaps behind assignments: words, paths, flags and simple quotes.
	// No list, pipe, redirection, substitution, expression of a CI system or comment.
	plainCall = form.Lazy(`^(?:[A-Za-z0-9_./:=@,+%*-]+|'[A-Za-z0-9_./:=@,+%* -]*'|"[A-Za-z0-9_./:=@,+%* -]*")(?: (?:[A-Za-z0-9_./:=@,+%*-]+|'[A-Za-z0-9_./:=@,+%* -]*'|"[A-Za-z0-9_./:=@,+%* -]*"))*$`)
	assigned  = form.Lazy(`^(?:[A-Za-z_][A-Za-z0-9_]*=[A-Za-z0-9_./:,+-]* )*`)
	// What a line begins with that runs tests.
	testCall = form.Lazy(`^(?:go test|go -C [^ ]+ test|gotestsum|(?:python3?|py) -m (?:pytest|unittest)|pytest|py\.test|nosetests` +
		`|(?:npm|pnpm|yarn|bun)(?: run)? (?:test|check|tests|unit|test:[a-z:-]+)|(?:npx|yarn|pnpm exec|bunx) (?:--no-install )?(?:jest|vitest|mocha|ava|tap)|node --test|deno test|deno task test` +
		`|cargo (?:test|nextest run)|(?:\./)?(?:mvnw?)(?: -[A-Za-z-]+)* (?:test|verify)|(?:\./)?gradlew?(?: --?[A-Za-z-]+)* (?:test|check)` +
		`|(?:bundle exec )?(?:rspec|rake test|rake spec|ruby(?: -[IrwW][A-Za-z0-9_./:]*)* (?:\./)?(?:test|spec)/[A-Za-z0-9_./-]+\.rb)|(?:bin/)?rails test|(?:vendor/bin/|\./vendor/bin/)?(?:phpunit|pest)|composer (?:run )?test` +
		`|dotnet test|ctest|make (?:-C [^ ]+ )?(?:test|check|tests|unittest)|bats|mix test|swift test|tox|nox` +
		`|(?:(?:sh|bash|python3?) (?:\./)?|\./|(?:[A-Za-z0-9_-]+/)+)(?:[A-Za-z0-9_-]+/)*(?:run[-_]?)?tests?(?:\.sh|\.py)?)(?:[^A-Za-z0-9_.:/-]|$)`)
)

// testLine is a command line of a foreign file that runs tests and is safe to
// repeat, "" for any other. refused says that it looks like a test and is not
// plain.
func testLine(line string) (taken string, refused bool) {
	line = strings.TrimSpace(line)
	bare := line[len(assigned().FindString(line)):]
	if !testCall().MatchString(bare) {
		return "", false
	}
	if !oneLine(line) || !plainCall().MatchString(line) || leaves(line) {
		return "", true
	}
	return line, false
}

// leaves reports whether a word of a line is a path that is not below the top.
func leaves(line string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" =:,'\"", c) }), func(word string) bool {
		return path.IsAbs(word) || slices.Contains(strings.Split(word, "/"), "..")
	})
}
