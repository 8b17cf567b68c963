package matrix

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"remit/fixtures/tally"
	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/work/engine/faulty"
)

// TestMatrixHolds keeps the promise of the package: for both engines every row
// is tried on this machine and ends as it must.
func TestMatrixHolds(t *testing.T) {
	t.Parallel()
	for _, engine := range BuiltIn() {
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

// TestMatrixHoldsWhereChangesAreDelivered: a failure ends the same way in a mode that
// puts a verified change on a branch, and leaves no branch behind: the source of each
// case is compared file by file. Each run tries one of the two modes, a soak both.
func TestMatrixHoldsWhereChangesAreDelivered(t *testing.T) {
	t.Parallel()
	modes := []task.MutationMode{task.SandboxRepo, task.ScopedRealRepo}
	for i, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			tally.AtItsTurn(t, i, len(modes))
			t.Parallel()
			opt := options(t, "command")
			opt.Mode = mode
			rep, err := Run(t.Context(), opt)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rep.Rows {
				for _, c := range row.Cases {
					if c.Verdict != Held && c.Verdict != NotApplicable {
						t.Errorf("%s/%s: %s: %s", row.Name, c.Name, c.Verdict, c.Reason)
					}
				}
			}
			if rep.Held != 12 {
				t.Errorf("%d of %d held", rep.Held, rep.Total)
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
//
// Without its fault most scenarios are one and the same run. It is made once for
// each engine, and its session held against all their rows. Each run tries one engine.
func TestControls(t *testing.T) {
	t.Parallel()
	for i, engine := range BuiltIn() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, i+1, 2)
			opt := opened(t, engine)
			for i, group := range controls(t) {
				if !tally.ByTurn(t, i, 3) {
					continue
				}
				name := group[0].String()
				if len(group) > 1 {
					name = "plain"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					testControl(t, opt, group)
				})
			}
		})
	}
}

// control is a case whose scenario is run without its fault.
type control struct {
	scenario
	row ladder.Row
	c   ladder.Case
}

func (c control) String() string { return c.row.Name + "/" + c.c.Name }

// controls are those of all cases, together where they are the same run.
func controls(t *testing.T) (groups [][]control) {
	t.Helper()
	var plain []control
	for _, row := range ladder.Rows() {
		for _, c := range row.Cases {
			sc, err := scenarioOf(row.Name, c.Name)
			if err != nil {
				t.Fatal(err)
			}
			if one := (control{sc, row, c}); one.plain(t) {
				plain = append(plain, one)
			} else {
				groups = append(groups, []control{one})
			}
		}
	}
	if len(plain) < 2 {
		t.Fatalf("%d plain controls: the scenarios do not differ in what they arrange", len(plain))
	}
	return append(groups, plain)
}

// plain reports whether nothing is arranged for the control: no file, no fault,
// no other contract, no authority to ask.
func (c control) plain(t *testing.T) bool {
	t.Helper()
	if c.mounts {
		return false
	}
	s := &setup{fixture: &fixture{dir: t.TempDir()}}
	if err := c.arrange(s, false); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	contract := s.contract
	s.fixture = nil
	return len(left) == 0 && contract == (contractText{}) && reflect.ValueOf(*s).IsZero()
}

func testControl(t *testing.T, opt *lane, group []control) {
	t.Helper()
	err := opt.execute(t.Context(), group[0].scenario, group[0].row, 0, func(e ended) {
		asPass := newCaseResult(group[0].row, group[0].c)
		e.judge(t.Context(), group[0].scenario, passes, &asPass)
		if asPass.settle(); asPass.Verdict != Held || asPass.Got.Status != evidence.StatusPass {
			t.Errorf("the control: %s", asPass.Reason)
		}
		for _, c := range group { // no tests of their own: only this thread sees what is mounted
			c.doesNotHold(t, e)
		}
	})
	if errors.Is(err, faulty.ErrNoMount) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// doesNotHold holds the session of the control against the row.
func (c control) doesNotHold(t *testing.T, e ended) {
	t.Helper()
	asRow := newCaseResult(c.row, c.c)
	e.judge(t.Context(), c.scenario, asRow.Expected, &asRow)
	failed, shows := map[string]bool{}, false
	for _, check := range asRow.Checks {
		failed[check.Name] = !check.Held
		shows = shows || !check.Held && !slices.Contains([]string{"status", "code", "exit", "event"}, check.Name)
	}
	if !failed["status"] || !failed["code"] || !failed["exit"] || !shows {
		t.Errorf("held against the row %s the control fails only %v", c, failed)
	}
}
