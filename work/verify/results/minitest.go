package results

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// Minitest is the format of the plugin of Minitest that Remit lends (hooks/ruby).
const Minitest = "minitest"

var minitest = &Adapter{
	Name: Minitest, Title: "Minitest", Tried: "Minitest 5.17.0",
	Asked:   "`RUBYLIB` with a plugin, `minitest/remit_plugin.rb`, that writes a file for each process; where plugins are off (`MT_NO_PLUGINS`, `--no-plugins`) what it prints",
	Check:   "the file against Minitest's own counts, against the line \"runs\" and the exit status",
	Forgery: "code in the test process changes the results that the plugin gets, or rewrites the file when the process ends, and prints another line; the twins show it",
	Config:  []string{`(?:test|minitest)_helper\.rb`, `remit_plugin\.rb`},
	Idioms:  []string{"assert_equal want, got", "assert_nil got", "assert_raises(E) { f }", "_(got).must_equal want"},
	call:    minitestCall, mute: []string{"--version", "-h", "--help"},
	weak: true, file: readMinitest, sum: sumOfMinitest, closes: true,
}

// minitestCall finds a program that runs nothing but Minitest: its own, and that of
// Rails. What ruby or rake runs is seen by its results.
func minitestCall(words []word) (int, bool) {
	i := 0
	switch {
	case words[0].program("bundle") && len(words) > 2 && words[1].text == "exec":
		i = 2
	case words[0].program("ruby") && len(words) > 1: // ruby bin/rails
		i = 1
	}
	if words[i].program("minitest") {
		return i + 1, true
	}
	return i + 2, words[i].program("rails") && i+1 < len(words) && (words[i+1].text == "test" || words[i+1].text == "t" || strings.HasPrefix(words[i+1].text, "test:"))
}

// minitestSum is the last line of a run; that of minitest-reporters says "tests".
var minitestSum = form.Lazy(`^ *(\d{1,9}) (?:runs|tests), \d+ assertions, (\d{1,9}) failures, (\d{1,9}) errors, (\d{1,9}) skips(?:, (\d{1,9}) warnings)?$`)

func sumOfMinitest(line string, t *tally) bool {
	if !strings.Contains(line, " assertions, ") {
		return false
	}
	m := minitestSum().FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n := make([]int, 5)
	for i := range n {
		n[i], _ = strconv.Atoi(m[1+i]) // a few digits, or nothing
	}
	failed := n[1] + n[2] + n[4]
	return t.add(max(0, n[0]-failed-n[3]), failed, n[3])
}

// A test of Minitest::Spec is a method whose name begins with its place in its group.
var specNumber = form.Lazy(`^test_\d{4,}_`)

// minitestName is "Class#test_name". Of a test of Minitest::Spec the number is left out,
// which is another one where a test is added in front of it; one without a title keeps it.
func minitestName(class, name string, spec bool) string {
	if at := specNumber().FindString(name); spec && at != "" && name != at && name[len(at):] != "anonymous" {
		name = name[len(at):]
	}
	if class == "" {
		return name
	}
	return class + "#" + name
}

// readMinitest reads a document of the plugin. A test is "file > Class#test_name", see
// minitestName.
func readMinitest(r io.Reader, root string) (*Report, error) {
	var c collector
	var run struct {
		Tests []struct {
			File    string `json:"file"`
			Class   string `json:"class"`
			Name    string `json:"name"`
			Outcome string `json:"outcome"`
			Message string `json:"message"`
			Spec    bool   `json:"spec"`
		} `json:"tests"`
		Summary *struct {
			Runs     int `json:"runs"`
			Failures int `json:"failures"`
			Errors   int `json:"errors"`
			Skips    int `json:"skips"`
		} `json:"summary"`
	}
	text, err := io.ReadAll(io.LimitReader(r, maxResult+1))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &run); err != nil || run.Summary == nil {
		c.lose("the result file of minitest cannot be read")
		return c.report(Minitest), nil //nolint:nilerr // the report says it
	}
	var raw tally
	for _, e := range run.Tests {
		file := ""
		if e.File != "" {
			file = relative(e.File, root)
		}
		id, outcome := identity(file, minitestName(e.Class, e.Name, e.Spec)), Skip
		switch e.Outcome {
		case "pass":
			outcome = Pass
			raw.passed++
		case "skip":
			raw.skipped++
		default:
			outcome = Fail
			raw.failed++
			c.message(id, firstLine(e.Message))
		}
		c.add(id, outcome)
	}
	if s := run.Summary; s.Runs != len(run.Tests) || s.Failures+s.Errors != raw.failed || s.Skips != raw.skipped {
		c.lose("the result file of minitest counts %d runs, %d failures and %d skips, and has %d, %d and %d",
			s.Runs, s.Failures+s.Errors, s.Skips, len(run.Tests), raw.failed, raw.skipped)
	}
	rep := c.report(Minitest)
	rep.raw = raw
	return rep, nil
}
