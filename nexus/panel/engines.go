package panel

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
)

// One form may let several engines work under the same contract: each gets a run and
// a job of its own, and a page that compares them.

// maxEngines is how many engines one form may name: as many as a page compares.
const maxEngines = maxCompared

// enginesOf are the engines that a form names: that of its fields, and one for each
// line of others, NAME [VERSION [MODEL]], with a hyphen for what is left open.
func enginesOf(form url.Values) ([]job.EngineChoice, error) {
	get := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	all := []job.EngineChoice{{Name: get("engine"), Version: get("version"), Model: get("model")}}
	for line := range strings.Lines(strings.ReplaceAll(form.Get("others"), "\r", "\n")) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) > 3 {
			return nil, reason.Errorf(reason.RequestInvalid, "others: %.80q is not NAME VERSION MODEL", line)
		}
		for i := range words {
			if words[i] == "-" {
				words[i] = ""
			}
		}
		words = append(words, "", "")
		all = append(all, job.EngineChoice{Name: words[0], Version: words[1], Model: words[2]})
	}
	if len(all) > maxEngines {
		return nil, reason.Errorf(reason.RequestInvalid, "others: %d engines are named, and a page compares %d", len(all), maxEngines)
	}
	for i, one := range all {
		if slices.Contains(all[:i], one) {
			return nil, reason.Errorf(reason.RequestInvalid, "others: %s is named twice", engineName(one.Name, one.Model))
		}
	}
	return all, nil
}

func engineName(engine, model string) string { return strings.TrimSuffix(engine+" × "+model, " × ") }

// forecast is what one engine may cost, and what it has cost so far.
type forecast struct {
	job.EngineChoice
	Name  string
	Past  *spent // nil: no run of it is known
	Most  string // of the model
	Price string // of the machine, in msat
}

// forecasts say what each engine of a checked run may cost: the price of the machine
// and the limit of the contract, beside what runs of before have cost.
func (d *checkedRun) forecasts(ctx context.Context, c *api.Client) error {
	past, err := spendingOf(ctx, c)
	if err != nil {
		return err
	}
	low := d.Price // the cheapest machine; d.Price is that of the dearest
	for _, m := range d.Machines {
		if m.Why == "" {
			low = min(low, m.PriceMsats)
		}
	}
	price := "–"
	switch {
	case d.Able > 0 && low == d.Price:
		price = thousands(low)
	case d.Able > 0:
		price = thousands(low) + " to " + thousands(d.Price)
	}
	for _, e := range d.Engines {
		f := forecast{EngineChoice: e, Name: engineName(e.Name, e.Model), Price: price, Most: money(d.Request.Budget.MicroUSD)}
		if i := slices.IndexFunc(past.By, func(s spent) bool { return s.Name == f.Name }); i >= 0 {
			f.Past = &past.By[i]
		}
		d.Forecasts = append(d.Forecasts, f)
	}
	n := int64(len(d.Engines))
	d.MostUSD, d.MostMsats = money(n*d.Request.Budget.MicroUSD), "–"
	if d.Able > 0 {
		d.MostMsats = thousands(n * d.Price)
	}
	return nil
}

// madeHref leads to the run that was made, or to the page that compares several.
func madeHref(made []string) string {
	if len(made) == 1 {
		return "/nexus/runs/" + url.PathEscape(made[0])
	}
	return "/compare?" + url.Values{"from": {"nexus"}, "run": made}.Encode()
}

// afterOthers says of a refusal how many runs were dispatched before it.
func afterOthers(err error, made, all int) error {
	if made == 0 {
		return err
	}
	return reason.Errorf(reason.CodeOf(err), "%d of %d runs were dispatched, then: %w", made, all, err).
		WithHint("they go on, and stand first among the runs of the nexus; %s", fmt.Sprintf("%d were not made", all-made))
}
