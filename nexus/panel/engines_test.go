//go:build !race

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
	"remit/proof/evidence"
)

// TestEnginesOf reads the engines of a form.
func TestEnginesOf(t *testing.T) {
	t.Parallel()
	for others, want := range map[string]int{"": 1, "\r\n codex\r\n": 2, "codex - gpt-5.5\npi 0.73.1": 3, "fixer": 0, "codex\ncodex": 0, "a b c d": 0, "a\nb\nc\nd\ne\nf": 0} {
		got, err := enginesOf(url.Values{"engine": {"fixer"}, "others": {others}})
		if len(got) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v", others, got, err)
		}
	}
	got, err := enginesOf(url.Values{"engine": {"fixer"}, "version": {"2"}, "others": {"codex - gpt-5.5"}})
	if err != nil || got[0] != (job.EngineChoice{Name: "fixer", Version: "2"}) || got[1] != (job.EngineChoice{Name: "codex", Model: "gpt-5.5"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSeveralEngines: one form is a run and a job for each engine, once, and leads to
// the page that compares them; what they may cost is shown before.
func TestSeveralEngines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns, authority.ScopeJobs, authority.ScopeProviders, authority.ScopeTreasury)
	w.tell(token, "before", "acme/links", sealedJournal(t, "pass"), func(s *evidence.RunSummary) {
		cost := int64(200_000)
		s.Engine.Name, s.Model, s.CostMicroUSD, s.CostKnown = "codex", new("m<b>"), &cost, new(true)
	})
	w.machine(token, "good", 1000)
	b := w.login(token)
	form := url.Values{"task": {newTask}, "repo_ref": {"acme/links"}, "source": {"/srv/links"}, "commit": {strings.Repeat("a", 40)}, "tree": {strings.Repeat("b", 40)},
		"engine": {"fixer"}, "others": {"codex - m<b>\npi"}, "usd": {"1.50"}, "wall_secs": {"100"}, "csrf": {b.csrf}, "key": {"form"}}
	page := b.do("POST", "/new", form).body
	for _, want := range []string{"codex × m&lt;b&gt;", "$0.20", "3 runs:", "$4.50 of models and 300 msat", "Dispatch 3 runs", "two are different moneys"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if got := faults(t, page); len(got) > 0 {
		t.Errorf("%q", got)
	}
	form.Set("shown", between(page, `name="shown" value="`, `"`))
	form.Set("price", between(page, `name="price" value="`, `"`))
	account, err := api.OpenAccount.Do(t.Context(), w.client(token), "a", api.None{}, api.AccountRequest{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	fund := func(key string, amount int64) {
		admin := w.client(w.mint(identity.Grant{Kind: authority.User, Principal: "user:root", Owner: "root", Scopes: []string{authority.ScopeAdmin}, TTL: time.Hour}))
		if _, err := api.FundAccount.Do(t.Context(), admin, key, api.None{}, api.FundRequest{AccountID: account.Value.AccountID, Amount: amount}); err != nil {
			t.Fatal(err)
		}
	}
	fund("f1", 200) // for two of three: what was dispatched is said
	if out := b.do("POST", "/new/run", form); out.status != http.StatusForbidden || !strings.Contains(out.body, "2 of 3 runs were dispatched") || !strings.Contains(out.body, "insufficient_budget") {
		t.Errorf("without money for all: %d %s", out.status, out.body)
	}
	fund("f2", 1000)
	form.Set("key", "another")
	var made string
	for range 2 { // a double click is one effect
		out := b.do("POST", "/new/run", form)
		if made = out.header.Get("Location"); out.status != http.StatusSeeOther || !strings.HasPrefix(made, "/compare?from=nexus&run=") {
			t.Fatalf("%d to %q: %s", out.status, made, out.body)
		}
	}
	runs, err := api.ListRuns.Get(t.Context(), w.client(token), api.ListRunsParams{})
	if err != nil || len(runs.Items) != 1+3+3 {
		t.Errorf("%d runs, %v", len(runs.Items), err)
	}
	compared := b.get(made)
	for _, want := range []string{"fixer", "codex", "m&lt;b&gt;", "pi", "jobs, msat", "100 "} {
		if compared.status != http.StatusOK || !strings.Contains(compared.body, want) {
			t.Errorf("%d, the comparison lacks %q", compared.status, want)
		}
	}
	if strings.Contains(compared.body, "not comparable") || len(faults(t, compared.body)) > 0 {
		t.Errorf("%q: runs of one form are said to differ", faults(t, compared.body))
	}
	if out := w.login(w.token("bob", authority.ScopeRead)).get(made); out.status != http.StatusNotFound || strings.Contains(out.body, "codex") {
		t.Errorf("another user compares them: %d", out.status)
	}
}
