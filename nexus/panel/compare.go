package panel

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"remit/nexus/api"
	"remit/proof/reason"
)

// comparePage is several runs side by side.
type comparePage struct {
	Runs   []Summary
	Rows   []comparedRow
	Groups [][]Summary // runs whose change is the same, byte for byte
	Differ string      // why the figures cannot be compared
	Recent []group
}

// comparedRow is one question with an answer of each run.
type comparedRow struct {
	Name   string
	Cells  []string
	Differ bool
}

// compare shows the runs that the address names.
func (p *Panel) compare(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	var d comparePage
	asked := r.URL.Query()["run"]
	if len(asked) > maxCompared {
		return nil, reason.Errorf(reason.RequestInvalid, "%d runs are asked for, and a page compares %d", len(asked), maxCompared)
	}
	if r.URL.Query().Get("from") == "nexus" {
		return p.compareNexus(r, v, d, asked)
	}
	if !v.home {
		return nil, errNoHome()
	}
	list, _, err := p.opt.Home.List(r.Context())
	if err != nil {
		return nil, err
	}
	for _, id := range asked {
		i := slices.IndexFunc(list, func(s Summary) bool { return s.ID == id })
		if i < 0 {
			return nil, reason.Errorf(reason.NotFound, "there is no session %.100q", id)
		}
		d.Runs = append(d.Runs, list[i])
	}
	if len(d.Runs) == 0 {
		for _, g := range groupsOf(list) {
			if len(g.Runs) > 1 && len(d.Recent) < 20 {
				d.Recent = append(d.Recent, g)
			}
		}
		return &page{name: "compare", Title: "Compare", Nav: "compare", Data: d}, nil
	}
	d.rows(p)
	return &page{name: "compare", Title: "Compare", Nav: "compare", Data: d}, nil
}

// compareNexus shows runs of the nexus, each with what its jobs cost.
func (p *Panel) compareNexus(r *http.Request, v *viewer, d comparePage, asked []string) (*page, error) {
	paid := map[string]string{}
	for _, id := range asked {
		run, err := api.GetRun.Get(r.Context(), v.client, id)
		if err != nil {
			return nil, err
		}
		jobs, err := api.ListJobs.Get(r.Context(), v.client, api.ListJobsParams{RunID: id})
		if err != nil {
			return nil, err
		}
		s := OfRun(run)
		d.Runs = append(d.Runs, s)
		var words []string
		for _, j := range jobs.Items {
			words = append(words, strings.TrimSpace(thousands(j.AmountMsats)+" "+cmp.Or(api.Value(j.Payment), string(j.State))))
		}
		paid[s.ID] = strings.Join(words, ", ")
	}
	if len(d.Runs) > 0 {
		d.rows(p)
		row := comparedRow{Name: "jobs, msat"}
		for _, s := range d.Runs {
			row.Cells = append(row.Cells, orDash(paid[s.ID]))
		}
		d.Rows = append(d.Rows, row)
	}
	return &page{name: "compare", Title: "Compare", Nav: "compare", Data: d}, nil
}

// rows asks the same of every run; what differs comes first.
func (d *comparePage) rows(p *Panel) {
	now := p.opt.Clock()
	questions := []struct {
		name string
		of   func(s Summary) string
	}{
		{"reason", func(s Summary) string { return orDash(s.Code) }},
		{"tests fixed", func(s Summary) string { return measured(s, s.Fixed) }},
		{"tests broken", func(s Summary) string { return measured(s, s.Broken) }},
		{"tests not run any more", func(s Summary) string { return measured(s, s.NotRun) }},
		{"tests kept", func(s Summary) string { return measured(s, s.Kept) }},
		{"lines", func(s Summary) string {
			if len(s.Changed) == 0 {
				return "–"
			}
			return "+" + itoa(int64(s.Added)) + " −" + itoa(int64(s.Removed))
		}},
		{"files", func(s Summary) string { return orDash(strings.Join(s.Changed, ", ")) }},
		{"cost, $", Summary.CostCell},
		{"tokens", func(s Summary) string {
			if s.CostKnown == nil {
				return "–"
			}
			return thousands(s.Tokens)
		}},
		{"took", func(s Summary) string { return took(s.Took(now)) }},
		{"outcome", func(s Summary) string { return orDash(s.Outcome) }},
		{"base", func(s Summary) string { return orDash(clip(10, s.Base)) }},
		{"contract", func(s Summary) string { return shortDigest(s.Contract) }},
	}
	for _, q := range questions {
		row := comparedRow{Name: q.name}
		for _, s := range d.Runs {
			row.Cells = append(row.Cells, q.of(s))
		}
		row.Differ = slices.ContainsFunc(row.Cells, func(c string) bool { return c != row.Cells[0] })
		d.Rows = append(d.Rows, row)
	}
	slices.SortStableFunc(d.Rows, func(a, b comparedRow) int {
		switch {
		case a.Differ == b.Differ:
			return 0
		case a.Differ:
			return -1
		}
		return 1
	})
	if first := d.Runs[0]; slices.ContainsFunc(d.Runs, func(s Summary) bool { return s.Contract != first.Contract || s.Base != first.Base }) {
		d.Differ = "These runs did not have the same contract or the same base: their figures are not comparable."
	}
	d.equal()
}

// equal joins runs with the same patch.
func (d *comparePage) equal() {
	at := map[string]int{}
	for _, s := range d.Runs {
		if s.Patch == "" || len(s.Changed) == 0 {
			continue
		}
		i, known := at[s.Patch]
		if !known {
			i = len(d.Groups)
			at[s.Patch] = i
			d.Groups = append(d.Groups, nil)
		}
		d.Groups[i] = append(d.Groups[i], s)
	}
	d.Groups = slices.DeleteFunc(d.Groups, func(g []Summary) bool { return len(g) < 2 })
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func measured(s Summary, n int) string {
	if !s.Measured {
		return "–"
	}
	return itoa(int64(n))
}
