package panel

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"remit/nexus/api"
	"remit/nexus/metrics"
)

// figuresPage is what the nexus computes from the events of the viewer's runs.
type figuresPage struct {
	metrics.Report
	Owner   string
	Run     string // the one run that it is about, "" for the newest
	Figures []figure
	Shares  []shareTable
	Raw     string
}

// figure is one of them: a value with what it was computed from, or why there is none.
type figure struct{ Name, Code, Value, From, Why, Href string }

// shareTable has the pass rate and the cost of everyone by one name.
type shareTable struct {
	By   string
	Rows []shareRow
}

type shareRow struct {
	Name, Rate, Cost, Why, Href string
	metrics.Ratio
}

func (p *Panel) figures(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	run := clip(128, r.URL.Query().Get("run"))
	raw, err := api.GetMetrics.Get(r.Context(), v.client, api.GetMetricsParams{RunID: api.Optional(run)})
	if err != nil {
		return nil, err
	}
	d := figuresPage{Owner: v.Owner, Run: run, Raw: string(indented(raw))}
	if err := json.Unmarshal(raw, &d.Report); err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	d.collect()
	return &page{name: "figures", Title: "Metrics", Nav: "figures", Data: d}, nil
}

// collect puts the figures into words. One that is not known is "–" with its reason.
func (d *figuresPage) collect() {
	runs := "/?from=nexus"
	if d.Run != "" {
		runs = "/nexus/runs/" + url.PathEscape(d.Run)
	}
	add := func(name, code, unit string, n metrics.Number) {
		f := figure{Name: name, Code: code, Value: "–", Why: n.Reason, Href: runs}
		if n.Value != nil {
			f.Value = thousands(*n.Value) + unit
		}
		if n.Samples > 0 {
			f.From = "from " + thousands(n.Samples)
		}
		d.Figures = append(d.Figures, f)
	}
	share := func(name, code string, r metrics.Ratio) {
		d.Figures = append(d.Figures, figure{Name: name, Code: code, Value: rate(r), From: thousands(r.Count) + " of " + thousands(r.Of),
			Why: r.Reason, Href: runs})
	}
	share("Dispatches that were answered", "fill_rate", d.FillRate)
	add("Until an answer, median", "median_dispatch_latency_ms", " ms", d.DispatchLatencyMedian)
	add("Until an answer, 95 of 100", "p95_dispatch_latency_ms", " ms", d.DispatchLatencyP95)
	add("A run, median", "median_run_latency_ms", " ms", d.RunLatencyMedian)
	add("A run, 95 of 100", "p95_run_latency_ms", " ms", d.RunLatencyP95)
	add("A verified job", "effective_cost_msats", " msat", d.EffectiveCost)
	add("Providers that could have taken a job", "provider_breadth", "", d.ProviderBreadth)
	add("Providers that answered one", "providers_that_answered", "", d.ProvidersAnswered)
	share("Jobs that passed", "verification_pass_rate", d.PassRate)
	share("Paid, and reverted or failing later", "rework_rate", d.ReworkRate)
	caps := figure{Name: "Caps were enforced", Code: "caps_enforced", Value: "–", Why: d.CapsEnforced.Reason, Href: runs}
	if d.CapsEnforced.Holds != nil {
		caps.Value = map[bool]string{true: "yes", false: "not shown for all"}[*d.CapsEnforced.Holds]
		caps.From = thousands(d.CapsEnforced.Proven) + " of " + thousands(d.CapsEnforced.Of)
	}
	d.Figures = append(d.Figures, caps)
	add("Repeats that got the stored answer", "replays_served", "", d.ReplaysServed)
	add("Repeats that were another request", "conflicts_refused", "", d.ConflictsRefused)
	table := func(by, filter string, rates map[string]metrics.Ratio, costs map[string]metrics.Number) {
		t := shareTable{By: by}
		for _, name := range slices.Sorted(maps.Keys(rates)) {
			row := shareRow{Name: name, Ratio: rates[name], Rate: rate(rates[name]), Cost: "–", Why: costs[name].Reason}
			if costs[name].Value != nil {
				row.Cost = thousands(*costs[name].Value)
			}
			if filter != "" {
				row.Href = filterOf(url.Values{"from": {"nexus"}}).With(filter, name)
			}
			t.Rows = append(t.Rows, row)
		}
		d.Shares = append(d.Shares, t)
	}
	table("engine", "engine", d.PassRateByEngine, d.CostByEngine)
	table("model", "model", d.PassRateByModel, d.CostByModel)
	table("provider", "", d.PassRateByProvider, d.CostByProvider)
}

func rate(r metrics.Ratio) string {
	if r.BasisPoints == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", float64(*r.BasisPoints)/100)
}
