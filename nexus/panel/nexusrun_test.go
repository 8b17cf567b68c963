package panel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/evidence"
	"remit/proof/record"
)

// TestNexusRun: the page of a run of the nexus has the parts of the page of a session, as
// far as the client reported them. Only the owner sees it.
func TestNexusRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	alice := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	b, other := w.login(alice), w.login(w.token("bob", authority.ScopeRead, authority.ScopeRuns))
	entries := sealedJournal(t, "fail")
	failed := w.tell(alice, "fail", "shop", entries, nil)
	want, err := evidence.SummaryOf(entries)
	if err != nil {
		t.Fatal(err)
	}
	out := b.get("/nexus/runs/" + failed)
	for _, part := range []string{"<h2>Timeline</h2>", "<h2>Why</h2>", "<h2>Change</h2>", "<h2>Contract</h2>", "Instructions, word for word", "Verify change", "Engine " + want.Engine.Name,
		string(want.Blocker.Code), "as its client reported", ">Fail</b>", want.Changed.List[0].Path, "remit runs show " + failed, "RunCreated"} {
		if !strings.Contains(out.body, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	// What is not there is not linked to, and a run with a verdict has ended.
	for _, link := range []string{`href="/runs/`, "Read the diff", "Audit now", "It is under way", "What else was checked"} {
		if strings.Contains(out.body, link) {
			t.Errorf("the page has %q", link)
		}
	}
	if out := other.get("/nexus/runs/" + failed); out.status != http.StatusNotFound || strings.Contains(out.body, want.Title) {
		t.Errorf("another user gets %d", out.status)
	}
	// The page of a run has the timeline of its session.
	rows := func(s *Session) (names []string) {
		for _, r := range timelineOf(s, s.Ended).Rows {
			names = append(names, r.Name)
		}
		return names
	}
	for _, name := range rows(&Session{Summary: Summarize("x", Sealed, "shop", entries), Journal: entries}) {
		if !strings.Contains(out.body, "<b>"+name+"</b>") {
			t.Errorf("the timeline lacks the step %q", name)
		}
	}
}

// TestNexusRunFromItsBundle: a run whose client has sent no journal has the timeline of its
// bundle.
func TestNexusRunFromItsBundle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	alice := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	run := w.ended(alice, "sealed", "fail")
	out := w.login(alice).get("/nexus/runs/" + run)
	for _, part := range []string{"as its bundle has them", "from its sealed bundle", "<b>Verify change</b>", "Instructions, word for word", ">Fail</b>"} {
		if !strings.Contains(out.body, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if len(faults(t, out.body)) > 0 || strings.Contains(out.body, "No entry of the journal is here") {
		t.Errorf("%q", faults(t, out.body))
	}
}

// TestNexusRunWithLittle: a run of which little is known says so, and what differs is
// in red.
func TestNexusRunWithLittle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	alice := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	b := w.login(alice)
	bare, err := api.CreateRun.Do(t.Context(), w.client(alice), "bare", api.None{}, api.RunRequest{RepoRef: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	out := b.get("/nexus/runs/" + bare.RunID)
	for _, part := range []string{"no client has reported what this run does", "the client did not report it", "No entry of the journal is here", "No job was dispatched", ">Running</b>"} {
		if !strings.Contains(out.body, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if strings.Contains(out.body, "no model was asked") || strings.Contains(out.body, "$0.00") {
		t.Error("what is not known is shown as none")
	}
	cut := w.tellCut(alice, "cut", "shop", sealedJournal(t, "pass"), nil, 1)
	if out := b.get("/nexus/runs/" + cut); out.status != http.StatusOK || !strings.Contains(out.body, ">Pass</b>") || !strings.Contains(out.body, "Verify change") {
		t.Errorf("a run whose entries are cut: %d", out.status)
	}
	err = w.store.Update(t.Context(), func(tx *store.Tx) error {
		run, err := tx.SummedRun(cut)
		if err != nil {
			return err
		}
		return tx.PutRunSummary(run.RunRow, store.RunSummaryRow{Body: run.Summary.Body, Source: "bundle",
			Findings: `[{"code":"journal_chain","message":"entry 3 is another<script>alert(1)</script>"}]`}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/nexus/runs/" + cut, "/?from=nexus"} {
		out := b.get(path)
		if !strings.Contains(out.body, "bundle differ") || !strings.Contains(out.body, `"fail"`) && !strings.Contains(out.body, "found fail") || len(faults(t, out.body)) != 0 {
			t.Errorf("%s: the finding is not shown in red, or not as text", path)
		}
	}
	if out := b.get("/nexus/runs/" + cut); !strings.Contains(out.body, "from its sealed bundle") || !strings.Contains(out.body, "entry 3 is another&lt;script&gt;") {
		t.Error("the page does not say what differs")
	}
}

// TestNexusRunIsBounded: a long log is on several pages, each entry once, and none of
// them is large.
func TestNexusRunIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	alice := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	client := w.client(alice)
	run, err := api.CreateRun.Do(t.Context(), client, "long", api.None{}, api.RunRequest{RepoRef: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	const notes = maxLogShown + 10
	for i := range notes {
		text := fmt.Sprintf(`{"text":"note-%d-of-many %s"}`, i, strings.Repeat("x", 2000))
		if _, err := api.AppendEvent.Do(t.Context(), client, fmt.Sprint("n", i), run.RunID, api.EventRequest{EventType: "note", Payload: json.RawMessage(text)}); err != nil {
			t.Fatal(err)
		}
	}
	b, seen, pages := w.login(alice), map[string]int{}, 0
	for path := "/nexus/runs/" + run.RunID; path != "" && pages < 9; pages++ {
		out := b.get(path)
		if out.status != http.StatusOK || len(out.body) > 500_000 {
			t.Fatalf("%s: %d, %d bytes", path, out.status, len(out.body))
		}
		for _, piece := range strings.Split(out.body, "note-")[1:] {
			n, _, _ := strings.Cut(piece, "-")
			seen[n]++
		}
		path = strings.ReplaceAll(between(out.body, `<a class="btn" href="`, `">Later entries`), "&amp;", "&")
	}
	if len(seen) != notes || pages != 2 {
		t.Errorf("%d notes on %d pages", len(seen), pages)
	}
	for n, times := range seen {
		if times != 1 {
			t.Errorf("note %s is there %d times", n, times)
		}
	}
}

// TestRefusedJobs: a run without a bundle says why its jobs ended.
func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	d := &nexusRunPage{}
	for kind, payload := range map[string]string{record.JobFailed: `{"job_id":"job_1","reason":"engine_unknown"}`, record.JobDispatched: `{"job_id":"job_1","reason":"timeout"}`} {
		d.Receipts = append(d.Receipts, receipt{Receipt: record.Receipt{Type: kind, Payload: json.RawMessage(payload)}})
	}
	if got := d.refusedJobs(); len(got) != 1 || got[0].Code != "engine_unknown" || got[0].Message == "" || got[0].Hint == "" || got[0].Evidence != "JobFailed of job job_1" {
		t.Errorf("%+v", got)
	}
}
