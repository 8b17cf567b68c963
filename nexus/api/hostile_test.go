package api

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"remit/proof/reason"
)

const credential = "rmt_user_0123_verysecret"

// hostile connects to a server of ours that means harm, below a path.
func hostile(t *testing.T, path string, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := Connect(server.URL+path, credential, Options{Retry: Retry{Attempts: 2, Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}})
	if err != nil {
		t.Fatal(err)
	}
	c.most = 1 << 16
	return c
}

// hostileIDs are parameters that try to leave their segment of the path.
var hostileIDs = []string{"a/b", "../v1/tokens", "..", ".", "", "...", "..;", "a/../..", "/", "//", "a?x=1", "a&fence=9", "a#f", "%2e%2e", "%2f", "%", "%zz", "a b", "a+b",
	"\x00", "a\nb", "a\r\nX-Evil: 1", "{digest}", "{job_id}", "ü/日本", "\u202e", "a;b", `a\..\b`, "a:b@c", "\xff\xfe", strings.Repeat("x/", 500), "http://evil.example/"}

// refusedIDs are those that a proxy which unescapes a path would move elsewhere.
var refusedIDs = []string{"../v1/tokens", "..", ".", "", "a/../..", "/", "//", `a\..\b`, strings.Repeat("x/", 500), "http://evil.example/"}

// TestParametersStayInTheirPlace: whatever an id is, the request goes to its
// operation with that id, or is not sent.
func TestParametersStayInTheirPlace(t *testing.T) {
	t.Parallel()
	type got struct{ operation, first, second, query string }
	var seen atomic.Pointer[got]
	mux := http.NewServeMux()
	note := func(operation, first, second string) {
		mux.HandleFunc(operation, func(w http.ResponseWriter, r *http.Request) {
			seen.Store(&got{operation, r.PathValue(first), r.PathValue(second), r.URL.RawQuery})
			w.WriteHeader(http.StatusTeapot)
		})
	}
	for _, o := range []Operation{GetJob.Operation, GetArtifact.Operation, SettleJob.Operation, FundAccount.Operation, CloseAccount.Operation, RevokeToken.Operation, ListTokens.Operation} {
		note(o.Method+" "+o.Path, "job_id", "digest")
	}
	other := func(w http.ResponseWriter, r *http.Request) {
		seen.Store(&got{operation: "another: " + r.Method + " " + r.URL.String()})
		w.WriteHeader(http.StatusTeapot)
	}
	mux.HandleFunc("/", other)
	for prefix, handler := range map[string]http.Handler{"": mux, "/": mux, "/a/proxy/": http.StripPrefix("/a/proxy", mux)} {
		c := hostile(t, prefix, handler.ServeHTTP)
		ask := func(id string, want got, send func() error) {
			t.Helper()
			seen.Store(nil)
			err := send()
			where := seen.Load()
			if slices.Contains(refusedIDs, id) {
				if where != nil || reason.CodeOf(err) != reason.RequestInvalid {
					t.Errorf("below %q, id %q: sent to %v, %v", prefix, id, where, err)
				}
				return
			}
			if err == nil || where == nil || *where != want {
				t.Errorf("below %q, id %.40q: %+v, want %+v: %v", prefix, id, where, want, err)
			}
		}
		for _, id := range hostileIDs {
			ask(id, got{"GET /v1/jobs/{job_id}", id, "", ""}, func() error {
				_, err := GetJob.Get(t.Context(), c, id)
				return err
			})
			ask(id, got{"POST /v1/jobs/{job_id}/settle", id, "", ""}, func() error {
				_, err := SettleJob.Do(t.Context(), c, "k", id, None{})
				return err
			})
			ask(id, got{"GET /v1/jobs/{job_id}/artifacts/{digest}", id, "{digest}", ""}, func() error {
				_, err := GetArtifact.Read(t.Context(), c, GetArtifactParams{JobID: id, Digest: "{digest}"})
				return err
			})
		}
	}
}

// TestQueriesAreEncoded: a value of a query adds no parameter.
func TestQueriesAreEncoded(t *testing.T) {
	t.Parallel()
	for _, id := range hostileIDs {
		c := hostile(t, "", func(w http.ResponseWriter, r *http.Request) {
			if q := r.URL.Query(); len(q) != 1 || q.Get("owner") != id || r.URL.Path != "/v1/tokens" {
				t.Errorf("%q arrived as %q", id, r.URL)
			}
		})
		_, _ = ListTokens.Get(t.Context(), c, ListTokensParams{Owner: &id}) // its answer does not matter
	}
}

