//go:build !race

package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/nexus/authority"
)

// TestPagesEscapeEveryString looks at every page with hostile words in every place
// where an agent, a repository, an issue, a provider or a model can put some.
func TestPagesEscapeEveryString(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hostileHome(), true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns, authority.ScopeApprove)
	client := w.client(token)
	approval, err := api.RequestApproval.Do(t.Context(), client, "k1", api.None{}, api.ApprovalRequest{Contract: contract(t), RepoRef: "evil<script>alert(1)</script>"})
	if err != nil {
		t.Fatal(err)
	}
	run, err := api.CreateRun.Do(t.Context(), client, "k2", api.None{}, api.RunRequest{RepoRef: "evil<script>alert(1)</script>", IssueRef: api.Optional("evil<img src=x>")})
	if err != nil {
		t.Fatal(err)
	}
	told := w.tell(token, "k3", "evil<script>alert(1)</script>", sealedJournal(t, "pass"), hostileSummary)
	b := w.login(token)
	id := "20261123T100000Z-b-2"
	ask := url.Values{"q": {hostile}}.Encode()
	for _, path := range append(pagesOf(t, id, "20261123T100000Z-a-1", approval.Value.ApprovalID, run.RunID, told), "/?"+ask, "/?engine="+url.QueryEscape(hostile), "/runs/"+id+"?audit=1",
		"/runs/"+id+"/log/test.log?"+ask, "/runs/"+id+"/log/evil.html", "/?from=nexus&"+ask, "/?from=nexus&engine="+url.QueryEscape(hostile), "/new?task="+url.QueryEscape(hostile),
		"/runs/"+url.PathEscape(hostile), "/approvals/"+url.PathEscape("<script>"), "/login?next="+url.QueryEscape(hostile)) {
		out := b.get(path)
		if out.status >= 500 {
			t.Errorf("%s: status %d", path, out.status)
		}
		if got := faults(t, out.body); len(got) != 0 {
			t.Errorf("%s has %q", path, slices.Compact(got))
		}
		// The control: what was written is on the page, as text.
		if strings.HasPrefix(path, "/runs/"+id) && !strings.Contains(path, "evil.html") && !strings.Contains(out.body, "evil") {
			t.Errorf("%s does not show the words at all", path)
		}
	}
	if out := b.get("/approvals/" + approval.Value.ApprovalID); !strings.Contains(out.body, "&lt;script&gt;alert(1)") {
		t.Errorf("the contract is not shown word for word:\n%s", out.body)
	}
}

// TestEveryAnswerIsProtected checks the headers of every page, and of what refuses.
func TestEveryAnswerIsProtected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hostileHome(), true)
	b := w.login(w.token("alice", authority.ScopeRead))
	for _, path := range append(pagesOf(t, "20261123T100000Z-b-2", "20261123T100000Z-a-1", "none", "none"), "/login", "/runs/none", "/runs/20261123T100000Z-b-2/artifact/none", "/assets/none", "/live") {
		h := b.get(path).header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy lacks %s: %s", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: %s", path, csp)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", path, name, h.Get(name), want)
			}
		}
	}
	// The control: the API is served as before, and has no page's policy.
	if out := b.get("/healthz"); out.status != http.StatusOK || out.header.Get("Content-Security-Policy") != "" {
		t.Errorf("healthz: %d %q", out.status, out.header.Get("Content-Security-Policy"))
	}
	for name := range assetMedia {
		if out := b.get("/assets/" + name); out.status != http.StatusOK || !strings.Contains(out.header.Get("Cache-Control"), "immutable") {
			t.Errorf("asset %s: %d %v", name, out.status, out.header)
		}
	}
}

