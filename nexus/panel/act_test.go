package panel

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
)

func (w *world) approval(token, key string) api.Approval {
	w.t.Helper()
	got, err := api.RequestApproval.Do(w.t.Context(), w.client(token), key, api.None{}, api.ApprovalRequest{Contract: contract(w.t), RepoRef: key})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.Value
}

func (w *world) status(token, id string) api.Approval {
	w.t.Helper()
	got, err := api.GetApproval.Get(w.t.Context(), w.client(token), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// TestDecide: a decision is one request that a page of this server has sent for
// somebody who may decide, with a reason.
func TestDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns, authority.ScopeApprove)
	reader := w.token("alice", authority.ScopeRead)
	b := w.login(token)
	a := w.approval(token, "one")
	path := "/approvals/" + a.ApprovalID
	form := func(change ...string) url.Values {
		f := url.Values{"csrf": {b.csrf}, "key": {"form-key"}, "decision": {"granted"}, "reason": {"read it"}}
		for i := 0; i+1 < len(change); i += 2 {
			f.Set(change[i], change[i+1])
		}
		return f
	}
	if page := b.get(path).body; !strings.Contains(page, `value="granted"`) || !strings.Contains(page, `value="denied"`) {
		t.Fatalf("no form is offered:\n%s", page)
	}
	for name, try := range map[string]func() got{
		"another origin": func() got {
			return (&browser{w: w, cookie: b.cookie, header: http.Header{"Origin": {"https://evil.example"}}}).do("POST", path+"/decision", form())
		},
		"no origin": func() got {
			return (&browser{w: w, cookie: b.cookie, header: http.Header{"Origin": {""}}}).do("POST", path+"/decision", form())
		},
		"another site": func() got {
			return (&browser{w: w, cookie: b.cookie, header: http.Header{"Sec-Fetch-Site": {"cross-site"}}}).do("POST", path+"/decision", form())
		},
		"no token":        func() got { return b.do("POST", path+"/decision", form("csrf", "")) },
		"another token":   func() got { return b.do("POST", path+"/decision", form("csrf", strings.Repeat("0", len(b.csrf)))) },
		"no reason":       func() got { return b.do("POST", path+"/decision", form("reason", "  ")) },
		"another word":    func() got { return b.do("POST", path+"/decision", form("decision", "execute")) },
		"nobody":          func() got { return (&browser{w: w}).do("POST", path+"/decision", form()) },
		"without a scope": func() got { r := w.login(reader); return r.do("POST", path+"/decision", form("csrf", r.csrf)) },
		"by a link":       func() got { return b.get(path + "/decision?" + form().Encode()) },
	} {
		out := try()
		if out.status < 400 || out.status >= 500 {
			t.Errorf("%s: status %d", name, out.status)
		}
		if got := w.status(token, a.ApprovalID).Status; got != api.ApprovalStatusRequested {
			t.Fatalf("%s: the approval is %s", name, got)
		}
	}
	if page := w.login(reader).get(path).body; strings.Contains(page, `name="decision"`) {
		t.Error("a form is offered to who may not decide")
	}
	for range 2 { // a double click is one effect
		if out := b.do("POST", path+"/decision", form()); out.status != http.StatusSeeOther || out.header.Get("Location") != path {
			t.Fatalf("status %d to %q: %s", out.status, out.header.Get("Location"), out.body)
		}
	}
	done := w.status(token, a.ApprovalID)
	if done.Status != api.ApprovalStatusGranted || api.Value(done.Reason) != "read it" || api.Value(done.DecidedBy) != "user:alice" {
		t.Errorf("%+v", done)
	}
	page := b.get(path).body
	if !strings.Contains(page, "by user:alice") || !strings.Contains(page, "execution_allowed: true") || strings.Contains(page, `name="decision"`) {
		t.Errorf("the page after it:\n%s", page)
	}
	// Who comes too late is refused, and reads by whom.
	if out := w.login(token).do("POST", path+"/decision", form("key", "later", "decision", "denied")); out.status < 400 {
		t.Errorf("a second decision: %d", out.status)
	}
	if got := w.status(token, a.ApprovalID).Status; got != api.ApprovalStatusGranted {
		t.Errorf("the approval is %s after a second decision", got)
	}
}

// TestOthersDoNotExist: what another owner has is not found, on every page.
func TestOthersDoNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	alice := w.token("alice", authority.ScopeRead, authority.ScopeRuns, authority.ScopeApprove)
	bob := w.token("bob", authority.ScopeRead, authority.ScopeRuns, authority.ScopeApprove)
	a := w.approval(alice, "secret-of-alice")
	run, err := api.CreateRun.Do(t.Context(), w.client(alice), "k", api.None{}, api.RunRequest{RepoRef: "secret-of-alice"})
	if err != nil {
		t.Fatal(err)
	}
	mine, other := w.login(alice), w.login(bob)
	for _, path := range []string{"/approvals/" + a.ApprovalID, "/nexus/runs/" + run.RunID} {
		if out := mine.get(path); out.status != http.StatusOK || !strings.Contains(out.body, "secret-of-alice") {
			t.Errorf("%s: %d for its owner", path, out.status)
		}
		if out := other.get(path); out.status != http.StatusNotFound || strings.Contains(out.body, "secret-of-alice") {
			t.Errorf("%s: %d for somebody else", path, out.status)
		}
	}
	for _, path := range []string{"/", "/?from=nexus", "/approvals", "/fleet", "/treasury"} {
		if strings.Contains(other.get(path).body, "secret-of-alice") {
			t.Errorf("%s shows what is alice's", path)
		}
	}
}

