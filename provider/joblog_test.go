package provider

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"remit/nexus/api"
	"remit/proof/reason"
)

// logs is an authority that takes the log of one job, or does not.
type logs struct {
	t      *testing.T
	mu     sync.Mutex
	text   strings.Builder
	keys   map[string]bool
	asked  int
	refuse bool
}

func (l *logs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	var ask api.LogRequest
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		l.t.Error(err)
	}
	if l.refuse {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(api.Problem{Code: string(reason.StaleFence), Detail: "no"})
		return
	}
	key := r.Header.Get(api.HeaderKey)
	if r.URL.Path != "/v1/jobs/job_1/log" || ask.Fence != 7 || ask.Offset != int64(l.text.Len()) || len(ask.Text) > logChunk || !utf8.ValidString(ask.Text) || key == "" || l.keys[key] {
		l.t.Errorf("%s: fence %d, offset %d of %d, %d bytes, key %q", r.URL.Path, ask.Fence, ask.Offset, l.text.Len(), len(ask.Text), key)
	}
	l.keys[key] = true
	l.text.WriteString(ask.Text)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(api.LogAppended{JobID: "job_1", Length: int64(l.text.Len())})
}

func serveLogs(t *testing.T, refuse bool) (*logs, *Daemon) {
	t.Helper()
	l := &logs{t: t, keys: map[string]bool{}, refuse: refuse}
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	return l, daemon(t, s.URL)
}

var loggedLease = api.Lease{Fence: 7, Job: api.Job{JobID: "job_1"}}

// TestJobLog: the pieces are in order and without a gap, whatever an engine
// prints, and there is an end to them.
func TestJobLog(t *testing.T) {
	t.Parallel()
	l, d := serveLogs(t, false)
	log, closeLog := d.openLog(t.Context(), loggedLease)
	log.Step("engine.run", "started", "/srv/secret/place")
	log.Output("a\x1b[31m\x00\r\tb\xff")
	long := strings.Repeat("€", 21_845) // 65 535 bytes: no piece ends where a character does
	for range 5 {
		log.Output(long)
	}
	closeLog()
	if want := "engine.run started\n| a[31m\tb\uFFFD\n" + strings.Repeat("| "+long+"\n", 5); l.text.String() != want {
		t.Errorf("%d bytes, want %d: %.100q", l.text.Len(), len(want), l.text.String())
	}
}

func TestJobLogIsBounded(t *testing.T) {
	t.Parallel()
	l, d := serveLogs(t, false)
	log, closeLog := d.openLog(t.Context(), loggedLease)
	for range 1000 {
		log.Output(strings.Repeat("x", 64<<10))
	}
	closeLog()
	if l.text.Len() > maxLog+100 || !strings.HasSuffix(l.text.String(), "… the rest is in the bundle\n") {
		t.Errorf("%d bytes", l.text.Len())
	}
}

// TestJobLogIsNotInsistedOn: nothing depends on it.
func TestJobLogIsNotInsistedOn(t *testing.T) {
	t.Parallel()
	l, d := serveLogs(t, true)
	log, closeLog := d.openLog(t.Context(), loggedLease)
	log.Output(strings.Repeat("x", 200<<10))
	closeLog()
	log.Output("late")
	if l.asked != 1 || log.waiting.Len() != 0 {
		t.Errorf("asked %d times", l.asked)
	}
}
