package requester

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/proof/journal"
	"remit/proof/reason"
)

// listening is a nexus that takes a journal, and loses answers now and then.
type listening struct {
	t       *testing.T
	mu      sync.Mutex // held by a request; by the test where an answer was lost, which orders nothing
	hashes  []string
	batches []int
	sums    int
	lose    int // the next answers, after their effect
}

// kept returns how many entries were taken.
func (l *listening) kept() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.hashes)
}

func (l *listening) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var report api.JournalReport
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil || !strings.HasSuffix(r.URL.Path, "/v1/runs/run_1/journal") || r.Header.Get(api.HeaderKey) == "" {
		l.t.Errorf("%s: %v", r.URL.Path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range report.Entries {
		if e.Seq == int64(len(l.hashes)) {
			l.hashes = append(l.hashes, e.EntryHash)
		}
		if size := len(api.Value(e.Inputs)) + len(api.Value(e.Outputs)); size > maxHeardPayload || (size == 0) != api.Value(e.Cut) {
			l.t.Errorf("entry %d has %d bytes, cut %t", e.Seq, size, api.Value(e.Cut))
		}
	}
	l.batches = append(l.batches, len(report.Entries))
	if report.Summary != nil {
		l.sums++
	}
	if l.lose > 0 {
		l.lose--
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"entries":%d}`, len(l.hashes))
}

// longJournal has so many entries, with one that is too large for an event.
func longJournal(t *testing.T, n int) []journal.Entry {
	t.Helper()
	w, err := journal.Create(filepath.Join(t.TempDir(), "journal.jsonl"), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0)
	for i := range n {
		s := journal.Step{StepID: fmt.Sprint(i), Name: "tool", Status: journal.Started, StartedAt: at, Inputs: map[string]any{"n": i}}
		switch i {
		case 0:
			s = journal.Step{StepID: "run", Name: "run.opened", Status: journal.Completed, StartedAt: at, CompletedAt: at,
				Inputs: map[string]any{"title": "t", "engine": map[string]any{"name": "e", "version": "1", "sha256": nil}}}
		case 7:
			s.Inputs = map[string]any{"text": strings.Repeat("x", maxHeardPayload)}
		}
		if _, err := w.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	entries := w.Entries()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return entries
}

// TestHear tells a long journal in parts, each entry once, also when answers are
// lost and when another process goes on.
func TestHear(t *testing.T) {
	t.Parallel()
	l := &listening{t: t}
	server := httptest.NewServer(l)
	defer server.Close()
	client, err := api.Connect(server.URL, "token", api.Options{Retry: api.Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	conn := &Connection{Client: client, Close: func() error { return nil }}
	life := func() *Requester {
		q := New(func(context.Context) (*Connection, error) { return conn, nil })
		q.run, q.claim.Key = "run_1", "s-1"
		return q
	}
	entries := longJournal(t, 450)
	q := life()
	if err := q.Hear(t.Context(), entries[:3]); err != nil || !slices.Equal(l.batches, []int{0, 3}) || l.sums != 1 {
		t.Fatalf("%v: %v, %d summaries", err, l.batches, l.sums)
	}
	l.lose = 2 // net/http repeats a request with a key by itself when a connection that was kept breaks
	if err := q.Hear(t.Context(), entries); reason.CodeOf(err) != reason.StoreUnavailable || l.kept() != 203 {
		t.Fatalf("%v after %d entries", err, l.kept())
	}
	if err := q.Hear(t.Context(), entries[:300]); err != nil || len(l.hashes) != 300 {
		t.Fatalf("%v after %d entries", err, len(l.hashes))
	}
	l.batches = nil
	if err := life().Hear(t.Context(), entries); err != nil || !slices.Equal(l.batches, []int{0, 150}) {
		t.Fatalf("another process: %v %v", err, l.batches)
	}
	for i, e := range entries {
		if l.hashes[i] != e.EntryHash {
			t.Fatalf("entry %d was sent as another one", i)
		}
	}
	l.batches = nil
	if err := q.Hear(t.Context(), entries[:300]); err != nil || len(l.batches) != 0 {
		t.Errorf("entries that the nexus has are sent again: %v %v", err, l.batches)
	}
	conn.Worker = client
	if err := life().Hear(t.Context(), entries); err != nil || len(l.batches) != 0 {
		t.Errorf("entries are sent to the authority of this machine: %v %v", err, l.batches)
	}
}
