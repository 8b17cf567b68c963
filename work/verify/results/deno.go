package results

import (
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// Deno is the format of deno test.
const Deno = "deno"

var deno = &Adapter{
	Name: Deno, Title: "deno test", Tried: "deno 2.9.6",
	Asked:   "nothing: the text names each test",
	Check:   "the lines against the counts of the last line, exit status",
	Forgery: "code in the test process prints lines of the runner; the counts show those that it only adds",
	Idioms:  []string{"assertEquals(got, want)", "assertThrows", "expect(got).toBe(want)"},
	call:    denoCall, read: readDeno, mute: []string{"--no-run", "--help", "-h", "--reporter"},
	line: func(line string) bool { return strings.Contains(line, " passed") && denoSum().MatchString(line) },
}

func denoCall(words []word) (int, bool) {
	return 2, words[0].program("deno") && len(words) > 1 && words[1].text == "test"
}

var (
	denoFile = form.Lazy(`^running \d+ tests? from (\S+)$`)
	denoTest = form.Lazy(`^(\S.*?) \.\.\. (?:(ok|FAILED|ignored)(?: \([^)]*\))*|(cancelled).*)$`)
	denoSum  = form.Lazy(`^(?:ok|FAILED) \| (\d+) passed(?: \(\d+ steps?\))? \| (\d+) failed(?: \(\d+ steps?\))?(?: \| (\d+) ignored)?.*$`)
)

// readDeno reads the pretty reporter. A test is "file > name"; steps belong to
// their test.
func readDeno(r io.Reader) (*Report, error) {
	var c collector
	var lines, said tally
	file := ""
	in := newLines(r, &c)
	for line, ok := in.text(); ok; line, ok = in.text() {
		if m := match(denoFile, line, "running "); m != nil {
			file = relative(m[1], "")
		} else if m := denoSum().FindStringSubmatch(line); m != nil {
			n := make([]int, 3)
			for i := range n {
				n[i], _ = strconv.Atoi(m[1+i]) // digits or nothing; too many of them are 0, and disagree
			}
			said.add(n[0], n[1], n[2])
		} else if m := denoTest().FindStringSubmatch(line); m != nil && !said.said {
			id := identity(file, m[1])
			switch m[2] {
			case "ok":
				c.add(id, Pass)
				lines.passed++
			case "ignored":
				c.add(id, Skip)
				lines.skipped++
			default:
				c.add(id, Fail)
				lines.failed++
			}
		}
	}
	if lines.passed != said.passed || lines.failed != said.failed {
		c.lose("deno counts %d passed and %d failed, and %d and %d have a line", said.passed, said.failed, lines.passed, lines.failed)
	}
	rep := c.report(Deno)
	rep.Complete = rep.Complete && said.said
	return rep, in.err
}
