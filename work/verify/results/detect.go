package results

import (
	"fmt"
	"io"
	"strings"
)

// Open gives a captured stream from its beginning.
type Open func() (io.ReadCloser, error)

// Input is the output of a finished command.
type Input struct {
	Stdout, Stderr Open
	// Runner is the format that [Augment] named, or "" to recognise it.
	Runner string
	// Mark begins the lines behind which result files stand at the end of the
	// standard output (see [Mark]), "" where none were asked for.
	Mark string
}

// Read reads the output of a finished command. The report is nil when nothing of
// a test runner is in the output.
//
// A recognised format comes from the structure of the output, so the code
// under test can pretend to be another runner. That costs it the identities of
// the tests that the base had, which the verifier looks for.
func Read(in Input) (*Report, error) {
	var files *collected
	if in.Mark != "" {
		var err error
		if files, err = collect(in.Stdout, in.Mark); err != nil {
			return nil, fmt.Errorf("reading captured output: %w", err)
		}
		in.Stdout = files.text(in.Stdout)
	}
	if a := adapterOf(in.Runner); a != nil && a.file == nil {
		return a.parse(in.Stdout, in.Stderr)
	}
	merged, err := readText(in, func(a *Adapter) bool { return files.empty() || !a.weak && in.Runner == "" })
	if err != nil || files.empty() {
		if merged != nil && files != nil {
			for _, p := range files.problems {
				merged.lose(p)
			}
		}
		if merged == nil && in.Runner != "" {
			merged = &Report{Runner: in.Runner}
		}
		return merged, err
	}
	rep, err := files.report()
	if err != nil {
		return nil, err
	}
	if err := rep.agree(in); err != nil {
		return nil, err
	}
	return merge(rep, merged), nil
}

// readText reads what the streams show of the formats that are asked for.
func readText(in Input, asked func(*Adapter) bool) (*Report, error) {
	var merged *Report
	for i, source := range []Open{in.Stdout, in.Stderr} {
		found, err := detectStream(source)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			a := adapterOf(name)
			if !asked(a) {
				continue
			}
			var rep *Report
			if a.both != nil && i == 0 {
				rep, err = a.parse(in.Stdout, in.Stderr)
			} else {
				rep, err = parseStream(name, source)
			}
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
	a := adapterOf(runner)
	if a == nil {
		return nil, fmt.Errorf("unknown test output format %q", runner)
	}
	switch {
	case a.both != nil:
		return a.both(r, strings.NewReader(""))
	case a.read == nil && a.sum == nil:
		return a.file(r, "")
	case a.read == nil:
		return a.readSums(r)
	}
	return a.read(r)
}

// parse reads the streams of a runner.
func (a *Adapter) parse(stdout, stderr Open) (*Report, error) {
	if a.both == nil && a.stderr {
		return parseStream(a.Name, stderr)
	}
	if a.both == nil {
		return parseStream(a.Name, stdout)
	}
	out, err := stdout()
	if err != nil {
		return nil, fmt.Errorf("opening captured output: %w", err)
	}
	defer out.Close()
	other, err := stderr()
	if err != nil {
		return nil, fmt.Errorf("opening captured output: %w", err)
	}
	defer other.Close()
	rep, err := a.both(out, other)
	if err != nil {
		return nil, fmt.Errorf("reading captured output: %w", err)
	}
	return rep, nil
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

// Detect names the formats in a stream, in the order of the table. One command may
// start several runners. A weak format is looked at only when none of the others is
// there: a test suite may well print it as data.
func Detect(r io.Reader) ([]string, error) {
	var c collector
	seen := make(map[*Adapter]bool)
	in := newLines(r, &c)
	for line, ok := in.text(); ok; line, ok = in.text() {
		if a := adapterOfLine(line); a != nil {
			seen[a] = true
		}
	}
	if in.err != nil {
		return nil, fmt.Errorf("reading captured output: %w", in.err)
	}
	if seen[goText] {
		seen[goTest] = false // events printed by a test of plain go test are data
	}
	var found []string
	for _, weak := range []bool{false, true} {
		for _, a := range adapters {
			if seen[a] && a.weak == weak && (!weak || len(found) == 0) {
				found = append(found, a.Name)
			}
		}
	}
	return found, nil
}

// adapterOfLine is the format that a line gives away, nil for most lines.
func adapterOfLine(line string) *Adapter {
	for _, a := range adapters {
		if a.line != nil && a.line(line) || a.sums(line) {
			return a
		}
	}
	return nil
}

// merge joins the reports of several runners of one command.
func merge(a, b *Report) *Report {
	if a == nil {
		return b
	}
	if b == nil {
		return a
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
