package panel

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/jobs"
	"remit/proof/bundle"
	"remit/proof/canon"
)

func (w *world) approval(token, key string) api.Approval {
	w.t.Helper()
	got, err := api.RequestApproval.Do(w.t.Context(), w.client(token), key, api.None{}, api.ApprovalRequest{Contract: contract(w.t), RepoRef: key})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.Value
}

// approvalOf asks for an approval of a contract of its own.
func (w *world) approvalOf(token, key string, ttl *int64) api.Approval {
	w.t.Helper()
	got, err := api.RequestApproval.Do(w.t.Context(), w.client(token), key, api.None{}, api.ApprovalRequest{RepoRef: key, TTLSeconds: ttl,
		Contract: strings.Replace(contract(w.t), `"task_id":"evil"`, `"task_id":"evil-`+key+`"`, 1)})
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

// attacks are ways to send a form that must all be refused, without an effect.
func (w *world) attacks(b *browser, reader, path string, form func(...string) url.Values) map[string]func() got {
	by := func(name, value string) func() got {
		return func() got {
			return (&browser{w: w, cookie: b.cookie, header: http.Header{name: {value}}}).do("POST", path, form())
		}
	}
	return map[string]func() got{
		"another origin": by("Origin", "https://evil.example"), "no origin": by("Origin", ""), "another site": by("Sec-Fetch-Site", "cross-site"),
		"no token":        func() got { return b.do("POST", path, form("csrf", "")) },
		"another token":   func() got { return b.do("POST", path, form("csrf", strings.Repeat("0", len(b.csrf)))) },
		"no login":        func() got { return (&browser{w: w}).do("POST", path, form()) },
		"without a scope": func() got { r := w.login(reader); return r.do("POST", path, form("csrf", r.csrf)) },
		"by a link":       func() got { return b.get(path + "?" + form().Encode()) },
	}
}

// TestDecide: a decision is one request with a reason. A page of this server sends it for
// a person who may decide.
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
	attacks := w.attacks(b, reader, path+"/decision", form)
	attacks["another word"] = func() got { return b.do("POST", path+"/decision", form("decision", "execute")) }
	attacks["no reason"] = func() got { return b.do("POST", path+"/decision", form("reason", "  ")) }
	for name, try := range attacks {
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
	// A grant that was not used may be taken back. After that, who comes too late is
	// refused, and reads by whom.
	second := w.login(token)
	say := func(decision string) got {
		return second.do("POST", path+"/decision", form("csrf", second.csrf, "key", decision, "decision", decision))
	}
	if out := say("denied"); out.status != http.StatusSeeOther || w.status(token, a.ApprovalID).Status != api.ApprovalStatusDenied {
		t.Errorf("a grant is not taken back: %d %s", out.status, out.body)
	}
	if out := say("granted"); out.status != http.StatusForbidden || !strings.Contains(out.body, "denied by user:alice") ||
		w.status(token, a.ApprovalID).Status != api.ApprovalStatusDenied {
		t.Errorf("a second decision: %d %s", out.status, out.body)
	}
	if after := b.get(path).body; strings.Contains(after, "If you approve") || strings.Contains(after, "is agreed to") || !strings.Contains(after, "What was asked for") ||
		!strings.Contains(page, "What one run may do") {
		t.Error("a denied approval reads as one that can be granted")
	}
}

// ended makes a run with a published bundle that has ended.
func (w *world) ended(token, key, session string) string {
	w.t.Helper()
	ctx, c := w.t.Context(), w.client(token)
	run, err := api.CreateRun.Do(ctx, c, key, api.None{}, api.RunRequest{RepoRef: "acme/links"})
	var zip bytes.Buffer
	if err == nil {
		err = bundle.WriteZip(&zip, filepath.Join("../../vectors/evidence/valid", session))
	}
	if err == nil {
		_, err = api.PutRunArtifact.Put(ctx, c, key, api.PutRunArtifactParams{RunID: run.RunID, Digest: canon.Digest(zip.Bytes()), Name: jobs.BundleZip},
			api.Content{Size: int64(zip.Len()), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(zip.Bytes())), nil }})
	}
	if err == nil {
		_, err = api.FinishRun.Do(ctx, c, key+"end", api.FinishRunParams{RunID: run.RunID}, api.FinishRequest{Status: api.FinishRequestStatusSucceeded})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return run.RunID
}

