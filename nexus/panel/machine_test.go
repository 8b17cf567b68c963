//go:build !race

package panel

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"remit/law/admission"
	"remit/law/health"
	"remit/nexus/authority"
)

// answering is an API that has some resources besides, each a document.
type answering struct {
	http.Handler
	docs map[string]any
}

func (a answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	doc, ok := a.docs[r.URL.Path]
	if !ok {
		a.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc)
}

// hostileMachine is a machine with records and causes in which every text is hostile.
func hostileMachine(o *Options) {
	past := []admission.Past{{Revision: 2, Decision: admission.Admitted, By: hostile, At: "2026-02-03T04:05:06.007Z", Reason: hostile, ID: hostile}, {Revision: 1, Decision: hostile}}
	line := func(kind, state, by string) admission.Line {
		l := admission.Line{Kind: kind, Subject: hostile, State: state, Code: hostile, Detail: hostile, Fired: []admission.Trigger{hostile}, Decision: admission.Admitted,
			Review: []admission.Trigger{hostile}, ReviewTrigger: hostile, File: hostile, Next: "remit admit evil; rm -rf /", History: past}
		if by != "" {
			l.ReviewBy = &by
		}
		return l
	}
	report := new(health.Findings)
	report.Looked(health.Sessions, 3)
	report.Add(health.Sessions, hostile, hostile, hostile, hostile)
	o.API = answering{o.API, map[string]any{"/v1/machine-health": report.Report(),
		"/v1/admissions": admission.Overview{Records: []admission.Line{line("source", admission.Damaged, ""), line("model", admission.Stale, "2020-01-01T00:00:00.000Z"),
			line("target", admission.Standing, "2099-01-01T00:00:00.000Z"), line(hostile, hostile, hostile)}}}}
}

// TestRecords: the page shows what was decided on this machine, with its history, only to
// a user at the machine.
func TestRecords(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, nil, true, nil, hostileMachine)
	b := w.login(w.token("alice", authority.ScopeRead))
	page := b.get("/records")
	for _, want := range []string{"Damaged", "Stale", "Stands", "2 reviews due", "2 decisions, the latest first", "fired:", `datetime="2099-01-01T00:00:00Z"`, "evil"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if got := faults(t, page.body); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if one := b.get("/records?state=stale").body; strings.Count(one, `class="card mt"`) != 1 || !strings.Contains(b.get("/records?state=none").body, "No record is in this state") {
		t.Error("the filter shows others")
	}
	if checked := b.get("/health?check=1").body; !strings.Contains(checked, health.Sessions) || !strings.Contains(checked, "evil") || len(faults(t, checked)) > 0 ||
		strings.Contains(b.get("/health").body, "<th>validator</th>") {
		t.Error("the validators are not shown, or before anybody asks")
	}
	for _, path := range []string{"/records", "/health?check=1"} {
		for who, other := range map[string]*browser{"through a proxy": {w: w, cookie: b.cookie, header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}},
			"by another name": {w: w, cookie: b.cookie, host: "evil.example"}, "without the scope": w.login(w.token("bob", authority.ScopeRuns))} {
			if out := other.get(path); out.status != http.StatusNotFound || strings.Contains(out.body, "<b>source</b>") || strings.Contains(out.body, "<th>validator</th>") {
				t.Errorf("%s, %s: %d", path, who, out.status)
			}
		}
	}
	none := newWorldWith(t, nil, true, nil, func(o *Options) { o.API = answering{o.API, map[string]any{"/v1/admissions": admission.Overview{}}} })
	if out := none.login(none.token("alice", authority.ScopeRead)).get("/records"); !strings.Contains(out.body, "remit agent setup") {
		t.Error("nothing teaches the next step")
	}
}
