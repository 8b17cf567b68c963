package session

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"remit/proof/evidence"
)

// made writes what a forecast reads of a session.
func made(t *testing.T, h Home, n int, repo, report string) {
	t.Helper()
	id := fmt.Sprintf("20260101T00%02d%02dZ-x-000000", n/60, n%60)
	if err := h.SaveLocal(id, Local{Repo: repo}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.Sessions(), id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if report == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, evidence.ReportFile), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
}

// report is as much of one as a forecast reads.
func report(status, engine, model string, seconds, tokens, cost int, known string) string {
	if model != "null" {
		model = `"` + model + `"`
	}
	return fmt.Sprintf(`{"status":%q,"backend":%q,"model_provider":%s,"model":%s,"run_started_at":"2026-01-01T00:00:00.000Z","run_finished_at":"2026-01-01T00:00:%02d.000Z","usage":{"tokens":%d,"cost_micro_usd":%d,"requests":1%s}}`,
		status, engine, model, model, seconds, tokens, cost, known)
}

const (
	known   = `,"cost_known":true`
	unknown = `,"cost_known":false`
)

func TestForecasts(t *testing.T) {
	t.Parallel()
	h, repo := Home{Dir: t.TempDir()}, t.TempDir()
	if got, err := h.Forecasts(repo); err != nil || len(got) != 0 {
		t.Fatalf("%v: an empty home has %+v", err, got)
	}
	for n, text := range []string{
		report("pass", "pi", "m", 10, 100, 40, known), report("fail", "pi", "m", 30, 300, 60, known), report("pass", "pi", "m", 20, 500, 70, unknown),
		report("pass", "pi", "m", 40, 700, 90, known),
		report("blocked", "pi", "m", 59, 9000, 9000, known),
		report("pass", "pi", "other", 50, 1, 1, unknown),
		report("pass", "command", "null", 3, 0, 0, ""),
		"", "{", `{"status":"pass"`, `{"status":"pass","run_started_at":"x"}`, // running, damaged
	} {
		made(t, h, n, repo, text)
	}
	made(t, h, 50, t.TempDir(), report("pass", "pi", "m", 59, 1, 1, known)) // elsewhere
	got, err := h.Forecasts(repo)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v: %+v", err, got)
	}
	if f := got[0]; f.Engine != "command" || f.Runs != 1 || f.TimeMS != (Spread{3000, 3000}) || f.Tokens != nil || f.CostKnown != nil {
		t.Errorf("command: %+v", f)
	}
	if f := got[1]; f.Model != "m" || f.Runs != 4 || f.Passed != 3 || f.TimeMS != (Spread{25000, 40000}) || *f.Tokens != (Spread{400, 700}) ||
		*f.CostMicroUSD != (Spread{60, 90}) || *f.CostKnown != 3 {
		t.Errorf("pi and m: %+v", f)
	}
	if f := got[2]; f.Model != "other" || f.CostMicroUSD != nil || *f.CostKnown != 0 {
		t.Errorf("an unknown cost: %+v", f)
	}
	if f, err := h.Forecast(repo, Pair{"pi", "m", "m"}); err != nil || f == nil || f.Runs != 4 || f.TimeMS != got[1].TimeMS {
		t.Errorf("one pair: %v, %+v", err, f)
	}
	if f, err := h.Forecast(repo, Pair{Engine: "pi"}); err != nil || f != nil {
		t.Errorf("a pair without a run: %v, %+v", err, f)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(repo, link); err != nil {
		t.Fatal(err)
	}
	if again, err := h.Forecasts(link); err != nil || len(again) != 3 {
		t.Errorf("by a link: %v, %+v", err, again)
	}
}

// TestForecastIsBounded: an old home costs a start no more than a young one.
func TestForecastIsBounded(t *testing.T) {
	t.Parallel()
	h, repo := Home{Dir: t.TempDir()}, t.TempDir()
	for n := range forecastLooked + 30 {
		engine := "pi"
		if n >= 100 { // the latest
			engine = "codex"
		}
		made(t, h, n, repo, report("pass", engine, "m", 1, 1, 1, known))
	}
	got, err := h.Forecasts(repo)
	if err != nil || len(got) != 2 || got[0].Runs != forecastRuns || got[1].Runs != forecastRuns {
		t.Errorf("%v: %+v", err, got)
	}
	made(t, h, 200, repo, report("pass", "large", "m", 1, 1, 1, known)+string(make([]byte, forecastReport)))
	if got, err := h.Forecasts(repo); err != nil || len(got) != 2 {
		t.Errorf("%v: %+v", err, got)
	}
}
