package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/canon"
)

// hand is a clock that is moved by hand.
type hand struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hand) move(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// TestRateIsByPrincipal spends one principal's rate.
func TestRateIsByPrincipal(t *testing.T) {
	clock := &hand{now: time.Unix(1_700_000_000, 0)}
	w := one(t, Options{Rate: Rate{PerSecond: 1, Burst: 3}, Clock: clock.Now})
	for range 3 {
		w.do(get("/v1/whoami", w.alice)).want(t, 200, "")
	}
	got := w.do(get("/v1/whoami", w.alice)).want(t, 429, "rate_limited")
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
	}
	w.do(get("/v1/whoami", w.mint(personGrant("alice")))).want(t, 429, "rate_limited") // another token, the same principal
	w.do(get("/v1/whoami", w.bob)).want(t, 200, "")
	// A refusal for the rate is not the answer to a key.
	ask := post("/v1/runs", w.alice, "k", `{"repo_ref":"r"}`)
	w.do(ask).want(t, 429, "rate_limited")
	clock.move(time.Second)
	if got := w.do(ask).want(t, 201, ""); got.replayed {
		t.Error("a 429 was stored")
	}
}

// TestGuessingIsSlow tries many tokens.
func TestGuessingIsSlow(t *testing.T) {
	w := one(t, Options{Failures: Rate{PerSecond: 0.01, Burst: 4}})
	for range 4 {
		w.do(get("/v1/whoami", "rmt_user_x")).want(t, 401, "unauthenticated")
	}
	w.do(get("/v1/whoami", "rmt_user_x")).want(t, 429, "rate_limited")
}

// TestGuessersLockNobodyOut guesses on and on from an address where others have
// good tokens, as behind a proxy.
func TestGuessersLockNobodyOut(t *testing.T) {
	w := one(t, Options{Failures: Rate{PerSecond: 0.01, Burst: 4}})
	for range 8 {
		if got := w.do(get("/v1/whoami", "rmt_user_x")); got.status < 400 {
			t.Fatalf("a guess got %d", got.status)
		}
		w.do(get("/v1/whoami", w.alice)).want(t, 200, "")
	}
}

// TestLimiterForgets bounds its memory.
func TestLimiterForgets(t *testing.T) {
	t.Parallel()
	clock := &hand{now: time.Unix(1_700_000_000, 0)}
	l := newLimiter(Rate{PerSecond: 1, Burst: 2}, clock.Now)
	for i := range 2 * maxBuckets {
		l.allow(fmt.Sprint(i))
	}
	if len(l.buckets) > maxBuckets {
		t.Errorf("%d buckets", len(l.buckets))
	}
	clock.move(-time.Hour) // a clock that steps back gives nothing away
	l.allow("x")
	l.allow("x")
	if _, ok := l.allow("x"); ok {
		t.Error("more than the burst")
	}
}

// TestBodiesAreBounded sends too much.
func TestBodiesAreBounded(t *testing.T) {
	w := one(t, Options{})
	large := post("/v1/runs", w.alice, "k", `{"repo_ref":"`+strings.Repeat("x", api.MaxBody)+`"}`)
	w.do(large).want(t, 413, "request_too_large")
	w.do(post("/v1/runs", w.alice, "k", `{"repo_ref":"r"}`)).want(t, 201, "") // the key is still free
	header := get("/v1/whoami", w.alice)
	header.header = http.Header{"X-Large": {strings.Repeat("x", 2*maxHeader)}}
	if got := w.do(header); got.status != 431 {
		t.Errorf("a huge header: %d", got.status)
	}
}

// TestSlowClientsAreCutOff sends a byte and waits: first in the header, then in
// the body.
func TestSlowClientsAreCutOff(t *testing.T) {
	w := one(t, Options{})
	s := w.server.HTTPServer()
	for name, d := range map[string]time.Duration{"header": s.ReadHeaderTimeout, "read": s.ReadTimeout, "write": s.WriteTimeout, "idle": s.IdleTimeout} {
		if d <= 0 || d > 2*time.Minute {
			t.Errorf("%s timeout is %s", name, d)
		}
	}
	h := httptest.NewUnstartedServer(nil)
	h.Config = s
	h.Config.ReadHeaderTimeout, h.Config.ReadTimeout = 50*time.Millisecond, 100*time.Millisecond
	h.Start()
	defer h.Close()
	for name, text := range map[string]string{
		"header": "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"body": "POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\nIdempotency-Key: k\r\nAuthorization: Bearer " +
			w.alice + "\r\n\r\n{",
	} {
		answer, err := stall(t, strings.TrimPrefix(h.URL, "http://"), text)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection was held", name)
		}
		if name == "body" && !strings.HasPrefix(answer, "HTTP/1.1 400") {
			t.Errorf("%s: %.100q", name, answer)
		}
	}
	w.do(post("/v1/runs", w.alice, "k", `{"repo_ref":"r"}`)).want(t, 201, "")
}

// stall sends a text, nothing more, and reads until the server hangs up.
func stall(t *testing.T, address, text string) (answer string, err error) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(bufio.NewReader(conn))
	return string(body), err
}

