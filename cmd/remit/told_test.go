package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// told checks what the nexus has of a session: its summary, made from the bundle, and
// each entry of its journal in the log of the run, in order and once. It returns the id
// of the run at the nexus.
func (n *nexus) told(t *testing.T, token string, r ran) (run string) {
	t.Helper()
	log, err := journal.ReadFile(filepath.Join(r.Dir, evidence.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := evidence.SummaryOf(log.Entries)
	if err != nil {
		t.Fatal(err)
	}
	text, err := canon.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var page api.RunPage
	answer := n.do(token, "GET", "/v1/runs?text="+r.Session[len(r.Session)-6:]+"&verdict="+r.Status, "", nil, http.StatusOK)
	if err := json.Unmarshal([]byte(answer.raw), &page); err != nil || len(page.Items) != 1 {
		t.Fatalf("the nexus knows %d runs of %s %s: %v", len(page.Items), r.Status, r.Session, err)
	}
	is := page.Items[0]
	if is.Summary == nil || string(*is.Summary) != string(text) || *is.SummarySource != api.RunSummarySourceBundle || len(*is.Findings) != 0 {
		t.Errorf("%s: the nexus says %s\nof %s with %v, the session\n%s", is.RunID, api.Value(is.Summary), api.Value(is.SummarySource), api.Value(is.Findings), text)
	}
	if is.FinishedAt == nil || is.Journal == nil || is.Journal.Entries > int64(len(log.Entries)) {
		t.Fatalf("%+v", is)
	}
	var hashes []string
	for _, e := range n.events(t, token, is.RunID) {
		var told api.JournalEntry
		if e.EventType == "journal" && json.Unmarshal(e.Payload, &told) == nil {
			hashes = append(hashes, told.EntryHash)
		}
	}
	verdict := slices.IndexFunc(log.Entries, func(e journal.Entry) bool { return e.Name == evidence.StepRunCompleted })
	if len(hashes) != int(is.Journal.Entries) || len(hashes) <= verdict {
		t.Errorf("%d entries were sent, and the verdict is entry %d of %d", len(hashes), verdict, len(log.Entries))
	}
	for i, hash := range hashes {
		if hash != log.Entries[i].EntryHash {
			t.Errorf("entry %d was sent as another one", i)
		}
	}
	return is.RunID
}

// events is the log of a run.
func (n *nexus) events(t *testing.T, token, run string) (out []api.Event) {
	t.Helper()
	for cursor := ""; ; {
		var page api.EventPage
		if err := json.Unmarshal([]byte(n.do(token, "GET", "/v1/runs/"+run+"/events?limit=500"+cursor, "", nil, http.StatusOK).raw), &page); err != nil {
			t.Fatal(err)
		}
		out = append(out, page.Items...)
		if page.NextCursor == nil {
			return out
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// dispatchedFor are the engines that the jobs of a run were dispatched for.
func (n *nexus) dispatchedFor(t *testing.T, token, run string) (engines []string) {
	t.Helper()
	for _, e := range n.events(t, token, run) {
		var rc struct {
			Type    string `json:"receipt_type"`
			Payload struct{ Engine string }
		}
		if e.EventType == "receipt" && json.Unmarshal(e.Payload, &rc) == nil && rc.Type == "JobDispatched" {
			engines = append(engines, rc.Payload.Engine)
		}
	}
	return engines
}

// foundByCommand looks for a run as an operator does.
func (c *change) foundByCommand(run string, flags ...string) {
	c.t.Helper()
	var list struct{ Items []api.Run }
	out := c.remit(0, append([]string{"runs", "list", "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	if !slices.ContainsFunc(list.Items, func(r api.Run) bool { return r.RunID == run }) {
		c.t.Errorf("remit runs list %s does not find %s", strings.Join(flags, " "), run)
	}
}
