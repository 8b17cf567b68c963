package panel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// sealedJournal is the journal of a published session.
func sealedJournal(t testing.TB, name string) []journal.Entry {
	t.Helper()
	log, err := journal.ReadFile(filepath.Join("../../vectors/evidence/valid", name, evidence.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	return log.Entries
}

// tell makes a run, and tells the nexus what its client knows of it.
func (w *world) tell(token, key, repo string, entries []journal.Entry, change func(*evidence.RunSummary)) string {
	w.t.Helper()
	return w.tellCut(token, key, repo, entries, change, 16<<10)
}

// tellCut is tell with so many bytes of an entry at most.
func (w *world) tellCut(token, key, repo string, entries []journal.Entry, change func(*evidence.RunSummary), most int) string {
	w.t.Helper()
	s, err := evidence.SummaryOf(entries)
	if err != nil {
		w.t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	text, err := canon.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	body := json.RawMessage(text)
	client := w.client(token)
	run, err := api.CreateRun.Do(w.t.Context(), client, key, api.None{}, api.RunRequest{RepoRef: repo, Metadata: &map[string]string{"session_id": entries[0].SessionID}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.tellMore(token, key, run.RunID, entries, &body, most)
	return run.RunID
}

// tellMore tells entries of a run that is there.
func (w *world) tellMore(token, key, run string, entries []journal.Entry, summary *json.RawMessage, most int) {
	w.t.Helper()
	client := w.client(token)
	for part := range slices.Chunk(entries, 200) {
		report := api.JournalReport{SessionID: entries[0].SessionID, Entries: []api.JournalEntry{}, Summary: summary}
		for _, e := range part {
			report.Entries = append(report.Entries, api.EntryOf(e, most))
		}
		if _, err := api.TellJournal.Do(w.t.Context(), client, fmt.Sprint(key, part[0].Seq), run, report); err != nil {
			w.t.Fatal(err)
		}
	}
}

// hostileSummary puts hostile words wherever a client can put some.
func hostileSummary(s *evidence.RunSummary) {
	h := "evil<script>alert(1)</script>\u202e"
	s.Title, s.TaskID, s.Engine.Name, s.Engine.Version, s.Model, s.ModelProvider, s.Outcome = h, h, h, h, &h, &h, h
	s.Blocker = &evidence.Blocker{Code: "verification_failed", Message: h, Evidence: h, Hint: h}
	s.Changed = &evidence.ChangeSummary{Files: 200, List: []evidence.ChangedFile{{Path: h, Op: h}}}
	s.Unknown = map[string]string{"cost_micro_usd": h, "tests": h, "changed": h}
	s.Tests, s.CostKnown = nil, nil
}

// TestNexusRuns lists the runs of a nexus by what they are, a page at a time, one's
// own only, with every filter in the address.
func TestNexusRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	alice := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	bob := w.token("bob", authority.ScopeRead, authority.ScopeRuns)
	b, other := w.login(alice), w.login(bob)
	if out := b.get("/"); !strings.Contains(out.body, "The nexus knows no run of yours") || !strings.Contains(out.body, "remit run --nexus") {
		t.Error("nothing says how a first run is made")
	}
	passed := w.tell(alice, "pass", "shop", sealedJournal(t, "pass"), nil)
	unpriced := w.tell(alice, "unpriced", "clock", sealedJournal(t, "unpriced"), func(s *evidence.RunSummary) {
		s.Title = "Mend the clock"
		s.Status = new("blocked")
		s.Blocker = &evidence.Blocker{Code: "approval_missing", Message: "ask the owner", Evidence: "x"}
	})
	bare, err := api.CreateRun.Do(t.Context(), w.client(alice), "bare", api.None{}, api.RunRequest{RepoRef: "bare-repository"})
	if err != nil {
		t.Fatal(err)
	}
	all := b.get("/?from=nexus").body
	for _, want := range []string{"/nexus/runs/" + passed, "/nexus/runs/" + unpriced, "/nexus/runs/" + bare.RunID, "Mend the clock", "approval_missing", "ask the owner",
		"as its client reported", "the client did not report it", "<i>+"} {
		if !strings.Contains(all, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
	if body := other.get("/?from=nexus").body; strings.Contains(body, "Mend the clock") || strings.Contains(body, passed) {
		t.Error("the list shows a run of another user")
	}
	for query, want := range map[string]string{
		"status=pass": passed, "status=blocked": unpriced, "code=approval_missing": unpriced, "repository=bare-repository": bare.RunID, "q=mend+clo": unpriced,
		"since=2020-01-01&status=pass": passed, "until=2020-01-01": "", "outcome=accepted": "", "status=fail": "", "state=canceled": "", "engine=unknown": "", "model=none": "",
	} {
		body := b.get("/?from=nexus&" + query).body
		for _, id := range []string{passed, unpriced, bare.RunID} {
			if has := strings.Contains(body, "/nexus/runs/"+id); has != (id == want) {
				t.Errorf("%s: run %s is listed: %t", query, id, has)
			}
		}
		if want == "" && !strings.Contains(body, "No run of the nexus has all of these filters") {
			t.Errorf("%s: an empty list says nothing", query)
		}
	}
	for _, query := range []string{"status=none", "state=none", "since=yesterday", "outcome=none", "cursor=x"} {
		if out := b.get("/?from=nexus&" + query); out.status != http.StatusBadRequest {
			t.Errorf("%s: status %d", query, out.status)
		}
	}
	if _, err := api.RecordOutcome.Do(t.Context(), w.client(alice), "o", passed, api.OutcomeRequest{Kind: "accepted"}); err == nil {
		t.Error("a run that goes on has an outcome")
	}
}

// TestNexusRunsArePaged lists more runs than a page has, each once, with the filter
// kept from page to page.
func TestNexusRunsArePaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	alice := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	for i := range pageSize + 3 {
		if _, err := api.CreateRun.Do(t.Context(), w.client(alice), fmt.Sprint("k", i), api.None{}, api.RunRequest{RepoRef: "acme/links"}); err != nil {
			t.Fatal(err)
		}
	}
	b, seen, pages := w.login(alice), map[string]bool{}, 0
	for path := "/?from=nexus&repository=acme%2Flinks"; path != "" && pages < 5; pages++ {
		body := b.get(path).body
		for _, piece := range strings.Split(body, `<td><a href="/nexus/runs/`)[1:] {
			id, _, _ := strings.Cut(piece, `"`)
			if seen[id] {
				t.Errorf("%s is there twice", id)
			}
			seen[id] = true
		}
		path = strings.ReplaceAll(between(body, `<a class="btn" href="`, `">Older runs`), "&amp;", "&")
		if path != "" && !strings.Contains(path, "repository=") {
			t.Errorf("the next page is %s", path)
		}
	}
	if len(seen) != pageSize+3 || pages != 2 {
		t.Errorf("%d runs on %d pages", len(seen), pages)
	}
}

// TestSummaryOf: a figure that is not known is no figure, and says why.
func TestSummaryOf(t *testing.T) {
	t.Parallel()
	text := json.RawMessage(`{"engine":{"name":"codex"},"status":"fail","cost_known":false,"cost_micro_usd":0,"unknown":{"tests":"no names"},"outcome":"pending"}`)
	s := OfRun(api.Run{RunID: "run_1", Status: api.RunStatusFailed, Summary: &text, Outcome: new("reverted"), SummarySource: new(api.RunSummarySourceBundle),
		Findings: &[]api.RunFinding{{Code: "journal_chain", Message: "differs"}}})
	if s.Status != "fail" || s.CostCell() != "–" || s.CostWhy() != "what the model cost is not known" || s.Unmeasured() != "no names" || s.OutcomeWord() != "Reverted" ||
		s.Nexus.Told || len(s.Nexus.Findings) != 1 || s.Href() != "/nexus/runs/run_1" {
		t.Errorf("%+v %+v", s, s.Nexus)
	}
	bare := OfRun(api.Run{RunID: "run_2", Status: api.RunStatusCreated})
	if bare.Status != Running || bare.CostCell() != "–" || bare.CostWhy() == "" || bare.Title != "Run run_2" || bare.Unchanged() != "the client did not report it" {
		t.Errorf("%+v", bare)
	}
	if ended := OfRun(api.Run{RunID: "run_3", Status: api.RunStatusCanceled}); ended.Status != "canceled" || ended.Mark() != "none" {
		t.Errorf("a run without a verdict is %s", ended.Status)
	}
	if got := filterOf(url.Values{"from": {"nexus"}, "q": {"a b"}, "since": {"2026-01-01"}, "status": {"pass"}}).With("engine", "x"); got !=
		"/?engine=x&from=nexus&q=a+b&since=2026-01-01&status=pass" {
		t.Error(got)
	}
}

// TestOneRepository: runs of a repository that people name by its URL, its ssh address
// and its name are in one filter, and others are not.
func TestOneRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	b := w.login(token)
	entries := sealedJournal(t, "fail")
	var same []string
	for i, ref := range []string{"acme/links", "https://github.com/acme/links.git", "git@github.com:acme/links.git"} {
		same = append(same, w.tell(token, fmt.Sprint("same", i), ref, entries, nil))
	}
	other := w.tell(token, "other", "https://git.example.org/acme/links", entries, nil)
	list := b.get("/?from=nexus").body
	if n := strings.Count(list, "repository=acme%2Flinks\""); n != 1 || !strings.Contains(list, "repository=git.example.org%2Facme%2Flinks\"") || strings.Contains(list, "github.com") {
		t.Errorf("the menu names the repository %d times", n)
	}
	for _, filter := range []string{"acme/links", "https://github.com/acme/links", "git@github.com:acme/links"} {
		page := b.get("/?" + url.Values{"from": {"nexus"}, "repository": {filter}}.Encode()).body
		for _, id := range same {
			if !strings.Contains(page, "/nexus/runs/"+id) {
				t.Errorf("repository=%s lacks %s", filter, id)
			}
		}
		if strings.Contains(page, other) {
			t.Errorf("repository=%s has a run of another host", filter)
		}
	}
	if page := b.get("/?from=nexus&repository=acme/nothing").body; strings.Contains(page, "/nexus/runs/run_") {
		t.Error("a repository without runs has some")
	}
}
