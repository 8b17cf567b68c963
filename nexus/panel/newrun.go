package panel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"remit/law/job"
	"remit/law/task"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
)

// A new run is described on one page and looked at on a second one, which says what
// it may do and who could take it. Only the form of the second has an effect: a run,
// and a job of the type remit.engine_run.v1. The panel and the nexus execute nothing.

// newFields are what the first page asks for; its address may have them too.
var newFields = []string{"repo_ref", "issue_ref", "source", "commit", "tree", "engine", "version", "model", "others", "usd",
	"wall_secs", "max_price", "task"}

// newPage is the form, with what was given and what is wrong with it.
type newPage struct {
	Given   map[string]string
	Wrong   []string
	Engines []string // that have done runs of the viewer
	MayDo   bool
	Checked *checkedRun // nil for the form alone
}

// checkedRun is a run before it is dispatched.
type checkedRun struct {
	Work     *task.Contract
	Digest   string               // of the contract
	Shown    string               // of all that the form would dispatch
	Request  job.EngineRunRequest // of the first engine; the others differ in the engine alone
	MaxPrice int64                // that the form lets a machine cost, 0 for no limit of its own
	Price    int64                // of the dearest machine that could take it: what a job may cost
	Engines  []job.EngineChoice
	Machines []candidate
	Able     int
	Left     []api.Account // budgets that pay

	Forecasts          []forecast
	MostUSD, MostMsats string // of all engines together
}

// candidate is a machine, and why it could not take the job.
type candidate struct {
	api.Provider
	Why string // "" when it could take it
}

func (p *Panel) newRun(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	d := newPage{Given: map[string]string{}, MayDo: v.MayDo(authority.ScopeRuns) && v.May(authority.ScopeJobs)}
	if r.Form == nil { // a link may fill the form
		r.Form = r.URL.Query()
	}
	for _, name := range newFields {
		d.Given[name] = strings.ReplaceAll(r.Form.Get(name), "\r\n", "\n") // as browsers send lines
	}
	limit := pageSize
	got, err := api.ListRuns.Get(r.Context(), v.client, api.ListRunsParams{Limit: &limit})
	if err != nil {
		return nil, err
	}
	for _, run := range got.Items {
		if name := OfRun(run).Engine; name != "" {
			d.Engines = append(d.Engines, name)
		}
	}
	slices.Sort(d.Engines)
	d.Engines = slices.Compact(d.Engines)
	out := &page{name: "new", Title: "New run", Nav: "runs"}
	if r.Method == http.MethodPost {
		requests, work, err := requestsOf(r.Form)
		most, wrong := maxPrice(r.Form)
		if err = errors.Join(err, wrong); err != nil { // of what was given
			d.Wrong, out.status = strings.Split(err.Error(), "\n"), http.StatusBadRequest
		} else if d.Checked, err = p.checkedRun(r.Context(), v, requests, work, most); err != nil {
			return nil, err
		} else if d.Checked.Shown, err = shownDigest(r.Form, requests, most, d.Checked.Price); err != nil {
			return nil, err
		}
	}
	out.Data = d
	return out, nil
}

// requestsOf makes the requests of the jobs of a form, one for each engine.
func requestsOf(form url.Values) ([]job.EngineRunRequest, *task.Contract, error) {
	first, work, err := requestOf(form)
	if err != nil {
		return nil, nil, err
	}
	engines, err := enginesOf(form)
	if err != nil {
		return nil, nil, err
	}
	var all []job.EngineRunRequest
	for _, engine := range engines {
		one := first
		one.Engine = engine
		if err := one.Validate(); err != nil {
			return nil, nil, err
		}
		all = append(all, one)
	}
	return all, work, nil
}

