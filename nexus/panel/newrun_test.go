package panel

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
)

// machine adds a machine of alice's that takes engine runs, and pays for its jobs.
func (w *world) machine(owner, name string, timeout int64) string {
	w.t.Helper()
	id, _ := w.machineWith(owner, name, timeout)
	return id
}

// machineWith returns its credential too.
func (w *world) machineWith(owner, name string, timeout int64) (id, credential string) {
	w.t.Helper()
	return w.machineAt(owner, name, timeout, 100)
}

// machineAt has a price, in msat a job.
func (w *world) machineAt(owner, name string, timeout, price int64) (id, credential string) {
	w.t.Helper()
	ctx := w.t.Context()
	registration := w.mint(identity.Grant{Kind: authority.Registration, Owner: "alice", Scopes: []string{authority.ScopeEnrol}, TTL: time.Hour, OneTime: true})
	made, err := api.RegisterProvider.Do(ctx, w.client(registration), "k", api.None{}, api.ProviderRequest{Name: name, Version: "1", PriceMsats: price, Capabilities: []string{job.EngineRun}})
	if err != nil {
		w.t.Fatal(err)
	}
	id = made.Provider.ProviderID
	c := w.client(owner)
	_, err = api.SetCaps.Do(ctx, c, id, api.SetCapsParams{ProviderID: id}, api.Caps{CPUMillis: 8000, MemoryMb: 8192, DiskMb: 8192, TimeoutSecs: timeout, Concurrency: 1, Network: api.CapsNetworkNone})
	if err == nil {
		_, err = api.EnableProvider.Do(ctx, c, id+"e", api.EnableProviderParams{ProviderID: id}, api.None{})
	}
	if err == nil {
		_, err = api.Heartbeat.Do(ctx, w.client(made.Token), "h", id, api.HeartbeatRequest{Version: "1"})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return id, made.Token
}

// fund opens an account for the jobs of an owner, with so much money.
func (w *world) fund(owner string, msats int64) {
	w.t.Helper()
	admin := w.client(w.mint(identity.Grant{Kind: authority.User, Principal: "user:root", Owner: "root", Scopes: []string{authority.ScopeAdmin}, TTL: time.Hour}))
	account, err := api.OpenAccount.Do(w.t.Context(), w.client(owner), "a", api.None{}, api.AccountRequest{Limit: 10 * msats})
	if err == nil {
		_, err = api.FundAccount.Do(w.t.Context(), admin, "f", api.None{}, api.FundRequest{AccountID: account.Value.AccountID, Amount: msats})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// newTask is a task whose every text is hostile that a person may paste.
const newTask = `task_id: evil
title: "evil <script>alert(1)</script>"
instructions: "evil </textarea><img src=x onerror=alert(1)>\n"
allowed_paths: ["src/**"]
forbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, authority_mutation]
verification_commands: ["echo '<script>alert(1)</script>'"]
`

// TestNewRun: a run is looked at first, with who could take it and why others could
// not, and dispatched once by a form of this server.
func TestNewRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns, authority.ScopeJobs, authority.ScopeProviders, authority.ScopeTreasury)
	reader := w.token("alice", authority.ScopeRead)
	b := w.login(token)
	form := func(change ...string) url.Values {
		f := url.Values{"task": {strings.ReplaceAll(newTask, "\n", "\r\n")}, "repo_ref": {"acme/<b>links"}, "issue_ref": {"acme/links#1"}, "source": {"/srv/links"}, "commit": {strings.Repeat("a", 40)},
			"tree": {strings.Repeat("b", 40)}, "engine": {"fixer"}, "wall_secs": {"100"}, "csrf": {b.csrf}, "key": {"form"}}
		for i := 0; i+1 < len(change); i += 2 {
			f.Set(change[i], change[i+1])
		}
		return f
	}
	runs := func() []api.Run {
		got, err := api.ListRuns.Get(t.Context(), w.client(token), api.ListRunsParams{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Items
	}
	if page := b.do("POST", "/new", form()); page.status != http.StatusOK || !strings.Contains(page.body, "No machine yet.") || !strings.Contains(page.body, "disabled>Dispatch") {
		t.Errorf("without a machine: %d %s", page.status, page.body)
	}
	good := w.machine(token, "good", 1000)
	w.machine(token, "short<script>alert(1)</script>", 50)
	page := b.do("POST", "/new", form())
	for _, want := range []string{"yes</span>", "timeout_secs: 100 needed, the cap is 50", "evil &lt;script&gt;alert(1)", "100 s", "Cannot happen", `name="shown"`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q:\n%s", want, page.body)
		}
	}
	if got := faults(t, page.body); len(got) > 0 || len(runs()) > 0 {
		t.Errorf("%q, %d runs", got, len(runs()))
	}
	for field, wrong := range map[string]string{"task": "task_id: [", "commit": "HEAD", "tree": "", "source": "-x", "engine": "", "repo_ref": "", "wall_secs": "soon", "usd": "-1", "max_price": "cheap"} {
		if out := b.do("POST", "/new", form(field, wrong)); out.status != http.StatusBadRequest || !strings.Contains(out.body, `role="alert"`) || len(faults(t, out.body)) > 0 ||
			!strings.Contains(out.body, "/srv/links") && field != "source" {
			t.Errorf("%s %q: %d", field, wrong, out.status)
		}
	}
	// A fraction of a cent is taken whole; less than a millionth of a dollar is no amount.
	if out := b.do("POST", "/new", form("usd", "4.350001")); !strings.Contains(out.body, "$4.350001 of a model") || !strings.Contains(out.body, "disk as the machine limits it") {
		t.Errorf("an amount, or the disk, is not as given:\n%s", out.body)
	}
	if out := b.do("POST", "/new", form("usd", "0.0000001")); out.status != http.StatusBadRequest {
		t.Errorf("an amount that is none: %d", out.status)
	}
	// What the task itself allows is not exceeded.
	limited := newTask + "budget: {max_budget_usd: 1.50, wall_seconds: 60}\n"
	for field, more := range map[string]string{"wall_secs": "61", "usd": "1.500001"} {
		fits := form("task", limited, "wall_secs", "60", "usd", "1.50")
		if out := b.do("POST", "/new", fits); out.status != http.StatusOK {
			t.Errorf("as the task allows: %d", out.status)
		}
		if fits.Set(field, more); b.do("POST", "/new", fits).status != http.StatusBadRequest {
			t.Errorf("%s %s is more than the task allows", field, more)
		}
	}
	shown := func(page string) []string {
		return []string{"shown", between(page, `name="shown" value="`, `"`), "price", between(page, `name="price" value="`, `"`)}
	}
	done := func(change ...string) url.Values {
		return form(append(shown(page.body), change...)...)
	}
	attacks := w.attacks(b, reader, "/new/run", done)
	attacks["another contract"] = func() got {
		return b.do("POST", "/new/run", done("task", strings.Replace(newTask, "src/**", "**", 1)))
	}
	for field, other := range map[string]string{"wall_secs": "101", "usd": "4.35", "max_price": "99", "repo_ref": "acme/other", "issue_ref": "", "engine": "another",
		"others": "pi", "model": "m", "version": "2", "source": "/srv/other", "commit": strings.Repeat("c", 40), "tree": strings.Repeat("c", 40), "shown": "", "price": "101"} {
		attacks["another "+field] = func() got { return b.do("POST", "/new/run", done(field, other)) }
	}
	for name, try := range attacks {
		if out := try(); out.status < 400 || out.status >= 500 || len(runs()) > 0 {
			t.Errorf("%s: status %d, %d runs", name, out.status, len(runs()))
		}
	}
	if out := b.do("POST", "/new/run", done("key", "poor")); out.status != http.StatusForbidden || !strings.Contains(out.body, "insufficient_budget") ||
		len(runs()) != 1 || runs()[0].Status != api.RunStatusFailed {
		t.Errorf("without money: %d %s %+v", out.status, out.body, runs())
	}
	w.fund(token, 1000)
	var made string
	for range 2 { // a double click is one run
		out := b.do("POST", "/new/run", done())
		if made = out.header.Get("Location"); out.status != http.StatusSeeOther {
			t.Fatalf("status %d: %s", out.status, out.body)
		}
	}
	list, err := api.ListJobs.Get(t.Context(), w.client(token), api.ListJobsParams{RunID: strings.TrimPrefix(made, "/nexus/runs/")})
	if err != nil || len(list.Items) != 1 || list.Items[0].JobType != job.EngineRun || len(runs()) != 2 {
		t.Errorf("%+v, %d runs, %v", list, len(runs()), err)
	}
	if list := b.get("/?from=nexus&engine=fixer").body; !strings.Contains(list, made) {
		t.Error("the run is not found by the engine that it was made for")
	}
	// Another form with the key of the first is another run, and leaves that alone.
	changed := []string{"usd", "1.2", "issue_ref", ""} // the issue of the first is taken
	again := b.do("POST", "/new/run", form(append(shown(b.do("POST", "/new", form(changed...)).body), changed...)...))
	if first, err := api.GetRun.Get(t.Context(), w.client(token), strings.TrimPrefix(made, "/nexus/runs/")); err != nil || first.FinishedAt != nil ||
		again.status != http.StatusSeeOther || again.header.Get("Location") == made {
		t.Errorf("%d to %q, the first run is %s, %v", again.status, again.header.Get("Location"), first.Status, err)
	}
	// A machine that is dearer than what the page has said takes nothing.
	late := form(append(shown(b.do("POST", "/new", form("key", "late", "issue_ref", "")).body), "key", "late", "issue_ref", "")...)
	if _, err := api.DisableProvider.Do(t.Context(), w.client(token), "off", good, api.ReasonRequest{}); err != nil {
		t.Fatal(err)
	}
	w.machineAt(token, "dear", 1000, 900)
	if out := b.do("POST", "/new/run", late); out.status < 400 || out.status >= 500 || !strings.Contains(out.body, "no_eligible_provider") {
		t.Errorf("a dearer machine: %d %s", out.status, out.body)
	}
	if body := b.get(made).body; !strings.Contains(body, job.EngineRun) || len(faults(t, body)) > 0 {
		t.Errorf("the page of the run:\n%s", body)
	}
	if body := w.login(reader).get("/new?task=evil%3Cscript%3E").body; strings.Contains(body, "<form class=\"card pad mt decide new\"") || len(faults(t, body)) > 0 {
		t.Error("a form is offered to who may not use it")
	}
	if body := b.get("/new?issue_ref=acme%2Flinks%2312&task=" + url.QueryEscape(hostile)).body; !strings.Contains(body, `value="acme/links#12"`) || len(faults(t, body)) > 0 {
		t.Error("an address does not fill the form")
	}
}
