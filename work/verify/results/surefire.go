package results

import (
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// Surefire is the format of the reports of Maven's surefire and failsafe.
const Surefire = "surefire"

var surefire = &Adapter{
	Name: Surefire, Title: "Maven Surefire", Tried: "Maven 3.8.7, surefire 2.22.3",
	Asked:   "nothing: it writes `target/surefire-reports/TEST-*.xml`; those that are newer than the command's start are read",
	Check:   "announced tests and failures of each suite against its cases, against the last \"Tests run:\" of each module and the exit status",
	Forgery: "code in the forked test process writes a report of its own, or tells Maven what it likes; the twins show it",
	Config:  []string{`surefire\.properties`, `junit-platform\.properties`},
	Idioms:  []string{"assertEquals(want, got)", "assertTrue", "assertThat(got).isEqualTo(want)", "assertThrows"},
	weak:    true, file: readSurefire, sum: sumOfSurefire,
}

var surefireSum = form.Lazy(`^(?:\[[A-Z]+\] )?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$`)

// sumOfSurefire reads the line without a time, which sums a module up.
func sumOfSurefire(line string, t *tally) bool {
	if !strings.Contains(line, "Tests run: ") {
		return false
	}
	m := surefireSum().FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n := make([]int, 4)
	for i := range n {
		n[i], _ = strconv.Atoi(m[1+i]) // digits; too many of them are 0, and disagree
	}
	return t.add(n[0]-n[1]-n[2]-n[3], n[1]+n[2], n[3])
}

func readSurefire(r io.Reader, _ string) (*Report, error) { return readXML(r, Surefire) }
