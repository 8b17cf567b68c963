package server

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"remit/nexus/bridge"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// figure is the value of one line of an exposition.
func figure(t *testing.T, text, name string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return f
		}
	}
	t.Errorf("no figure %s in\n%s", name, text)
	return -1
}

// scraped is what a monitoring system sees on the listener of its own.
func (w *world) scraped(local bool, change func(*http.Request)) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://127.0.0.1:9464/metrics", nil)
	r.RemoteAddr = "127.0.0.1:1234"
	if change != nil {
		change(r)
	}
	rec := httptest.NewRecorder()
	w.server.MetricsHandler(local).ServeHTTP(rec, r)
	return rec
}

// TestMetricsAreForAdministrators asks on the listener of the API: a caller
// on this machine needs a token as well.
func TestMetricsAreForAdministrators(t *testing.T) {
	w := one(t, Options{})
	w.do(post("/v1/runs", w.alice, "k", `{"repo_ref":"r"}`)).want(t, 201, "")
	w.do(post("/v1/runs", w.alice, "k", `{"repo_ref":"r"}`)).want(t, 201, "")
	w.do(get("/metrics", "")).want(t, 401, "unauthenticated")
	w.do(get("/metrics", w.alice)).want(t, 403, "scope_missing")
	c := get("/metrics", w.admin)
	c.header = http.Header{"Accept": {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"}}
	got := w.do(c)
	if !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%d %v", got.status, got.header)
	}
	for name, want := range map[string]float64{
		"remit_idempotent_replays_total": 1, `remit_request_seconds_count{operation="createRun",status="201"}`: 2, "remit_read_only": 0, "remit_store_up": 1,
		`remit_refusals_total{code="unauthenticated"}`: 1, `remit_build_info{store="sqlite",version="test"}`: 1,
	} {
		if got := figure(t, got.body, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	if figure(t, got.body, "go_goroutines") < 1 || figure(t, got.body, `remit_store_connections{state="max"}`) < 2 {
		t.Error("no figures of the process, or of the pool")
	}
	for _, secret := range []string{w.admin, w.alice, "user:alice"} {
		if strings.Contains(got.body, secret) {
			t.Errorf("the figures name %s", secret)
		}
	}
}

// TestMetricsListener answers without a credential, and on a loopback address to
// this machine only: not to a web page that reaches it under another name, and
// not through a proxy.
func TestMetricsListener(t *testing.T) {
	w := one(t, Options{})
	if got := w.scraped(true, nil); got.Code != http.StatusOK || figure(t, got.Body.String(), "remit_lanes_open") != 0 {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	for name, change := range map[string]func(*http.Request){
		"another name":   func(r *http.Request) { r.Host = "attacker.example" },
		"a web page":     func(r *http.Request) { r.Header.Set("Origin", "http://attacker.example") },
		"a proxy":        func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") },
		"another sender": func(r *http.Request) { r.RemoteAddr = "192.0.2.1:99" },
	} {
		if got := w.scraped(true, change); got.Code != http.StatusForbidden || strings.Contains(got.Body.String(), "remit_") {
			t.Errorf("%s: %d %s", name, got.Code, got.Body)
		}
	}
	if got := w.scraped(false, func(r *http.Request) { r.Host, r.RemoteAddr = "nexus:9464", "192.0.2.1:99" }); got.Code != http.StatusOK {
		t.Errorf("a monitoring system: %d", got.Code)
	}
	for _, path := range []string{"/v1/whoami", "/", "/debug/pprof/", "/healthz"} {
		if got := w.scraped(false, func(r *http.Request) { r.URL.Path = path }); got.Code != http.StatusNotFound {
			t.Errorf("%s is there, too: %d", path, got.Code)
		}
	}
}

// TestFiguresOfTheStore follows a job through the figures, on both stores: it
// waits, it is leased, it is overdue, and it is gone.
func TestFiguresOfTheStore(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{})
		f := &flow{world: w}
		f.join()
		see := func(want map[string]float64) {
			t.Helper()
			rec := httptest.NewRecorder()
			fresh := newWorldOn(w) // figures are kept for a second, by a server
			fresh.MetricsHandler(false).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			for name, value := range want {
				if got := figure(t, rec.Body.String(), name); got != value {
					t.Errorf("%s is %g, want %g", name, got, value)
				}
			}
		}
		see(map[string]float64{`remit_jobs{state="queued"}`: 0, `remit_jobs_oldest_seconds{state="queued"}`: 0, "remit_reservations_open": 0,
			`remit_providers{pool="owned",state="ready"}`: 1, "remit_sweep_overdue_seconds": 0})
		run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).field(t, "run_id")
		w.do(post("/v1/runs/"+run+"/jobs", w.alice, "j", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)).want(t, 201, "")
		clock.Advance(10e9)
		see(map[string]float64{`remit_jobs{state="queued"}`: 1, `remit_jobs_oldest_seconds{state="queued"}`: 10, "remit_reservations_open": 1,
			"remit_reservations_open_msats": 1000, "remit_reservations_oldest_seconds": 10})
		w.do(post("/v1/jobs/lease", f.token, "l", `{}`)).want(t, 200, "")
		clock.Advance(7e9)
		see(map[string]float64{`remit_jobs{state="queued"}`: 0, `remit_jobs{state="leased"}`: 1, `remit_jobs_oldest_seconds{state="leased"}`: 7,
			"remit_leases_age_seconds": 7, "remit_sweep_overdue_seconds": 0})
		clock.Advance(43e9) // the lease was for 30 s
		see(map[string]float64{"remit_sweep_overdue_seconds": 20})
		w.do(post("/v1/runs/"+run+"/cancel", w.alice, "c", `{}`)).want(t, 200, "")
		see(map[string]float64{`remit_jobs{state="leased"}`: 0, "remit_reservations_open": 0, "remit_sweep_overdue_seconds": 0})
		clock.Advance(300e9)
		see(map[string]float64{`remit_providers{pool="owned",state="silent"}`: 1})
	})
}

// newWorldOn is another replica on the same store.
func newWorldOn(w *world) *Server {
	w.t.Helper()
	was, url := w.server, w.url
	w.start(Options{})
	fresh := w.server
	w.server, w.url = was, url
	return fresh
}

// TestFiguresAreDocumented compares what is shown with docs/nexus.md, both ways.
func TestFiguresAreDocumented(t *testing.T) {
	w := one(t, Options{Mirror: new(bridge.Publisher)})
	if err := w.server.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := &flow{world: w}
	f.join()
	w.do(get("/v1/runs", "")).want(t, 401, "unauthenticated")
	text, err := os.ReadFile("../../docs/nexus.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(remit_[a-z_]+)").FindAllStringSubmatch(section, -1) {
		documented[m[1]] = true
	}
	shown := 0
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (remit_[a-z_]+) `).FindAllStringSubmatch(w.scraped(false, nil).Body.String(), -1) {
		if shown++; !documented[m[1]] {
			t.Errorf("%s is not documented", m[1])
		}
		delete(documented, m[1])
	}
	if len(documented) > 0 || shown < 20 {
		t.Errorf("%d figures; documented, and not shown: %v", shown, documented)
	}
}

// TestFiguresWithoutAStore: a store that is gone costs its own figures.
func TestFiguresWithoutAStore(t *testing.T) {
	w := one(t, Options{})
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	got := w.scraped(false, nil)
	if got.Code != http.StatusOK || figure(t, got.Body.String(), "remit_store_up") != 0 || figure(t, got.Body.String(), "go_goroutines") < 1 {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}
