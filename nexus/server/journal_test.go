package server

import (
	archive "archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/lanes"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// sealedSession is a published session: its entries, and its bundle.
func sealedSession(t testing.TB, name string) (entries []journal.Entry, zip string) {
	t.Helper()
	dir := filepath.Join("../../vectors/evidence/valid", name)
	log, err := journal.ReadFile(filepath.Join(dir, evidence.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := bundle.WriteZip(&out, dir); err != nil {
		t.Fatal(err)
	}
	return log.Entries, out.String()
}

// told returns the body of the request that sends entries of the journal.
func told(entries []journal.Entry, change func(*api.JournalReport)) string {
	r := api.JournalReport{SessionID: entries[0].SessionID, Entries: []api.JournalEntry{}}
	for _, e := range entries {
		r.Entries = append(r.Entries, api.EntryOf(e, 1<<20))
	}
	if change != nil {
		change(&r)
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// summary is that of entries.
func summary(t *testing.T, entries []journal.Entry) *api.RunSummary {
	t.Helper()
	s, err := evidence.SummaryOf(entries)
	if err != nil {
		t.Fatal(err)
	}
	text, err := canon.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return new(api.RunSummary(text))
}

// sessionRun makes a run of alice's for a session.
func (w *world) sessionRun(key, session string) string {
	w.t.Helper()
	return w.do(post("/v1/runs", w.alice, key, fmt.Sprintf(`{"repo_ref":"r","metadata":{"session_id":%q}}`, session))).want(w.t, 201, "").field(w.t, "run_id")
}

func (w *world) run(id string) (run api.Run) {
	w.t.Helper()
	if err := json.Unmarshal([]byte(w.do(get("/v1/runs/"+id, w.alice)).want(w.t, 200, "").body), &run); err != nil {
		w.t.Fatal(err)
	}
	return run
}

// TestJournalIsTold tells a journal in parts, with repeats, and compares it with
// the bundle at the end: in order, once, and the same.
func TestJournalIsTold(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		entries, zip := sealedSession(t, "pass")
		n := len(entries)
		id := w.sessionRun("r", entries[0].SessionID)
		path := "/v1/runs/" + id + "/journal"
		cursor := func(got seen, want int) {
			t.Helper()
			var c api.JournalCursor
			if err := json.Unmarshal([]byte(got.want(t, 200, "").body), &c); err != nil || c.Entries != int64(want) || api.Value(c.Head) != entries[want-1].EntryHash {
				t.Fatalf("the log has %+v, want %d: %v", c, want, err)
			}
		}
		cursor(w.do(post(path, w.alice, "1", told(entries[:3], func(r *api.JournalReport) { r.Summary = summary(t, entries[:3]) }))), 3)
		if run := w.run(id); run.Journal == nil || run.Journal.Entries != 3 || run.Summary == nil || *run.SummarySource != api.RunSummarySourceTold {
			t.Errorf("%+v", run)
		}
		cursor(w.do(post(path, w.alice, "1", told(entries[:3], func(r *api.JournalReport) { r.Summary = summary(t, entries[:3]) }))), 3) // the same request
		cursor(w.do(post(path, w.alice, "2", told(entries[1:6], nil))), 6)                                                               // in part sent before
		cursor(w.do(post(path, w.alice, "3", told(entries[:2], nil))), 6)
		w.do(post(path, w.alice, "4", told(entries[7:8], nil))).want(t, 409, "conflict") // a gap
		w.do(post(path, w.alice, "5", told(entries[5:7], func(r *api.JournalReport) { r.Entries[0].EntryHash = canon.Digest(nil) }))).want(t, 409, "conflict")
		w.do(post(path, w.bob, "6", told(entries[6:7], nil))).want(t, 404, "not_found")
		w.do(post(path, w.alice, "7", told(entries[6:7], func(r *api.JournalReport) { r.SessionID = "another" }))).want(t, 409, "conflict")
		cursor(w.do(post(path, w.alice, "8", told(entries[6:], func(r *api.JournalReport) { r.Summary = summary(t, entries) }))), n)

		var page api.EventPage
		if err := json.Unmarshal([]byte(w.do(get("/v1/runs/"+id+"/events?limit=500", w.alice)).body), &page); err != nil {
			t.Fatal(err)
		}
		var hashes []string
		for _, e := range page.Items {
			var told struct {
				EntryHash string `json:"entry_hash"`
			}
			if e.EventType == "journal" && json.Unmarshal(e.Payload, &told) == nil {
				hashes = append(hashes, told.EntryHash)
			}
		}
		for i, e := range entries {
			if len(hashes) != n || hashes[i] != e.EntryHash {
				t.Fatalf("the log has %d entries of %d, at %d another one", len(hashes), n, i)
			}
		}
		w.do(putRun(id, canon.Digest([]byte(zip)), "bundle.zip", w.alice, "z", zip)).want(t, 201, "")
		run := w.run(id)
		if *run.SummarySource != api.RunSummarySourceBundle || len(*run.Findings) != 0 || canonical(t, string(*run.Summary)) != string(*summary(t, entries)) {
			t.Errorf("from the bundle: %s %v", *run.SummarySource, *run.Findings)
		}
		w.do(post("/v1/runs/"+id+"/finish", w.alice, "end", `{"status":"succeeded"}`)).want(t, 200, "")
		cursor(w.do(post(path, w.alice, "9", told(entries[n-2:], nil))), n)
		w.do(post("/v1/runs/"+id+"/outcome", w.alice, "o", `{"kind":"accepted"}`)).want(t, 200, "")
		if run := w.run(id); api.Value(run.Outcome) != "accepted" || api.Value(run.CreatedBy) != "user:alice" {
			t.Errorf("%+v", run)
		}
	})
}

// TestSealedLogTakesNoJournal: entries that were not sent before the end are in the
// bundle only.
func TestSealedLogTakesNoJournal(t *testing.T) {
	w := one(t, Options{})
	entries, zip := sealedSession(t, "pass")
	id := w.sessionRun("r", entries[0].SessionID)
	w.do(post("/v1/runs/"+id+"/journal", w.alice, "1", told(entries[:4], nil))).want(t, 200, "")
	w.do(post("/v1/runs/"+id+"/finish", w.alice, "end", `{"status":"failed"}`)).want(t, 200, "")
	w.do(post("/v1/runs/"+id+"/journal", w.alice, "2", told(entries[4:], nil))).want(t, 409, "run_closed")
	w.do(putRun(id, canon.Digest([]byte(zip)), "bundle.zip", w.alice, "z", zip)).want(t, 201, "")
	if run := w.run(id); len(*run.Findings) != 0 || run.Journal.Entries != 4 {
		t.Errorf("entries that were not sent count as a difference: %+v %v", run.Journal, *run.Findings)
	}
}

// TestHostileJournals: no entry gets into a log that is not one, and no summary
// that has not its form.
func TestHostileJournals(t *testing.T) {
	w := one(t, Options{})
	entries, _ := sealedSession(t, "pass")
	id := w.sessionRun("r", entries[0].SessionID)
	for name, test := range map[string]struct {
		change func(*api.JournalReport)
		status int
		code   string
	}{
		"other outputs":  {func(r *api.JournalReport) { r.Entries[1].Outputs = document(`{"status":"pass"}`) }, 400, "request_invalid"},
		"another name":   {func(r *api.JournalReport) { r.Entries[1].Name = "verification.completed" }, 400, "request_invalid"},
		"another status": {func(r *api.JournalReport) { r.Entries[1].Status = "great" }, 400, "request_invalid"},
		"another time":   {func(r *api.JournalReport) { r.Entries[1].StartedAt = "yesterday" }, 400, "request_invalid"},
		"an odd name":    {func(r *api.JournalReport) { r.Entries[1].Name, r.Entries[1].Cut = "a\x1b[2J", new(true) }, 400, "request_invalid"},
		"cut and whole":  {func(r *api.JournalReport) { r.Entries[1].Cut = new(true) }, 400, "request_invalid"},
		"neither":        {func(r *api.JournalReport) { r.Entries[1].Outputs = nil }, 400, "request_invalid"},
		"another before": {func(r *api.JournalReport) { r.Entries[1].PrevHash = new(canon.Digest(nil)) }, 409, "conflict"},
		"none before":    {func(r *api.JournalReport) { r.Entries[1].PrevHash = nil }, 409, "conflict"},
		"out of order":   {func(r *api.JournalReport) { r.Entries[0], r.Entries[1] = r.Entries[1], r.Entries[0] }, 409, "conflict"},
		"no hash":        {func(r *api.JournalReport) { r.Entries[1].EntryHash = "sha256:00" }, 400, "request_invalid"},
		"too large": {func(r *api.JournalReport) {
			r.Entries[1].Inputs = document(`{"a":"` + strings.Repeat("x", 20<<10) + `"}`)
		}, 413, "request_too_large"},
		"too many":   {func(r *api.JournalReport) { r.Entries = append(r.Entries, make([]api.JournalEntry, 256)...) }, 413, "request_too_large"},
		"no summary": {func(r *api.JournalReport) { r.Summary = document(`{"status":"pass"}`) }, 400, "request_invalid"},
		"another session": {func(r *api.JournalReport) {
			r.Summary = document(strings.Replace(string(*summary(t, entries)), entries[0].SessionID, "another", 1))
		}, 400, "request_invalid"},
	} {
		w.do(post("/v1/runs/"+id+"/journal", w.alice, strings.ReplaceAll(name, " ", "-"), told(entries[:2], test.change))).want(t, test.status, test.code)
	}
	if run := w.run(id); run.Journal != nil || run.Summary != nil {
		t.Errorf("a refused report has left %+v %v", run.Journal, run.Summary)
	}
	w.do(post("/v1/runs/"+id+"/events", w.alice, "e", `{"event_type":"journal","payload":{}}`)).want(t, 403, "forbidden")
	w.do(post("/v1/runs/"+id+"/events", w.alice, "n", `{"event_type":"note","event_key":"journal:0","payload":{"text":"x"}}`)).want(t, 403, "forbidden")
	w.do(post("/v1/runs/"+id+"/journal", w.mint(identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice", Scopes: []string{authority.ScopeRead}, TTL: time.Hour}), "s", told(entries[:2], nil))).want(t, 403, "scope_missing")
}

func document(text string) *json.RawMessage { return new(json.RawMessage(text)) }

// TestForgedJournalIsAFinding: the bundle counts, and a finding names each entry that was
// sent differently.
func TestForgedJournalIsAFinding(t *testing.T) {
	entries, zip := sealedSession(t, "pass")
	for name, change := range map[string]func(r *api.JournalReport){
		"a name behind a cut": func(r *api.JournalReport) {
			e := &r.Entries[3]
			e.Name, e.Cut, e.Inputs, e.Outputs = "verification.completed", new(true), nil, nil
		},
		"a status behind a cut": func(r *api.JournalReport) {
			e := &r.Entries[2]
			e.Status, e.Cut, e.Inputs, e.Outputs = "failed", new(true), nil, nil
		},
		"an end of its own": func(r *api.JournalReport) {
			e := &r.Entries[len(r.Entries)-1]
			e.EntryHash, e.Cut, e.Inputs, e.Outputs = canon.Digest(nil), new(true), nil, nil
		},
		"another summary": func(r *api.JournalReport) {
			r.Summary = document(strings.Replace(string(*r.Summary), `"status":"pass"`, `"status":"fail"`, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := one(t, Options{})
			id := w.sessionRun("r", entries[0].SessionID)
			w.do(post("/v1/runs/"+id+"/journal", w.alice, "1", told(entries, func(r *api.JournalReport) {
				r.Summary = summary(t, entries)
				change(r)
			}))).want(t, 200, "")
			w.do(putRun(id, canon.Digest([]byte(zip)), "bundle.zip", w.alice, "z", zip)).want(t, 201, "")
			run := w.run(id)
			if len(*run.Findings) != 1 || *run.SummarySource != api.RunSummarySourceBundle || string(*run.Summary) != string(*summary(t, entries)) {
				t.Errorf("%v", *run.Findings)
			}
		})
	}
	t.Run("no zip", func(t *testing.T) {
		w := one(t, Options{})
		id := w.sessionRun("r", entries[0].SessionID)
		w.do(post("/v1/runs/"+id+"/journal", w.alice, "1", told(entries[:2], func(r *api.JournalReport) { r.Summary = summary(t, entries[:2]) }))).want(t, 200, "")
		w.do(putRun(id, canon.Digest([]byte("zip")), "bundle.zip", w.alice, "z", "zip")).want(t, 201, "")
		if run := w.run(id); len(*run.Findings) != 1 || reason.StatusOf(reason.Code((*run.Findings)[0].Code)) == "" || *run.SummarySource != api.RunSummarySourceTold {
			t.Errorf("%+v", run.Findings)
		}
	})
	t.Run("another session", func(t *testing.T) {
		w := one(t, Options{})
		id := w.sessionRun("r", "another")
		w.do(putRun(id, canon.Digest([]byte(zip)), "bundle.zip", w.alice, "z", zip)).want(t, 201, "")
		if run := w.run(id); len(*run.Findings) != 1 {
			t.Errorf("%+v", run.Findings)
		}
	})
}

// TestBundleJournal: the journal in a bundle is sent as it is there, to who may read the
// run, and only while its chain holds.
func TestBundleJournal(t *testing.T) {
	_, zip := sealedSession(t, "fail")
	want, err := os.ReadFile(filepath.Join("../../vectors/evidence/valid/fail", evidence.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	var cut bytes.Buffer
	z := archive.NewWriter(&cut)
	f, err := z.Create(evidence.JournalFile)
	if err == nil {
		_, err = f.Write(want[:len(want)-10])
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	w := one(t, Options{})
	for name, c := range map[string]struct {
		zip    string
		status int
		code   string
	}{"whole": {zip, 200, ""}, "nozip": {"zip", 409, "conflict"}, "none": {"", 404, "not_found"}, "cut": {cut.String(), 409, "conflict"}} {
		id := w.sessionRun(name, "")
		if c.zip != "" {
			w.do(putRun(id, canon.Digest([]byte(c.zip)), "bundle.zip", w.alice, "z"+name, c.zip)).want(t, 201, "")
		}
		got := w.do(get("/v1/runs/"+id+"/bundle/journal", w.alice))
		got.want(t, c.status, c.code)
		if c.status == 200 && (got.body != string(want) || got.header.Get("Content-Type") != "application/x-ndjson" || !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment")) {
			t.Errorf("%s: %v\n%.300s", name, got.header, got.body)
		}
		w.do(get("/v1/runs/"+id+"/bundle/journal", w.bob)).want(t, 404, "not_found")
	}
}

// TestJournalReachesTheLane: the run's lane delivers each entry, live, and who
// comes back gets what it missed.
func TestJournalReachesTheLane(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		entries, _ := sealedSession(t, "pass")
		id := w.sessionRun("r", entries[0].SessionID)
		topic := "run:" + id + ":events"
		if _, err := lanes.Parse(topic); err != nil {
			t.Fatal(err)
		}
		read := func(after int64, want int) (last int64) {
			t.Helper()
			l, err := api.Listen(t.Context(), w.client(w.alice), topic, after)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for seen := 0; seen < want; {
				f, err := l.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if f.Event != nil && f.Event.EventType == "journal" {
					var e struct{ Seq int64 }
					if err := json.Unmarshal(f.Event.Payload, &e); err != nil || after == 0 && e.Seq != int64(seen) {
						t.Fatalf("entry %d came as number %d: %v", e.Seq, seen, err)
					}
					seen++
					last = *f.Seq
				}
			}
			return last
		}
		w.do(post("/v1/runs/"+id+"/journal", w.alice, "1", told(entries[:4], nil))).want(t, 200, "")
		last := read(0, 4)
		w.do(post("/v1/runs/"+id+"/journal", w.alice, "2", told(entries[4:9], nil))).want(t, 200, "")
		read(last, 5)
		if _, err := api.Listen(t.Context(), w.client(w.bob), topic, 0); err == nil {
			t.Error("a lane of a run of another user")
		}
	})
}
