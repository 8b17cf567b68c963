// Package results reads what a test runner printed: which tests ran, and what
// became of each.
//
// The input is the captured output of a command whose tests were written, or
// could have been changed, by the party under judgement. Two consequences:
//
//   - Only the runner's own structure counts. In `go test -json` an event
//     decides and the text inside an "output" event never does; in pytest the
//     last short test summary of a session decides and a line that looks like
//     one inside captured output does not; in unittest and TAP the announced
//     number of tests must equal the number of lines.
//   - When one test is reported twice, the worse outcome stands. A line that
//     is printed by the code under test can therefore add a test that no source
//     asked for, and can never turn a failure into a pass.
//
// A process that forges the protocol of its own runner cannot be distinguished from the
// runner by its output; the verifier answers that with control tests, not with
// parsing.
//
// # Formats
//
//	gotest    go test -json (test2json events)
//	gotext    go test without -json; with -v per test, else per package
//	pytest    the summary lines of -rap or -rA, the progress lines of -v, the last line
//	unittest  python -m unittest, with -v per test
//	junit     JUnit XML on standard output
//	tap       TAP 13 and 14, with subtests
//
// and those of the other rows of the table ([Adapters], docs/runners.md). Some
// runners name their tests only in a file that they are asked to write: see
// collect.go for how it gets here.
//
// # Limits
//
// Memory is bounded whatever the input: MaxInput bytes are read, lines longer
// than MaxLine are skipped, MaxTests identities are kept, each at most MaxID
// bytes. What was cut is a Problem, and the report is not Complete.
package results

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Outcome is what became of a test.
type Outcome string

// The outcomes. An expected failure is a Skip: nothing was proved by it.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// Test is one test with its identity.
type Test struct {
	ID      string  `json:"id"`
	Outcome Outcome `json:"outcome"`
	// Transient marks what is listed only because it failed, and of which
	// nothing can be expected once it works: a container that could not run at
	// all (a Go package that does not build, a Python module that does not
	// import), a fixture, a failed test of a runner that names no others.
	Transient bool `json:"transient,omitempty"`
}

// Report is what a command's output says about its tests.
type Report struct {
	Runner string `json:"runner"` // the formats found, joined by "+"
	Tests  []Test `json:"tests"`  // sorted by ID, one entry an ID
	// The counts are those of Tests where every test has a line, else those
	// of the runner's summary.
	Passed, Failed, Skipped int
	// Listed says that every test that ran is in Tests.
	Listed bool
	// Complete says that the runner's own plan or summary was there and
	// agrees with the lines.
	Complete bool
	// Messages are the first words of failures by identity, one line each, where
	// the output has them. The code under test writes them: they are shown, and
	// decide nothing.
	Messages map[string]string
	// Filed says that tests come from result files, which the runner was asked for.
	Filed    bool
	Problems []string // what was cut, contradictory or malformed; at most MaxProblems

	raw  tally            // of one result file: before tests of the same name became one
	sums map[string]tally // the same of all files, by runner
}

// The limits of the readers.
const (
	MaxInput    = 64 << 20 // bytes read of one stream
	MaxLine     = 1 << 20  // bytes of one line; test2json cuts output at 4 KiB
	MaxTests    = 100_000  // identities kept
	MaxID       = 512      // bytes of an identity; longer ones end in their digest
	MaxMessages = 1000
	MaxMessage  = 500 // characters
	MaxProblems = 20
	MaxDepth    = 32 // nesting of TAP subtests and XML elements
)

// Ran is the number of tests that were executed.
func (r *Report) Ran() int { return r.Passed + r.Failed }

// collector gathers tests under the limits.
type collector struct {
	index    map[string]int
	tests    []Test
	problems []string
	messages map[string]string
	cut      bool // something was left out: the report cannot be complete
}

// fail records a transient failure.
func (c *collector) fail(id string) { c.put(Test{id, Fail, true}) }

// add records an outcome.
func (c *collector) add(id string, o Outcome) { c.put(Test{ID: id, Outcome: o}) }

// put records a test; of two outcomes for one identity the worse stands.
func (c *collector) put(t Test) {
	id := cleanID(t.ID)
	if c.index == nil {
		c.index = make(map[string]int)
	}
	if i, known := c.index[id]; known {
		c.tests[i].Outcome = worse(c.tests[i].Outcome, t.Outcome)
		c.tests[i].Transient = c.tests[i].Transient && t.Transient
		return
	}
	if len(c.tests) >= MaxTests {
		c.lose("more than %d tests", MaxTests)
		return
	}
	c.index[id] = len(c.tests)
	c.tests = append(c.tests, Test{id, t.Outcome, t.Transient})
}

// message keeps the first words of a failure.
func (c *collector) message(id, text string) {
	id = cleanID(id)
	if _, first := c.messages[id]; first || len(c.messages) >= MaxMessages {
		return
	}
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unprintable(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?")))
	if runes := []rune(text); len(runes) > MaxMessage {
		text = string(runes[:MaxMessage-1]) + "…"
	}
	if text == "" {
		return
	}
	if c.messages == nil {
		c.messages = make(map[string]string)
	}
	c.messages[id] = text
}

func (c *collector) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(c.problems) < MaxProblems && !slices.Contains(c.problems, text) {
		c.problems = append(c.problems, text)
	}
}

// lose is a problem after which the report cannot be complete.
func (c *collector) lose(format string, args ...any) {
	c.cut = true
	c.problem(format, args...)
}

// report makes the sorted report, with the counts of the tests.
func (c *collector) report(runner string) *Report {
	r := &Report{Runner: runner, Tests: c.tests, Listed: true, Complete: !c.cut, Messages: c.messages, Problems: c.problems}
	slices.SortFunc(r.Tests, func(a, b Test) int { return strings.Compare(a.ID, b.ID) })
	for _, t := range r.Tests {
		switch t.Outcome {
		case Pass:
			r.Passed++
		case Fail:
			r.Failed++
		case Skip:
			r.Skipped++
		}
	}
	return r
}

// worse orders fail before skip before pass: a test that was skipped once
// cannot be a pass, and one that failed once is a failure.
func worse(a, b Outcome) Outcome {
	rank := map[Outcome]int{Fail: 2, Skip: 1, Pass: 0}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// cleanID makes an identity that is safe to print and to put in a report:
// valid UTF-8, no control characters, bounded. Distinct identities stay
// distinct: one that had to be changed carries the digest of the original.
func cleanID(id string) string {
	clean := len(id) <= MaxID && utf8.ValidString(id) && strings.IndexFunc(id, unprintable) < 0
	if clean {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	text := strings.Map(func(r rune) rune {
		if unprintable(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(id[:min(len(id), MaxID)], "?"))
	const tail = 1 + 16
	for len(text) > MaxID-tail {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text + "~" + hex.EncodeToString(sum[:8])
}

// unprintable also covers format characters such as bidirectional overrides,
// which would let a hostile identity look like another on a screen.
func unprintable(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) ||
		r == '\u2028' || r == '\u2029'
}
