package matrix

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/law/ladder"
	"remit/proof/evidence"
)

// TestSettle weighs verdicts: what does not hold outweighs what could not be
// tried, and what could not be tried is never a pass.
func TestSettle(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		rows   [][]string // verdicts of the cases
		status string
		exit   int
		held   int
	}{
		{"all hold", [][]string{{Held}, {Held, Held}}, "pass", 0, 2},
		{"one breaks", [][]string{{Held}, {Held, Broken}}, "fail", 2, 1},
		{"one is not tried", [][]string{{Held}, {NotTried}}, "blocked", 3, 1},
		{"a case is not applicable", [][]string{{Held}, {Held, NotApplicable}}, "pass", 0, 2},
		{"no case is applicable", [][]string{{Held}, {NotApplicable, NotApplicable}}, "blocked", 3, 1},
		{"a case is not tried", [][]string{{Held, NotTried}}, "blocked", 3, 0},
		{"not tried before broken", [][]string{{NotTried}, {Broken}}, "fail", 2, 0},
		{"broken before not tried", [][]string{{Broken}, {NotTried}}, "fail", 2, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rep := new(Report)
			for _, verdicts := range test.rows {
				var row RowResult
				for _, v := range verdicts {
					row.Cases = append(row.Cases, CaseResult{Verdict: v})
				}
				rep.Rows = append(rep.Rows, row)
			}
			rep.settle()
			if rep.Status != test.status || rep.ExitCode != test.exit || rep.Held != test.held || rep.Total != len(test.rows) {
				t.Errorf("%s, exit %d, %d of %d held", rep.Status, rep.ExitCode, rep.Held, rep.Total)
			}
		})
	}
}

// TestNothingToTry fails closed: without a sandbox, or cancelled, every row is
// there, is not tried, and the whole is blocked.
func TestNothingToTry(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	with := options(t, "command")
	tests := []struct {
		name string
		ctx  context.Context
		opt  Options
	}{
		{"no sandbox", t.Context(), Options{Engine: "fake", Dir: t.TempDir()}},
		{"cancelled", stopped, with},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rep, err := Run(test.ctx, test.opt)
			if err != nil {
				t.Fatal(err)
			}
			if rep.Status != evidence.StatusBlocked || rep.ExitCode != 3 || rep.Held != 0 || len(rep.Rows) != 12 {
				t.Errorf("%s, exit %d, %d of %d held", rep.Status, rep.ExitCode, rep.Held, len(rep.Rows))
			}
			for _, row := range rep.Rows {
				for _, c := range row.Cases {
					if row.Tried || row.Held || c.Verdict != NotTried || c.Reason == "" {
						t.Errorf("%s/%s is %s: %s", row.Name, c.Name, c.Verdict, c.Reason)
					}
				}
			}
		})
	}
}

// TestOptions refuses what makes no sense.
func TestOptions(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"unknown row":    {Engine: "fake", Rows: []string{"no-diff", "no-such-row"}},
		"unknown engine": {Engine: "pi"},
	} {
		opt.Dir = t.TempDir()
		if rep, err := Run(t.Context(), opt); err == nil {
			t.Errorf("%s: %+v", name, rep)
		}
	}
	rep, err := Run(t.Context(), Options{Engine: "fake", Rows: []string{ladder.Timeout, ladder.NoDiff, ladder.NoDiff}, Dir: t.TempDir()})
	if err != nil || len(rep.Rows) != 2 || rep.Rows[0].Name != ladder.NoDiff || rep.Complete {
		t.Errorf("%+v %v", rep, err)
	}
}

// TestRecords keeps a matrix and reads it back, and refuses records that are
// not what their place says.
func TestRecords(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	build := evidence.Build{Version: "v1", Commit: "c"}
	if r, err := ReadRecords(home, "fake", build); err != nil || r.Matrix != nil || len(r.Proofs) != 0 {
		t.Errorf("an empty home: %+v %v", r, err)
	}
	rep := &Report{Schema: Schema, Engine: evidence.EngineIdentity{Name: "fake"}, Remit: build, Complete: true, Status: "pass", Held: 12, Total: 12,
		Rows: []RowResult{{Name: ladder.Timeout, Cases: []CaseResult{{Name: "engine", Verdict: Broken, Expected: Expected{Status: "blocked", Code: "timeout"},
			Got: &Got{Status: "fail", Code: "no_diff"}}, {Name: "verification", Verdict: NotTried}}}}}
	if err := rep.Save(home); err != nil {
		t.Fatal(err)
	}
	if err := rep.Save(home); err != nil {
		t.Errorf("saving again: %v", err)
	}
	dir := filepath.Join(home, "ladder", "fake")
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("stage2-fixture-proof.json", "{}")
	put("stage9-x-proof.json", "{}")
	put("notes.txt", "")
	r, err := ReadRecords(home, "fake", build)
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Matrix; m == nil || m.Held != 12 || !m.Current || m.Path != "ladder/fake/matrix.json" || !strings.HasPrefix(m.SHA256, "sha256:") {
		t.Errorf("matrix %+v", m)
	} else if want := []ladder.MatrixCase{{Row: ladder.Timeout, Case: "engine", ExpectedStatus: "blocked", ExpectedCode: "timeout", GotStatus: "fail", GotCode: "no_diff",
		Verdict: Broken}, {Row: ladder.Timeout, Case: "verification", Verdict: NotTried}}; !slices.Equal(m.Cases, want) {
		t.Errorf("cases %+v", m.Cases)
	}
	if len(r.Proofs) != 1 || len(r.Proofs[2]) != 1 || r.Proofs[2][0].Path != "ladder/fake/stage2-fixture-proof.json" {
		t.Errorf("proofs %+v", r.Proofs)
	}
	if r, err := ReadRecords(home, "fake", evidence.Build{Version: "v2"}); err != nil || r.Matrix.Current {
		t.Errorf("another build's matrix: %+v %v", r.Matrix, err)
	}
	rep.Complete = false
	if err := rep.Save(home); err == nil {
		t.Error("a part of a matrix was kept as the whole")
	}
	for _, bad := range []string{"", "[]", `{"schema":"other","engine":{"name":"fake"}}`, `{"schema":"remit.matrix.v1","engine":{"name":"command"}}`} {
		put("matrix.json", bad)
		if r, err := ReadRecords(home, "fake", build); err == nil {
			t.Errorf("%q was read as %+v", bad, r.Matrix)
		}
	}
}
