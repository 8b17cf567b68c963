package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/proof/reason"
)

// answers serves one handler after the other, the last one for ever.
func answers(t *testing.T, handlers ...http.HandlerFunc) (url string, count *atomic.Int64) {
	t.Helper()
	count = new(atomic.Int64)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := min(int(count.Add(1)), len(handlers))
		handlers[i-1](w, r)
	}))
	t.Cleanup(h.Close)
	return h.URL, count
}

func problem(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"type":"urn:x","title":"t","status":409,"detail":"why","code":"`+code+`","field":"f","request_id":"r1","instance":"/"}`)
	}
}

// run is a whole answer to createRun.
const run = `{"run_id":"run_1","owner":"o","status":"running","repo_ref":"r","issue_ref":"","policy_bundle_id":"p","metadata":{},"last_seq":1,` +
	`"created_at":"2026-01-01T00:00:00.000Z"}`

func created(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get(api.HeaderKey) != "k" || !strings.Contains(string(body), "repo") {
		problem(400, "request_invalid")(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, run)
}

func connect(t *testing.T, url string, attempts int) *api.Client {
	t.Helper()
	c, err := api.Connect(url, "secret", api.Options{Retry: api.Retry{Attempts: attempts, Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func createRun(t *testing.T, c *api.Client) (api.Run, error) {
	t.Helper()
	return api.CreateRun.Do(t.Context(), c, "k", api.None{}, api.RunRequest{RepoRef: "repo"})
}

// TestClientRepeats rides out what passes, with the same key and body.
func TestClientRepeats(t *testing.T) {
	t.Parallel()
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	url, count := answers(t, hangUp, problem(503, "store_unavailable"), problem(429, "rate_limited"), problem(409, "idempotency_in_flight"), created)
	got, err := createRun(t, connect(t, url, 9))
	if err != nil || got.RunID != "run_1" || count.Load() != 5 {
		t.Errorf("%v after %d requests: %v", got, count.Load(), err)
	}
}

// TestClientGivesUp knows an answer when it sees one.
func TestClientGivesUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   reason.Code
		count  int64
	}{
		{"a conflict", problem(409, "conflict"), reason.Conflict, 1},
		{"another request under the key", problem(422, "idempotency_key_reused"), reason.IdempotencyKeyReused, 1},
		{"a bug", problem(500, "infrastructure_fault"), reason.InfrastructureFault, 1},
		{"for ever busy", problem(503, "store_unavailable"), reason.StoreUnavailable, 3},
		{"no nexus", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hello", http.StatusNotFound) }, reason.StoreUnavailable, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, count := answers(t, test.answer)
			_, err := createRun(t, connect(t, url, 3))
			if reason.CodeOf(err) != test.want || count.Load() != test.count {
				t.Errorf("%v after %d requests", err, count.Load())
			}
			if status, ok := errors.AsType[*api.StatusError](err); !ok || status.Status == 0 {
				t.Errorf("no status in %v", err)
			}
		})
	}
}

// TestClientKeepsItsCredential neither follows a redirect nor speaks in clear.
func TestClientKeepsItsCredential(t *testing.T) {
	t.Parallel()
	thief, stolen := answers(t, created)
	url, _ := answers(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, thief, http.StatusTemporaryRedirect) })
	if _, err := createRun(t, connect(t, url, 1)); err == nil || stolen.Load() != 0 {
		t.Errorf("the client followed a redirect: %v", err)
	}
	for _, server := range []string{"http://192.0.2.1", "http://nexus.example.com", "ftp://localhost", "http://user:pw@localhost", "", "localhost:1"} {
		if _, err := api.Connect(server, "secret", api.Options{}); reason.CodeOf(err) != reason.RequestInvalid || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: %v", server, err)
		}
	}
	for _, server := range []string{"http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://nexus.example.com"} {
		if _, err := api.Connect(server, "secret", api.Options{}); err != nil {
			t.Errorf("%q: %v", server, err)
		}
	}
}

// TestConnectNamesTheAddress: an address of digits without a scheme is repeated with
// one, and what may hold a credential is not.
func TestConnectNamesTheAddress(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"127.0.0.1:7340": "https://127.0.0.1:7340,", "localhost:7340": "https://localhost:7340,", "[::1]:7340": "https://[::1]:7340,", "nexus.example": "want https://",
		"user:secret@host": "want https://", "secret@host": "want https://", "h:1?token=secret": "want https://", "https://user:secret@h": "want https://", "secret": "want https://",
		"rmt_secret": "want https://", "secret.of.jwt": "want https://", "secret:1": "want https://", "ftp://h/secret": "want https://", "https://secret@": "want https://",
		"localhost/secret": "want https://",
	} {
		_, err := api.Connect(server, "", api.Options{})
		said, ok := errors.AsType[*reason.Error](err)
		if !ok || !strings.Contains(said.Hint, want) || strings.Contains(said.Error()+said.Hint, "secret") || strings.Contains(said.Error(), "unreadable") {
			t.Errorf("%s: %v, hint %v", server, err, said)
		}
	}
}