// TestNothingIsShownWithoutALogin holds every page against a stranger.
func TestNothingIsShownWithoutALogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hostileHome(), true)
	stranger := &browser{w: w}
	for _, path := range append(pagesOf(t, "20261123T100000Z-b-2", "20261123T100000Z-a-1", "none", "none"), "/runs/20261123T100000Z-b-2/artifact/test.log") {
		out := stranger.get(path)
		if out.status != http.StatusSeeOther || !strings.HasPrefix(out.header.Get("Location"), "/login?next=") || strings.Contains(out.body, "alert(1)") {
			t.Errorf("%s: %d to %q", path, out.status, out.header.Get("Location"))
		}
	}
	if out := w.login(w.token("alice", authority.ScopeRead)).get("/runs/20261123T100000Z-b-2"); out.status != http.StatusOK || !strings.Contains(out.body, "alert(1)") {
		t.Errorf("who is logged in sees nothing: %d", out.status)
	}
}

// TestArtifactsAreNeverDocuments: whatever a file is called, it is a download.
func TestArtifactsAreNeverDocuments(t *testing.T) {
	t.Parallel()
	home := hostileHome()
	w := newWorld(t, home, true)
	b := w.login(w.token("alice", authority.ScopeRead))
	for _, name := range []string{"evil.html", "evil.svg", "test.log"} {
		out := b.get("/runs/20261123T100000Z-b-2/artifact/" + name)
		if out.status != http.StatusOK || out.body != home.files[name] {
			t.Errorf("%s: %d, %d bytes", name, out.status, len(out.body))
		}
		if h := out.header; h.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment;") ||
			!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s is served as %v", name, h)
		}
	}
	if got := fileName("abc", "../../x\"\r\nSet-Cookie: a.html"); strings.ContainsAny(got, "\"\r\n/:") {
		t.Errorf("file name %q", got)
	}
}

