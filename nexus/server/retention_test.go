package server

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/canon"
)

// files lists the content of a directory of artifacts.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestRunsPastTheirRetention lets a run grow old. Its log, jobs and artifacts go;
// the run, its bundle, the money and what others have too stay, and nothing that is
// kept is missing to anybody who checks.
func TestRunsPastTheirRetention(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{Sweep: Sweep{KeepRuns: 24 * time.Hour, RunSilence: -1}})
		f := &flow{world: w}
		f.join()
		f.work()
		put := func(run, name, content string) {
			t.Helper()
			w.do(call{method: "PUT", path: "/v1/runs/" + run + "/artifacts/" + canon.Digest([]byte(content)) + "?name=" + name, token: w.alice,
				key: run + name, contentType: "application/octet-stream", body: content}).want(t, 201, "")
		}
		put(f.run, "bundle.zip", "sealed")
		put(f.run, "source.pack", "a pack")
		put(f.run, "shared", "of two")
		old := f.run
		money := w.do(get("/v1/treasury/summary", w.alice)).body
		clock.Advance(23 * time.Hour)
		young := w.do(post("/v1/runs", w.mint(personGrant("alice")), "young", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
		w.alice = w.mint(personGrant("alice"))
		put(young, "shared", "of two")
		for _, name := range files(t, w.blobs) { // they were not stored lately
			path := filepath.Join(w.blobs, name[:2], name)
			if err := os.Chtimes(path, time.Now().Add(-2*time.Hour), time.Now().Add(-2*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		forget := func() {
			t.Helper()
			if err := w.server.Forget(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		forget()
		w.do(get("/v1/runs/"+old+"/events", w.alice)).want(t, 200, "")
		clock.Advance(2 * time.Hour)
		w.alice = w.mint(personGrant("alice"))
		for range 2 {
			forget()
			for _, gone := range []string{"/events", "/receipts", "/replay", "/receipt", "/artifacts/" + canon.Digest([]byte("a pack"))} {
				w.do(get("/v1/runs/"+old+gone, w.alice)).want(t, 404, "not_found")
			}
			w.do(get("/v1/jobs/"+f.job, w.alice)).want(t, 404, "not_found")
			if got := w.do(get("/v1/runs/"+old, w.alice)).want(t, 200, ""); got.field(t, "forgotten_at") == "" || got.field(t, "status") != "succeeded" {
				t.Errorf("%s", got.body)
			}
			if got := w.do(get("/v1/runs/"+old+"/bundle", w.alice)); got.status != 200 || got.body != "sealed" {
				t.Errorf("the bundle is gone: %d %s", got.status, got.body)
			}
			w.do(get("/v1/runs/"+young+"/events", w.alice)).want(t, 200, "")
			if got := w.do(get("/v1/runs/"+young+"/artifacts/"+canon.Digest([]byte("of two")), w.alice)); got.body != "of two" {
				t.Errorf("what another run has too is gone: %s", got.body)
			}
			w.do(get("/v1/metrics", w.alice)).want(t, 200, "")
		}
		if left := files(t, w.blobs); len(left) != 2 {
			t.Errorf("%d files are left: %v", len(left), left)
		}
		after := w.do(get("/v1/treasury/summary", w.alice)).body
		if cut := func(s string) string { before, _, _ := strings.Cut(s, `"as_of"`); return before }; cut(after) != cut(money) {
			t.Errorf("the money has changed:\n%s\n%s", money, after)
		}
		if err := w.server.Audit(t.Context()); err != nil || w.server.readOnly.Load() {
			t.Error("the books are wrong", err)
		}
		if found, err := w.store.Integrity(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%v %v", found, err)
		}
		// Money for a job that is forgotten is not there a second time.
		again := w.do(post("/v1/runs/"+old+"/jobs", w.alice, "again", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`))
		if again.problem.Code != "run_closed" {
			t.Errorf("%d %s", again.status, again.body)
		}
	})
}

// TestYoungContentStays: content that is stored at this moment is in no
// artifact yet, and is not taken away.
func TestYoungContentStays(t *testing.T) {
	w := one(t, Options{})
	digest := canon.Digest([]byte("young"))
	if _, err := w.server.opt.Blobs.Put(t.Context(), digest, bytes.NewReader([]byte("young"))); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{digest, canon.Digest([]byte("never there"))} {
		if err := w.server.removeContent(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	if left := files(t, w.blobs); len(left) != 1 || strings.Contains(left[0], ".") {
		t.Errorf("%v", left)
	}
	if err := w.server.opt.Blobs.Retire(t.Context(), "../x", 0); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
