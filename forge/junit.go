package forge

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"remit/proof/evidence"
)

// The elements of JUnit XML that every reader knows: junit-10.xsd of Jenkins has them.
type (
	testSuites struct {
		XMLName  xml.Name    `xml:"testsuites"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Suites   []testSuite `xml:"testsuite"`
	}
	testSuite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"` // always 0: an error counts as a failure
		Skipped  int        `xml:"skipped,attr"`
		Time     string     `xml:"time,attr"`
		Before   *before    `xml:"properties,omitempty"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Class   string    `xml:"classname,attr"`
		Name    string    `xml:"name,attr"`
		Failure *failure  `xml:"failure,omitempty"`
		Skipped *struct{} `xml:"skipped,omitempty"`
	}
	failure struct {
		Message string `xml:"message,attr"`
	}
	before struct {
		Properties []property `xml:"property"`
	}
	property struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
)

// JUnit writes the verification of the change of the session in dir: a suite for
// each command, with a case for the command itself and, where the runner's results
// are known, one for each test. What the command did before the change is in the
// properties of its suite, since a test that fails there is not one that fails.
func JUnit(w io.Writer, dir string) error {
	c, err := open(dir)
	if err != nil {
		return err
	}
	results, err := readResults(dir)
	if err != nil {
		return err
	}
	doc := testSuites{Name: c.receipt.SessionID}
	for _, run := range c.report.Verification {
		if run.Phase != headPhase {
			continue
		}
		s := testSuite{Name: run.Phase + ": " + run.Command, Time: fmt.Sprintf("%.3f", float64(run.DurationMS)/1000),
			Before: beforeOf(c.report.Verification, run.Command)}
		own := testCase{Class: run.Phase, Name: run.Command}
		if !run.Passed {
			own.Failure = &failure{fmt.Sprintf("exit code %d", run.ExitCode)}
		}
		s.add(own)
		for _, r := range results {
			if r.Phase == run.Phase && r.Command == run.Command {
				s.add(caseOf(r))
			}
		}
		doc.Tests, doc.Failures = doc.Tests+s.Tests, doc.Failures+s.Failures
		doc.Suites = append(doc.Suites, s)
	}
	// A run can fail although its commands pass, or before they ran.
	if c.report.Status != evidence.StatusPass && doc.Failures == 0 {
		s := testSuite{Name: "verdict", Time: "0.000"}
		why := c.report.Status
		if c.report.FailureReason != nil {
			why += ": " + *c.report.FailureReason
		}
		s.add(testCase{Class: "verdict", Name: "remit", Failure: &failure{why}})
		doc.Tests, doc.Failures, doc.Suites = doc.Tests+s.Tests, s.Failures, append(doc.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// headPhase is the phase in which the change is there.
const headPhase = "head"

// runBefore is a command on the baseline, nil where it did not run.
func runBefore(all []evidence.CommandRun, command string) *evidence.CommandRun {
	i := slices.IndexFunc(all, func(run evidence.CommandRun) bool { return run.Phase != headPhase && run.Command == command })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// beforeOf is what a command did on the baseline, nil where it did not run.
func beforeOf(all []evidence.CommandRun, command string) *before {
	run := runBefore(all, command)
	if run == nil {
		return nil
	}
	out := &before{[]property{{"base.exit_code", strconv.Itoa(run.ExitCode)}}}
	if t := run.Tests; t != nil {
		out.Properties = append(out.Properties, property{"base.passed", strconv.Itoa(t.Passed)},
			property{"base.failed", strconv.Itoa(t.Failed)}, property{"base.skipped", strconv.Itoa(t.Skipped)})
	}
	return out
}

func (s *testSuite) add(c testCase) {
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Skipped != nil {
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

func caseOf(r evidence.TestResult) testCase {
	c := testCase{Class: r.Phase, Name: r.Test}
	switch r.Outcome {
	case "fail":
		c.Failure = &failure{"failed"}
	case "skip":
		c.Skipped = new(struct{})
	}
	return c
}

// readResults reads the per-test results, if the run has any.
func readResults(dir string) ([]evidence.TestResult, error) {
	f, err := os.Open(filepath.Join(dir, evidence.TestResultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the test results: %w", err)
	}
	defer f.Close()
	var out []evidence.TestResult
	dec := json.NewDecoder(bufio.NewReader(f))
	for {
		var r evidence.TestResult
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the test results: %w", err)
		}
		out = append(out, r)
	}
}