// requestOf makes the request of the first engine of a form.
func requestOf(form url.Values) (job.EngineRunRequest, *task.Contract, error) {
	get := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	none := job.EngineRunRequest{}
	work, err := task.Parse("task", []byte(strings.ReplaceAll(form.Get("task"), "\r\n", "\n")))
	if err != nil {
		return none, nil, err
	}
	if len(work.HeldOutTests) > 0 {
		return none, nil, reason.Errorf(reason.RequestInvalid,
			"the task has held-out tests, which a page cannot send: `remit jobs dispatch --request FILE` can name them by digest")
	}
	if work.Base == task.DefaultBase {
		work.Base = get("commit") // what HEAD is on the machine of a provider is not known
	}
	contract, err := work.Canonical()
	if err != nil {
		return none, nil, err
	}
	out := job.EngineRunRequest{Contract: string(contract), ContractSHA256: canon.Digest(contract),
		Baseline: job.EngineBaseline{Source: get("source"), Commit: get("commit"), Tree: get("tree")},
		Engine:   job.EngineChoice{Name: get("engine"), Version: get("version"), Model: get("model")},
		Budget: job.EngineBudget{WallSecs: cmp.Or(api.Value(work.Budget.WallSeconds), job.EngineDefaultWall),
			CPUMillis: cmp.Or(work.Limits.CPUsMilli, job.EngineDefaultCPU), MemoryMB: cmp.Or(work.Limits.MemoryMB, job.EngineDefaultMemory),
			DiskMB: work.Limits.DiskMB, MicroUSD: api.Value(work.Budget.MaxBudgetMicroUSD)}}
	if given := get("wall_secs"); given != "" {
		if out.Budget.WallSecs, err = strconv.ParseInt(given, 10, 64); err != nil {
			return none, nil, reason.Errorf(reason.RequestInvalid, "wall_secs: %.40q is not a number of seconds", given)
		}
		if own := work.Budget.WallSeconds; own != nil && out.Budget.WallSecs > *own {
			return none, nil, reason.Errorf(reason.RequestInvalid, "wall_secs: %d is more than the task allows, which is %d",
				out.Budget.WallSecs, *own)
		}
	}
	if given := get("usd"); given != "" {
		if out.Budget.MicroUSD, err = task.ParseUSD(given); err != nil {
			return none, nil, reason.Errorf(reason.RequestInvalid, "usd: %.40q: %w", given, err)
		}
		if own := work.Budget.MaxBudgetMicroUSD; own != nil && out.Budget.MicroUSD > *own {
			return none, nil, reason.Errorf(reason.RequestInvalid, "usd: %s is more than the task allows, which is %s",
				money(out.Budget.MicroUSD), money(*own))
		}
	}
	if get("repo_ref") == "" {
		return none, nil, reason.Errorf(reason.RequestInvalid, "repo_ref: say what the repository is called")
	}
	return out, work, out.Validate()
}

// shownDigest is the digest of all that a form dispatches: what the page shows is
// what is made, to the last limit.
func shownDigest(form url.Values, requests []job.EngineRunRequest, most, price int64) (string, error) {
	text, err := canon.Marshal(map[string]any{"requests": requests, "max_price_msats": most, "price_msats": price,
		"repo_ref": strings.TrimSpace(form.Get("repo_ref")), "issue_ref": strings.TrimSpace(form.Get("issue_ref"))})
	return canon.Digest(text), err
}

// maxPrice is the most that a form lets a machine cost, 0 for no limit of its own.
func maxPrice(form url.Values) (int64, error) {
	given := strings.TrimSpace(form.Get("max_price"))
	if given == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < 1 {
		return 0, reason.Errorf(reason.RequestInvalid, "max_price: %.40q is not a whole number of msat above 0", given)
	}
	return n, nil
}

// checkedRun asks who could take a job now, as the registry does.
func (p *Panel) checkedRun(ctx context.Context, v *viewer, requests []job.EngineRunRequest, work *task.Contract,
	most int64) (*checkedRun, error) {
	request := requests[0]
	d := &checkedRun{Work: work, Digest: request.ContractSHA256, Request: request, MaxPrice: most}
	for _, one := range requests {
		d.Engines = append(d.Engines, one.Engine)
	}
	machines, err := api.ListProviders.Get(ctx, v.client, api.ListProvidersParams{})
	if err != nil {
		return nil, err
	}
	for _, one := range machines.Items {
		c := candidate{Provider: one}
		known, err := knownProvider(one)
		if err != nil {
			return nil, err
		}
		if why := registry.Eligible(known, request.Needs(), p.opt.Clock().UnixMilli()); why != nil {
			c.Why = why.Message
		} else if most > 0 && one.PriceMsats > most {
			c.Why = "costs " + thousands(one.PriceMsats) + " msat, the most is " + thousands(most)
		} else {
			d.Able++
			d.Price = max(d.Price, one.PriceMsats)
		}
		d.Machines = append(d.Machines, c)
	}
	books, err := api.GetTreasurySummary.Get(ctx, v.client, api.GetTreasurySummaryParams{})
	if err != nil {
		return nil, err
	}
	for _, a := range books.Accounts {
		if !a.Closed && a.Remaining > 0 {
			d.Left = append(d.Left, a)
		}
	}
	return d, d.forecasts(ctx, v.client)
}