// TestConclude: a result is accepted or rejected once, with a reason, by who may, on
// a page of this server; it then stands in the bundle that the authority keeps, and
// who comes later reads by whom.
func TestConclude(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	token, reader := w.token("alice", authority.ScopeRead, authority.ScopeRuns), w.token("alice", authority.ScopeRead)
	b := w.login(token)
	path := "/nexus/runs/" + w.ended(token, "one", "pass")
	form := func(change ...string) url.Values {
		f := url.Values{"csrf": {b.csrf}, "key": {"form-key"}, "outcome": {"accepted"}, "reason": {"read " + oneLine[:60]}}
		for i := 0; i+1 < len(change); i += 2 {
			f.Set(change[i], change[i+1])
		}
		return f
	}
	given := func() []api.GivenOutcome {
		run, err := api.GetRun.Get(t.Context(), w.client(token), strings.TrimPrefix(path, "/nexus/runs/"))
		if err != nil {
			t.Fatal(err)
		}
		return api.Value(run.Outcomes)
	}
	if page := b.get(path).body; !strings.Contains(page, `value="accepted"`) || !strings.Contains(page, `value="rejected"`) {
		t.Fatalf("no form is offered:\n%s", page)
	}
	if page := b.get(path).body; !strings.Contains(page, "sealed again without a signature") || !strings.Contains(page, "<code>remit accept</code>") {
		t.Error("the page does not say what becomes of the signature")
	}
	attacks := w.attacks(b, reader, path+"/outcome", form)
	attacks["another word"] = func() got { return b.do("POST", path+"/outcome", form("outcome", "forgotten")) }
	attacks["no reason"] = func() got { return b.do("POST", path+"/outcome", form("reason", " \n ")) }
	attacks["a long reason"] = func() got { return b.do("POST", path+"/outcome", form("reason", strings.Repeat("x", 501))) }
	attacks["another user"] = func() got {
		bob := w.login(w.token("bob", authority.ScopeRead, authority.ScopeRuns))
		return bob.do("POST", path+"/outcome", form("csrf", bob.csrf))
	}
	for name, try := range attacks {
		if out := try(); out.status < 400 || out.status >= 500 || len(given()) > 0 {
			t.Errorf("%s: status %d, %+v", name, out.status, given())
		}
	}
	if strings.Contains(w.login(reader).get(path).body, `name="outcome"`) {
		t.Error("a form is offered to who may not decide")
	}
	for range 2 { // a double click is one effect
		if out := b.do("POST", path+"/outcome", form()); out.status != http.StatusSeeOther || out.header.Get("Location") != path {
			t.Fatalf("status %d to %q: %s", out.status, out.header.Get("Location"), out.body)
		}
	}
	page := b.get(path).body
	if got := given(); len(got) != 1 || got[0].Principal != "user:alice" || strings.Contains(page, `name="outcome"`) || !strings.Contains(page, "<b>accepted</b> by user:alice") ||
		!strings.Contains(page, "read evil&#34;") || len(faults(t, page)) != 0 || !strings.Contains(page, "from its sealed bundle") {
		t.Errorf("%+v, %q\n%s", got, faults(t, page), page)
	}
	second := w.login(token) // another browser
	late := second.do("POST", path+"/outcome", form("csrf", second.csrf, "key", "later", "outcome", "rejected"))
	if late.status != http.StatusConflict || !strings.Contains(late.body, "already accepted by user:alice at ") || len(given()) != 1 {
		t.Errorf("who comes later: %d %s", late.status, late.body)
	}
	path = "/nexus/runs/" + w.ended(token, "two", "fail")
	if page := b.get(path).body; strings.Contains(page, `value="accepted"`) || !strings.Contains(page, "A run that did not pass cannot be accepted.") {
		t.Error("a run that failed may be accepted")
	}
	if out := b.do("POST", path+"/outcome", form("key", "k")); out.status != http.StatusConflict || len(given()) > 0 {
		t.Errorf("a run that failed is accepted: %d", out.status)
	}
	if out := b.do("POST", path+"/outcome", form("key", "k", "outcome", "rejected")); out.status != http.StatusSeeOther || len(given()) != 1 {
		t.Errorf("a run that failed is rejected: %d", out.status)
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
	told := w.tell(alice, "told", "secret-of-alice", sealedJournal(t, "pass"), nil)
	mine, other := w.login(alice), w.login(bob)
	for _, path := range []string{"/approvals/" + a.ApprovalID, "/nexus/runs/" + run.RunID, "/nexus/runs/" + told} {
		if out := mine.get(path); out.status != http.StatusOK || !strings.Contains(out.body, "secret-of-alice") {
			t.Errorf("%s: %d for its owner", path, out.status)
		}
		if out := other.get(path); out.status != http.StatusNotFound || strings.Contains(out.body, "secret-of-alice") {
			t.Errorf("%s: %d for another user", path, out.status)
		}
	}
	seen := 0
	for _, path := range append(pagesOf(t, "none", "none", a.ApprovalID, run.RunID, told), "/?from=nexus&q=secret-of-alice", "/?from=nexus&repository=secret-of-alice") {
		path, _, _ = strings.Cut(path, "#")
		if strings.Contains(mine.get(path).body, ">secret-of-alice<") {
			seen++
		}
		if strings.Contains(strings.ReplaceAll(other.get(path).body, `"secret-of-alice"`, ""), ">secret-of-alice<") {
			t.Errorf("%s shows what is alice's", path)
		}
	}
	if seen < 5 {
		t.Errorf("alice sees her own on %d pages only", seen)
	}
}

// TestSeveralSessions: who plants a second session cookie, of a neighbour of this host
// or on the network, gets no page shown as either of the two.
func TestSeveralSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	alice, mallory := w.login(w.token("alice", authority.ScopeRead)), w.login(w.token("mallory", authority.ScopeRead))
	for name, cookies := range map[string][]*http.Cookie{"planted first": {mallory.cookie, alice.cookie}, "planted last": {alice.cookie, mallory.cookie}} {
		text := cookies[0].Name + "=" + cookies[0].Value + "; " + cookies[1].Name + "=" + cookies[1].Value
		both := &browser{w: w, header: http.Header{"Cookie": {text}}}
		for _, path := range pagesOf(t, "none", "none", "none", "none") {
			if out := both.get(path); out.status != http.StatusSeeOther || strings.Contains(out.body, "user:") {
				t.Errorf("%s, %s: %d", name, path, out.status)
			}
		}
		one := &browser{w: w, header: http.Header{"Cookie": {cookies[0].Name + "=" + cookies[0].Value}}}
		if out := one.get("/health"); out.status != http.StatusOK || !strings.Contains(out.body, "user:") { // the control
			t.Errorf("%s alone: %d", name, out.status)
		}
	}
}