// TestLogin: a login is by a page of this server, makes a new session, and leads
// nowhere else.
func TestLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	token := w.token("alice", authority.ScopeRead)
	for name, header := range map[string]http.Header{"another origin": {"Origin": {"https://evil.example"}}, "no origin": {"Origin": {""}}, "null": {"Origin": {"null"}},
		"another site": {"Sec-Fetch-Site": {"same-site"}}} {
		b := &browser{w: w, header: header}
		if out := b.do("POST", "/login", url.Values{"token": {token}}); out.status != http.StatusForbidden || b.cookie != nil {
			t.Errorf("%s: %d, cookie %v", name, out.status, b.cookie)
		}
	}
	wrong := &browser{w: w}
	if out := wrong.do("POST", "/login", url.Values{"token": {"rmt_user_0_wrong"}}); out.status != http.StatusUnauthorized || wrong.cookie != nil ||
		strings.Contains(out.body, "rmt_user_0_wrong") {
		t.Errorf("a wrong token: %d", out.status)
	}
	// A planted session is not the one that is logged in.
	planted := &browser{w: w, cookie: w.login(w.token("mallory", authority.ScopeRead)).cookie}
	before := planted.cookie.Value
	if out := planted.do("POST", "/login", url.Values{"token": {token}}); out.status != http.StatusSeeOther || planted.cookie.Value == before {
		t.Fatalf("status %d, the same session: %v", out.status, planted.cookie.Value == before)
	}
	if c := planted.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
		t.Errorf("the cookie is %v", c)
	}
	if page := planted.get("/").body; !strings.Contains(page, "user:alice") || strings.Contains(page, "mallory") {
		t.Error("the session is not alice's")
	}
	for next, want := range map[string]string{
		"": "/", "/approvals?x=1": "/approvals?x=1", "//evil.example": "/", "https://evil.example": "/", `/\evil.example`: "/", "/\t/evil.example": "/", "javascript:alert(1)": "/",
		"///evil.example": "/", "/login": "/", "/%2f/evil.example": "/", "evil": "/", "http:/evil": "/", "/a\r\nb": "/",
	} {
		b := &browser{w: w}
		if got := b.do("POST", "/login", url.Values{"token": {token}, "next": {next}}).header.Get("Location"); got != want {
			t.Errorf("next %q leads to %q, want %q", next, got, want)
		}
	}
	b := w.login(token)
	if out := b.do("POST", "/logout", url.Values{"csrf": {"wrong"}}); out.status != http.StatusForbidden || b.get("/").status != http.StatusOK {
		t.Errorf("a logout without the token: %d", out.status)
	}
	was := *b.cookie
	if out := b.do("POST", "/logout", url.Values{"csrf": {b.csrf}}); out.status != http.StatusSeeOther || b.cookie != nil {
		t.Errorf("logout: %d, %v", out.status, b.cookie)
	}
	if out := (&browser{w: w, cookie: &was}).get("/"); out.status != http.StatusSeeOther {
		t.Errorf("the cookie of a session that was ended: %d", out.status)
	}
}

// TestSwitch: a machine is switched by who may, and by a form of this server only.
func TestSwitch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	owner := w.token("alice", authority.ScopeRead, authority.ScopeProviders, authority.ScopeEnrol)
	registration := w.mint(identity.Grant{Kind: authority.Registration, Owner: "alice",
		Scopes: []string{authority.ScopeEnrol}, TTL: time.Hour, OneTime: true})
	made, err := api.RegisterProvider.Do(t.Context(), w.client(registration), "k", api.None{}, api.ProviderRequest{Name: "evil<script>alert(1)</script>",
		Version: "evil<img src=x>", PriceMsats: 1, Capabilities: []string{"oa.sandbox_run.v1"}})
	if err != nil {
		t.Fatal(err)
	}
	b := w.login(owner)
	page := b.get("/fleet").body
	if len(faults(t, page)) != 0 {
		t.Errorf("the fleet has %q", faults(t, page))
	}
	if out := b.do("POST", "/fleet/"+made.Provider.ProviderID+"/switch", url.Values{"csrf": {"x"}, "key": {"a"}, "to": {"on"}}); out.status != http.StatusForbidden {
		t.Errorf("without the token: %d", out.status)
	}
	if out := b.do("POST", "/fleet/prv_none/switch", url.Values{"csrf": {b.csrf}, "key": {"b"}, "to": {"off"}}); out.status != http.StatusNotFound {
		t.Errorf("a machine that is not there: %d", out.status)
	}
	reader := w.login(w.token("alice", authority.ScopeRead))
	if strings.Contains(reader.get("/fleet").body, "/switch") {
		t.Error("a switch is offered to who may not use it")
	}
	if out := reader.do("POST", "/fleet/"+made.Provider.ProviderID+"/switch", url.Values{"csrf": {reader.csrf}, "key": {"c"}, "to": {"on"}}); out.status != http.StatusForbidden {
		t.Errorf("without the scope: %d", out.status)
	}
	enabled := func() bool {
		got, err := api.GetProvider.Get(t.Context(), w.client(owner), made.Provider.ProviderID)
		if err != nil {
			t.Fatal(err)
		}
		return got.Enabled
	}
	if enabled() {
		t.Fatal("what was refused had an effect")
	}
	if out := b.do("POST", "/fleet/"+made.Provider.ProviderID+"/switch", url.Values{"csrf": {b.csrf}, "key": {"d"}, "to": {"off"}, "reason": {"loud"}}); out.status != http.StatusSeeOther {
		t.Errorf("by its owner: %d %s", out.status, out.body)
	}
}
