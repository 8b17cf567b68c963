package provider

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/reason"
)

// TestBrokenUploadIsRepeated breaks the connection in the middle of an upload,
// as a killed authority does: the client sends the same bytes again.
func TestBrokenUploadIsRepeated(t *testing.T) {
	t.Parallel()
	var uploads []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ContentLength != int64(len(body)) {
			t.Errorf("%v: %d of %d bytes", err, len(body), r.ContentLength)
		}
		uploads = append(uploads, string(body))
		if len(uploads) == 1 {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Close() // as a kill does
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(api.Artifact{})
	}))
	t.Cleanup(s.Close)
	d := daemon(t, s.URL, func(c *Config) { c.Client.Retry = api.Retry{Attempts: 2, Base: time.Millisecond} })
	dir, err := d.spool.begin("job_1")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "stdout.0"), []byte("hello\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := File{"stdout.0", canon.Digest([]byte("hello\n")), 6}
	if err := d.upload(t.Context(), Result{JobID: "job_1", Fence: 1}, file); err != nil || !slices.Equal(uploads, []string{"hello\n", "hello\n"}) {
		t.Errorf("%v: %q", err, uploads)
	}
}

// TestAuthorityAwayForAMoment refuses the result for as long as the daemon has
// not renewed its lease: it keeps the lease, and hands the result in.
func TestAuthorityAwayForAMoment(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	a, d := serve(t, repo, request(t, repo, nil))
	d.ttl = 3 * time.Second
	a.refuse["complete"] = reason.StoreUnavailable
	renewed := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/renew") {
			renewed++
			a.mu.Lock()
			delete(a.refuse, "complete")
			a.mu.Unlock()
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	d.client = daemon(t, s.URL).client
	if ran, err := d.Once(t.Context(), 0); !ran || err != nil || len(a.completed) != 1 || renewed == 0 {
		t.Errorf("%v %v, %d answers, %d renewals", ran, err, len(a.completed), renewed)
	}
}

// TestLeftoversAreCleared starts a daemon where another one was killed: scratch
// directories and output without a result go, a result that waits stays. While
// another daemon lives nothing is touched.
func TestLeftoversAreCleared(t *testing.T) {
	t.Parallel()
	var config Config
	first := daemon(t, "http://127.0.0.1:1", func(c *Config) { config = *c })
	if _, err := first.spool.begin("job_done"); err != nil {
		t.Fatal(err)
	}
	if err := first.spool.finish(Result{JobID: "job_done", JobHash: "x", Fence: 1, Response: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	cut, err := first.spool.begin("job_cut")
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(config.Scratch, scratchName+"1")
	if err := os.MkdirAll(filepath.Join(work, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	there := func(want bool) {
		t.Helper()
		for _, dir := range []string{work, cut} {
			if _, err := os.Stat(dir); (err == nil) != want {
				t.Errorf("%s: %v, want it there: %v", dir, err, want)
			}
		}
	}
	beside, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	there(true)
	ended(t, first, beside)
	next, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	there(false)
	if kept, err := next.spool.all(); err != nil || len(kept) != 1 || kept[0].JobID != "job_done" {
		t.Errorf("%+v %v", kept, err)
	}
	if _, err := Open(Config{State: State{Dir: filepath.Join(t.TempDir(), "none")}}); reason.CodeOf(err) != reason.NotFound {
		t.Error(err)
	}
}

// TestLeaseIsAskedForAgain refuses the first lease for a moment. The lane says
// nothing more, and the job is taken all the same.
func TestLeaseIsAskedForAgain(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	a, d := serve(t, repo, request(t, repo, nil))
	d.ttl = time.Minute
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	a.refuse["lease"] = reason.StoreUnavailable
	a.refused = func(step string) { delete(a.refuse, step) }
	live := a.live(ctx)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		live.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/complete") {
			stop()
		}
	}))
	t.Cleanup(s.Close)
	other := daemon(t, s.URL)
	d.client, d.id = other.client, other.id
	if err := d.Run(ctx); err != nil || len(a.completed) != 1 {
		t.Errorf("%v, %d answers", err, len(a.completed))
	}
}

// live is the authority with lanes, on which it says nothing. To be refused a
// ticket is a refusal like any other.
func (a *authority) live(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		_, refused := a.refuse["tickets"]
		a.mu.Unlock()
		switch {
		case strings.HasSuffix(r.URL.Path, "/tickets") && !refused:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(api.Ticket{Subprotocols: []string{api.LaneProtocol}})
		case strings.Contains(r.URL.Path, "/lanes/") && !strings.HasSuffix(r.URL.Path, "/tickets"):
			c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.LaneProtocol}})
			if err != nil {
				a.t.Error(err)
				return
			}
			<-c.CloseRead(ctx).Done()
		default:
			a.ServeHTTP(w, r)
		}
	})
}
