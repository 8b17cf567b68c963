package results

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
)

// PHPUnit is the format of phpunit --log-junit.
const PHPUnit = "phpunit"

var phpunit = &Adapter{
	Name: PHPUnit, Title: "PHPUnit", Tried: "PHPUnit 9.6.7",
	Asked:   "`PHP_INI_SCAN_DIR` with an `auto_prepend_file` that adds `--log-junit FILE`",
	Check:   "announced tests and failures of each suite against its cases, against the line \"OK\" or \"Tests:\" and the exit status",
	Forgery: "code in the test process rewrites the file in a shutdown function, and prints another line; the twins show it",
	Config:  []string{`phpunit\.xml.*`, `Pest\.php`},
	Idioms:  []string{"$this->assertSame($want, $got)", "$this->assertEquals", "$this->assertTrue", "$this->expectException"},
	call:    phpunitCall, mute: []string{"--list-tests", "--list-groups", "--list-suites", "--version", "--help", "-h", "--generate-configuration"},
	weak: true, file: readPHPUnit, sum: sumOfPHPUnit,
}

// phpunitCall finds phpunit, also as a file that php is given.
func phpunitCall(words []word) (int, bool) {
	if words[0].program("php") && len(words) > 1 {
		return 2, words[1].program("phpunit", "phpunit.phar")
	}
	return 1, words[0].program("phpunit", "phpunit.phar")
}

var (
	phpunitOK   = form.Lazy(`^OK \((\d+) tests?, \d+ assertions?\)$`)
	phpunitSum  = form.Lazy(`^Tests: (\d+), Assertions: \d+((?:, [A-Z][A-Za-z ]*: \d+)*)\.$`)
	phpunitPart = form.Lazy(`([A-Z][A-Za-z ]*): (\d+)`)
)

func sumOfPHPUnit(line string, t *tally) bool {
	if m := match(phpunitOK, line, "OK ("); m != nil {
		n, _ := strconv.Atoi(m[1]) // digits; too many of them are 0, and disagree
		return t.add(n, 0, 0)
	}
	m := match(phpunitSum, line, "Tests: ")
	if m == nil {
		return false
	}
	all, _ := strconv.Atoi(m[1]) // the same
	failed, skipped := 0, 0
	for _, part := range phpunitPart().FindAllStringSubmatch(m[2], -1) {
		n, _ := strconv.Atoi(part[2]) // the same
		switch {
		case slices.Contains([]string{"Failures", "Errors"}, part[1]):
			failed += n
		case slices.Contains([]string{"Skipped", "Incomplete"}, part[1]):
			skipped += n
		}
	}
	return t.add(all-failed-skipped, failed, skipped)
}

// match is what an expression finds in a line that begins with a text.
func match(line lazy, text, begins string) []string {
	if !strings.HasPrefix(text, begins) {
		return nil
	}
	return line().FindStringSubmatch(text)
}

func readPHPUnit(r io.Reader, _ string) (*Report, error) { return readXML(r, PHPUnit) }
