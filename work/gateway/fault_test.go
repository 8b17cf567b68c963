package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
)

// endings are the marks by which an engine sees that a stream is complete.
var endings = map[Protocol]string{Chat: "[DONE]", Responses: "response.completed", Messages: "message_stop"}

// A stream that breaks never looks complete: whatever the provider does, the
// engine gets an error event and then a broken connection, or, before the first
// event, an error status.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for _, p := range protocols {
		parts := streams(p, model)
		half := strings.Join(parts[:3], "")
		tests := map[string]struct {
			handler http.HandlerFunc
			started bool // the engine got a 200
			failed  reason.Code
		}{
			"clean end in the middle":    {sse(half), true, reason.ProviderUnavailable},
			"clean end inside an event":  {sse(half, parts[3][:20]), true, reason.ProviderUnavailable},
			"cut in the middle":          {func(w http.ResponseWriter, r *http.Request) { sse(half)(w, r); cut(w) }, true, reason.ProviderUnavailable},
			"cut inside an event":        {func(w http.ResponseWriter, r *http.Request) { sse(half, parts[3][:9])(w, r); cut(w) }, true, reason.ProviderUnavailable},
			"cut before the first event": {func(w http.ResponseWriter, r *http.Request) { sse(parts[0][:9])(w, r); cut(w) }, false, reason.ProviderUnavailable},
			"empty":                      {sse(), false, reason.ResponseShape},
			"only comments":              {sse(": still thinking\n\n", ": still thinking\n\n"), true, reason.ResponseShape},
			"html":                       {plain(200, "text/html", "<html>login</html>"), false, reason.ResponseShape},
			"html as a stream":           {sse("<html>\n\n<body>\n\n</html>\n\n"), true, reason.ResponseShape},
			"json":                       {plain(200, "application/json", wholes(p, model)), false, reason.ResponseShape},
			"no content type":            {plain(200, "", strings.Join(parts, "")), false, reason.ResponseShape},
			"compressed":                 {plain(200, "text/event-stream", "\x1f\x8b\b", "Content-Encoding", "gzip"), false, reason.ResponseShape},
			"no json":                    {sse(half, "data: {\"choices\":\n\n"), true, reason.ResponseShape},
			"json of another kind":       {sse(half, "data: []\n\n"), true, reason.ResponseShape},
			"a word":                     {sse("data: hello\n\n"), false, reason.ResponseShape},
			"wrong types":                {sse(half, `data: {"type":7,"choices":7,"delta":7}`+"\n\n"), true, reason.ResponseShape},
			"event without end":          {sse(half, "data: "+strings.Repeat("x", 70<<10)), true, reason.ResponseShape},
			"redirect":                   {plain(302, "text/plain", "", "Location", "http://127.0.0.1:1/elsewhere"), false, reason.ResponseShape},
			"no content":                 {plain(204, "text/plain", ""), false, reason.ResponseShape},
		}
		if p == Chat {
			tests["only the end"] = struct {
				handler http.HandlerFunc
				started bool
				failed  reason.Code
			}{sse("data: [DONE]\n\n"), false, reason.ResponseShape}
		}
		for name, test := range tests {
			t.Run(fmt.Sprintf("%s %s", p, name), func(t *testing.T) {
				t.Parallel()
				up := newProvider(t, test.handler)
				e := open(t, up.URL, nil, func(b *bounds) { b.event = 64 << 10 })
				got := e.post(t, paths[p], ask(p, true, ""))
				if strings.Contains(got.body, endings[p]) {
					t.Errorf("the answer looks complete: %q", got.body)
				}
				switch {
				case test.started && (got.StatusCode != http.StatusOK || got.err == nil || !strings.Contains(got.body, string(test.failed))):
					t.Errorf("status %d, error %v, body %q: want an error event and a broken connection", got.StatusCode, got.err, got.body)
				case !test.started && (got.StatusCode != http.StatusBadGateway || got.err != nil || !strings.Contains(got.body, string(test.failed))):
					t.Errorf("status %d, error %v, body %q: want an error", got.StatusCode, got.err, got.body)
				}
				rec := e.record(t)
				if remedy := Remedy(rec); name == "403" && !strings.Contains(remedy, "may use the model") || name == "401" && remedy != "" {
					t.Errorf("the remedy is %q", remedy)
				}
				if rec.Failed != test.failed || rec.Refused != "" || rec.UsageKnown || rec.CostKnown || rec.Retries != 0 || up.count() != 1 {
					t.Errorf("record: %+v, asked %d times", rec, up.count())
				}
				if total := e.Totals(); total.Unmetered != 1 || total.CostKnown {
					t.Errorf("totals: %+v", total)
				}
			})
		}
	}
}

