package matrix

import (
	"slices"
	"testing"

	"remit/law/ladder"
	"remit/proof/evidence"
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
			for _, row := range rep.Rows {
				for _, c := range row.Cases {
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

// TestControls runs every scenario without its fault. All of them pass: so it
// is the fault, and nothing else, that each row shows.
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
						res := opt.attempt(t.Context(), row, c, asControl)
						if res.Verdict == NotApplicable {
							t.Skip(res.Reason)
						}
						if res.Verdict != Held || res.Got.Status != evidence.StatusPass {
							t.Errorf("the control is %s: %s", res.Verdict, res.Reason)
							for _, check := range res.Checks {
								t.Logf("    %v %s: %s", check.Held, check.Name, check.Detail)
							}
						}
					})
				}
			}
		})
	}
}

// TestRowsCanBreak keeps the judge honest: held against its row, a run without
// the fault does not hold, neither by its end nor by what it shows.
func TestRowsCanBreak(t *testing.T) {
	t.Parallel()
	opt := options(t, "command")
	for _, row := range ladder.Rows() {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			for _, c := range row.Cases {
				res := opt.attempt(t.Context(), row, c, trial{broken: false, asRow: true})
				if res.Verdict == NotApplicable {
					t.Skip(res.Reason)
				}
				if res.Verdict != Broken {
					t.Fatalf("%s holds without its fault: %s", c.Name, res.Verdict)
				}
				failed := map[string]bool{}
				shows := false
				for _, check := range res.Checks {
					failed[check.Name] = !check.Held
					shows = shows || !check.Held && !slices.Contains([]string{"status", "code", "exit", "event"}, check.Name)
				}
				if !failed["status"] || !failed["code"] || !failed["exit"] || !shows {
					t.Errorf("%s: failed checks %v", c.Name, failed)
				}
			}
		})
	}
}
