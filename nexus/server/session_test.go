package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/lanes"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/nexus/treasury"
)

// browser is what a browser keeps of a login, and sends.
type browser struct {
	cookie string // name=value
	csrf   string
	origin string
}

// header is what it sends for a page of the server.
func (b browser) header() http.Header {
	h := http.Header{}
	for name, value := range map[string]string{"Cookie": b.cookie, "Origin": b.origin, api.HeaderCSRF: b.csrf} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return h
}

func (b browser) call(method, path, key, body string) call {
	c := call{method: method, path: path, key: key, body: body, header: b.header()}
	if body != "" {
		c.contentType = "application/json"
	}
	return c
}

// loginCall is the request of a login form.
func (w *world) loginCall(token, key string) call {
	c := post("/v1/sessions", "", key, `{"token":"`+token+`"}`)
	c.header = http.Header{"Origin": {w.url}}
	return c
}

// login opens a session.
func (w *world) login(token string) browser {
	w.t.Helper()
	return w.opened(w.do(w.loginCall(token, api.NewKey())).want(w.t, 201, ""))
}

func (w *world) opened(s seen) browser {
	w.t.Helper()
	b := browser{csrf: s.field(w.t, "csrf_token"), origin: w.url}
	b.cookie, _, _ = strings.Cut(s.header.Get("Set-Cookie"), ";")
	if b.csrf == "" || b.cookie == "" {
		w.t.Fatalf("no session: %v %s", s.header, s.body)
	}
	return b
}

// TestSessionOfABrowser logs in, reads, changes something, watches, logs out.
func TestSessionOfABrowser(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		w := newWorld(t, open(), Options{Lanes: lanes.Options{Ping: 20 * time.Millisecond}})
		in := w.do(w.loginCall(w.alice, "in")).want(t, 201, "")
		cookie := in.header.Get("Set-Cookie")
		for _, part := range []string{cookiePlain + "=rmt_session_", "; Path=/", "; HttpOnly", "; SameSite=Strict", "; Max-Age="} {
			if !strings.Contains(cookie, part) {
				t.Errorf("no %q in %s", part, cookie)
			}
		}
		if strings.Contains(cookie, "Secure") || strings.Contains(cookie, "Domain") || strings.Contains(in.body, "rmt_session_") {
			t.Errorf("%s\n%s", cookie, in.body)
		}
		b := w.opened(in)
		now := w.do(b.call("GET", "/v1/sessions/current", "", "")).want(t, 200, "")
		if now.body != in.body || now.field(t, "principal") != "user:alice" || now.header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s\n%s", in.body, now.body)
		}
		if who := w.do(b.call("GET", "/v1/whoami", "", "")).want(t, 200, ""); who.field(t, "kind") != "panel" || who.field(t, "owner") != "alice" {
			t.Errorf("%s", who.body)
		}
		w.do(get("/v1/sessions/current", w.alice)).want(t, 404, "not_found")

		// The key belongs to the principal, however it asks.
		run := w.do(b.call("POST", "/v1/runs", "k", `{"repo_ref":"r"}`)).want(t, 201, "")
		again := w.do(post("/v1/runs", w.alice, "k", `{"repo_ref":"r"}`)).want(t, 201, "")
		if !again.replayed || again.body != run.body {
			t.Errorf("%s\n%s", run.body, again.body)
		}

		other := w.login(w.alice)
		topic := "run:" + run.field(t, "run_id") + ":events"
		ticket := w.do(b.call("POST", "/v1/lanes/tickets", "t", `{"topic":"`+topic+`"}`)).want(t, 201, "").field(t, "ticket")
		conn, _, err := websocket.Dial(t.Context(), w.url+"/v1/lanes/"+topic, &websocket.DialOptions{
			Subprotocols: []string{api.LaneProtocol, api.TicketPrefix + ticket}, HTTPHeader: http.Header{"Origin": {w.url}, "Cookie": {b.cookie}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.CloseNow() }()
		nextFrame(t, conn)
		unused := w.do(b.call("POST", "/v1/lanes/tickets", "t2", `{"topic":"`+topic+`"}`)).want(t, 201, "").field(t, "ticket")

		out := w.do(b.call("DELETE", "/v1/sessions", "out", "")).want(t, 200, "")
		if gone := out.header.Get("Set-Cookie"); !strings.HasPrefix(gone, cookiePlain+"=;") || !strings.Contains(gone, "Max-Age=0") {
			t.Errorf("the cookie stays: %s", gone)
		}
		w.do(b.call("GET", "/v1/whoami", "", "")).want(t, 401, "token_expired")
		w.do(b.call("POST", "/v1/runs", "k", `{"repo_ref":"r"}`)).want(t, 401, "token_expired")
		// The answer to the request that ended it is repeated, and nothing else.
		if again := w.do(b.call("DELETE", "/v1/sessions", "out", "")).want(t, 200, ""); !again.replayed || again.body != out.body {
			t.Errorf("%s\n%s", out.body, again.body)
		}
		w.do(b.call("DELETE", "/v1/sessions", "out2", "")).want(t, 401, "token_expired")
		// The same key in another session ends nothing, and does not say that it did.
		w.do(other.call("DELETE", "/v1/sessions", "out", "")).want(t, 422, "idempotency_key_reused")
		w.do(other.call("GET", "/v1/whoami", "", "")).want(t, 200, "")
		w.do(call{method: "DELETE", path: "/v1/sessions", token: w.alice, key: "none"}).want(t, 404, "not_found")

		// Lanes and tickets end with the session.
		if status := closed(t, conn); status != websocket.StatusPolicyViolation {
			t.Errorf("the lane ended with %v", status)
		}
		_, resp, err := websocket.Dial(t.Context(), w.url+"/v1/lanes/"+topic, &websocket.DialOptions{Subprotocols: []string{api.LaneProtocol, api.TicketPrefix + unused}})
		if err == nil || resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("a ticket of an ended session: %v %v", resp, err)
		}
	})
}

