package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// again registers a provider once more, as the holder of a registration token does.
func (f *flow) again(body string) seen {
	f.t.Helper()
	grant := f.do(post("/v1/tokens", f.alice, api.NewKey(), `{"kind":"registration"}`)).want(f.t, 201, "").field(f.t, "token")
	return f.do(post("/v1/providers", grant, api.NewKey(), body))
}

// TestReplacedProviderIsOut registers over a provider that works: by its name
// that is refused, by its id the old machine is out at once, whatever else its
// owner has had made meanwhile.
func TestReplacedProviderIsOut(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	name := f.do(get("/v1/providers/"+f.provider, w.alice)).want(t, 200, "").field(t, "name")
	body := fmt.Sprintf(`{"name":%q,"version":"9","capabilities":["oa.sandbox_run.v1"],"price_msats":40000`, name)
	f.again(body+`}`).want(t, 409, "conflict")
	f.do(get("/v1/whoami", f.token)).want(t, 200, "")
	run := f.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).field(t, "run_id")
	job := f.do(post("/v1/runs/"+run+"/jobs", w.alice, "j", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)).want(t, 201, "").field(t, "job_id")
	f.do(post("/v1/jobs/lease", f.token, "l", `{}`)).want(t, 200, "")
	many := 300
	if w.store.Dialect() == "sqlite" {
		many = 10_050 // more tokens of the owner than anybody looks through
	}
	err := w.store.Update(t.Context(), func(tx *store.Tx) error {
		for i := range many {
			if err := tx.PutToken(store.Token{ID: fmt.Sprint("t", i), Kind: "ticket", Principal: "user:alice", Owner: "alice"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	made := f.again(body+fmt.Sprintf(`,"provider_id":%q}`, f.provider)).want(t, 201, "")
	f.do(get("/v1/whoami", f.token)).want(t, 401, "token_expired")
	f.do(get("/v1/whoami", made.field(t, "token"))).want(t, 200, "")
	if got := f.do(get("/v1/providers/"+f.provider, w.alice)); !strings.Contains(got.body, `"enabled":false`) {
		t.Errorf("enabled at another price: %s", got.body)
	}
	if got := f.do(get("/v1/jobs/"+job, w.alice)); got.field(t, "state") != "canceled" || got.field(t, "payment") != "withheld" {
		t.Errorf("what the old machine had: %s", got.body)
	}
}

// TestRevokedProviderIsStale: no job is offered to a provider whose credential was
// revoked, which would cost it strikes.
func TestRevokedProviderIsStale(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f := &flow{world: w}
		f.join()
		at := "/v1/providers/" + f.provider
		if got := f.do(get(at, w.alice)); !strings.Contains(got.body, `"fresh"`) {
			t.Fatalf("before: %s", got.body)
		}
		id := f.do(get("/v1/whoami", f.token)).want(t, 200, "").field(t, "token_id")
		f.do(post("/v1/tokens/"+id+"/revoke", w.alice, "end", "")).want(t, 200, "")
		if got := f.do(get(at, w.alice)); !strings.Contains(got.body, `"stale"`) {
			t.Errorf("after: %s", got.body)
		}
		run := f.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).field(t, "run_id")
		f.do(post("/v1/runs/"+run+"/jobs", w.alice, "j", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)).want(t, 409, "no_eligible_provider")
	})
}

// TestProviderWithdrawsItself disables with the provider's own credential.
func TestProviderWithdrawsItself(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	path := "/v1/providers/" + f.provider
	reader := w.mint(identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice", Scopes: []string{authority.ScopeRead}})
	f.do(post(path+"/disable", reader, "a", "{}")).want(t, 403, "scope_missing")
	f.do(post(path+"/disable", w.bob, "a", "{}")).want(t, 404, "not_found")
	f.do(post(path+"/disable", f.token, "a", "{}")).want(t, 200, "")
	f.do(post(path+"/enable", f.token, "b", "{}")).want(t, 403, "scope_missing")
}

// TestWhoEndsWhom: no credential ends one that can do more than it can.
func TestWhoEndsWhom(t *testing.T) {
	w := one(t, Options{})
	type token struct{ id, text string }
	mint := func(kind authority.Kind, principal string, scopes ...string) (made token) {
		err := w.store.Update(t.Context(), func(tx *store.Tx) error {
			text, row, err := identity.Mint(tx, identity.Grant{Kind: kind, Principal: principal, Owner: "alice", Scopes: scopes})
			made = token{row.ID, text}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	person := func() token { return mint(authority.User, "user:alice", personScopes...) }
	daemon := func() token {
		return mint(authority.Provider, "provider:prv_1", authority.ScopeWork, authority.ScopeRead)
	}
	reader := func() token { return mint(authority.User, "user:alice", authority.ScopeRead) }
	lead := func() token { return mint(authority.User, "user:alice", authority.ScopeApprove, authority.ScopeRead) }
	registration := func() token { return mint(authority.Registration, "", authority.ScopeEnrol) }
	service := func() token { return mint(authority.Service, "service:alice", personScopes...) }
	admin := token{text: w.admin}
	for i, test := range []struct {
		who    token
		whom   token
		status int
		code   string
	}{
		{daemon(), person(), 403, "scope_missing"}, {daemon(), daemon(), 403, "scope_missing"}, {daemon(), reader(), 403, "forbidden"},
		{reader(), person(), 403, "scope_missing"}, {reader(), daemon(), 403, "scope_missing"}, {reader(), registration(), 403, "scope_missing"},
		{service(), reader(), 403, "forbidden"}, {person(), lead(), 403, "scope_missing"}, {lead(), person(), 403, "scope_missing"},
		{person(), person(), 200, ""}, {person(), reader(), 200, ""}, {person(), daemon(), 200, ""}, {person(), registration(), 200, ""},
		{person(), service(), 200, ""}, {admin, lead(), 200, ""}, {admin, person(), 200, ""},
	} {
		w.do(post("/v1/tokens/"+test.whom.id+"/revoke", test.who.text, fmt.Sprint("k", i), "")).want(t, test.status, test.code)
		alive := w.do(get("/v1/whoami", test.whom.text)).status == 200
		if alive != (test.status == 403) && !strings.Contains(test.whom.text, "registration") {
			t.Errorf("%d: alive %v", i, alive)
		}
	}
	for i, self := range []token{daemon(), reader(), lead(), service()} {
		w.do(post("/v1/tokens/"+self.id+"/revoke", self.text, fmt.Sprint("s", i), "")).want(t, 200, "")
	}
}

// TestTokensAreForgotten lets tickets and tokens end, and looks what is kept: a
// ticket for a minute, other tokens for the retention, and as long as there is a
// session of them.
func TestTokensAreForgotten(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{Sweep: Sweep{Retention: 2 * time.Hour}})
		sweep := func() int {
			if err := w.server.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			var list []store.Token
			err := w.store.View(t.Context(), func(tx *store.Tx) (err error) {
				list, err = tx.TokensOf("alice", "", store.TokensAfter{}, 1000)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		w.login(w.alice) // its token is good for an hour
		gone := w.do(post("/v1/tokens", w.admin, "b", `{"kind":"user","owner":"alice"}`)).want(t, 201, "").field(t, "token_id")
		w.do(post("/v1/tokens/"+gone+"/revoke", w.admin, "c", "")).want(t, 200, "")
		for i := range 20 {
			w.do(post("/v1/lanes/tickets", w.alice, fmt.Sprint("t", i), `{"topic":"fleet:user:alice:workers"}`)).want(t, 201, "")
		}
		if n := sweep(); n != 22 {
			t.Errorf("%d tokens while the tickets are good", n)
		}
		clock.Advance(31*time.Second + ticketsKept)
		if n := sweep(); n != 2 {
			t.Errorf("%d tokens after the tickets", n)
		}
		clock.Advance(2 * time.Hour)
		if n := sweep(); n != 1 {
			t.Errorf("%d tokens after the revoked one", n)
		}
		w.do(get("/v1/whoami", w.alice)).want(t, 401, "token_expired")
		clock.Advance(2 * time.Hour)
		if n := sweep(); n != 0 {
			t.Errorf("%d tokens at the end", n)
		}
		w.do(get("/v1/whoami", w.alice)).want(t, 401, "unauthenticated")
	})
}

// TestListedCredentials pages through the credentials of an owner: each once,
// the newest first, without tickets and without anything of a secret.
func TestListedCredentials(t *testing.T) {
	w := one(t, Options{})
	want := map[string]bool{}
	err := w.store.Update(t.Context(), func(tx *store.Tx) error { // in one instant: the id decides
		for i := range 7 {
			id := fmt.Sprintf("t%d", i)
			want[id] = true
			if err := tx.PutToken(store.Token{ID: id, Kind: "user", Principal: "user:carol", Owner: "carol", SHA256: "digest-of-it"}); err != nil {
				return err
			}
		}
		return tx.PutToken(store.Token{ID: "ticket", Kind: "ticket", Principal: "user:carol", Owner: "carol"})
	})
	if err != nil {
		t.Fatal(err)
	}
	for cursor := ""; ; {
		got := w.do(get("/v1/tokens?owner=carol&limit=3&cursor="+cursor, w.admin)).want(t, 200, "")
		if strings.Contains(got.body, "digest-of-it") {
			t.Error("a digest was shown")
		}
		var page api.TokenPage
		if err := json.Unmarshal([]byte(got.body), &page); err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			if !want[item.TokenID] || item.Status != "live" {
				t.Errorf("%+v is listed twice, or should not be", item)
			}
			delete(want, item.TokenID)
		}
		if cursor = api.Value(page.NextCursor); cursor == "" {
			break
		}
		w.do(get("/v1/tokens?cursor="+cursor+"x", w.admin)).want(t, 400, "cursor_invalid")
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	w.do(get("/v1/tokens?owner=carol", w.alice)).want(t, 403, "forbidden")

	// A daemon is for its own jobs; who may not read sees nothing.
	f := &flow{world: w}
	f.join()
	f.do(get("/v1/tokens", f.token)).want(t, 403, "scope_missing")
	blind := w.mint(identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice", Scopes: []string{authority.ScopeRuns}})
	w.do(get("/v1/tokens", blind)).want(t, 403, "scope_missing")
}