// An error event of the provider's own goes on, and nothing that looks like a
// success follows it.
func TestErrorEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		p      Protocol
		event  string
		broken bool
		failed reason.Code
	}{
		"chat":                {Chat, `data: {"error":{"message":"m","code":"context_length_exceeded"}}` + "\n\n", true, reason.ProviderRefused},
		"chat overloaded":     {Chat, `data: {"error":{"message":"m","type":"server_error"}}` + "\n\n", true, reason.ProviderUnavailable},
		"responses error":     {Responses, `data: {"type":"error","code":"rate_limit_exceeded","message":"m"}` + "\n\n", true, reason.ProviderUnavailable},
		"responses failed":    {Responses, `data: {"type":"response.failed","response":{"error":{"code":"invalid_prompt"}}}` + "\n\n", false, reason.ProviderRefused},
		"chat, no quota":      {Chat, `data: {"error":{"message":"m","type":"insufficient_quota"}}` + "\n\n", true, reason.QuotaExhausted},
		"responses, the same": {Responses, `data: {"type":"response.failed","response":{"error":{"code":"insufficient_quota"}}}` + "\n\n", false, reason.QuotaExhausted},
		"messages":            {Messages, "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"m"}}` + "\n\n", true, reason.ProviderUnavailable},
		"messages, its kind":  {Messages, "event: error\n" + `data: {"type":"error","error":{"type":"invalid_request_error"}}` + "\n\n", true, reason.ProviderRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parts := streams(test.p, model)
			up := newProvider(t, sse(parts[0], test.event, strings.Join(parts[1:], "")))
			e := open(t, up.URL, nil, nil)
			got := e.post(t, paths[test.p], ask(test.p, true, ""))
			if got.body != parts[0]+test.event || (got.err != nil) != test.broken {
				t.Errorf("error %v, body %q", got.err, got.body)
			}
			if rec := e.record(t); rec.Failed != test.failed {
				t.Errorf("record: %+v", rec)
			}
		})
	}
}

// What comes after the end of a stream goes nowhere.
func TestAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			want := strings.Join(streams(p, model), "")
			up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
				sse(want+"data: {\"more\":1}\n\n")(w, r)
				<-r.Context().Done() // and never ends
			})
			e := open(t, up.URL, nil, nil)
			got := e.post(t, paths[p], ask(p, true, `,"stream_options":{"include_usage":true}`))
			if got.err != nil || got.body != want {
				t.Errorf("%v %q", got.err, got.body)
			}
			if rec := e.record(t); rec.Failed != "" || rec.Usage != wantUsage {
				t.Errorf("record: %+v", rec)
			}
		})
	}
}

// Answers that are not streams are looked at whole before anything is sent.
func TestBrokenWholes(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		for name, test := range map[string]struct {
			handler http.HandlerFunc
			failed  reason.Code
		}{
			"empty":     {plain(200, "application/json", ""), reason.ResponseShape},
			"html":      {plain(200, "text/html", "<html>"), reason.ResponseShape},
			"stream":    {sse(streams(p, model)...), reason.ResponseShape},
			"half":      {plain(200, "application/json", wholes(p, model)[:50]), reason.ResponseShape},
			"no object": {plain(200, "application/json", "[]"), reason.ResponseShape},
			"an error":  {plain(200, "application/json", `{"error":{"message":"m"}}`), reason.ResponseShape},
			"no answer": {plain(200, "application/json", `{}`), reason.ResponseShape},
			"not utf-8": {plain(200, "application/json", strings.Replace(wholes(p, model), "hello", "\xff", 1)), reason.ResponseShape},
			"too large": {plain(200, "application/json", strings.Repeat(" ", 70<<10)+wholes(p, model)), reason.ResponseShape},
			"cut": {func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", "5000")
				io.WriteString(w, wholes(p, model))
				panic(http.ErrAbortHandler)
			}, reason.ProviderUnavailable},
		} {
			t.Run(fmt.Sprintf("%s %s", p, name), func(t *testing.T) {
				t.Parallel()
				up := newProvider(t, test.handler)
				e := open(t, up.URL, nil, func(b *bounds) { b.answer = 64 << 10 })
				got := e.post(t, paths[p], ask(p, false, ""))
				if got.err != nil || got.StatusCode != http.StatusBadGateway || !strings.Contains(got.body, string(test.failed)) {
					t.Errorf("status %d, error %v, body %q", got.StatusCode, got.err, got.body)
				}
				if rec := e.record(t); rec.Failed != test.failed || rec.UsageKnown || up.count() != 1 {
					t.Errorf("record: %+v, asked %d times", rec, up.count())
				}
			})
		}
	}
}