// TestHomeIsForThisMachine: sessions of the home are for who is here, under a name
// that can only be here, or has the scope.
func TestHomeIsForThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hostileHome(), true)
	b := w.login(w.token("alice", authority.ScopeRead))
	strong := []*browser{b, w.login(w.token("root", authority.ScopeAdmin)), w.login(w.token("bob", authority.ScopeRead, authority.ScopeHome))}
	paths := []string{"/runs/20261123T100000Z-b-2", "/runs/20261123T100000Z-b-2/artifact/test.log", "/runs/20261123T100000Z-b-2/log/test.log",
		"/runs/20261123T100000Z-b-2/journal", "/runs/20261123T100000Z-b-2/changes", "/compare?run=20261123T100000Z-b-2"}
	for name, change := range map[string]func(*browser){
		"another name of this machine": func(b *browser) { b.host = "evil.example" },
		"a name that begins alike":     func(b *browser) { b.host = "127.0.0.1.evil.example" },
		"through a proxy":              func(b *browser) { b.header = http.Header{"X-Forwarded-For": {"203.0.113.9"}} },
		"through another proxy":        func(b *browser) { b.header = http.Header{"Forwarded": {"for=203.0.113.9"}} },
	} {
		for who, login := range strong {
			other := &browser{w: w, cookie: login.cookie}
			change(other)
			for _, path := range paths {
				if out := other.get(path); out.status != http.StatusNotFound || strings.Contains(out.body, "evil\"") {
					t.Errorf("%s: %d: %s: %d", name, who, path, out.status)
				}
			}
			if out := other.get("/"); strings.Contains(out.body, "This machine") || strings.Contains(out.body, "/runs/2026") {
				t.Errorf("%s: %d: the list shows sessions", name, who)
			}
		}
	}
	for who, login := range strong { // the control
		if out := login.get(paths[0]); out.status != http.StatusOK {
			t.Errorf("%d: %d for who is here", who, out.status)
		}
	}
	shown := newWorldWith(t, hostileHome(), true, nil, func(o *Options) { o.ShowHome = true })
	for scope, want := range map[string]int{authority.ScopeRead: http.StatusNotFound, authority.ScopeAdmin: http.StatusOK, authority.ScopeHome: http.StatusOK} {
		proxied := shown.login(shown.token("alice", authority.ScopeRead, scope))
		proxied.header = http.Header{"X-Forwarded-For": {"203.0.113.9"}}
		if out := proxied.get(paths[0]); out.status != want {
			t.Errorf("with --show-home and %s: %d through a proxy", scope, out.status)
		}
	}
	far := newWorld(t, hostileHome(), false)
	for _, path := range paths {
		if out := b.get(path); out.status != http.StatusOK { // the control
			t.Errorf("%s: %d for who is here", path, out.status)
		}
		if out := far.login(far.token("alice", authority.ScopeRead)).get(path); out.status != http.StatusNotFound {
			t.Errorf("%s: %d on a listener that others reach", path, out.status)
		}
	}
	// Only what a page can follow is live.
	if !strings.Contains(b.get("/").body, `data-live="home"`) || strings.Contains(b.get("/?from=nexus").body, "data-live") {
		t.Error("the list of sessions is not followed, or that of the nexus is")
	}
	// The scope is given by an administrator, in a token that was asked for it.
	admin := far.client(far.token("admin", authority.ScopeAdmin))
	made, err := api.CreateToken.Do(t.Context(), admin, "k1", api.None{}, api.TokenRequest{Kind: api.TokenRequestKindUser, Owner: api.Optional("bob"),
		Scopes: &[]api.Scope{api.ScopeHomeRead, api.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := api.CreateToken.Do(t.Context(), admin, "k2", api.None{}, api.TokenRequest{Kind: api.TokenRequestKindUser, Owner: api.Optional("bob")})
	if err != nil {
		t.Fatal(err)
	}
	bob := far.client(made.Token)
	if _, err := api.CreateToken.Do(t.Context(), bob, "k3", api.None{}, api.TokenRequest{Kind: api.TokenRequestKindUser, Scopes: &[]api.Scope{api.ScopeHomeRead}}); err == nil {
		t.Error("who has the scope hands it on")
	}
	with, without, hidden := far.login(made.Token), far.login(plain.Token), newWorld(t, nil, false)
	for _, path := range paths {
		if out := with.get(path); out.status != http.StatusOK {
			t.Errorf("%s: %d with the scope", path, out.status)
		}
		if out := without.get(path); out.status != http.StatusNotFound {
			t.Errorf("%s: %d for a token that was made without the scope", path, out.status)
		}
		if out := hidden.login(hidden.token("bob", authority.ScopeRead, authority.ScopeHome)).get(path); out.status != http.StatusNotFound {
			t.Errorf("%s: %d on a server that shows no home", path, out.status)
		}
	}
	if out := with.get("/"); !strings.Contains(out.body, `href="/runs/2026`) {
		t.Error("the list has no session for who has the scope")
	}
}

// TestRefusalsInABrowser: a person who looks for what is not there gets a page, and
// a program what the API says.
func TestRefusalsInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	b := w.login(w.token("alice", authority.ScopeRead))
	for _, path := range []string{"/nothing<script>alert(1)</script>", "/v1/nothing", "/v1/runs/none", "/favicon.ico"} {
		for name, who := range map[string]*browser{"a person": b, "a stranger": {w: w}} {
			out := (&browser{w: w, cookie: who.cookie, header: http.Header{"Accept": {"text/html,application/xhtml+xml,*/*;q=0.8"}}}).get(path)
			if out.status < 400 || out.header.Get("Content-Type") != "text/html; charset=utf-8" || out.header.Get("Content-Security-Policy") == "" ||
				len(faults(t, out.body)) > 0 || !strings.Contains(out.body, "<dt class=\"lab\">Request</dt>") {
				t.Errorf("%s, %s: %d %v\n%s", name, path, out.status, out.header, out.body)
			}
		}
		if out := b.get(path); out.header.Get("Content-Type") != api.ProblemType {
			t.Errorf("a program, %s: %q", path, out.header.Get("Content-Type"))
		}
	}
	asks := http.Header{"Accept": {"text/html"}}
	if out := (&browser{w: w, header: asks}).get("/healthz"); out.status != http.StatusOK || !strings.HasPrefix(out.body, "{") {
		t.Errorf("an answer is not handed through: %d %s", out.status, out.body)
	}
}
