package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/proof/evidence"
	"remit/work/harness"
	"remit/work/session"
)

// forecastDocument is the JSON document of remit forecast.
type forecastDocument struct {
	Forecasts []session.Forecast `json:"forecasts"`
}

func (a *app) forecastCommand() *cobra.Command {
	var repo, engine, provider, model string
	cmd := &cobra.Command{
		Use: "forecast", Short: "Say what the last runs of a repository took", Args: cobra.NoArgs,
		Long: `Forecast says how long the last runs of a repository took, how many tokens and what
they cost: the middle and the worst, for each engine and model. It looks at the last 100
sessions of this machine, and at most at 20 of one engine and model. Runs that were
blocked are left out. Costs are those that the runs have counted with the prices that
they had; where none was known it says so. remit run prints the same before it begins
and beside its own figures at its end.`,
		Example: `  remit forecast
  remit forecast --engine codex --model gpt-5.5 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if engine != "" && !slices.Contains(engineNames(), engine) {
				return engineUnknown(engine)
			}
			all, err := a.home.Forecasts(repo)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(f session.Forecast) bool {
				return engine != "" && f.Engine != engine || provider != "" && f.ModelProvider != provider || model != "" && f.Model != model
			})
			if all == nil {
				all = []session.Forecast{}
			}
			return a.present(cmd.OutOrStdout(), forecastDocument{all}, func(w io.Writer) error { return printForecasts(w, all) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&repo, "repo", ".", "the repository")
	fl.StringVar(&engine, "engine", "", "only of this engine")
	complete(cmd, "engine", engineNames())
	fl.StringVar(&provider, "model-provider", "", "only of this provider's models")
	fl.StringVar(&model, "model", "", "only of this model")
	return cmd
}

func printForecasts(w io.Writer, all []session.Forecast) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "No run of this repository to tell from: none has passed or failed among the last sessions.")
		return err
	}
	for i := range all {
		if _, err := fmt.Fprintf(w, "%s: %s\n", plain(withModel(&all[i])), plain(forecastText(&all[i]))); err != nil {
			return err
		}
	}
	return nil
}

// expected is the forecast of a run, nil where there is nothing to tell from.
func (a *app) expected(req *harness.Request) *session.Forecast {
	of := session.Pair{Engine: req.EngineName}
	if req.Model != nil {
		of.Provider, of.Model = req.Model.Upstream.Provider, req.Model.Model
	}
	f, err := a.home.Forecast(req.Repo, of)
	if err != nil {
		return nil // the run itself says what is wrong with the home
	}
	return f
}

// sayExpected prints the forecast before a run.
func sayExpected(w io.Writer, f *session.Forecast) {
	if f != nil {
		fmt.Fprintf(w, "forecast  with %s, here: %s\n", plain(withModel(f)), plain(forecastText(f)))
	}
}

// printExpected prints what a run took beside its forecast.
func printExpected(w io.Writer, f *session.Forecast, rep *evidence.Report) {
	if f == nil {
		return
	}
	var cost *int64
	if u := rep.Usage; u.CostKnown != nil && *u.CostKnown {
		cost = &u.CostMicroUSD
	}
	fmt.Fprintf(w, "  forecast  this run: %s; %s\n", figures(ranFor(rep).Milliseconds(), rep.Usage.Tokens, f.Tokens != nil, cost),
		plain(forecastText(f)))
}

// ranFor is how long a run took to its verdict.
func ranFor(rep *evidence.Report) time.Duration {
	began, beganErr := time.Parse(time.RFC3339Nano, rep.RunStartedAt)
	ended, endedErr := time.Parse(time.RFC3339Nano, rep.RunFinishedAt)
	if beganErr != nil || endedErr != nil {
		return 0
	}
	return ended.Sub(began)
}

func withModel(f *session.Forecast) string {
	if f.Model == "" {
		return f.Engine
	}
	return fmt.Sprintf("%s and %s of %s", f.Engine, f.Model, f.ModelProvider)
}

// forecastText is a forecast in one line.
func forecastText(f *session.Forecast) string {
	var median, worst *int64
	if f.CostMicroUSD != nil {
		median, worst = &f.CostMicroUSD.Median, &f.CostMicroUSD.Worst
	}
	tokens := session.Spread{}
	if f.Tokens != nil {
		tokens = *f.Tokens
	}
	last := fmt.Sprintf("the last %d runs", f.Runs)
	if f.Runs == 1 {
		last = "the last run"
	}
	text := fmt.Sprintf("%s (%d passed): %s", last, f.Passed, figures(f.TimeMS.Median, tokens.Median, f.Tokens != nil, median))
	if f.Runs > 1 {
		text += " in the middle, at worst " + figures(f.TimeMS.Worst, tokens.Worst, f.Tokens != nil, worst)
	}
	if known := f.CostKnown; known != nil && *known > 0 && *known < f.Runs {
		text += fmt.Sprintf("; the cost is known of %d", *known)
	}
	return text
}

// figures are what a run took; a cost that is nil is not known.
func figures(ms, tokens int64, asked bool, cost *int64) string {
	parts := []string{millis(&ms)}
	if asked {
		parts = append(parts, fmt.Sprintf("%d tokens", tokens))
		if cost == nil {
			parts = append(parts, "cost unknown")
		} else {
			parts = append(parts, fmt.Sprintf("$%d.%06d", *cost/1_000_000, *cost%1_000_000))
		}
	}
	return strings.Join(parts, ", ")
}