// Only what the provider surely has not worked on is asked again.
func TestRetries(t *testing.T) {
	t.Parallel()
	ok := plain(200, "application/json", wholes(Chat, model))
	fails := func(status int, header ...string) http.HandlerFunc {
		return plain(status, "application/json", `{"error":{"message":"busy"}}`, header...)
	}
	quota := func(status int, code string) http.HandlerFunc {
		return plain(status, "application/json", `{"error":{"message":"You exceeded your current quota","type":"`+code+`","code":"`+code+`"}}`)
	}
	for name, test := range map[string]struct {
		handlers []http.HandlerFunc
		asked    int
		status   int
		failed   reason.Code
	}{
		"429 once":            {[]http.HandlerFunc{fails(429, "Retry-After-Ms", "1"), ok}, 2, 200, ""},
		"429, 500, 503":       {[]http.HandlerFunc{fails(429), fails(500), fails(503), ok}, 4, 200, ""},
		"529 for ever":        {[]http.HandlerFunc{fails(529)}, 4, 529, reason.ProviderUnavailable},
		"429 for ever":        {[]http.HandlerFunc{fails(429, "Retry-After", "0")}, 4, 429, reason.ProviderUnavailable},
		"429 for too long":    {[]http.HandlerFunc{fails(429, "Retry-After", "3600"), ok}, 1, 429, reason.ProviderUnavailable},
		"503 till far away":   {[]http.HandlerFunc{fails(503, "Retry-After", "Wed, 21 Oct 2099 07:28:00 GMT"), ok}, 1, 503, reason.ProviderUnavailable},
		"400":                 {[]http.HandlerFunc{fails(400), ok}, 1, 400, reason.ProviderRefused},
		"402":                 {[]http.HandlerFunc{fails(402), ok}, 1, 402, reason.QuotaExhausted},
		"429, no quota":       {[]http.HandlerFunc{quota(429, "insufficient_quota"), ok}, 1, 429, reason.QuotaExhausted},
		"429, then no quota":  {[]http.HandlerFunc{fails(429), quota(429, "insufficient_quota"), ok}, 2, 429, reason.QuotaExhausted},
		"429, a minute's":     {[]http.HandlerFunc{quota(429, "rate_limit_exceeded"), ok}, 2, 200, ""},
		"400, no credit":      {[]http.HandlerFunc{plain(400, "application/json", `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`), ok}, 1, 400, reason.QuotaExhausted},
		"403, no billing":     {[]http.HandlerFunc{quota(403, "billing_not_active"), ok}, 1, 403, reason.QuotaExhausted},
		"503, no quota":       {[]http.HandlerFunc{quota(503, "insufficient_quota"), ok}, 1, 503, reason.QuotaExhausted},
		"401":                 {[]http.HandlerFunc{fails(401), ok}, 1, 401, reason.AuthUnavailable},
		"403":                 {[]http.HandlerFunc{fails(403), ok}, 1, 403, reason.AuthUnavailable},
		"404":                 {[]http.HandlerFunc{fails(404), ok}, 1, 404, reason.ProviderRefused},
		"501":                 {[]http.HandlerFunc{fails(501), ok}, 1, 501, reason.ProviderUnavailable},
		"cut before a status": {[]http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ok}, 1, 502, reason.ProviderUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newProvider(t, test.handlers...)
			e := open(t, up.URL, nil, nil)
			var pauses []time.Duration
			e.wait = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
			got := e.post(t, "/v1/chat/completions", ask(Chat, false, ""))
			if got.StatusCode != test.status || up.count() != test.asked {
				t.Errorf("status %d after %d attempts: %s", got.StatusCode, up.count(), got.body)
			}
			if test.failed != "" && got.Header.Get("X-Should-Retry") != "false" {
				t.Error("the answer does not tell the engine to leave retries to the gateway")
			}
			if (test.status == 401 || test.status == 403) && strings.Contains(got.body, "busy") {
				t.Error("a provider's words about a credential go on")
			}
			// A key that was not accepted is another fault than one that may not do this.
			if says := strings.Contains(got.body, "did not accept the gateway's credential"); name == "401" && !says || name == "403" && says {
				t.Errorf("it says %s", got.body)
			}
			rec := e.record(t)
			if remedy := Remedy(rec); name == "403" && !strings.Contains(remedy, "may use the model") || name == "401" && remedy != "" {
				t.Errorf("the remedy is %q", remedy)
			}
			if rec.Failed != test.failed || rec.Retries != test.asked-1 || len(pauses) != test.asked-1 || rec.Status != test.status {
				t.Errorf("record: %+v, pauses %v", rec, pauses)
			}
			if total := e.Totals(); total.Requests != 1 || total.Retries != int64(test.asked-1) {
				t.Errorf("totals: %+v", total)
			}
		})
	}
}

