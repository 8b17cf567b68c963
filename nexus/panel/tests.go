package panel

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// verified is what the verifier found out about a change.
type verified struct {
	Fixed, Broken, Missing       []string
	Kept                         int
	ControlMade                  bool
	Control, NewTests, Unnoticed string
	Observation                  *evidence.Observation
	New                          []string
	Untracked                    []string
	Failing                      []failing
	FailingMore                  int
	Ribbon                       ribbon
}

// failing is a test that fails on the change.
type failing struct {
	Base, Name, Origin, File, Message string
}

// ribbon draws tests as columns: base above, change below.
type ribbon struct {
	Columns []column
	More    int
	Width   int
}

type column struct {
	X          int
	Base, Head string
}

func verifiedOf(v evidence.VerificationCompleted) *verified {
	out := &verified{Fixed: v.FailToPass, Broken: v.PassToFail, Missing: v.Missing, Kept: v.PassToPass, Untracked: v.Untracked,
		Observation: v.Observation}
	if v.Control != nil {
		out.ControlMade, out.Control = v.Control.Status == evidence.ControlMade, v.Control.Sentence()
		out.Unnoticed = v.Observation.Sentence()
	}
	if v.NewTests != nil {
		out.NewTests, out.New = v.NewTests.Sentence(), v.NewTests.FailWithout
	}
	return out
}

// Bounds of what a page shows of tests.
const (
	maxTestResults = 4 << 20
	shownFailing   = 20
	shownColumns   = 60
)

// tests reads which test failed and why, before and after.
func (p *Panel) tests(ctx context.Context, d *runPage) error {
	raw, err := p.readAll(ctx, d.ID, evidence.TestResultsFile, maxTestResults)
	if reason.CodeOf(err) == reason.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	type both struct {
		base, head string
		result     evidence.TestResult
	}
	seen := map[string]*both{}
	var order []string
	for line := range bytes.Lines(raw) {
		var r evidence.TestResult
		if json.Unmarshal(line, &r) != nil {
			continue // a line that was cut off by the bound
		}
		key := r.Command + "\n" + r.Test
		b := seen[key]
		if b == nil {
			b = new(both)
			seen[key] = b
			order = append(order, key)
		}
		if r.Phase == "head" {
			b.head, b.result = r.Outcome, r
		} else {
			b.base = r.Outcome
			if b.result.Test == "" {
				b.result = r
			}
		}
	}
	parents := map[string]bool{}
	for _, key := range order {
		if i := strings.LastIndexByte(key, '/'); i > 0 {
			parents[key[:i]] = true
		}
	}
	rank := func(key string) int {
		b := seen[key]
		switch {
		case b.base == "pass" && b.head != "pass":
			return 0
		case b.head == "fail":
			return 1
		case b.base == "fail":
			return 2
		case b.base == "":
			return 3
		}
		return 4
	}
	slices.SortStableFunc(order, func(a, b string) int { return rank(a) - rank(b) })
	v := d.Verified
	for _, key := range order {
		b := seen[key]
		if parents[key] && b.result.Message == "" {
			continue // its cases say more
		}
		if len(v.Ribbon.Columns) < shownColumns {
			v.Ribbon.Columns = append(v.Ribbon.Columns, column{len(v.Ribbon.Columns) * 12, testMark(b.base), testMark(b.head)})
		} else {
			v.Ribbon.More++
		}
		if b.head != "fail" {
			continue // what did not run is named by the verdict
		}
		if len(v.Failing) == shownFailing {
			v.FailingMore++
			continue
		}
		v.Failing = append(v.Failing, failing{Base: testMark(b.base), Name: b.result.Test, Origin: originWords[b.result.Origin],
			File:    b.result.File,
			Message: b.result.Message})
	}
	v.Ribbon.Width = 12 * len(v.Ribbon.Columns)
	return nil
}

var originWords = map[string]string{"base": "in the repository since the base", "new": "new in the change",
	"held-out": "held out: the agent never saw it"}

func testMark(outcome string) string {
	if outcome == "pass" || outcome == "fail" {
		return outcome
	}
	return "none"
}
