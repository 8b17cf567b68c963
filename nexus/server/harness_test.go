//test:both-package The generated requests are sent one after the other; what serves them has many goroutines.

package server

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/blob"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// world is a running authority and who knows it.
type world struct {
	t      testing.TB
	server *Server
	store  *store.Store
	url    string
	blobs  string // directory of the artifacts
	admin  string // token
	alice  string
	bob    string
}

// each runs a test on every database.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) { fn(t, newWorld(t, open(), Options{})) })
}

// one runs a test on SQLite only: what it looks at is the same everywhere.
func one(t *testing.T, opt Options) *world {
	t.Helper()
	t.Parallel()
	return newWorld(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), opt)
}

func newWorld(t testing.TB, st *store.Store, opt Options) *world {
	t.Helper()
	w := &world{t: t, store: st}
	w.start(opt)
	w.admin = w.mint(AdminGrant())
	w.alice = w.mint(personGrant("alice"))
	w.bob = w.mint(personGrant("bob"))
	return w
}

func personGrant(owner string) identity.Grant {
	return identity.Grant{Kind: authority.User, Principal: "user:" + owner, Owner: owner, Scopes: personScopes, TTL: time.Hour}
}

// start runs a replica on the world's store, and makes it the one that is asked.
func (w *world) start(opt Options) {
	w.t.Helper()
	w.blobs = w.t.TempDir()
	blobs, err := blob.OpenDir(w.blobs)
	if err != nil {
		w.t.Fatal(err)
	}
	opt.Store, opt.Blobs, opt.Log, opt.Version = w.store, blobs, slog.New(slog.DiscardHandler), "test"
	if opt.Rate.Burst == 0 {
		opt.Rate = Rate{PerSecond: 1e6, Burst: 1e6}
	}
	if opt.Failures.Burst == 0 {
		opt.Failures = Rate{PerSecond: 1e6, Burst: 1e6}
	}
	opt.Sweep.Every = -1
	s := New(opt)
	h := httptest.NewUnstartedServer(nil)
	h.Config = s.HTTPServer()
	h.Start()
	w.t.Cleanup(func() {
		s.Close()
		h.Close()
		if err := blobs.Close(); err != nil {
			w.t.Error(err)
		}
	})
	w.server, w.url = s, h.URL
}

func (w *world) mint(g identity.Grant) (text string) {
	w.t.Helper()
	err := w.store.Update(w.t.Context(), func(tx *store.Tx) (err error) {
		text, _, err = identity.Mint(tx, g)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// client is the generated client with a credential.
func (w *world) client(token string) *api.Client {
	w.t.Helper()
	c, err := api.Connect(w.url, token, api.Options{Retry: api.Retry{Attempts: 1}})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// call is one request as a hostile client would write it.
type call struct {
	method, path, token, key, contentType, body string
	header                                      http.Header
}

// seen is what came back.
type seen struct {
	status   int
	header   http.Header
	body     string
	replayed bool
	problem  api.Problem
}

func post(path, token, key, body string) call {
	return call{method: http.MethodPost, path: path, token: token, key: key, contentType: "application/json", body: body}
}

func get(path, token string) call { return call{method: http.MethodGet, path: path, token: token} }

func (w *world) do(c call) seen {
	w.t.Helper()
	out, err := w.try(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// direct follows no redirection: a hostile client sees the answer itself.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (w *world) try(c call) (seen, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), c.method, w.url+c.path, strings.NewReader(c.body))
	if err != nil {
		return seen{}, err
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.key != "" {
		req.Header.Set(api.HeaderKey, c.key)
	}
	if c.contentType != "" {
		req.Header.Set("Content-Type", c.contentType)
	}
	resp, err := direct.Do(req)
	if err != nil {
		return seen{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return seen{}, err
	}
	out := seen{status: resp.StatusCode, header: resp.Header, body: string(body), replayed: resp.Header.Get(api.HeaderReplayed) == "true"}
	if resp.Header.Get("Content-Type") == api.ProblemType && c.method != http.MethodHead {
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&out.problem); err != nil {
			return seen{}, err
		}
	}
	return out, nil
}

// want checks status and reason code; code "" means success.
func (s seen) want(t testing.TB, status int, code string) seen {
	t.Helper()
	if s.status != status || s.problem.Code != code {
		t.Fatalf("got %d %q, want %d %q: %s", s.status, s.problem.Code, status, code, s.body)
	}
	if code != "" && (s.problem.Status != status || s.problem.RequestID == "" || s.problem.Type == "" || s.problem.Title == "" || s.problem.Instance == "") {
		t.Fatalf("incomplete problem: %s", s.body)
	}
	return s
}

// field reads a string field of a JSON answer.
func (s seen) field(t testing.TB, name string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(s.body), &m); err != nil {
		t.Fatalf("%v: %s", err, s.body)
	}
	text, _ := m[name].(string)
	return text
}