// Retry-After wins over the gateway's own pause, which doubles.
func TestPauses(t *testing.T) {
	t.Parallel()
	busy := func(header ...string) http.HandlerFunc { return plain(503, "text/plain", "", header...) }
	up := newProvider(t, busy("Retry-After", "7"), busy(), busy(), plain(200, "application/json", wholes(Chat, model)))
	e := open(t, up.URL, nil, func(b *bounds) { b.backoff = 500 * time.Millisecond })
	var pauses []time.Duration
	e.wait = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
	if got := e.post(t, "/v1/chat/completions", ask(Chat, false, "")); got.StatusCode != http.StatusOK {
		t.Fatalf("status %d", got.StatusCode)
	}
	if len(pauses) != 3 || pauses[0] != 7*time.Second || pauses[1] < time.Second || pauses[1] > 1250*time.Millisecond ||
		pauses[2] < 2*time.Second || pauses[2] > 2500*time.Millisecond {
		t.Errorf("pauses: %v", pauses)
	}
}

// A provider that cannot be reached is tried again, and its address stays here.
func TestProviderIsNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	e := open(t, "http://"+addr, nil, nil)
	got := e.post(t, "/v1/messages", ask(Messages, true, ""))
	if got.StatusCode != http.StatusBadGateway || !strings.Contains(got.body, "provider_unavailable") || strings.Contains(got.body, addr) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	rec := e.record(t)
	if rec.Failed != reason.ProviderUnavailable || rec.Retries != 3 || !rec.UsageKnown || !rec.CostKnown {
		t.Errorf("record: %+v", rec)
	}
}

// A provider without a trusted certificate gets neither the request nor the key.
func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	up.Config.ErrorLog = discard
	up.StartTLS()
	t.Cleanup(up.Close)
	e := open(t, up.URL, nil, nil)
	got := e.post(t, "/v1/responses", ask(Responses, true, ""))
	if got.StatusCode != http.StatusBadGateway || !strings.Contains(got.body, "certificate") || len(asked) > 0 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	if rec := e.record(t); rec.Failed != reason.ProviderUnavailable || rec.Retries != 0 || !rec.CostKnown {
		t.Errorf("record: %+v", rec)
	}
}

// A provider that falls silent is given up: before its answer with a status, in
// the middle of it with a broken stream.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before []string
		status int
	}{
		"before the answer": {nil, http.StatusGatewayTimeout},
		"in the middle":     {streams(Messages, model)[:3], http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
				if test.before != nil {
					sse(test.before...)(w, r)
				}
				<-r.Context().Done()
			})
			e := open(t, up.URL, nil, func(b *bounds) { b.idle = 500 * time.Millisecond })
			got := e.post(t, "/v1/messages", ask(Messages, true, ""))
			if got.StatusCode != test.status || !strings.Contains(got.body, "timeout") || (got.err != nil) != (test.before != nil) {
				t.Errorf("%d %v %s", got.StatusCode, got.err, got.body)
			}
			if rec := e.record(t); rec.Failed != reason.Timeout || rec.UsageKnown || rec.Retries != 0 {
				t.Errorf("record: %+v", rec)
			}
		})
	}
}

