package results

import (
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// CTest is the format of ctest.
const CTest = "ctest"

var ctest = &Adapter{
	Name: CTest, Title: "ctest", Tried: "ctest 3.25.1",
	Asked:   "nothing: the text names each test, also below `make test`",
	Check:   "the lines against \"tests failed out of\", exit status",
	Forgery: "each test is a process whose exit status counts; what it prints is shown only with `-V` or `--output-on-failure`, and looks then like a line of ctest",
	Config:  []string{`CTestTestfile\.cmake`, `CTestCustom\.cmake(?:\.in)?`, `CTestConfig\.cmake`},
	Idioms:  []string{"assert(got == want)", "EXPECT_EQ(got, want)", "ASSERT_TRUE", "REQUIRE(got == want)", "exit status"},
	call:    startedBy("ctest"), read: readCTest,
	mute: []string{"-N", "--show-only", "--help", "--version", "-Q", "--quiet"},
	line: func(line string) bool {
		return strings.Contains(line, "% tests passed") && ctestSum().MatchString(line)
	},
}

var (
	ctestTest = form.Lazy(`^ *\d+/\d+ Test +#\d+: (.+?) \.{2,} *(?:Subprocess [a-z]+)?(?:\*\*\*)?(Passed|Failed|Timeout|Skipped|Not Run|Exception|No Process|Child Aborted|Child Killed|Completed|Bad|Unable)(.*)$`)
	ctestSum  = form.Lazy(`^\d+% tests passed, (\d+) tests? failed out of (\d+)$`)
)

// readCTest reads what ctest prints. A test is named as in add_test.
func readCTest(r io.Reader) (*Report, error) {
	var c collector
	var ran, failed, sums int
	in := newLines(r, &c)
	for line, ok := in.text(); ok; line, ok = in.text() {
		if m := ctestTest().FindStringSubmatch(line); m != nil {
			outcome := Fail
			switch {
			case m[2] == "Passed":
				outcome = Pass
			case m[2] == "Skipped" || strings.Contains(m[3], "(Disabled)"):
				outcome = Skip
			}
			if !strings.Contains(m[3], "(Disabled)") {
				ran++
			}
			if outcome == Fail {
				failed++
			}
			c.add(m[1], outcome)
		} else if m := ctestSum().FindStringSubmatch(line); m != nil {
			sums++
			n, _ := strconv.Atoi(m[1])   // digits; too many of them are 0, and disagree
			all, _ := strconv.Atoi(m[2]) // the same
			if all != ran || n != failed {
				c.lose("ctest counts %d failed of %d tests, and %d of %d have a line", n, all, failed, ran)
			}
			ran, failed = 0, 0
		}
	}
	if ran > 0 {
		c.lose("a run of ctest has no end")
	}
	rep := c.report(CTest)
	rep.Complete = rep.Complete && sums > 0
	return rep, in.err
}