// knownProvider is a machine as the registry has it, as far as it is asked whether
// it could take a job.
func knownProvider(one api.Provider) (registry.Provider, error) {
	out := registry.Provider{ProviderRow: store.ProviderRow{ID: one.ProviderID, Class: one.Class, Capabilities: one.Capabilities, PriceMsats: one.PriceMsats,
		Enabled: one.Enabled && one.RetiredAt == nil, Status: one.Status, QuarantineReason: api.Value(one.QuarantineReason)}}
	if one.Quarantined {
		out.QuarantinedAt = 1
	}
	if at := instant(api.Value(one.LastHeartbeatAt)); !at.IsZero() {
		out.HeartbeatAt = at.UnixMilli()
	}
	if one.Caps == nil {
		return out, nil
	}
	text, err := json.Marshal(one.Caps)
	if err == nil {
		err = json.Unmarshal(text, &out.Caps)
	}
	return out, err
}

// checkNew shows a run before it is dispatched. It changes nothing, and comes by a
// form because a task is too long for an address.
func (p *Panel) checkNew(w http.ResponseWriter, r *http.Request) {
	if err := form(w, r); err != nil {
		protect(w)
		p.fail(w, r, nil, err)
		return
	}
	p.show(p.newRun)(w, r)
}

// dispatchNew makes a run for each engine and dispatches its job. A repeat of the form
// is the same runs and the same jobs. A run whose job does not come about ends, and no
// further one is made.
func dispatchNew(ctx context.Context, c *api.Client, r *http.Request) error {
	requests, work, err := requestsOf(r.PostForm)
	if err != nil {
		return err
	}
	most, err := maxPrice(r.PostForm)
	if err != nil {
		return err
	}
	price, err := strconv.ParseInt(r.PostForm.Get("price"), 10, 64)
	if err != nil || price < 0 {
		return reason.Errorf(reason.RequestInvalid, "price: %.40q is not what a page has shown", r.PostForm.Get("price"))
	}
	shown, err := shownDigest(r.PostForm, requests, most, price)
	if err != nil {
		return err
	}
	if shown != r.PostForm.Get("shown") {
		return reason.Errorf(reason.RequestInvalid, "what is to be dispatched is not what the page has shown").
			WithHint("open /new, fill in the form again, and dispatch from the page that it leads to; nothing was made")
	}
	// No machine may cost more than the page has said, also if prices have changed since:
	// 0 would be no limit. The key is of this form: another one with the same is another.
	most = max(price, 1)
	key := keyOf(r) + "-" + shown[len(shown)-16:]
	for i, request := range requests {
		suffix := ""
		if i > 0 {
			suffix = "-" + strconv.Itoa(i)
		}
		id, err := dispatchOne(ctx, c, r, request, work, most, key, suffix)
		if err != nil {
			return afterOthers(err, i, len(requests))
		}
		r.PostForm.Add("made", id)
	}
	return nil
}

// dispatchOne makes one run and dispatches its job.
func dispatchOne(ctx context.Context, c *api.Client, r *http.Request, request job.EngineRunRequest, work *task.Contract, most int64,
	key, suffix string) (string, error) {
	text, err := canon.Marshal(request)
	if err != nil {
		return "", err
	}
	ask := api.RunRequest{RepoRef: strings.TrimSpace(r.PostForm.Get("repo_ref")), IssueRef: api.Optional(strings.TrimSpace(r.PostForm.Get("issue_ref"))),
		PolicyBundleID: api.Optional(work.PolicyBundleID),
		Metadata: &map[string]string{"title": work.Title, "task_id": work.TaskID, "engine": request.Engine.Name,
			"model": request.Engine.Model, "contract_sha256": request.ContractSHA256, "baseline_commit": request.Baseline.Commit, jobs.MetadataForm: canon.Digest([]byte(key))}}
	run, err := api.CreateRun.Do(ctx, c, key+"-run"+suffix, api.None{}, ask)
	if err != nil {
		return "", err
	}
	_, err = api.DispatchJob.Do(ctx, c, key+"-job"+suffix, run.RunID,
		api.DispatchRequest{JobType: job.EngineRun, Request: text, MaxPriceMsats: api.Optional(most)})
	if err == nil {
		return run.RunID, nil
	}
	why := api.FinishRequest{Status: api.FinishRequestStatusFailed, Reason: api.Optional(string(reason.CodeOf(err)))}
	_, ended := api.FinishRun.Do(ctx, c, key+"-end"+suffix, api.FinishRunParams{RunID: run.RunID}, why)
	return "", errors.Join(err, ended)
}
