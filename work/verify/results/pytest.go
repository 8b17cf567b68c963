package results

import (
	"io"
	"maps"
	"strconv"
	"strings"

	"remit/proof/form"
)

// Pytest is the format of pytest's terminal report.
const Pytest = "pytest"

var pytest = &Adapter{
	Name: Pytest, Title: "pytest", Tried: "pytest 7.2.1",
	Asked:   "`--verbosity=1 -rap` in the command; behind another command what it prints",
	Check:   "summary lines against the counts of the last line, exit status",
	Forgery: "code in the test process changes the report objects of pytest; the twins show it",
	Config: []string{`conftest\.py`, `\.?pytest\.(?:ini|toml)`, `\.coveragerc`, `noxfile\.py`, `sitecustomize\.py`, `usercustomize\.py`, `.*\.pth`, `.*\.pyc`,
		`.*\.egg-link`},
	Idioms: []string{"assert got == want", "pytest.raises", "pytest.approx"},
	call:   pytestCall, ask: askPytest, read: readPytest,
	mute: []string{"--co", "--collect-only", "--version", "-V", "--help", "-h", "--markers", "--fixtures", "--funcargs", "--cache-show", "--setup-plan", "--setup-only"},
	line: func(line string) bool { return pytestStart().MatchString(line) || pytestLast().MatchString(line) },
}

var (
	pytestStart   = form.Lazy(`^=+ test session starts .*=+$|^=+ test session starts =+$`)
	pytestHeader  = form.Lazy(`^={3,} .+ ={3,}$`)
	pytestSummary = form.Lazy(`^={3,} short test summary info ={3,}$`)
	pytestVerbose = form.Lazy(`^(\S.*?::.*?) (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)(?: \(.*\))?\s*(?:\[ *\d+%\])?$`)
	pytestWorker  = form.Lazy(`^\[gw\d+\] (?:\[ *\d+%\] )?(PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS) (\S.*::.*?)\s*$`)
	pytestSkipped = form.Lazy(`^SKIPPED \[(\d+)\] `)
	pytestLast    = form.Lazy(`^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+|no tests ran|no tests collected) in [0-9.]+s(?: \([0-9:]+\))?(?: =+)?$`)
	pytestCount   = form.Lazy(`(\d+) ([a-z]+)`)
)

// pytestSession is one session: a command may run pytest more than once.
type pytestSession struct {
	verbose  []Test // from the progress lines of -v; only skips are taken when a summary exists
	summary  []Test
	counted  map[string]int // summary lines by category
	progress bool           // before the first section header
	inside   bool           // within a short test summary
}

// readPytest reads pytest's terminal report. The identity of a test is its node
// id; a file that cannot be collected is a failed test named as the file.
//
// The code under test prints into the middle of the report (captured output of
// each test), never behind the short test summary: so the last summary before
// the line of counts is the one that stands.
func readPytest(r io.Reader) (*Report, error) {
	var c collector
	var total counts
	sessions, s := 0, newPytestSession()
	in := newLines(r, &c)
	for {
		line, ok := in.text()
		if !ok {
			break
		}
		switch {
		case pytestStart().MatchString(line):
			s = newPytestSession()
			s.progress = true
		case pytestSummary().MatchString(line):
			s.progress, s.inside, s.summary, s.counted = false, true, nil, make(map[string]int)
		case pytestLast().MatchString(line):
			sessions++
			total.add(s.end(&c, line))
			s = newPytestSession()
		case pytestHeader().MatchString(line):
			s.progress = s.progress && strings.Contains(line, "test session starts")
			s.inside = false
		case s.inside:
			s.summaryLine(&c, line)
		case s.progress:
			s.progressLine(line)
		}
	}
	if in.err != nil {
		return nil, in.err
	}
	rep := c.report(Pytest)
	rep.settle(total)
	rep.Complete = rep.Complete && sessions > 0
	return rep, nil
}

func newPytestSession() *pytestSession { return &pytestSession{counted: make(map[string]int)} }

var pytestOutcome = map[string]Outcome{
	"PASSED": Pass, "XPASS": Pass, "FAILED": Fail, "ERROR": Fail, "SKIPPED": Skip, "XFAIL": Skip,
}

