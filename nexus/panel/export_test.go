//go:build !race

package panel

import (
	"net/http"
	"strings"
	"testing"

	"remit/nexus/authority"
	"remit/proof/evidence"
)

// TestExports: a form of a bundle is a file and never a document, for who may see the
// session; one that is refused is a page, and one that is cut off is no whole file.
func TestExports(t *testing.T) {
	t.Parallel()
	home := hostileHome()
	for _, f := range ExportForms {
		home.files["export/"+f.To] = "<script>alert(1)</script>"
	}
	delete(home.files, "export/junit")
	home.files[evidence.ManifestFile] = strings.Repeat("a", 64) + "  attestations/vsa.intoto.jsonl\n"
	w := newWorld(t, home, true)
	b := w.login(w.token("alice", authority.ScopeRead))
	const run = "/runs/20261123T100000Z-b-2"
	for _, to := range []string{"zip", "patch", "sarif", "otlp", "swebench"} {
		out := b.get(run + "/export/" + to)
		h := out.header
		if out.status != http.StatusOK || out.body != home.files["export/"+to] || h.Get("Content-Type") != "application/octet-stream" ||
			!strings.HasPrefix(h.Get("Content-Disposition"), `attachment; filename="`) || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", to, out.status, h)
		}
	}
	refused := b.get(run + "/export/junit")
	if refused.status < 400 || refused.header.Get("Content-Disposition") != "" || !strings.Contains(refused.body, "not_acceptable") || len(faults(t, refused.body)) > 0 {
		t.Errorf("a refusal: %d %v", refused.status, refused.header)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+run+"/export/atif", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(b.cookie)
	if resp, err := http.DefaultClient.Do(r); err == nil {
		defer resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1000)); err == nil {
			if _, err = resp.Body.Read(make([]byte, 1000)); err == nil || err.Error() == "EOF" {
				t.Error("half a file looks like a whole one")
			}
		}
	}
	for _, to := range []string{"branch", "..%2f..%2fetc", "html"} {
		if out := b.get(run + "/export/" + to); out.status != http.StatusNotFound {
			t.Errorf("%s: %d", to, out.status)
		}
	}
	for who, other := range map[string]*browser{"through a proxy": {w: w, cookie: b.cookie, header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}},
		"by another name": {w: w, cookie: b.cookie, host: "evil.example"}, "without the scope": w.login(w.token("bob", authority.ScopeRuns)), "a stranger": {w: w}} {
		if out := other.get(run + "/export/zip"); out.status == http.StatusOK || strings.Contains(out.body, "alert(1)") {
			t.Errorf("%s: %d", who, out.status)
		}
	}
	// A run that did not pass is handed out, but its change only by a command that says so.
	page := &runPage{Session: home.sessions[0]}
	got := page.exports(nil)
	if len(got.Forms) != len(ExportForms)-1 || got.Refused == "" || got.Commands[0].Line != "remit export "+page.ID+" --to patch --force" || len(got.Signed) != 0 {
		t.Errorf("%+v", got)
	}
	page.Report = &evidence.Report{Status: evidence.StatusPass}
	if got := page.exports(nil); len(got.Forms) != len(ExportForms) || got.Refused != "" || strings.Contains(got.Commands[0].Line, "--force") {
		t.Errorf("%+v", got)
	}
	page.NotSealed = []string{evidence.PatchFile}
	if page.exports(nil) != nil {
		t.Error("what is not as sealed is offered")
	}
}
