package results

import (
	"io"
	"strconv"

	"remit/proof/form"
)

// Bun is the format of bun test.
const Bun = "bun"

var bun = &Adapter{
	Name: Bun, Title: "bun test", Tried: "bun 1.4.5",
	Asked:   "nothing: the text names each test",
	Check:   "the lines against the counts at the end, exit status",
	Forgery: "code in the test process prints lines of the runner; the counts show those that it only adds",
	Config:  []string{`bunfig\.toml`},
	Idioms:  []string{"expect(got).toBe(want)", "expect(got).toEqual(want)", "expect(f).toThrow()"},
	call:    bunCall, read: readBun, stderr: true, mute: []string{"--help", "-h", "--reporter", "--only-failures"},
	line: func(line string) bool { return match(bunSum, line, "Ran ") != nil },
}

func bunCall(words []word) (int, bool) {
	return 2, words[0].program("bun") && len(words) > 1 && words[1].text == "test"
}

var (
	bunFile  = form.Lazy(`^(\S+\.[cm]?[jt]sx?):$`)
	bunTest  = form.Lazy(`^(?:\((pass|fail|skip|todo)\)|([✓✗»✎])) (.+?)(?: \(attempt \d+\))?(?: \[[0-9.]+m?s\])?$`) // an attempt is no other test
	bunCount = form.Lazy(`^ *(\d+) (pass|fail|skip|todo|error)s?$`)
	bunSum   = form.Lazy(`^Ran (\d+) tests? across \d+ files?\.`)
)

// readBun reads what bun prints on standard error. A test is "file > describe >
// name".
func readBun(r io.Reader) (*Report, error) {
	var c collector
	var lines, said tally
	file, ran, errors := "", -1, 0
	in := newLines(r, &c)
	for line, ok := in.text(); ok; line, ok = in.text() {
		if m := bunFile().FindStringSubmatch(line); m != nil {
			file = relative(m[1], "")
		} else if m := bunTest().FindStringSubmatch(line); m != nil {
			switch m[1] + m[2] {
			case "pass", "✓":
				c.add(identity(file, m[3]), Pass)
				lines.passed++
			case "fail", "✗":
				c.add(identity(file, m[3]), Fail)
				lines.failed++
			default:
				c.add(identity(file, m[3]), Skip)
				lines.skipped++
			}
		} else if m := bunCount().FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits; too many of them are 0, and disagree
			if m[2] == "error" {       // outside of tests: counted as failed, and without a line
				errors += n
				continue
			}
			said.add(map[string]int{"pass": n}[m[2]], map[string]int{"fail": n}[m[2]], map[string]int{"skip": n, "todo": n}[m[2]])
		} else if m := match(bunSum, line, "Ran "); m != nil {
			ran, _ = strconv.Atoi(m[1]) // the same
		}
	}
	if errors > 0 {
		c.fail("outside of tests")
	}
	if lines.passed != said.passed || lines.failed+errors != said.failed {
		c.lose("bun counts %d passed and %d failed, and %d and %d have a line", said.passed, said.failed, lines.passed, lines.failed)
	}
	rep := c.report(Bun)
	rep.Complete = rep.Complete && ran >= 0
	return rep, in.err
}