func (s *pytestSession) progressLine(line string) {
	if len(s.verbose) >= MaxTests {
		return
	}
	if m := pytestVerbose().FindStringSubmatch(line); m != nil {
		s.verbose = append(s.verbose, Test{ID: m[1], Outcome: pytestOutcome[m[2]]})
	} else if m := pytestWorker().FindStringSubmatch(line); m != nil {
		s.verbose = append(s.verbose, Test{ID: m[2], Outcome: pytestOutcome[m[1]]})
	}
}

func (s *pytestSession) summaryLine(c *collector, line string) {
	if m := pytestSkipped().FindStringSubmatch(line); m != nil {
		n, _ := strconv.Atoi(m[1])
		s.counted["SKIPPED"] += n
		return
	}
	word, id, _ := strings.Cut(line, " ")
	outcome, known := pytestOutcome[word]
	if !known || id == "" || len(s.summary) >= MaxTests {
		return
	}
	if word != "PASSED" { // which has no reason
		whole := id
		id = cutReason(whole)
		if outcome == Fail {
			c.message(strings.TrimSpace(id), strings.TrimPrefix(whole[len(id):], " - "))
		}
	}
	s.counted[word]++
	id = strings.TrimSpace(id)
	s.summary = append(s.summary, Test{id, outcome, !strings.Contains(id, "::")})
}

// cutReason removes " - message" from a summary line. A parameter in brackets
// may contain the separator itself.
func cutReason(id string) string {
	first := strings.Index(id, " - ")
	if first < 0 {
		return id
	}
	if open := strings.IndexByte(id, '['); open >= 0 && open < first {
		if end := strings.Index(id[open:], "] - "); end >= 0 {
			return id[:open+end+1]
		}
		if strings.HasSuffix(id, "]") {
			return id
		}
	}
	return id[:first]
}

// counts are the numbers of a runner's own summary.
type counts struct {
	passed, failed, skipped int
	unlisted                bool // some test that ran has no line of its own
}

func (t *counts) add(o counts) {
	t.passed, t.failed, t.skipped = t.passed+o.passed, t.failed+o.failed, t.skipped+o.skipped
	t.unlisted = t.unlisted || o.unlisted
}

// settle takes the numbers of the summary where not every test has a line.
// What was skipped needs no line: a test that is missing from the list counts
// as not run, whatever the reason.
func (r *Report) settle(t counts) {
	r.Skipped = max(t.skipped, r.Skipped)
	if t.unlisted {
		r.Listed = false
		r.Passed, r.Failed = max(t.passed, r.Passed), max(t.failed, r.Failed)
	}
}

// end files a session at its line of counts and holds the two together.
func (s *pytestSession) end(c *collector, last string) counts {
	said := make(map[string]int)
	for _, m := range pytestCount().FindAllStringSubmatch(pytestLast().FindStringSubmatch(last)[1], -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil || n > MaxInput {
			c.lose("an impossible number in the last line")
			n = 0
		}
		said[strings.TrimSuffix(m[2], "s")] += n
	}
	t := counts{passed: said["passed"] + said["xpassed"], failed: said["failed"] + said["error"], skipped: said["skipped"] + said["xfailed"]}

	seen := make(map[string]bool, len(s.summary))
	for _, test := range s.summary {
		seen[test.ID] = true
		c.put(test)
	}
	perLine := map[Outcome]int{}
	for _, test := range s.verbose {
		perLine[test.Outcome]++
		// The summary does not name what was skipped; without a summary the
		// progress lines are all there is.
		if !seen[test.ID] {
			c.add(test.ID, test.Outcome)
		}
	}
	listedPasses := max(s.counted["PASSED"]+s.counted["XPASS"], perLine[Pass])
	t.unlisted = listedPasses < t.passed || max(s.counted["FAILED"]+s.counted["ERROR"], perLine[Fail]) < t.failed
	s.compare(c, said)
	return t
}

// compare reports where the summary lines exceed or fall short of the counts.
// A category without lines was not asked for (-r) and says nothing.
func (s *pytestSession) compare(c *collector, said map[string]int) {
	names := map[string]string{"PASSED": "passed", "FAILED": "failed", "ERROR": "error", "SKIPPED": "skipped", "XFAIL": "xfailed", "XPASS": "xpassed"}
	for word := range maps.Keys(s.counted) {
		if lines, number := s.counted[word], said[names[word]]; lines != number {
			c.lose("%d %s lines, but the last line says %d", lines, word, number)
		}
	}
}
