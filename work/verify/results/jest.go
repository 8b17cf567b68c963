package results

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// Jest is the format of jest --json, which vitest writes too, and so do the
// reporters that Remit has for mocha and node --test.
const Jest = "jest"

var jest = &Adapter{
	Name: Jest, Title: "jest", Tried: "jest 29.7.0",
	Asked:   "`NODE_OPTIONS=--require` with a hook that adds `--json --outputFile=FILE`",
	Check:   "the file against its own counts, against the line \"Tests:\" and the exit status",
	Forgery: "code in a test file, which shares the process or its parent, writes another file and another line; the twins show it",
	Config:  []string{`jest\.(?:config|conf|workspace|projects).*`},
	Idioms:  []string{"expect(got).toBe(want)", "expect(got).toEqual(want)", "expect(f).toThrow()", "toMatchSnapshot"},
	call:    nodeProgram("jest"), mute: []string{"--listTests", "--version", "--help", "-h", "--init", "--showConfig"},
	weak: true, file: fileOfJest(Jest), sum: sumOfWords(jestSum),
}

var (
	jestSum  = form.Lazy(`^Tests: +(\d+ [a-z]+(?:, \d+ [a-z]+)*)$`)
	sumCount = form.Lazy(`(\d+) ([a-z]+)`)
)

// sumOfWords reads a line such as "1 failed, 2 passed, 3 total".
func sumOfWords(line lazy) func(string, *tally) bool {
	return func(text string, t *tally) bool {
		if !strings.Contains(text, "Tests") {
			return false
		}
		m := line().FindStringSubmatch(text)
		if m == nil {
			return false
		}
		for _, word := range sumCount().FindAllStringSubmatch(m[1], -1) {
			n, _ := strconv.Atoi(word[1]) // digits; too many of them are 0, and disagree
			switch word[2] {
			case "passed":
				t.add(n, 0, 0)
			case "failed":
				t.add(0, n, 0)
			case "skipped", "todo":
				t.add(0, 0, n)
			}
		}
		return true
	}
}

// jestRun is the document: only what decides.
type jestRun struct {
	Total   *int  `json:"numTotalTests"`
	Passed  int   `json:"numPassedTests"`
	Failed  int   `json:"numFailedTests"`
	Success *bool `json:"success"`
	Files   []struct {
		Name    string `json:"name"`
		Status  string `json:"status"`
		Message string `json:"message"`
		Tests   []struct {
			Around   []string `json:"ancestorTitles"`
			Title    string   `json:"title"`
			Status   string   `json:"status"`
			Suite    bool     `json:"suite"` // a suite that could not be set up: no count has it
			Hook     bool     `json:"hook"`  // no test, and gone once it works
			Messages []string `json:"failureMessages"`
		} `json:"assertionResults"`
	} `json:"testResults"`
}

// fileOfJest reads a document of jest's shape that a runner wrote. A test is "file >
// describe > title", and the second of this title in the file has " (2)" behind it; a
// file that could not be run is a failed test with its name.
func fileOfJest(runner string) func(io.Reader, string) (*Report, error) {
	return func(r io.Reader, root string) (*Report, error) {
		var c collector
		var run jestRun
		text, err := io.ReadAll(io.LimitReader(r, maxResult+1))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &run); err != nil || run.Total == nil {
			c.lose("the result file of %s cannot be read", runner)
			return c.report(runner), nil //nolint:nilerr // the report says it
		}
		raw := run.record(&c, root)
		if raw.passed != run.Passed || raw.failed != run.Failed || raw.passed+raw.failed+raw.skipped != *run.Total {
			c.lose("the result file of %s says %d passed and %d failed of %d tests, and has %d and %d of %d", runner,
				run.Passed, run.Failed, *run.Total, raw.passed, raw.failed, raw.passed+raw.failed+raw.skipped)
		}
		rep := c.report(runner)
		if run.Success != nil && *run.Success && rep.Failed > 0 {
			rep.lose("the result file of " + runner + " claims success, and tests in it failed")
		}
		rep.raw = raw
		return rep, nil
	}
}

// record files the tests, and counts them before equal names become one.
func (run *jestRun) record(c *collector, root string) (raw tally) {
	for _, f := range run.Files {
		name, failed, titles := relative(f.Name, root), false, make(map[string]int)
		for _, t := range f.Tests {
			id := identity(append(append([]string{name}, t.Around...), t.Title)...)
			if titles[id]++; !t.Hook && t.Title != "" {
				id = Ordinal(id, titles[id])
			}
			outcome := map[string]Outcome{"passed": Pass, "failed": Fail}[t.Status]
			switch {
			case outcome == Pass:
				raw.passed++
			case outcome == Fail && !t.Suite:
				raw.failed++
			case outcome == "":
				outcome = Skip
				raw.skipped++
			}
			failed = failed || outcome == Fail
			c.put(Test{ID: id, Outcome: outcome, Transient: outcome == Fail && (t.Suite || t.Hook || t.Title == "")})
			if outcome == Fail && len(t.Messages) > 0 {
				c.message(id, firstLine(t.Messages[0]))
			}
		}
		if f.Status == "failed" && !failed {
			c.fail(name)
			c.message(name, firstLine(f.Message))
		}
	}
	return raw
}

// Ordinal is the identity of the nth test of a file that has a title.
func Ordinal(title string, n int) string {
	if n < 2 {
		return title
	}
	return fmt.Sprintf("%s (%d)", title, n)
}

// firstLine is the first line of a text that says something.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(stripColour(text)), "\n")
	return line
}
