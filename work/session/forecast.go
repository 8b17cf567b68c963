package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remit/proof/evidence"
)

// What a forecast looks at, so that it costs a start nothing that a person would
// notice, whatever the home has collected.
const (
	forecastLooked = 100     // sessions of the home, the latest
	forecastRuns   = 20      // of them, for one engine and model
	forecastReport = 1 << 20 // bytes of a report; that of a larger change is left out
)

// Forecast is what the last runs of a repository took, with one engine and model.
// Runs that were blocked are left out: they did not do the work.
type Forecast struct {
	Engine        string `json:"engine"`
	ModelProvider string `json:"model_provider,omitempty"`
	Model         string `json:"model,omitempty"`
	Runs          int    `json:"runs"`
	Passed        int    `json:"passed"`
	TimeMS        Spread `json:"time_ms"` // from the start of the run to its verdict
	// Of a model: nil for an engine that asks none. CostKnown is of how many runs the
	// cost is known; nothing is said of it where that is none.
	Tokens       *Spread `json:"tokens,omitempty"`
	CostMicroUSD *Spread `json:"cost_micro_usd,omitempty"`
	CostKnown    *int    `json:"cost_known_of,omitempty"`
}

// Spread is the middle and the largest of some numbers.
type Spread struct {
	Median int64 `json:"median"`
	Worst  int64 `json:"worst"`
}

// taken is what one run took.
type taken struct {
	passed    bool
	ms        int64
	tokens    int64
	microUSD  int64
	costKnown bool
}

// Pair is an engine and the model that it asks; provider and model are "" where it
// asks none.
type Pair struct{ Engine, Provider, Model string }

// Forecasts are those of a repository, by engine and model.
func (h Home) Forecasts(repo string) ([]Forecast, error) { return h.forecasts(repo, nil) }

// Forecast is that of one engine and model, nil where there is no run to tell from.
func (h Home) Forecast(repo string, of Pair) (*Forecast, error) {
	found, err := h.forecasts(repo, &of)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// forecasts reads the reports of the latest sessions, and no further than it has to
// for one pair. What cannot be read is left out: a forecast is no evidence, and stops
// nothing.
func (h Home) forecasts(repo string, only *Pair) ([]Forecast, error) {
	names, err := os.ReadDir(h.Sessions())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, h.unusable(err)
	}
	places, err := placesOf(repo)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, func(a, b os.DirEntry) int { return strings.Compare(b.Name(), a.Name()) }) // an id begins with its time
	runs := map[Pair][]taken{}
	for _, e := range names[:min(len(names), forecastLooked)] {
		if !slices.Contains(places, h.repositoryOf(e.Name())) {
			continue
		}
		p, t, ok := takenBy(filepath.Join(h.Sessions(), e.Name(), evidence.ReportFile))
		if ok && len(runs[p]) < forecastRuns && (only == nil || p == *only) {
			runs[p] = append(runs[p], t)
		}
		if only != nil && len(runs[*only]) == forecastRuns {
			break
		}
	}
	out := make([]Forecast, 0, len(runs))
	for p, all := range runs {
		out = append(out, forecastOf(p, all))
	}
	slices.SortFunc(out, func(a, b Forecast) int {
		return cmp.Or(strings.Compare(a.Engine, b.Engine), strings.Compare(a.ModelProvider, b.ModelProvider), strings.Compare(a.Model, b.Model))
	})
	return out, nil
}

// placesOf are the paths under which sessions know a repository.
func placesOf(repo string) ([]string, error) {
	path, err := filepath.Abs(repo)
	if err != nil {
		return nil, err
	}
	places := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		places = append(places, real)
	}
	return places, nil
}

// repositoryOf is where the repository of a session lies, "" if that is not known.
func (h Home) repositoryOf(id string) string {
	var local struct {
		Repo string `json:"repo"`
	}
	raw, err := readAtMost(h.localFile(id), forecastReport)
	if err != nil || json.Unmarshal(raw, &local) != nil {
		return ""
	}
	return local.Repo
}

// takenBy reads the report of a session that has ended.
func takenBy(file string) (p Pair, t taken, ok bool) {
	raw, err := readAtMost(file, forecastReport)
	if err != nil {
		return p, t, false
	}
	var rep struct { // not all of the report: the paths and digests of its files are most of it
		Status   string                `json:"status"`
		Backend  string                `json:"backend"`
		Started  time.Time             `json:"run_started_at"`
		Finished time.Time             `json:"run_finished_at"`
		Provider *string               `json:"model_provider"`
		Model    *string               `json:"model"`
		Usage    evidence.MeteredUsage `json:"usage"`
	}
	if json.Unmarshal(raw, &rep) != nil || rep.Status != evidence.StatusPass && rep.Status != evidence.StatusFail ||
		rep.Finished.Before(rep.Started) {
		return p, t, false
	}
	p = Pair{Engine: rep.Backend}
	if rep.Provider != nil && rep.Model != nil {
		p.Provider, p.Model = *rep.Provider, *rep.Model
	}
	u := rep.Usage
	return p, taken{passed: rep.Status == evidence.StatusPass, ms: rep.Finished.Sub(rep.Started).Milliseconds(),
		tokens: u.Tokens, microUSD: u.CostMicroUSD, costKnown: u.CostKnown != nil && *u.CostKnown}, true
}

// readAtMost reads a small file.
func readAtMost(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = errors.New("too large")
	}
	return raw, err
}

func forecastOf(p Pair, runs []taken) Forecast {
	f := Forecast{Engine: p.Engine, ModelProvider: p.Provider, Model: p.Model, Runs: len(runs)}
	var ms, tokens, cost []int64
	for _, t := range runs {
		if ms, tokens = append(ms, t.ms), append(tokens, t.tokens); t.passed {
			f.Passed++
		}
		if t.costKnown {
			cost = append(cost, t.microUSD)
		}
	}
	f.TimeMS = spreadOf(ms)
	if p.Model == "" {
		return f
	}
	f.Tokens, f.CostKnown = new(spreadOf(tokens)), new(len(cost))
	if len(cost) > 0 {
		f.CostMicroUSD = new(spreadOf(cost))
	}
	return f
}

// spreadOf takes the mean of the two in the middle, where there is no one.
func spreadOf(list []int64) Spread {
	slices.Sort(list)
	n := len(list)
	low, high := list[(n-1)/2], list[n/2]
	return Spread{Median: low + (high-low)/2, Worst: list[n-1]}
}
