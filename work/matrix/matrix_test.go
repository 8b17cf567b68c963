package matrix

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"remit/fixtures/tally"
	"remit/law/ladder"
	"remit/proof/evidence"
	"remit/work/engine/faulty"
)

// TestMatrixHolds keeps the promise of the package: for both engines every row
// is tried on this machine and ends as it must.
func TestMatrixHolds(t *testing.T) {
	t.Parallel()
	for _, engine := range Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			rep, err := Run(t.Context(), options(t, engine))
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range rep.Rows {
				for _, c := range row.Cases {
					fmt.Fprintln(t.Output(), tallied(engine, i, row.Name, c))
					t.Logf("%s/%s: %s in %d ms", row.Name, c.Name, c.Verdict, c.DurationMS)
					if c.Verdict != Held && c.Verdict != NotApplicable {
						t.Errorf("%s/%s: %s: %s", row.Name, c.Name, c.Verdict, c.Reason)
						for _, check := range c.Checks {
							t.Logf("    %v %s: %s", check.Held, check.Name, check.Detail)
						}
					}
				}
			}
			if rep.Status != evidence.StatusPass || rep.ExitCode != 0 || rep.Held != 12 || rep.Total != 12 || !rep.Complete {
				t.Errorf("status %s, exit %d, %d of %d held, complete %v", rep.Status, rep.ExitCode, rep.Held, rep.Total, rep.Complete)
			}
		})
	}
}

// tallied is a case as a row of the printed table: every check that it made.
func tallied(engine string, place int, row string, c CaseResult) tally.Row {
	held := 0
	for _, check := range c.Checks {
		if check.Held {
			held++
		}
	}
	r := tally.Row{Table: "failure matrix", Place: place, Name: row + "/" + c.Name, As: engine + " engine", Verdict: tally.NotHeld,
		Figures: []tally.Figure{{Name: "checks", N: len(c.Checks)}, {Name: "held", N: held}}}
	switch c.Verdict {
	case Held:
		r.Verdict = tally.Held
	case NotApplicable:
		r.Verdict, r.Reason, r.Figures = tally.NotHere, c.Reason, nil
	}
	return r
}

// TestControls runs every scenario without its fault. The run passes: so it is
// the fault, and nothing else, that each row shows. Held against the row the
// same session does not hold, neither by its end nor by what it shows: so the
// judge can say no.
func TestControls(t *testing.T) {
	t.Parallel()
	for _, engine := range Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			opt := options(t, engine)
			places := make(chan struct{}, atOnce())
			for _, row := range ladder.Rows() {
				for _, c := range row.Cases {
					t.Run(row.Name+"/"+c.Name, func(t *testing.T) {
						t.Parallel()
						places <- struct{}{}
						defer func() { <-places }()
						testControl(t, opt, row, c)
					})
				}
			}
		})
	}
}

func testControl(t *testing.T, opt Options, row ladder.Row, c ladder.Case) {
	t.Helper()
	sc, err := scenarioOf(row.Name, c.Name)
	if err != nil {
		t.Fatal(err)
	}
	asPass, asRow := newCaseResult(row, c), newCaseResult(row, c)
	err = opt.execute(t.Context(), sc, row, false, func(e ended) {
		e.judge(t.Context(), sc, passes, &asPass)
		e.judge(t.Context(), sc, asRow.Expected, &asRow)
	})
	if errors.Is(err, faulty.ErrNoMount) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if asPass.settle(); asPass.Verdict != Held || asPass.Got.Status != evidence.StatusPass {
		t.Errorf("the control: %s", asPass.Reason)
	}
	failed, shows := map[string]bool{}, false
	for _, check := range asRow.Checks {
		failed[check.Name] = !check.Held
		shows = shows || !check.Held && !slices.Contains([]string{"status", "code", "exit", "event"}, check.Name)
	}
	if !failed["status"] || !failed["code"] || !failed["exit"] || !shows {
		t.Errorf("held against its row the control fails only %v", failed)
	}
}