// A drip that never stops does not count as silence, and is not cut.
func TestSlowDrip(t *testing.T) {
	t.Parallel()
	whole := strings.Join(streams(Chat, model), "")
	up := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range len(whole) {
			io.WriteString(w, whole[i:i+1])
			w.(http.Flusher).Flush()
		}
	})
	e := open(t, up.URL, nil, func(b *bounds) { b.idle = 5 * time.Second })
	if got := e.post(t, "/v1/chat/completions", ask(Chat, true, `,"stream_options":{"include_usage":true}`)); got.body != whole {
		t.Errorf("%v %q", got.err, got.body)
	}
}

// An engine that hangs up does not get its answer for nothing: the rest is
// read, for its usage.
func TestEngineHangsUp(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			parts := streams(p, model)
			gone := make(chan struct{})
			up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
				sse(parts[0])(w, r)
				<-gone
				sse(parts[1:]...)(w, r)
			})
			e := open(t, up.URL, nil, nil)
			ctx, hangUp := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+paths[p], strings.NewReader(ask(p, true, "")))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Api-Key", token)
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			hangUp()
			res.Body.Close()
			close(gone)
			e.waitFor(t, 1)
			if rec := e.record(t); rec.Usage != wantUsage || !rec.CostKnown {
				t.Errorf("record: %+v", rec)
			}
		})
	}
}

// An answer without a reader, and that does not end, is given up after a
// while. It counts towards the limits by what was seen of it.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		sse(streams(Messages, model)[:3]...)(w, r)
		<-r.Context().Done()
	})
	e := open(t, up.URL, func(o *Options) { o.Limits.Tokens = 101 }, func(b *bounds) { b.drain = 20 * time.Millisecond })
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/messages", strings.NewReader(ask(Messages, true, "")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", token)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, len(strings.Join(streams(Messages, model)[:3], "")))); err != nil {
		t.Fatal(err)
	}
	hangUp()
	res.Body.Close()
	e.waitFor(t, 1)
	rec := e.all()[0]
	if rec.Failed != reason.Cancelled || rec.UsageKnown || rec.CostKnown || rec.Usage.InUncached != 80 || rec.Usage.Out != 1 {
		t.Errorf("record: %+v", rec)
	}
	// 100 tokens of prompt and 1 out are reported; the three events make it 103.
	if got := e.post(t, "/v1/messages", ask(Messages, true, "")); !strings.Contains(got.body, "budget_exhausted") {
		t.Errorf("hanging up was free: %s", got.body)
	}
}

// Close ends what is under way and leaves a record of it.
func TestClose(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		sse(streams(Chat, model)[0])(w, r)
		close(began)
		<-r.Context().Done()
	})
	e := open(t, up.URL, nil, nil)
	done := make(chan reply)
	go func() { done <- e.post(t, "/v1/chat/completions", ask(Chat, true, "")) }()
	<-began
	rec := e.record(t)
	if rec.Failed != reason.Cancelled {
		t.Errorf("record: %+v", rec)
	}
	if got := <-done; got.err == nil {
		t.Errorf("the stream ended cleanly: %q", got.body)
	}
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("a closed gateway goes on: %v", err)
			}
		}()
		e.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses", nil))
	}()
	if w.Code != http.StatusServiceUnavailable || e.Probe(t.Context(), Chat) == nil {
		t.Error("a closed gateway answers")
	}
}

// A listener that its owner closes, as a sandbox does at its end, is no error
// of the gateway, and the requests under way come to their end.
func TestListenerIsClosed(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		sse(streams(Chat, model)[0])(w, r)
		<-goOn
		sse(streams(Chat, model)[1:]...)(w, r)
	})
	e := open(t, up.URL, nil, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve(l) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/chat/completions", strings.NewReader(ask(Chat, true, "")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", token)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	l.Close()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	close(goOn)
	if b, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		t.Errorf("%v %q", err, b)
	}
}
