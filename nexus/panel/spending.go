package panel

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"remit/nexus/api"
	"remit/proof/evidence"
)

// spending is what models have cost in the newest runs of the nexus, as their
// summaries say once there is a verdict: by engine and model, and by day.
type spending struct {
	Runs int
	Cut  bool // there are older runs
	By   []spent
	Days []spent
	Most string // the highest bar
}

// spent is what some runs have cost.
type spent struct {
	Name           string
	Href           string // of the runs that it is made from, "" for none
	Runs, Verified int
	MicroUSD       int64
	Known, Unknown int // runs of which the cost is known, and those of which it is not
	X, Y, H        int // of the bar of a day
	W              string
}

// Bounds of spending.
const (
	spendingRuns = 1000
	spendingDays = 30
	chartHeight  = 96
	dayWidth     = 24
)

// add counts a run.
func (s *spent) add(run Summary) {
	s.Runs++
	if run.Status == evidence.StatusPass {
		s.Verified++
	}
	switch {
	case run.CostKnown == nil: // no model was asked, or the client did not report it
	case *run.CostKnown:
		s.Known++
	default:
		s.Unknown++
	}
	s.MicroUSD += run.MicroUSD
}

// Cost is the sum, "–" where nothing of it is known.
func (s spent) Cost() string {
	switch {
	case s.Known == 0 && s.MicroUSD == 0:
		return "–"
	case s.Unknown > 0:
		return "≥ " + money(s.MicroUSD)
	}
	return money(s.MicroUSD)
}

// PerVerified is what one verified change has cost: all runs, over those that passed.
func (s spent) PerVerified() string {
	switch {
	case s.Verified == 0 || s.Cost() == "–":
		return "–"
	case s.Unknown > 0:
		return "≥ " + money(s.MicroUSD/int64(s.Verified))
	}
	return money(s.MicroUSD / int64(s.Verified))
}

// Why is why there is no figure, "" where there is one.
func (s spent) Why() string {
	switch {
	case s.Known+s.Unknown == 0:
		return "no model was asked"
	case s.Known == 0 && s.MicroUSD == 0:
		return "what the model cost is not known"
	case s.Verified == 0:
		return "no run passed"
	case s.Unknown > 0:
		return "part of the cost is not known"
	}
	return ""
}

// Label is what a bar says.
func (s spent) Label() string {
	return fmt.Sprintf("%s: %s in %s, %d verified", s.Name, s.Cost(), count(s.Runs, "run"), s.Verified)
}

// spendingOf reads the newest runs of who looks.
func spendingOf(ctx context.Context, c *api.Client) (*spending, error) {
	by, days := map[string]*spent{}, map[string]*spent{}
	add := func(to map[string]*spent, name string, run Summary) {
		if to[name] == nil {
			to[name] = &spent{Name: name}
		}
		to[name].add(run)
	}
	d, cursor, limit := &spending{}, "", 500
	for {
		got, err := api.ListRuns.Get(ctx, c, api.ListRunsParams{Cursor: api.Optional(cursor), Limit: &limit})
		if err != nil {
			return nil, err
		}
		for _, one := range got.Items {
			run := OfRun(one)
			if one.Summary == nil || run.Engine == "" || run.Status == Running {
				continue
			}
			d.Runs++
			name := engineName(run.Engine, run.Model)
			add(by, name, run)
			by[name].Href = filterOf(url.Values{"from": {"nexus"}, "model": {run.Model}}).With("engine", run.Engine)
			add(days, run.Started.UTC().Format(time.DateOnly), run)
		}
		if cursor = api.Value(got.NextCursor); cursor == "" || d.Runs >= spendingRuns {
			d.Cut = cursor != ""
			break
		}
	}
	d.By, d.Days = sorted(by), sorted(days)
	d.Days = d.Days[max(0, len(d.Days)-spendingDays):]
	d.scale()
	return d, nil
}

func sorted(from map[string]*spent) (out []spent) {
	for _, s := range from {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b spent) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// scale computes the bars.
func (d *spending) scale() {
	highest := func(list []spent) int64 {
		most := int64(1)
		for _, s := range list {
			most = max(most, s.MicroUSD)
		}
		return most
	}
	most := highest(d.By)
	for i := range d.By {
		d.By[i].W = fmt.Sprintf("%.1f%%", 100*float64(d.By[i].MicroUSD)/float64(most))
	}
	most = highest(d.Days)
	for i := range d.Days {
		s := &d.Days[i]
		s.H = int(s.MicroUSD * chartHeight / most)
		s.X, s.Y = i*dayWidth, chartHeight-s.H
	}
	d.Most = money(most)
}

// Width is that of the chart.
func (d *spending) Width() int { return len(d.Days) * dayWidth }