// TestHeadersCannotBeAdded: a key or an ETag with a line break is not sent.
func TestHeadersCannotBeAdded(t *testing.T) {
	t.Parallel()
	c := hostile(t, "", func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	for _, text := range []string{"a\r\nX-Evil: 1", "a\nb", "a\x00b"} {
		if _, err := SettleJob.Do(t.Context(), c, text, "j", None{}); err == nil || strings.Contains(err.Error(), "Evil") {
			t.Errorf("key %q: %v", text, err)
		}
		if _, err := EnableProvider.Do(t.Context(), c, "k", EnableProviderParams{ProviderID: "p", IfMatch: &text}, None{}); err == nil {
			t.Errorf("ETag %q was sent", text)
		}
	}
}

// answering says what it is asked, and how often.
func answering(status int, media, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{media}
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestCredentialIsInNoError: a server, or a proxy, repeats what it was sent, in
// each place that an error could show.
func TestCredentialIsInNoError(t *testing.T) {
	t.Parallel()
	const problem = `{"type":"urn:x","title":"t","status":409,"detail":"why","code":"conflict","request_id":"r","instance":"/"}`
	said := func(what string) string { return strings.Replace(problem, what, credential, 1) }
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"detail":           answering(409, ProblemType, said("why")),
		"code":             answering(409, ProblemType, said("conflict")),
		"escaped":          answering(409, ProblemType, strings.Replace(problem, "why", strings.Replace(credential, "_", `\u005f`, 1), 1)),
		"field and hint":   answering(409, ProblemType, problem[:1]+`"field":"`+credential+`","hint":"`+credential+`",`+problem[1:]),
		"request id":       answering(409, ProblemType, problem, HeaderRequestID, credential),
		"media type":       answering(200, credential+"/x", ""),
		"media of refusal": answering(502, "text/"+credential, credential),
		"redirect":         answering(307, "text/plain", credential, "Location", "/v1/jobs/"+credential),
		"redirect's host":  answering(307, "text/plain", credential, "Location", "https://"+credential+".example/"),
		"body of a page":   answering(200, "text/html", credential),
		"body of no JSON":  answering(200, jsonType, credential),
		"wrong member":     answering(200, jsonType, `{"job_id":{"`+credential+`":1}}`),
		"no HTTP":          raw(credential),
		"broken header":    raw("HTTP/1.1 200 OK\r\n" + credential + "\r\n\r\n"),
		"broken status":    raw("HTTP/1.1 " + credential + "\r\n\r\n"),
		"broken length":    raw("HTTP/1.1 200 OK\r\nContent-Length: " + credential + "\r\n\r\n"),
	} {
		_, err := GetJob.Get(t.Context(), hostile(t, "", h), "j")
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		text := fmt.Sprintf("%v", err)
		if coded, ok := errors.AsType[*reason.Error](err); ok {
			text += coded.Hint
		}
		if status, ok := errors.AsType[*StatusError](err); ok {
			text += fmt.Sprintf("%v %+v %s%s", status, status.Problem, Value(status.Problem.Field), Value(status.Problem.Hint))
		}
		if strings.Contains(text, "verysecret") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestAnswersAreBounded: what is too large, too deep, cut off or endless is an
// error, and no memory is spent on it beyond the bound.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	endless := func(status int, media string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			for part := strings.Repeat(`{"a":[`, 1000); ; {
				if _, err := io.WriteString(w, part); err != nil {
					return
				}
			}
		}
	}
	bomb := func(status int, media string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(status)
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, `{"detail":"`)
			for part := strings.Repeat("a", 1<<16); ; {
				if _, err := io.WriteString(z, part); err != nil {
					return
				}
			}
		}
	}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"items":`)
		panic(http.ErrAbortHandler)
	}
	for name, test := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"an endless answer":  {endless(200, jsonType), "of more than 65536 bytes"},
		"an endless refusal": {endless(409, ProblemType), "status 409"},
		"an endless page":    {endless(200, "text/html"), "text/html"},
		"a bomb":             {bomb(200, jsonType), "of more than 65536 bytes"},
		"a bomb of refusal":  {bomb(503, ProblemType), "status 503"},
		"too deep":           {answering(200, jsonType, strings.Repeat("[", 60_000)), "cannot be read"},
		"two values":         {answering(200, jsonType, `{"items":[]}{"items":[]}`), "cannot be read"},
		"cut off":            {cut, "cannot be reached"},
		"a small problem":    {answering(400, ProblemType, `{`), "status 400"},
		"no problem":         {answering(400, ProblemType, `[]`), "status 400"},
	} {
		_, err := ListReceipts.Get(t.Context(), hostile(t, "", test.h), ListReceiptsParams{RunID: "r"})
		if err == nil || reason.CodeOf(err) != reason.StoreUnavailable || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %.300v, want %s", name, err, test.want)
		}
	}
}

// TestRedirectsAreRefused: the credential and the body go where the user said,
// whichever redirect it is.
func TestRedirectsAreRefused(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(thief.Close)
	for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308} {
		for _, location := range []string{thief.URL + "/v1/jobs/j", "//" + strings.TrimPrefix(thief.URL, "http://"), "/v1/tokens", ""} {
			count := 0
			c := hostile(t, "", func(w http.ResponseWriter, _ *http.Request) {
				count++
				w.Header().Set("Location", location)
				w.WriteHeader(status)
			})
			_, err := FundAccount.Do(t.Context(), c, "k", None{}, FundRequest{AccountID: "a", Amount: 1})
			if err == nil || count != 1 || elsewhere.Load() > 0 {
				t.Errorf("%d to %q: %v after %d requests", status, location, err, count)
			}
		}
	}
}