// closed reads a lane to its end.
func closed(t *testing.T, conn *websocket.Conn) websocket.StatusCode {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// TestLoginIsAnsweredAgain repeats a login: the same session, the same cookie,
// once; nothing when it has ended; and no secret in the stored answer.
func TestLoginIsAnsweredAgain(t *testing.T) {
	w := one(t, Options{})
	ask := w.loginCall(w.alice, "k")
	first := w.do(ask).want(t, 201, "")
	b := w.opened(first)
	again := w.do(ask).want(t, 201, "")
	if !again.replayed || again.body != first.body || w.opened(again).cookie != b.cookie {
		t.Errorf("%v %v\n%s\n%s", first.header, again.header, first.body, again.body)
	}
	sessions := func() (n int) {
		if err := w.store.View(t.Context(), func(tx *store.Tx) error {
			list, err := tx.OpenSessions("user:alice")
			n = len(list)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := sessions(); n != 1 {
		t.Errorf("%d sessions", n)
	}
	var stored []byte
	if err := w.store.View(t.Context(), func(tx *store.Tx) error {
		claim, err := tx.Idempotency(store.Key{Principal: "user:alice", Method: "POST", Route: "/v1/sessions", Key: "k"})
		if err == nil {
			stored = claim.Response.Body
		}
		return err
	}); err != nil || len(stored) == 0 {
		t.Fatalf("%q %v", stored, err)
	}
	for name, secret := range map[string]string{"cookie": b.cookie[len(b.cookie)-43:], "CSRF token": b.csrf, "token": w.alice[len(w.alice)-43:]} {
		if strings.Contains(string(stored), secret) {
			t.Errorf("the stored answer holds the %s", name)
		}
	}
	// The key without the token gets nothing.
	w.do(w.loginCall(w.mint(personGrant("alice")), "k")).want(t, 422, "idempotency_key_reused")
	w.do(w.loginCall("rmt_user_"+strings.Repeat("0", 24)+"_"+strings.Repeat("A", 43), "k")).want(t, 401, "unauthenticated")

	w.do(b.call("DELETE", "/v1/sessions", "out", "")).want(t, 200, "")
	late := w.do(ask).want(t, 201, "")
	if late.body != first.body || late.header.Get("Set-Cookie") != "" || sessions() != 0 {
		t.Errorf("a repeat revived a session: %v", late.header)
	}
	w.do(b.call("GET", "/v1/whoami", "", "")).want(t, 401, "token_expired")
}

// TestCookieAloneChangesNothing tries every mutation with a session's cookie and
// without the rest, as a page of another origin would send it.
func TestCookieAloneChangesNothing(t *testing.T) {
	w := one(t, Options{})
	b := w.login(w.admin)
	other := w.login(w.admin)
	attacks := []struct {
		name   string
		change func(http.Header)
		code   string
	}{
		{"no CSRF token", func(h http.Header) { h.Del(api.HeaderCSRF) }, "csrf_refused"},
		{"an empty one", func(h http.Header) { h.Set(api.HeaderCSRF, "") }, "csrf_refused"},
		{"a wrong one", func(h http.Header) { h.Set(api.HeaderCSRF, strings.Repeat("A", 43)) }, "csrf_refused"},
		{"that of another session", func(h http.Header) { h.Set(api.HeaderCSRF, other.csrf) }, "csrf_refused"},
		{"two", func(h http.Header) { h.Add(api.HeaderCSRF, "x") }, "csrf_refused"},
		{"the cookie itself", func(h http.Header) { h.Set(api.HeaderCSRF, strings.TrimPrefix(b.cookie, cookiePlain+"=")) }, "csrf_refused"},
		{"no Origin", func(h http.Header) { h.Del("Origin") }, "origin_refused"},
		{"another site", func(h http.Header) { h.Set("Origin", "https://evil.example") }, "origin_refused"},
		{"a sandboxed page", func(h http.Header) { h.Set("Origin", "null") }, "origin_refused"},
		{"another port", func(h http.Header) { h.Set("Origin", "http://127.0.0.1:1") }, "origin_refused"},
		{"a name that begins alike", func(h http.Header) { h.Set("Origin", w.url+".evil.example") }, "origin_refused"},
		{"our name as a user", func(h http.Header) { h.Set("Origin", w.url+"@evil.example") }, "origin_refused"},
		{"our name as a path", func(h http.Header) { h.Set("Origin", "http://evil.example/"+w.url) }, "origin_refused"},
		{"more than an origin", func(h http.Header) { h.Set("Origin", w.url+"/") }, "origin_refused"},
		{"an origin with a user", func(h http.Header) { h.Set("Origin", strings.Replace(w.url, "//", "//x@", 1)) }, "origin_refused"},
		{"another scheme", func(h http.Header) { h.Set("Origin", strings.Replace(w.url, "http", "ftp", 1)) }, "origin_refused"},
		{"two origins", func(h http.Header) { h.Add("Origin", "https://evil.example") }, "origin_refused"},
	}
	count := 0
	for _, rt := range w.server.table() {
		if !rt.Mutates() || rt.Scope == scopeNone {
			continue
		}
		count++
		for _, a := range attacks {
			if rt.ID != "createToken" && a.name != "no CSRF token" && a.name != "another site" {
				continue // all on the one that is worth most, the two that matter on each
			}
			c := b.call(rt.Method, filled(rt.Path), "k", "{}")
			a.change(c.header)
			if got := w.do(c); got.status != 403 || got.problem.Code != a.code {
				t.Errorf("%s with %s: %d %s", rt.ID, a.name, got.status, got.body)
			}
		}
	}
	if count < 20 {
		t.Errorf("%d mutations: the test proves little", count)
	}
	// Reading is allowed, and the refusals were not the answer to the key.
	w.do(call{method: "GET", path: "/v1/runs", header: http.Header{"Cookie": {b.cookie}}}).want(t, 200, "")
	if got := w.do(b.call("POST", "/v1/runs", "k", `{"repo_ref":"r"}`)).want(t, 201, ""); got.replayed {
		t.Error("a refusal was stored")
	}
}

// TestLoginOfAnotherSite tries to log a browser in from outside.
func TestLoginOfAnotherSite(t *testing.T) {
	w := one(t, Options{Lanes: lanes.Options{Origins: []string{"panel.example.com"}}})
	tests := []struct {
		name   string
		change func(*call)
		status int
		code   string
	}{
		{"another site", func(c *call) { c.header.Set("Origin", "https://evil.example") }, 403, "origin_refused"},
		{"a sandboxed page", func(c *call) { c.header.Set("Origin", "null") }, 403, "origin_refused"},
		{"no Origin", func(c *call) { c.header.Del("Origin") }, 403, "origin_refused"},
		{"a form", func(c *call) { c.contentType, c.body = "application/x-www-form-urlencoded", "token="+w.alice }, 415, "content_type_refused"},
		{"a form that looks like JSON", func(c *call) { c.contentType = "text/plain" }, 415, "content_type_refused"},
		{"the token in the URL", func(c *call) { c.path, c.body = c.path+"?token="+w.alice, "{}" }, 400, "request_invalid"},
		{"more than a token", func(c *call) { c.body = `{"token":"` + w.alice + `","owner":"bob"}` }, 400, "request_invalid"},
		{"a huge body", func(c *call) { c.body = `{"token":"` + strings.Repeat("x", maxLogin) + `"}` }, 413, "request_too_large"},
		{"no key", func(c *call) { c.key = "" }, 400, "idempotency_key_missing"},
		{"a registration token", func(c *call) {
			c.body = `{"token":"` + w.mint(identity.Grant{Kind: authority.Registration, Owner: "alice", OneTime: true}) + `"}`
		}, 403, "forbidden"},
		{"a provider's token", func(c *call) {
			c.body = `{"token":"` + w.mint(identity.Grant{Kind: authority.Provider, Owner: "alice"}) + `"}`
		}, 403, "forbidden"},
		{"a page of an --origin", func(c *call) { c.header.Set("Origin", "https://panel.example.com") }, 201, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := w.loginCall(w.alice, api.NewKey())
			test.change(&c)
			got := w.do(c).want(t, test.status, test.code)
			if cookie := got.header.Get("Set-Cookie"); (cookie != "") != (test.status == 201) {
				t.Errorf("cookie %q", cookie)
			}
		})
	}
	// A browser that sees TLS at the proxy gets the cookie for TLS.
	c := w.loginCall(w.alice, api.NewKey())
	c.header.Set("Origin", "https://panel.example.com")
	b := w.opened(w.do(c))
	b.origin = "https://panel.example.com"
	if !strings.HasPrefix(b.cookie, cookieSecure+"=") {
		t.Errorf("cookie %s", b.cookie)
	}
	w.do(b.call("POST", "/v1/runs", "k", `{"repo_ref":"r"}`)).want(t, 201, "")
}

// TestLoginGuessingIsSlow counts refused logins like refused tokens, and refused
// cookies apart from them.
func TestLoginGuessingIsSlow(t *testing.T) {
	w := one(t, Options{Failures: Rate{PerSecond: 0.01, Burst: 4}})
	stale := browser{cookie: cookiePlain + "=" + strings.Repeat("x", 30)}
	for range 4 {
		w.do(stale.call("GET", "/v1/whoami", "", "")).want(t, 401, "unauthenticated")
	}
	w.do(stale.call("GET", "/v1/whoami", "", "")).want(t, 429, "rate_limited")
	w.do(get("/v1/whoami", w.alice)).want(t, 200, "") // the machine's programs go on
	w.login(w.alice)
	for range 4 {
		w.do(w.loginCall("guess", "k")).want(t, 401, "unauthenticated")
	}
	w.do(w.loginCall("guess", "k")).want(t, 429, "rate_limited")
	w.do(get("/v1/whoami", "rmt_user_x")).want(t, 429, "rate_limited")
	w.login(w.alice) // what is good is not refused for that
}

// TestCookieTricks sends cookies that no honest browser would.
func TestCookieTricks(t *testing.T) {
	w := one(t, Options{})
	alice, bob := w.login(w.alice), w.login(w.bob)
	who := func(c call) seen { return w.do(c) }
	with := func(cookie, token string) call {
		c := get("/v1/whoami", token)
		c.header = http.Header{"Cookie": {cookie}}
		return c
	}
	secret := strings.TrimPrefix(alice.cookie, cookiePlain+"=")
	who(with(alice.cookie+"; theme=dark", "")).want(t, 200, "")
	for name, cookie := range map[string]string{
		"planted beside":      bob.cookie + "; " + alice.cookie,
		"twice":               alice.cookie + "; " + alice.cookie,
		"a token":             cookiePlain + "=" + w.alice,
		"the CSRF token":      cookiePlain + "=" + alice.csrf,
		"cut":                 alice.cookie[:len(alice.cookie)-1],
		"empty":               cookiePlain + "=",
		"another name":        "session=" + secret,
		"large":               cookiePlain + "=" + strings.Repeat("x", 20_000),
		"many":                strings.Repeat(cookiePlain+"=x; ", 1000) + alice.cookie,
		"another one's id":    cookiePlain + "=" + strings.Replace(secret, strings.Split(secret, "_")[2], strings.Split(bob.cookie, "_")[3], 1),
		"for TLS, and wrong":  cookieSecure + "=x; " + alice.cookie,
		"many that are alike": strings.Repeat("a=b; ", 3500) + alice.cookie,
	} {
		if got := who(with(cookie, "")); got.status != 401 || got.problem.Code != "unauthenticated" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := who(with(cookiePlain+"="+strings.Repeat("x", 2*maxHeader), "")); got.status != 431 {
		t.Errorf("a huge cookie: %d", got.status)
	}
	// The token counts when both are there, right or wrong.
	if got := who(with(alice.cookie, w.bob)).want(t, 200, ""); got.field(t, "owner") != "bob" {
		t.Errorf("%s", got.body)
	}
	who(with(alice.cookie, "rmt_user_x")).want(t, 401, "unauthenticated")
	who(get("/v1/whoami", secret)).want(t, 401, "unauthenticated")
	both := post("/v1/runs", w.bob, "k", `{"repo_ref":"r"}`)
	both.header = http.Header{"Cookie": {alice.cookie}} // no CSRF token: the token needs none
	w.do(both).want(t, 201, "")
}

// TestSessionFixation plants a session before a login.
func TestSessionFixation(t *testing.T) {
	w := one(t, Options{})
	planted := w.login(w.bob)
	c := w.loginCall(w.alice, "k")
	c.header.Set("Cookie", planted.cookie)
	b := w.opened(w.do(c).want(t, 201, ""))
	if b.cookie == planted.cookie || b.csrf == planted.csrf {
		t.Error("the login took over the session that was there")
	}
	if got := w.do(planted.call("GET", "/v1/whoami", "", "")); got.field(t, "owner") != "bob" {
		t.Errorf("the planted session has become another's: %s", got.body)
	}
	c = w.loginCall(w.alice, "k2")
	c.header.Set("Cookie", cookiePlain+"=rmt_session_"+strings.Repeat("0", 24)+"_"+strings.Repeat("A", 43))
	if b := w.opened(w.do(c).want(t, 201, "")); strings.Contains(b.cookie, strings.Repeat("0", 24)) {
		t.Error("the login took the id that was there")
	}
}

// TestStolenSession uses a session for what is not its owner's, and for more
// than its token allows.
func TestStolenSession(t *testing.T) {
	w := one(t, Options{})
	run := w.do(post("/v1/runs", w.bob, "k", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	b := w.login(w.alice)
	for _, path := range []string{"", "/events", "/receipts", "/jobs", "/replay", "/receipt", "/bundle"} {
		w.do(b.call("GET", "/v1/runs/"+run+path, "", "")).want(t, 404, "not_found")
	}
	w.do(b.call("POST", "/v1/runs/"+run+"/finish", "f", `{"status":"failed"}`)).want(t, 404, "not_found")
	w.do(b.call("POST", "/v1/lanes/tickets", "t", `{"topic":"run:`+run+`:events"}`)).want(t, 404, "lane_unknown")
	w.do(b.call("POST", "/v1/runs", "o", `{"repo_ref":"r","owner":"bob"}`)).want(t, 403, "forbidden")
	w.do(b.call("POST", "/v1/treasury/reconcile", "r", `{}`)).want(t, 403, "scope_missing")

	reader := personGrant("alice")
	reader.Scopes = []string{authority.ScopeRead}
	b = w.login(w.mint(reader))
	w.do(b.call("GET", "/v1/runs", "", "")).want(t, 200, "")
	w.do(b.call("POST", "/v1/runs", "k", `{"repo_ref":"r"}`)).want(t, 403, "scope_missing")
}

// TestSessionsEnd lets sessions end by time, by use and by their token.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{})
		grant := personGrant("dora")
		grant.TTL = 2 * time.Hour
		made := w.mint(grant)
		idle, busy := w.login(made), w.login(made)
		for at := time.Duration(0); at < grant.TTL; at += identity.SessionIdle / 2 {
			w.do(busy.call("GET", "/v1/whoami", "", "")).want(t, 200, "")
			clock.Advance(identity.SessionIdle / 2)
		}
		w.do(idle.call("GET", "/v1/whoami", "", "")).want(t, 401, "token_expired")
		w.do(busy.call("GET", "/v1/whoami", "", "")).want(t, 401, "token_expired")
		w.do(busy.call("DELETE", "/v1/sessions", "out", "")).want(t, 401, "token_expired")
		w.do(w.loginCall(made, "late")).want(t, 401, "token_expired")

		// Requests that were refused for the CSRF token keep no session alive.
		token := w.mint(personGrant("dora"))
		b := w.login(token)
		for range 3 {
			clock.Advance(identity.SessionIdle / 3)
			forged := b.call("POST", "/v1/runs", "k", `{"repo_ref":"r"}`)
			forged.header.Del(api.HeaderCSRF)
			if got := w.do(forged); got.status != 403 && got.status != 401 {
				t.Errorf("%d %s", got.status, got.body)
			}
		}
		w.do(b.call("GET", "/v1/whoami", "", "")).want(t, 401, "token_expired")

		// Revoked, by an administrator elsewhere: at once.
		admin := w.mint(AdminGrant())
		issued := w.do(post("/v1/tokens", admin, "t", `{"kind":"panel","owner":"dora"}`)).want(t, 201, "")
		b = w.login(issued.field(t, "token"))
		w.do(b.call("GET", "/v1/whoami", "", "")).want(t, 200, "")
		w.do(post("/v1/tokens/"+issued.field(t, "token_id")+"/revoke", admin, "x", "")).want(t, 200, "")
		w.do(b.call("GET", "/v1/whoami", "", "")).want(t, 401, "token_expired")
		w.do(b.call("POST", "/v1/runs", "k", `{"repo_ref":"r"}`)).want(t, 401, "token_expired")

		// The sweeper forgets them, long after.
		clock.Advance(DefaultRetention + identity.SessionLife + time.Second)
		if err := w.server.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.do(b.call("GET", "/v1/whoami", "", "")).want(t, 401, "unauthenticated")
	})
}

// TestTooManySessions logs in again and again.
func TestTooManySessions(t *testing.T) {
	w := one(t, Options{})
	first := w.login(w.alice)
	bob := w.login(w.bob)
	var last browser
	for range identity.MaxSessions {
		last = w.login(w.alice)
	}
	w.do(first.call("GET", "/v1/whoami", "", "")).want(t, 401, "token_expired")
	w.do(last.call("GET", "/v1/whoami", "", "")).want(t, 200, "")
	w.do(bob.call("GET", "/v1/whoami", "", "")).want(t, 200, "")
}

// TestLanesOfAnotherSite opens lanes from a page of another origin, in a browser
// that is logged in.
func TestLanesOfAnotherSite(t *testing.T) {
	w := one(t, Options{})
	b := w.login(w.alice)
	const topic = "fleet:user:alice:workers"
	dial := func(origin string, protocols ...string) (int, error) {
		conn, resp, err := websocket.Dial(t.Context(), w.url+"/v1/lanes/"+topic, &websocket.DialOptions{
			Subprotocols: append([]string{api.LaneProtocol}, protocols...), HTTPHeader: http.Header{"Origin": {origin}, "Cookie": {b.cookie}}})
		if err == nil {
			_ = conn.CloseNow()
		}
		return resp.StatusCode, err
	}
	ticket := func() string {
		return api.TicketPrefix + w.do(b.call("POST", "/v1/lanes/tickets", api.NewKey(), `{"topic":"`+topic+`"}`)).want(t, 201, "").field(t, "ticket")
	}
	for name, test := range map[string]struct {
		origin    string
		protocols []string
		status    int
	}{
		"the cookie is no ticket":         {w.url, nil, 401},
		"the secret of the cookie":        {w.url, []string{api.TicketPrefix + strings.TrimPrefix(b.cookie, cookiePlain+"=")}, 401},
		"another site":                    {"https://evil.example", nil, 403},
		"another site that has a ticket":  {"https://evil.example", []string{ticket()}, 403},
		"a sandboxed page with a ticket":  {"null", []string{ticket()}, 403},
		"our own page with a good ticket": {w.url, []string{ticket()}, 101},
	} {
		if status, err := dial(test.origin, test.protocols...); status != test.status || (err == nil) != (status == 101) {
			t.Errorf("%s: %d %v", name, status, err)
		}
	}
}

// TestSessionInReadOnlyMode logs in and out while the books are frozen: people
// have to see why.
func TestSessionInReadOnlyMode(t *testing.T) {
	w := one(t, Options{})
	freeze := func(fn func(*store.Tx) error) {
		if err := w.store.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	freeze(func(tx *store.Tx) error { return tx.FreezeLedger("for the test") })
	b := w.login(w.alice)
	w.do(b.call("GET", "/v1/treasury/summary", "", "")).want(t, 200, "")
	w.do(b.call("POST", "/v1/runs", "k", `{"repo_ref":"r"}`)).want(t, 503, "read_only_mode")
	w.do(b.call("DELETE", "/v1/sessions", "out", "")).want(t, 200, "")
	freeze(treasury.Reopen)
}

// TestSessionUnderTLS looks at what changes when the server itself has TLS.
func TestSessionUnderTLS(t *testing.T) {
	w := one(t, Options{})
	plain := w.login(w.alice)
	const host = "nexus.example.com"
	ask := func(c call, origin string) *http.Response {
		req := httptest.NewRequestWithContext(t.Context(), c.method, "https://"+host+c.path, strings.NewReader(c.body))
		for name, values := range c.header {
			req.Header[name] = values
		}
		req.Header.Set("Origin", origin)
		req.Header.Set(api.HeaderKey, api.NewKey())
		req.Header.Set("Content-Type", "application/json")
		req.TLS = &tls.ConnectionState{}
		rec := httptest.NewRecorder()
		w.server.Handler().ServeHTTP(rec, req)
		return rec.Result()
	}
	in := ask(w.loginCall(w.alice, ""), "https://"+host)
	cookie := in.Header.Get("Set-Cookie")
	for _, part := range []string{cookieSecure + "=", "; Path=/", "; HttpOnly", "; Secure", "; SameSite=Strict"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("no %q in %d %s", part, in.StatusCode, cookie)
		}
	}
	if resp := ask(w.loginCall(w.alice, ""), "http://"+host); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a login of a page without TLS: %d", resp.StatusCode)
	}
	secure := browser{}
	secure.cookie, _, _ = strings.Cut(cookie, ";")
	if resp := ask(secure.call("GET", "/v1/whoami", "", ""), "https://"+host); resp.StatusCode != http.StatusOK {
		t.Errorf("the cookie: %d", resp.StatusCode)
	}
	if resp := ask(plain.call("GET", "/v1/whoami", "", ""), "https://"+host); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a cookie that was set without TLS: %d", resp.StatusCode)
	}
	planted := browser{cookie: plain.cookie + "; " + secure.cookie}
	if resp := ask(planted.call("GET", "/v1/whoami", "", ""), "https://"+host); resp.StatusCode != http.StatusOK {
		t.Errorf("one that was planted beside it: %d", resp.StatusCode)
	}
}
