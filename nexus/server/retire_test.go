package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/nexus/store"
)

// listedIDs are the providers of a list.
func (w *world) listedIDs(token, query string) (ids []string) {
	w.t.Helper()
	var page api.ProviderPage
	if err := json.Unmarshal([]byte(w.do(get("/v1/providers"+query, token)).want(w.t, 200, "").body), &page); err != nil {
		w.t.Fatal(err)
	}
	for _, p := range page.Items {
		ids = append(ids, p.ProviderID)
	}
	return ids
}

// TestProviderRetires takes a provider with a history out of service for good,
// has another machine take its name, and deletes it: history stays readable.
func TestProviderRetires(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	f.work()
	at := "/v1/providers/" + f.provider
	was := f.do(get(at, w.alice)).want(t, 200, "")
	name, device := was.field(t, "name"), was.field(t, "device_id")
	before := w.do(get("/v1/runs/"+f.run+"/receipts?limit=500", w.alice)).body

	// A job at work ends with it.
	w.do(post(at+"/enable", w.alice, "on", `{}`)).want(t, 200, "")
	w.do(post(at+"/heartbeat", f.token, "alive", `{"version":"1"}`)).want(t, 200, "")
	run := w.do(post("/v1/runs", w.alice, "r2", `{"repo_ref":"r"}`)).field(t, "run_id")
	job := w.do(post("/v1/runs/"+run+"/jobs", w.alice, "j2", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)).want(t, 201, "").field(t, "job_id")
	w.do(post("/v1/jobs/lease", f.token, "l2", `{}`)).want(t, 200, "")

	w.do(call{method: "DELETE", path: at, token: w.alice, key: "too-early"}).want(t, 409, "conflict")
	w.do(post(at+"/retire", w.bob, "b", `{}`)).want(t, 404, "not_found")
	w.do(post(at+"/retire", f.token, "itself", `{}`)).want(t, 403, "scope_missing")
	first := w.do(post(at+"/retire", w.alice, "x", `{"reason":"sold"}`)).want(t, 200, "")
	if again := w.do(post(at+"/retire", w.alice, "x", `{"reason":"sold"}`)); !again.replayed || again.body != first.body {
		t.Errorf("repeated: %s", again.body)
	}
	if first.field(t, "device_id") != device || first.field(t, "retired_at") == "" || !strings.Contains(first.body, `"enabled":false`) {
		t.Errorf("%s", first.body)
	}
	w.do(post(at+"/retire", w.alice, "y", `{}`)).want(t, 200, "")
	if got := w.do(get("/v1/jobs/"+job, w.alice)); got.field(t, "state") != "canceled" || got.field(t, "payment") != "withheld" {
		t.Errorf("what it was at: %s", got.body)
	}

	// It is out: its credential, and every way back.
	w.do(get("/v1/whoami", f.token)).want(t, 401, "token_expired")
	w.do(post(at+"/enable", w.alice, "e", `{}`)).want(t, 409, "conflict")
	caps := call{method: "PUT", path: at + "/caps", token: w.admin, key: "c", contentType: "application/json",
		body: `{"cpu_millis":1,"memory_mb":1,"disk_mb":0,"pids":0,"timeout_secs":1,"concurrency":1,"network":"none"}`}
	w.do(caps).want(t, 409, "conflict")
	w.do(post(at+"/quarantine/lift", w.admin, "q", `{"reason":"back"}`)).want(t, 409, "conflict")
	body := fmt.Sprintf(`{"name":%q,"version":"9","capabilities":["oa.sandbox_run.v1"],"price_msats":1000`, name)
	f.again(body+fmt.Sprintf(`,"provider_id":%q}`, f.provider)).want(t, 409, "conflict")

	// Its name and its device are another's now, with nothing of its past.
	next := f.again(body+fmt.Sprintf(`,"device_id":%q}`, device)).want(t, 201, "")
	var made api.ProviderRegistered
	if err := json.Unmarshal([]byte(next.body), &made); err != nil || made.Provider.ProviderID == f.provider || made.Provider.DeviceID != device || made.Provider.Strikes.Successes != 0 {
		t.Errorf("%v: %s", err, next.body)
	}
	if ids := w.listedIDs(w.alice, ""); len(ids) != 1 || ids[0] != made.Provider.ProviderID {
		t.Errorf("listed: %v", ids)
	}
	if ids := w.listedIDs(w.alice, "?retired=true"); len(ids) != 1 || ids[0] != f.provider {
		t.Errorf("retired: %v", ids)
	}
	w.do(get("/v1/providers?retired=maybe", w.alice)).want(t, 400, "request_invalid")
	if devices := w.do(get("/v1/devices", w.alice)).body; strings.Count(devices, `"device_id"`) != 1 {
		t.Errorf("devices: %s", devices)
	}

	// Deleted, it is in no list; what names it is as it was.
	w.do(call{method: "DELETE", path: at, token: w.bob, key: "d0"}).want(t, 404, "not_found")
	gone := w.do(call{method: "DELETE", path: at, token: w.alice, key: "d"}).want(t, 200, "")
	if again := w.do(call{method: "DELETE", path: at, token: w.alice, key: "d"}); !again.replayed || again.body != gone.body {
		t.Errorf("repeated: %s", again.body)
	}
	w.do(get(at, w.alice)).want(t, 404, "not_found")
	w.do(get(at, w.admin)).want(t, 404, "not_found")
	w.do(call{method: "DELETE", path: at, token: w.alice, key: "d2"}).want(t, 404, "not_found")
	if ids := w.listedIDs(w.alice, "?retired=true"); len(ids) != 0 {
		t.Errorf("deleted, and listed: %v", ids)
	}
	if after := w.do(get("/v1/runs/"+f.run+"/receipts?limit=500", w.alice)).body; after != before || !strings.Contains(after, f.provider) {
		t.Error("the receipts changed, or do not name it")
	}
	if books := w.do(get("/v1/treasury/summary?owner=alice", w.admin)).body; !strings.Contains(books, f.provider) {
		t.Errorf("the books do not name it: %s", books)
	}
	err := w.store.View(t.Context(), func(tx *store.Tx) error {
		events, err := tx.Events("user:alice:receipts", 0, store.MaxEvents)
		var text strings.Builder
		for _, e := range events {
			text.Write(e.Payload)
		}
		for _, want := range []string{`"ProviderRetired"`, `"reason":"sold"`, `"ProviderDeleted"`} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %s in the journal of the account", want)
			}
		}
		row, rowErr := tx.Provider(f.provider)
		if rowErr != nil || row.Name != "" || row.Version != "" {
			t.Errorf("%v: kept %+v", rowErr, row)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The machine that took its place is untouched.
	w.do(get("/v1/whoami", made.Token)).want(t, 200, "")
}
