package results

import (
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// Nextest is the format of cargo nextest.
const Nextest = "nextest"

var nextest = &Adapter{
	Name: Nextest, Title: "cargo nextest",
	Asked:   "nothing: the text names each test that ran",
	Check:   "the lines against the counts of \"Summary\", exit status",
	Forgery: "each test is a process whose exit status counts; what a failed one prints is shown, and looks then like a line of nextest",
	Config:  []string{`nextest\.toml`},
	Idioms:  []string{"assert_eq!(got, want)", "assert!(…)"},
	call:    nextestCall, read: readNextest, stderr: true, mute: []string{"--no-run", "--help", "-h"},
	line: func(line string) bool { return strings.Contains(line, "Summary [") && nextestSum().MatchString(line) },
}

// nextestCall finds cargo nextest run.
func nextestCall(words []word) (int, bool) {
	at, ok := cargoCall("nextest")(words)
	return at + 1, ok && at < len(words) && (words[at].text == "run" || words[at].text == "r")
}

var (
	nextestTest = form.Lazy(`^ +(PASS|FAIL|SIGNAL|SIGABRT|SIGSEGV|TIMEOUT|LEAK|FLAKY \d+/\d+) \[ *[0-9.]+s\] (?:\( *\d+/\d+\) )?(.+)$`)
	nextestSum  = form.Lazy(`^ +Summary \[ *[0-9.]+s\] +(\d+)(?:/\d+)? tests? run: (\d+) passed(?: \([^)]*\))?(?:, (\d+) (?:failed|timed out))?(?:, (\d+) (?:failed|timed out))?(?:, (\d+) skipped)?$`)
)

// readNextest reads the status lines in front of the summary: behind it the failed
// tests are listed once more.
func readNextest(r io.Reader) (*Report, error) {
	var c collector
	var t tally
	skipped, ended := 0, false
	in := newLines(r, &c)
	for line, ok := in.text(); ok; line, ok = in.text() {
		if m := match(nextestTest, line, " "); m != nil && !ended {
			if m[1] == "PASS" || m[1] == "LEAK" || strings.HasPrefix(m[1], "FLAKY") {
				c.add(m[2], Pass)
				t.passed++
			} else {
				c.add(m[2], Fail)
				t.failed++
			}
		} else if m := match(nextestSum, line, " "); m != nil {
			n := make([]int, 5)
			for i := range n {
				n[i], _ = strconv.Atoi(m[1+i]) // digits or nothing; too many of them are 0, and disagree
			}
			ended, skipped = true, skipped+n[4]
			if n[1] != t.passed || n[2]+n[3] != t.failed {
				c.lose("nextest counts %d passed and %d failed, and %d and %d have a line", n[1], n[2]+n[3], t.passed, t.failed)
			}
		}
	}
	rep := c.report(Nextest)
	rep.Skipped = skipped
	rep.Complete = rep.Complete && ended
	return rep, in.err
}
