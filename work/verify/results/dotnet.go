package results

import (
	"io"
	"strconv"

	"remit/proof/form"
)

// DotNet is the format of dotnet test.
const DotNet = "dotnet"

var dotnet = &Adapter{
	Name: DotNet, Title: "dotnet test",
	Asked:   "`--logger console;verbosity=normal` in the command; behind another command what it prints",
	Check:   "the lines against the counts of each test assembly, exit status",
	Forgery: "code in the test host writes the lines of the runner",
	Config:  []string{`.*\.runsettings`, `xunit\.runner\.json`, `testconfig\.json`, `Directory\.(?:Build|Solution)\.(?:props|targets)`, `.*proj\.user`, `(?:before|after)\..*\.targets`},
	Idioms:  []string{"Assert.Equal(want, got)", "Assert.AreEqual", "Assert.That(got, Is.EqualTo(want))", "got.Should().Be(want)"},
	call:    dotnetCall, ask: askDotNet, read: readDotNet, mute: []string{"--list-tests", "-t", "--help", "-h", "-?"},
	line: func(line string) bool {
		return match(dotnetShort, line, "") != nil || match(dotnetTotal, line, "Total tests: ") != nil
	},
}

func dotnetCall(words []word) (int, bool) {
	return 2, words[0].program("dotnet") && len(words) > 1 && words[1].text == "test"
}

// askDotNet asks for a line of each test.
func askDotNet(c call, command string) (string, bool) {
	if c.has("--logger", "-l") {
		return command, true
	}
	return insert(command, c.words, c.options(), "--logger 'console;verbosity=normal'"), true
}

var (
	dotnetTest  = form.Lazy(`^  (Passed|Failed|Skipped) (\S.*?) \[(?:< )?[0-9][^\]]*\]$`)
	dotnetShort = form.Lazy(`^(?:Passed|Failed|Skipped)! +- Failed: +(\d+), Passed: +(\d+), Skipped: +(\d+), Total: +(\d+)`)
	dotnetTotal = form.Lazy(`^Total tests: (\d+)$`)
	dotnetPart  = form.Lazy(`^     (Passed|Failed|Skipped): (\d+)$`)
)

// readDotNet reads the console logger: a line for each test, and the counts of each
// assembly in one of two forms.
func readDotNet(r io.Reader) (*Report, error) {
	var c collector
	var lines, said tally
	in := newLines(r, &c)
	for line, ok := in.text(); ok; line, ok = in.text() {
		if m := match(dotnetTest, line, "  "); m != nil {
			switch m[1] {
			case "Passed":
				c.add(m[2], Pass)
				lines.passed++
			case "Failed":
				c.add(m[2], Fail)
				lines.failed++
			default:
				c.add(m[2], Skip)
				lines.skipped++
			}
		} else if m := match(dotnetShort, line, ""); m != nil {
			n := make([]int, 3)
			for i := range n {
				n[i], _ = strconv.Atoi(m[1+i]) // digits; too many of them are 0, and disagree
			}
			said.add(n[1], n[0], n[2])
		} else if m := match(dotnetPart, line, "     "); m != nil {
			n, _ := strconv.Atoi(m[2]) // the same
			said.add(map[string]int{"Passed": n}[m[1]], map[string]int{"Failed": n}[m[1]], map[string]int{"Skipped": n}[m[1]])
		}
	}
	rep := c.report(DotNet)
	if lines == (tally{}) { // only the counts were asked for
		rep.Passed, rep.Failed, rep.Skipped, rep.Listed = said.passed, said.failed, said.skipped, false
	} else if lines.passed != said.passed || lines.failed != said.failed {
		rep.lose("dotnet counts " + strconv.Itoa(said.passed) + " passed and " + strconv.Itoa(said.failed) + " failed tests, and the lines say otherwise")
	}
	rep.Complete = rep.Complete && said.said
	return rep, in.err
}
