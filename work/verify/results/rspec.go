package results

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// RSpec is the format of RSpec's JSON formatter.
const RSpec = "rspec"

var rspec = &Adapter{
	Name: RSpec, Title: "RSpec", Tried: "RSpec 3.12.0",
	Asked:   "`SPEC_OPTS=\"--format progress --format json --out FILE\"`; of several runs in one command the last one has the file",
	Check:   "the file against its own summary, against the line \"examples\" and the exit status",
	Forgery: "code in the test process rewrites the file when the process ends, and prints another line",
	Config:  []string{`\.rspec(?:-local)?`, `spec_helper\.rb`, `rails_helper\.rb`},
	Idioms:  []string{"expect(got).to eq(want)", "expect { f }.to raise_error", "expect(got).to be_truthy", "got.should == want"},
	call:    rspecCall, mute: []string{"--dry-run", "--version", "-v", "--help", "-h", "--init", "--bisect"},
	weak: true, file: readRSpec, sum: sumOfRSpec,
}

// rspecCall finds rspec, also behind bundle exec.
func rspecCall(words []word) (int, bool) {
	if words[0].program("bundle") && len(words) > 2 && words[1].text == "exec" {
		return 3, words[2].program("rspec")
	}
	return 1, words[0].program("rspec")
}

var rspecSum = form.Lazy(`^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?(?:, (\d+) errors? occurred outside of examples)?$`)

func sumOfRSpec(line string, t *tally) bool {
	if !strings.Contains(line, " example") {
		return false
	}
	m := rspecSum().FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n := make([]int, 4)
	for i := range n {
		n[i], _ = strconv.Atoi(m[1+i]) // digits or nothing; too many of them are 0, and disagree
	}
	return t.add(n[0]-n[1]-n[2], n[1]+n[3], n[2])
}

// Of an example without a title RSpec makes a description of what it expected last,
// which is another one where it failed before.
var (
	rspecMade  = form.Lazy(`^(?:is expected (?:not )?to |example at )`)
	rspecPlace = form.Lazy(`:(\d+)\]$`)
)

// rspecName is the full description of an example, or that of its group and the place
// in it, where the example has no title.
func rspecName(id, full, own string) string {
	at := rspecPlace().FindStringSubmatch(id)
	if at == nil || !rspecMade().MatchString(own) {
		return full
	}
	return strings.TrimSpace(strings.TrimSpace(strings.TrimSuffix(full, own)) + " example " + at[1])
}

// readRSpec reads a document of RSpec's JSON formatter. A test is "file > full
// description", see rspecName.
func readRSpec(r io.Reader, root string) (*Report, error) {
	var c collector
	var run struct {
		Examples []struct {
			ID        string `json:"id"`
			Name      string `json:"full_description"`
			Own       string `json:"description"`
			File      string `json:"file_path"`
			Status    string `json:"status"`
			Exception struct {
				Message string `json:"message"`
			} `json:"exception"`
		} `json:"examples"`
		Summary *struct {
			Examples int `json:"example_count"`
			Failures int `json:"failure_count"`
			Pending  int `json:"pending_count"`
			Outside  int `json:"errors_outside_of_examples_count"`
		} `json:"summary"`
	}
	text, err := io.ReadAll(io.LimitReader(r, maxResult+1))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &run); err != nil || run.Summary == nil {
		c.lose("the result file of rspec cannot be read")
		return c.report(RSpec), nil //nolint:nilerr // the report says it
	}
	var raw tally
	for _, e := range run.Examples {
		id, outcome := identity(relative(e.File, root), rspecName(e.ID, e.Name, e.Own)), Skip
		switch e.Status {
		case "passed":
			outcome = Pass
			raw.passed++
		case "failed":
			outcome = Fail
			raw.failed++
			c.message(id, firstLine(e.Exception.Message))
		default:
			raw.skipped++
		}
		c.add(id, outcome)
	}
	s := run.Summary
	if s.Examples != len(run.Examples) || s.Failures != raw.failed || s.Pending != raw.skipped {
		c.lose("the result file of rspec counts %d examples, %d failures and %d pending, and has %d, %d and %d",
			s.Examples, s.Failures, s.Pending, len(run.Examples), raw.failed, raw.skipped)
	}
	if s.Outside > 0 {
		c.fail("outside of examples")
		raw.failed += s.Outside
	}
	rep := c.report(RSpec)
	rep.raw = raw
	return rep, nil
}
