package results

import (
	"io"
	"strings"

	"remit/proof/form"
)

// GoText is the format of go test without -json.
const GoText = "gotext"

var goText = &Adapter{
	Name: GoText, Title: "go test behind another command", Tried: "Go 1.26",
	Asked:   "nothing; with `-v` each test has a line, without it each package",
	Check:   "a verdict counts only for a test that was announced, exit status",
	Forgery: "the same as for go test; without `-v` no test has a name",
	read:    readGoText, line: func(line string) bool { return goPackageLine().MatchString(line) },
}

var (
	goPackageLine = form.Lazy(`^(ok|FAIL|\?)\s+(\S+)\s+(\(cached\)|[0-9.]+s|\[[^\]]*\])(.*)$`)
	goTestLine    = form.Lazy(`^ *--- (PASS|FAIL|SKIP): (\S+) \([0-9.]+s\)$`)
	goRunLine     = form.Lazy(`^=== RUN\s+(\S+)$`)
)

// readGoText reads `go test` without -json. With -v every test has a line, and
// a verdict line counts only for a test whose start was announced; without it
// the packages are the tests. Tests belong to the package whose line follows.
func readGoText(r io.Reader) (*Report, error) {
	var c collector
	var tests []Test // of the package that has not ended yet
	begun := make(map[string]bool)
	var silent []Test // packages without a test line of their own
	ended, verbose := 0, false
	in := newLines(r, &c)
	for {
		line, ok := in.text()
		if !ok {
			break
		}
		if m := goRunLine().FindStringSubmatch(line); m != nil && len(begun) < MaxTests {
			begun[m[1]], verbose = true, true
		} else if m := goTestLine().FindStringSubmatch(line); m != nil && len(tests) < MaxTests {
			// Without -v only failures are printed, and they are not announced.
			if begun[m[2]] || m[1] == "FAIL" {
				tests = append(tests, Test{Transient: !begun[m[2]], ID: m[2], Outcome: map[string]Outcome{"PASS": Pass, "FAIL": Fail, "SKIP": Skip}[m[1]]})
				delete(begun, m[2])
			}
		} else if m := goPackageLine().FindStringSubmatch(line); m != nil {
			ended++
			if p, ok := endGoPackage(&c, m, tests, begun); ok && len(silent) < MaxTests {
				silent = append(silent, p)
			}
			tests, begun = nil, make(map[string]bool)
		}
	}
	if in.err != nil {
		return nil, in.err
	}
	if len(tests) > 0 || len(begun) > 0 {
		c.lose("test lines after the last package line")
	}
	for _, p := range silent {
		// With -v a package that passed would have said which tests it ran: it
		// ran none. Without, the packages are the tests.
		if p.Transient = verbose; !verbose || p.Outcome == Fail {
			c.put(p)
		}
	}
	rep := c.report(GoText)
	rep.Complete = rep.Complete && ended > 0
	return rep, nil
}

// endGoPackage files the tests of the package that the line m ends. It returns
// the package itself when no line of an announced test stands for it.
func endGoPackage(c *collector, m []string, tests []Test, begun map[string]bool) (pkg Test, alone bool) {
	status, name, detail := m[1], m[2], m[3]+m[4]
	failed, announced := false, len(begun) > 0
	for _, t := range tests {
		c.put(Test{name + "." + t.ID, t.Outcome, t.Transient})
		failed = failed || t.Outcome == Fail
		announced = announced || !t.Transient
	}
	for id := range begun {
		c.add(name+"."+id, Fail) // began, never ended
		failed = true
	}
	switch {
	case status == "ok" && failed:
		c.lose("package %s passed although a test of it failed", cleanID(name))
	case status == "FAIL" && (!failed || !announced):
		return Test{ID: name, Outcome: Fail}, true
	case status == "ok" && !announced && !strings.Contains(detail, "[no test"):
		return Test{ID: name, Outcome: Pass}, true
	}
	return Test{}, false
}
