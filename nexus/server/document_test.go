package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

// replaySchema is the published schema of a line of REPLAY.jsonl.
func replaySchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("../../schemas/replay.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("replay.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("replay.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// runtimeEvent is a line of a replay behind its header.
type runtimeEvent struct {
	Event   string          `json:"event"`
	Time    string          `json:"t"`
	Session string          `json:"session_id"`
	Seq     int64           `json:"seq"`
	Type    string          `json:"runtime_event_type"`
	Payload json.RawMessage `json:"payload"`
	Hash    string          `json:"payload_hash"`
	Key     *string         `json:"idempotency_key"`
}

// readReplay holds a replay against its format and returns the events.
func readReplay(t *testing.T, run string, got seen) []runtimeEvent {
	t.Helper()
	if got.header.Get("Content-Type") != "application/x-ndjson" || !strings.HasSuffix(got.body, "\n") {
		t.Fatalf("%v %.200s", got.header, got.body)
	}
	schema := replaySchema(t)
	var events []runtimeEvent
	for i, text := range strings.Split(strings.TrimSuffix(got.body, "\n"), "\n") {
		if err := canon.Check([]byte(text)); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if i == 0 {
			if !strings.Contains(text, `"event":"ReplayHeader"`) || !strings.Contains(text, `"producer":"remit/test","replay_version":1`) {
				t.Fatalf("header %s", text)
			}
			continue
		}
		var e runtimeEvent
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event != "RuntimeEvent" || e.Seq != int64(i) || e.Session != run || e.Hash != canon.Digest(e.Payload) {
			t.Fatalf("line %d: %s", i+1, text)
		}
		events = append(events, e)
	}
	return events
}

// TestReplayOfARun reads the log of a whole run, and compares it with the pages.
func TestReplayOfARun(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	f.work()
	path := "/v1/runs/" + f.run
	events := readReplay(t, f.run, w.do(get(path+"/replay", w.alice)).want(t, 200, ""))
	var page api.EventPage
	if err := json.Unmarshal([]byte(w.do(get(path+"/events?limit=500", w.alice)).body), &page); err != nil {
		t.Fatal(err)
	}
	if len(events) != len(page.Items) || int64(len(events)) != page.HeadSeq {
		t.Fatalf("%d lines, %d events, head %d", len(events), len(page.Items), page.HeadSeq)
	}
	for i, e := range events {
		is := page.Items[i]
		if e.Type != is.EventType || !bytes.Equal(e.Payload, is.Payload) || e.Time != is.RecordedAt || api.Value(e.Key) != api.Value(is.IdempotencyKey) {
			t.Errorf("line %+v, event %+v", e, is)
		}
	}
	again := w.do(get(path+"/replay", w.alice))
	if first := w.do(get(path+"/replay", w.admin)); first.body != again.body {
		t.Error("two replays of one log differ")
	}
	w.do(get(path+"/replay", w.bob)).want(t, 404, "not_found")
}

// TestReplayOfALongLog is more than one page, of a run that goes on.
func TestReplayOfALongLog(t *testing.T) {
	w := one(t, Options{})
	run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	const notes = 2*documentPage + 7
	err := w.store.Update(t.Context(), func(tx *store.Tx) error {
		for i := range notes {
			if _, err := authority.Event(tx, authority.RunStream(run), authority.Sweeper(), "note", "", map[string]any{"text": fmt.Sprint(i, " \u2028 <>&")}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	events := readReplay(t, run, w.do(get("/v1/runs/"+run+"/replay", w.alice)).want(t, 200, ""))
	if last := events[len(events)-1]; len(events) != notes+2 || last.Key != nil || !strings.Contains(string(last.Payload), fmt.Sprint(notes-1)) {
		t.Errorf("%d events, the last %+v", len(events), last)
	}
}

// TestReceiptOfARun reads the receipt, recomputes every digest in it, and
// compares it with the pages.
func TestReceiptOfARun(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	open := f.post("/v1/runs", f.alice, `{"repo_ref":"r"}`, 201).field(t, "run_id")
	w.do(get("/v1/runs/"+open+"/receipt", w.alice)).want(t, 409, "run_open")
	f.work()
	path := "/v1/runs/" + f.run
	got := w.do(get(path+"/receipt", w.alice)).want(t, 200, "")
	if err := canon.Check([]byte(got.body)); err != nil {
		t.Fatal(err)
	}
	var doc api.RunReceipt
	strict := json.NewDecoder(strings.NewReader(got.body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(got.body), &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "canonical_json_sha256")
	digest, err := canon.DigestOf(members)
	if err != nil || digest != doc.CanonicalJSONSha256 || got.header.Get("Etag") != `"`+digest+`"` {
		t.Errorf("digest %s, says %s, ETag %s, %v", digest, doc.CanonicalJSONSha256, got.header.Get("Etag"), err)
	}
	var page api.ReceiptPage
	if err := json.Unmarshal([]byte(w.do(get(path+"/receipts?limit=500", w.alice)).body), &page); err != nil {
		t.Fatal(err)
	}
	if len(doc.Receipts) < 8 || len(doc.Receipts) != len(page.Items) {
		t.Fatalf("%d receipts, %d on the page", len(doc.Receipts), len(page.Items))
	}
	for i, r := range doc.Receipts {
		is := page.Items[i]
		sealed := record.Receipt{Type: r.ReceiptType, Payload: r.Payload, Principal: r.Principal, Key: r.IdempotencyKey, SHA256: r.ReceiptSha256}
		if !sealed.Sealed() || r.Seq != is.Seq || r.ReceiptSha256 != is.ReceiptSha256 || r.RecordedAt != is.RecordedAt {
			t.Errorf("receipt %+v, on the page %+v", r, is)
		}
	}
	if len(doc.Payments) != 1 || doc.Payments[0].PayloadSha256 != canon.Digest(doc.Payments[0].Payload) || !strings.Contains(string(doc.Payments[0].Payload), `"amount_msats":1000`) {
		t.Errorf("payments %+v", doc.Payments)
	}
	if doc.Status != api.RunStatusSucceeded || doc.RunID != f.run || doc.Owner != "alice" || doc.IssueRef != "#1" || doc.FinishedAt < doc.CreatedAt {
		t.Errorf("%+v", doc)
	}
	known := get(path+"/receipt", w.alice)
	known.header = http.Header{"If-None-Match": {got.header.Get("Etag")}}
	if again := w.do(known); again.status != 304 || again.body != "" {
		t.Errorf("%d %s", again.status, again.body)
	}
	w.do(get(path+"/receipt", w.bob)).want(t, 404, "not_found")
}

// TestDamagedLogMakesNoDocument puts a receipt into a log that is not what it
// says, as an attacker with the database could.
func TestDamagedLogMakesNoDocument(t *testing.T) {
	w := one(t, Options{})
	run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	w.do(post("/v1/runs/"+run+"/finish", w.alice, "f", `{"status":"failed"}`)).want(t, 200, "")
	w.do(get("/v1/runs/"+run+"/receipt", w.alice)).want(t, 200, "")
	forged, err := record.NewReceipt(record.PaymentReleased, "user:alice", "k", json.RawMessage(`{"amount_msats":1}`))
	if err != nil {
		t.Fatal(err)
	}
	forged.Payload = json.RawMessage(`{"amount_msats":1000000}`)
	err = w.store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := authority.Event(tx, authority.RunStream(run), authority.Sweeper(), authority.EventReceipt, "k", forged)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.do(get("/v1/runs/"+run+"/receipt", w.alice)).want(t, 500, "infrastructure_fault")
}

// TestChangedEventEndsTheDocuments changes an event on the disk. A replay that
// has begun is cut off: it does not end as if it were whole.
func TestChangedEventEndsTheDocuments(t *testing.T) {
	t.Parallel()
	dsn := storetest.SQLite(t)
	st := storetest.Open(t, dsn, store.Options{})
	w := newWorld(t, st, Options{})
	run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	w.do(post("/v1/runs/"+run+"/events", w.alice, "e", `{"event_type":"note","payload":{"text":"the original"}}`)).want(t, 201, "")
	w.do(post("/v1/runs/"+run+"/finish", w.alice, "f", `{"status":"failed"}`)).want(t, 200, "")
	readReplay(t, run, w.do(get("/v1/runs/"+run+"/replay", w.alice)))
	w.server.Close()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(dsn)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.ReplaceAll(file, []byte("the original"), []byte("something ot"))
	if bytes.Equal(changed, file) {
		t.Fatal("the event is not in the file")
	}
	if err := os.WriteFile(dsn, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	w.store = storetest.Open(t, dsn, store.Options{})
	w.start(Options{})
	if got, err := w.try(get("/v1/runs/"+run+"/replay", w.alice)); err == nil {
		t.Errorf("%d %s", got.status, got.body)
	}
	w.do(get("/v1/runs/"+run+"/receipt", w.alice)).want(t, 500, "infrastructure_fault")
}

// TestReceiptIsBounded asks for one that is too large to be one piece.
func TestReceiptIsBounded(t *testing.T) {
	w := one(t, Options{})
	run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	err := w.store.View(t.Context(), func(tx *store.Tx) error {
		row, err := tx.Run(run)
		if err != nil {
			return err
		}
		l := logOf{run: row}
		if l.head, _, err = tx.Head(authority.RunStream(run)); err != nil {
			return err
		}
		if _, _, err := l.receipt(tx, 10); reason.CodeOf(err) != reason.RequestTooLarge {
			t.Errorf("got %v", err)
		}
		_, _, err = l.receipt(tx, maxReceiptDocument)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBundleOfARun stores a bundle and reads it, with a token and in a browser.
func TestBundleOfARun(t *testing.T) {
	w := one(t, Options{})
	run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	path := "/v1/runs/" + run
	w.do(get(path+"/bundle", w.alice)).want(t, 404, "not_found")
	put := func(name, content string) {
		w.do(call{method: "PUT", path: path + "/artifacts/" + canon.Digest([]byte(content)) + "?name=" + name, token: w.alice, key: name,
			contentType: "application/octet-stream", body: content}).want(t, 201, "")
	}
	put(jobs.SourcePack, "PACK")
	w.do(get(path+"/bundle", w.alice)).want(t, 404, "not_found")
	put(jobs.BundleZip, "PK the bundle")
	b := w.login(w.alice)
	for _, c := range []call{get(path+"/bundle", w.alice), b.call("GET", path+"/bundle", "", "")} {
		got := w.do(c).want(t, 200, "")
		h := got.header
		if got.body != "PK the bundle" || h.Get("Content-Type") != "application/zip" || h.Get("Etag") != `"`+canon.Digest([]byte(got.body))+`"` ||
			h.Get("Content-Disposition") != `attachment; filename="`+run+`.zip"` || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%v %s", h, got.body)
		}
	}
	w.do(get(path+"/bundle", w.bob)).want(t, 404, "not_found")
	w.do(get(path+"/bundle", "")).want(t, 401, "unauthenticated")
}
