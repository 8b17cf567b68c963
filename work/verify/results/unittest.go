package results

import (
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// Unittest is the format of python -m unittest.
const Unittest = "unittest"

var unittest = &Adapter{
	Name: Unittest, Title: "python -m unittest", Tried: "Python 3.11",
	Asked:   "`-v` in the command; behind another command what it prints",
	Check:   "the announced number of tests against their lines, exit status",
	Forgery: "code in the test process writes lines to standard error and exits; the twins show it",
	Config:  []string{`unittest\.cfg`, `nose2?\.cfg`},
	Idioms:  []string{"self.assertEqual", "self.assertTrue", "self.assertRaises"},
	call:    unittestCall, ask: askUnittest, read: readUnittest, stderr: true,
	mute: []string{"-q", "--quiet", "-h", "--help"},
	line: func(line string) bool { return unittestRan().MatchString(line) },
}

var (
	unittestName   = form.Lazy(`^([\pL\pN_.]+) \(([\pL\pN_.<>]+)\)`)
	unittestEnd    = form.Lazy(`^(?:.* \.\.\. )?(ok|FAIL|ERROR|skipped (?:'.*'|".*")|expected failure|unexpected success)$`)
	unittestDetail = form.Lazy(`^(FAIL|ERROR): (.+)$`)
	unittestRan    = form.Lazy(`^Ran (\d+) tests? in [0-9.]+s$`)
	unittestLast   = form.Lazy(`^(OK|FAILED|NO TESTS RAN)(?: \(([a-z0-9=, ]+)\))?$`)
	unittestCount  = form.Lazy(`([a-z ]+)=(\d+)`)
)

// unittestRun is one run of the framework.
type unittestRun struct {
	tests   []Test
	started int    // tests with a line: fixtures and subtests are not counted by the runner
	pending string // a test whose line has no outcome yet
	fixture bool   // pending is setUpClass or the like, or a module that does not import
	ruled   bool   // the line before was the rule above a failure's heading
	failing string // the test whose traceback is being read
	said    string // its last line at the margin
	ran     int    // from the summary, -1 before it
}

// readUnittest reads python -m unittest. The identity of a test is its dotted
// name, module.Class.test; before 3.11 the test's own name is put behind the
// class. A fixture that fails (setUpClass, an import) is a failed test of its
// own.
func readUnittest(r io.Reader) (*Report, error) {
	var c collector
	var total counts
	u := unittestRun{ran: -1}
	ended := 0
	in := newLines(r, &c)
	for {
		line, ok := in.text()
		if !ok {
			break
		}
		if m := unittestRan().FindStringSubmatch(line); m != nil {
			u.ran, _ = strconv.Atoi(m[1])
			continue
		}
		if m := unittestLast().FindStringSubmatch(line); m != nil && u.ran >= 0 {
			ended++
			total.add(u.end(&c, m[1], m[2]))
			u = unittestRun{ran: -1}
			continue
		}
		u.line(line)
		u.traceback(&c, line)
	}
	if in.err != nil {
		return nil, in.err
	}
	if u.started > 0 || u.ran >= 0 {
		u.file(&c)
		c.lose("the last run has no end")
	}
	rep := c.report(Unittest)
	rep.settle(total)
	rep.Complete = rep.Complete && ended > 0
	return rep, nil
}

// line reads one line between the start of a run and its summary.
func (u *unittestRun) line(line string) {
	ruled := u.ruled
	u.ruled = len(line) == 70 && strings.Trim(line, "=") == ""
	if ruled {
		if m := unittestDetail().FindStringSubmatch(line); m != nil {
			if id, fixture, _ := unittestID(m[2]); id != "" {
				u.record(Test{id, Fail, fixture})
			}
			return
		}
	}
	if id, fixture, counted := unittestID(line); id != "" {
		if u.pending != "" && !u.fixture {
			u.record(Test{ID: u.pending, Outcome: Fail}) // it began and never said how it ended
		}
		u.pending, u.fixture = id, fixture
		if counted {
			u.started++
		}
	}
	if m := unittestEnd().FindStringSubmatch(line); m != nil && u.pending != "" {
		u.record(Test{u.pending, unittestOutcome(m[1]), u.fixture})
		u.pending = ""
	}
}

// traceback keeps the first line at the margin after a failure's last traceback:
// the exception.
func (u *unittestRun) traceback(c *collector, line string) {
	if m := unittestDetail().FindStringSubmatch(line); m != nil {
		u.failing, _, _ = unittestID(m[2])
		u.said = ""
		return
	}
	rule := len(line) == 70 && (strings.Trim(line, "=") == "" || strings.Trim(line, "-") == "")
	switch {
	case u.failing == "" || line == "" && u.said == "":
	case rule && u.said == "": // below the heading
	case rule || line == "":
		c.message(u.failing, u.said)
		u.failing = ""
	case line == "Traceback (most recent call last):":
		u.said = ""
	case line[0] != ' ' && u.said == "":
		u.said = line // what follows is more of its message, such as a diff
	}
}

// unittestID takes the identity from "test_x (mod.Class.test_x) …". counted
// says whether the runner counts it as a test.
func unittestID(line string) (id string, fixture, counted bool) {
	m := unittestName().FindStringSubmatch(line)
	if m == nil {
		return "", false, false
	}
	switch name, where := m[1], m[2]; {
	case strings.HasPrefix(where, "unittest.loader._FailedTest"): // a module that does not import
		return name, true, true
	case strings.HasPrefix(name, "setUp") || strings.HasPrefix(name, "tearDown"):
		return where + "." + name, true, false
	case strings.HasSuffix(where, "."+name):
		return where, false, true
	default:
		return where + "." + name, false, true
	}
}

func unittestOutcome(text string) Outcome {
	switch {
	case text == "ok":
		return Pass
	case text == "expected failure" || strings.HasPrefix(text, "skipped"):
		return Skip
	}
	return Fail // unittest counts an unexpected success as a failure
}

func (u *unittestRun) record(t Test) {
	if len(u.tests) < MaxTests {
		u.tests = append(u.tests, t)
	}
}

func (u *unittestRun) file(c *collector) {
	if u.pending != "" {
		u.record(Test{u.pending, Fail, u.fixture})
	}
	for _, t := range u.tests {
		c.put(t)
	}
}

// end files a run and holds its lines against its summary.
func (u *unittestRun) end(c *collector, status, detail string) counts {
	u.file(c)
	said := make(map[string]int)
	for _, m := range unittestCount().FindAllStringSubmatch(detail, -1) {
		n, _ := strconv.Atoi(m[2])
		said[strings.TrimSpace(m[1])] += min(n, MaxInput)
	}
	t := counts{failed: said["failures"] + said["errors"] + said["unexpected successes"], skipped: said["skipped"] + said["expected failures"]}
	if u.ran > 0 {
		t.failed = min(t.failed, u.ran) // the parts of one test can fail several times
	}
	t.passed = max(0, min(u.ran, MaxInput)-t.failed-t.skipped)
	failed := 0
	for _, test := range u.tests {
		if test.Outcome == Fail {
			failed++
		}
	}
	switch {
	case u.started == 0:
		t.unlisted = u.ran > 0 // not verbose
	case u.started != u.ran:
		c.lose("%d tests have a line, but the summary says that %d ran", u.started, u.ran)
	}
	if (status == "OK") != (t.failed == 0) && status != "NO TESTS RAN" || status == "OK" && failed > 0 {
		c.lose("the summary says %s, which the lines contradict", status)
	}
	return t
}