// TestPagesAndCursors lists in pages, and with cursors that are none.
func TestPagesAndCursors(t *testing.T) {
	w := one(t, Options{})
	for i := range 5 {
		w.do(post("/v1/runs", w.alice, fmt.Sprint("k", i), `{"repo_ref":"r"}`)).want(t, 201, "")
	}
	c := w.client(w.alice)
	seen := map[string]bool{}
	var next *string
	pages := 0
	for {
		got, err := api.ListRuns.Get(t.Context(), c, api.ListRunsParams{Limit: api.Optional(2), Cursor: next})
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, run := range got.Items {
			if seen[run.RunID] {
				t.Errorf("%s is there twice", run.RunID)
			}
			seen[run.RunID] = true
		}
		if next = got.NextCursor; next == nil {
			break
		}
	}
	if len(seen) != 5 || pages != 3 {
		t.Errorf("%d runs on %d pages", len(seen), pages)
	}
	first := w.do(get("/v1/runs?limit=2", w.alice)).field(t, "next_cursor")
	for path, code := range map[string]string{
		"/v1/runs?cursor=nonsense": "cursor_invalid", "/v1/runs?cursor=" + first[:len(first)-2]: "cursor_invalid",
		"/v1/providers?cursor=" + first: "cursor_invalid", "/v1/runs?limit=0": "request_invalid", "/v1/runs?limit=501": "request_invalid",
		"/v1/runs?limit=x": "request_invalid",
	} {
		w.do(get(path, w.alice)).want(t, 400, code)
	}
	w.do(get("/v1/runs?cursor="+first, w.bob)).want(t, 400, "cursor_invalid")
}

// TestArtifactsHaveTheirDigest uploads other bytes than were announced.
func TestArtifactsHaveTheirDigest(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).field(t, "run_id")
	job := w.do(post("/v1/runs/"+run+"/jobs", w.alice, "j", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)).want(t, 201, "").field(t, "job_id")
	leased, err := api.LeaseJobs.Do(t.Context(), w.client(f.token), "l", api.None{}, api.LeaseRequest{})
	if err != nil {
		t.Fatal(err)
	}
	fence := leased.Leases[0].Fence
	digest := canon.Digest([]byte("right"))
	put := func(key, digest string, fence int64, token, body string) seen {
		return w.do(call{method: "PUT", path: fmt.Sprintf("/v1/jobs/%s/artifacts/%s?fence=%d&name=out", job, digest, fence), token: token, key: key,
			contentType: "application/octet-stream", body: body})
	}
	put("a", digest, fence, f.token, "wrong").want(t, 422, "digest_mismatch")
	put("a", "sha256:../../etc/passwd", fence, f.token, "right")
	put("b", digest, fence+1, f.token, "right").want(t, 409, "stale_fence")
	put("c", digest, fence, w.alice, "right").want(t, 403, "scope_missing")
	w.do(get("/v1/jobs/"+job+"/artifacts/"+digest, w.alice)).want(t, 404, "not_found")
	for i, name := range []string{"..", "a/../b", "a//b", "x%E2%80%AEgpj.exe", "a%00b", "%FF", "zero%E2%80%8Bwidth", "line%E2%80%A8two"} {
		hidden := call{method: "PUT", path: fmt.Sprintf("/v1/jobs/%s/artifacts/%s?fence=%d&name=%s", job, digest, fence, name), token: f.token,
			key: fmt.Sprint("n", i), contentType: "application/octet-stream", body: "right"}
		w.do(hidden).want(t, 400, "request_invalid")
	}
	put("a", digest, fence, f.token, "right").want(t, 201, "")
	if again := put("a", digest, fence, f.token, "right").want(t, 201, ""); !again.replayed {
		t.Error("an upload had two effects")
	}
	got := w.do(get("/v1/jobs/"+job+"/artifacts/"+digest, w.alice))
	if got.status != 200 || got.body != "right" || got.header.Get("Content-Disposition") != "attachment" {
		t.Errorf("%d %q", got.status, got.body)
	}
}

// TestTokensEnd revokes a token and lets another one expire.
func TestTokensEnd(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{})
		short := w.do(post("/v1/tokens", w.admin, "a", `{"kind":"user","owner":"dora","expires_in_seconds":60}`)).want(t, 201, "").field(t, "token")
		made := w.do(post("/v1/tokens", w.admin, "b", `{"kind":"service","owner":"dora","scopes":["read"]}`)).want(t, 201, "")
		service := made.field(t, "token")
		w.do(get("/v1/whoami", short)).want(t, 200, "")
		w.do(get("/v1/runs", service)).want(t, 200, "")
		w.do(post("/v1/runs", service, "r", `{"repo_ref":"r"}`)).want(t, 403, "scope_missing")
		w.do(post("/v1/tokens/"+made.field(t, "token_id")+"/revoke", w.bob, "x", "")).want(t, 404, "not_found")
		w.do(post("/v1/tokens/"+made.field(t, "token_id")+"/revoke", service, "x", "")).want(t, 200, "")
		w.do(get("/v1/runs", service)).want(t, 401, "token_expired")
		clock.Advance(time.Minute)
		w.do(get("/v1/whoami", short)).want(t, 401, "token_expired")
		w.do(post("/v1/tokens", w.alice, "c", `{"kind":"user"}`)).want(t, 403, "scope_missing")
		w.do(post("/v1/tokens", w.admin, "d", `{"kind":"user","owner":"a/b"}`)).want(t, 400, "request_invalid")
	})
}

// TestLoopbackAddresses tells those from addresses that others reach.
func TestLoopbackAddresses(t *testing.T) {
	t.Parallel()
	for address, local := range map[string]bool{"127.0.0.1:1": true, "[::1]:0": true, "0.0.0.0:1": false, "192.0.2.1:1": false, "localhost:1": false, ":80": false} {
		if (CheckLoopback(address) == nil) != local {
			t.Errorf("%s: %v", address, CheckLoopback(address))
		}
	}
}
