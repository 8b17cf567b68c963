package results

import (
	"fmt"
	"io"
	"strings"

	"remit/proof/form"
)

// Open gives a captured stream from its beginning.
type Open func() (io.ReadCloser, error)

// Read reads the output of a finished command. runner is the format that
// [Augment] asked for, or "" to recognise it. The report is nil when nothing
// of a test runner is in the output.
//
// A recognised format comes from the structure of the output, so the code
// under test can pretend to be another runner. That costs it the identities of
// the tests that the base had, which the verifier looks for.
func Read(stdout, stderr Open, runner string) (*Report, error) {
	if runner != "" {
		source := stdout
		if runner == Unittest { // it reports on standard error
			source = stderr
		}
		return parseStream(runner, source)
	}
	var merged *Report
	for _, source := range []Open{stdout, stderr} {
		found, err := detectStream(source)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			rep, err := parseStream(name, source)
			if err != nil {
				return nil, err
			}
			merged = merge(merged, rep)
		}
	}
	return merged, nil
}

// Parse reads one stream in the named format.
func Parse(runner string, r io.Reader) (*Report, error) {
	switch runner {
	case GoTest:
		return readGoTest(r)
	case GoText:
		return readGoText(r)
	case Pytest:
		return readPytest(r)
	case Unittest:
		return readUnittest(r)
	case JUnit:
		return readJUnit(r)
	case TAP:
		return readTAP(r)
	}
	return nil, fmt.Errorf("unknown test output format %q", runner)
}

func parseStream(runner string, open Open) (*Report, error) {
	in, err := open()
	if err != nil {
		return nil, fmt.Errorf("opening captured output: %w", err)
	}
	defer in.Close()
	rep, err := Parse(runner, in)
	if err != nil {
		return nil, fmt.Errorf("reading captured output: %w", err)
	}
	return rep, nil
}

func detectStream(open Open) ([]string, error) {
	in, err := open()
	if err != nil {
		return nil, fmt.Errorf("opening captured output: %w", err)
	}
	defer in.Close()
	return Detect(in)
}

var tapStart = form.Lazy(`^(?:TAP version 1[34]|1\.\.\d+(?:\s*#.*)?)$`)

// Detect names the formats in a stream, in the order of the package comment.
// One command may start several runners. TAP and JUnit are looked at only when
// none of the others is there: a test suite may well print them as data.
func Detect(r io.Reader) ([]string, error) {
	var c collector
	seen := make(map[string]bool)
	in := newLines(r, &c)
	for {
		raw, ok := in.next()
		if !ok {
			break
		}
		if _, isEvent := goEventOf(raw); isEvent {
			seen[GoTest] = true
			continue
		}
		seen[detectLine(stripColour(string(raw)))] = true
	}
	if in.err != nil {
		return nil, fmt.Errorf("reading captured output: %w", in.err)
	}
	if seen[GoText] {
		seen[GoTest] = false // events printed by a test of plain go test are data
	}
	var found []string
	for _, name := range []string{GoTest, GoText, Pytest, Unittest} {
		if seen[name] {
			found = append(found, name)
		}
	}
	for _, name := range []string{JUnit, TAP} {
		if len(found) == 0 && seen[name] {
			found = append(found, name)
		}
	}
	return found, nil
}

// detectLine names the format that a line gives away, "" for most lines.
func detectLine(line string) string {
	switch {
	case goPackageLine().MatchString(line):
		return GoText
	case pytestStart().MatchString(line), pytestLast().MatchString(line):
		return Pytest
	case unittestRan().MatchString(line):
		return Unittest
	case startsXML([]byte(line)):
		return JUnit
	case tapStart().MatchString(line):
		return TAP
	}
	return ""
}

// merge joins the reports of several runners of one command.
func merge(a, b *Report) *Report {
	if a == nil {
		return b
	}
	c := collector{problems: append(a.Problems, b.Problems...)}
	for _, t := range append(a.Tests, b.Tests...) {
		c.put(t)
	}
	for _, rep := range []*Report{a, b} {
		for id, text := range rep.Messages {
			c.message(id, text)
		}
	}
	names := a.Runner
	if !strings.Contains("+"+names+"+", "+"+b.Runner+"+") {
		names += "+" + b.Runner
	}
	m := c.report(names)
	m.Listed = a.Listed && b.Listed
	m.Complete = a.Complete && b.Complete && !c.cut
	if !m.Listed {
		m.Passed, m.Failed, m.Skipped = a.Passed+b.Passed, a.Failed+b.Failed, a.Skipped+b.Skipped
	}
	m.Problems = m.Problems[:min(len(m.Problems), MaxProblems)]
	return m
}
