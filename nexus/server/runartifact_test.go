package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/proof/canon"
)

func putRun(run, digest, name, token, key, body string) call {
	return call{method: "PUT", path: "/v1/runs/" + run + "/artifacts/" + digest + "?name=" + name, token: token, key: key,
		contentType: "application/octet-stream", body: body}
}

// TestRunArtifactsTravel takes a pack from the owner of a run to the provider that works for it,
// and no other caller gets it.
func TestRunArtifactsTravel(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f := &flow{world: w}
		f.join()
		run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
		digest := canon.Digest([]byte("the pack"))
		path := "/v1/runs/" + run + "/artifacts/" + digest

		// Only the announced bytes are taken, from the owner, once.
		w.do(putRun(run, digest, "source.pack", w.alice, "a", "other bytes")).want(t, 422, "digest_mismatch")
		w.do(putRun(run, canon.Digest(nil), "source.pack", w.alice, "b", "the pack")).want(t, 422, "digest_mismatch")
		w.do(putRun(run, strings.ToUpper(digest), "source.pack", w.alice, "c", "the pack")).want(t, 400, "request_invalid")
		w.do(putRun(run, digest, "..%2Fx", w.alice, "d", "the pack")).want(t, 400, "request_invalid")
		w.do(putRun(run, digest, "", w.alice, "e", "the pack")).want(t, 400, "request_invalid")
		w.do(putRun(run, digest, "source.pack", w.bob, "f", "the pack")).want(t, 404, "not_found")
		w.do(putRun(run, digest, "source.pack", f.token, "g", "the pack")).want(t, 403, "scope_missing")
		w.do(putRun("run_nowhere", digest, "source.pack", w.alice, "h", "the pack")).want(t, 404, "not_found")
		w.do(get(path, w.alice)).want(t, 404, "not_found")
		first := w.do(putRun(run, digest, "source.pack", w.alice, "key", "the pack")).want(t, 201, "")
		if want := fmt.Sprintf(`{"name":"source.pack","run_id":%q,"sha256":%q,"size_bytes":8}`, run, digest); canonical(t, first.body) != want {
			t.Errorf("got %s, want %s", first.body, want)
		}
		again := w.do(putRun(run, digest, "source.pack", w.alice, "key", "the pack")).want(t, 201, "")
		if !again.replayed || again.body != first.body {
			t.Errorf("a repeat: replayed %v, %s", again.replayed, again.body)
		}
		w.do(putRun(run, digest, "other.pack", w.alice, "key", "the pack")).want(t, 422, "idempotency_key_reused")
		w.do(putRun(run, digest, "source.pack", w.alice, "new-key", "the pack")).want(t, 201, "")
		w.do(putRun(run, canon.Digest([]byte("x")), "source.pack", w.alice, "i", "x")).want(t, 409, "conflict")

		// The owner reads it, and a provider with a job of the run.
		w.do(get(path, w.bob)).want(t, 404, "not_found")
		w.do(get(path, f.token)).want(t, 404, "not_found")
		request := strings.Replace(sandboxRun, `"/r"`, `"artifact:`+digest+`"`, 1)
		w.do(post("/v1/runs/"+run+"/jobs", w.alice, "j", `{"job_type":"oa.sandbox_run.v1","request":`+request+`}`)).want(t, 201, "")
		w.do(get(path, f.token)).want(t, 404, "not_found")
		w.do(post("/v1/jobs/lease", f.token, "l", `{}`)).want(t, 200, "")
		for _, token := range []string{w.alice, f.token, w.admin} {
			got := w.do(get(path, token))
			if got.status != 200 || got.body != "the pack" || got.header.Get("Content-Disposition") != "attachment" || got.header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("%d %q %v", got.status, got.body, got.header)
			}
		}
		elsewhere := w.do(post("/v1/runs", w.alice, "r2", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
		w.do(get("/v1/runs/"+elsewhere+"/artifacts/"+digest, w.alice)).want(t, 404, "not_found")
		w.do(get("/v1/runs/"+elsewhere+"/artifacts/"+digest, f.token)).want(t, 404, "not_found")
		w.do(get("/v1/runs/"+run+"/artifacts/..%2f..%2fetc%2fpasswd", w.alice)).want(t, 404, "not_found")

		// The sealed bundle comes after the end.
		w.do(post("/v1/runs/"+run+"/finish", w.alice, "end", `{"status":"failed"}`)).want(t, 200, "")
		w.do(putRun(run, canon.Digest([]byte("zip")), "bundle.zip", w.alice, "z", "zip")).want(t, 201, "")
		w.do(get(path, f.token)).want(t, 200, "")

		// After exports and outcomes it is sealed again: the run's bundle is the one of the longest journal, whatever
		// their names' order. An outcome is recorded once, a rejection as well.
		for _, n := range []string{"9", "41", "10"} {
			w.do(putRun(run, canon.Digest([]byte("zip "+n)), "bundle."+n+".zip", w.alice, "z"+n, "zip "+n)).want(t, 201, "")
		}
		w.do(putRun(run, canon.Digest([]byte("x")), "bundle.099.zip", w.alice, "zx", "x")).want(t, 201, "")
		if got := w.do(get("/v1/runs/"+run+"/bundle", w.alice)).want(t, 200, ""); got.body != "zip 41" {
			t.Errorf("the run's bundle is %q", got.body)
		}
		w.do(putRun(run, canon.Digest([]byte("other")), "bundle.41.zip", w.alice, "zo", "other")).want(t, 409, "conflict")
		for _, key := range []string{"o1", "o2"} {
			w.do(post("/v1/runs/"+run+"/outcome", w.alice, key, `{"kind":"rejected","note":"no"}`)).want(t, 200, "")
		}
		w.do(post("/v1/runs/"+run+"/outcome", w.alice, "o3", `{"kind":"forgotten"}`)).want(t, 400, "request_invalid")
	})
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	b, err := canon.Canonicalize([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRunArtifactsAreBounded announces more than is taken: it is refused before a byte of it is read, and the key is
// good for something smaller.
func TestRunArtifactsAreBounded(t *testing.T) {
	w := one(t, Options{})
	run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	digest := canon.Digest([]byte("x"))
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /v1/runs/%s/artifacts/%s?name=x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n%s: k\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n",
		run, digest, w.alice, api.HeaderKey, api.MaxArtifact+1)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", resp.StatusCode)
	}
	w.do(putRun(run, digest, "x", w.alice, "k", "x")).want(t, 201, "")
}