// TestTicketThroughThePages: the word that a page gets for a lane opens it once, for
// that lane, and not without the session that asked for it.
func TestTicketThroughThePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	run := w.tell(token, "told", "acme/links", sealedJournal(t, "pass"), nil)
	b := w.login(token)
	topic := "run:" + run + ":events"
	ticket := func() string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/lanes/tickets", strings.NewReader(`{"topic":"`+topic+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Origin": w.url, "Idempotency-Key": api.NewKey(), api.HeaderCSRF: b.csrf} {
			r.Header.Set(name, value)
		}
		r.AddCookie(b.cookie)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var got api.Ticket
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Ticket == "" {
			t.Fatalf("status %d, %v", resp.StatusCode, err)
		}
		return got.Ticket
	}
	opens := func(topic, word string) bool {
		conn, resp, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(w.url, "http")+"/v1/lanes/"+url.PathEscape(topic)+"?after_seq=0",
			&websocket.DialOptions{Subprotocols: []string{"remit.lane.v1", "remit.ticket." + word}, HTTPHeader: http.Header{"Origin": {w.url}}})
		if err != nil {
			return false
		}
		_ = resp
		return conn.CloseNow() == nil
	}
	word := ticket()
	if !opens(topic, word) { // the control
		t.Fatal("a new ticket opens no lane")
	}
	if opens(topic, word) {
		t.Error("a ticket opens a lane twice")
	}
	if opens("run:another:events", ticket()) || opens(topic, "") || opens(topic, strings.Repeat("0", len(word))) {
		t.Error("a lane opens without its ticket")
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
