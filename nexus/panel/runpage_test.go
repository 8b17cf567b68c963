package panel

import (
	"strings"
	"testing"
	"time"

	"remit/nexus/authority"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// pageOf is the page of one session, as who is at the machine sees it.
func pageOf(t *testing.T, h *memoryHome, query string) string {
	t.Helper()
	w := newWorld(t, h, true)
	out := w.login(w.token("alice", authority.ScopeRead)).get("/runs/" + h.sessions[0].ID + query)
	if out.status != 200 {
		t.Fatalf("status %d: %s", out.status, out.body)
	}
	if got := faults(t, out.body); len(got) != 0 {
		t.Errorf("the page has %q", got)
	}
	return out.body
}

// with is a home of the hostile session with steps before its end.
func with(change func(s *Session), steps ...journal.Entry) *memoryHome {
	h := hostileHome()
	s := *h.sessions[0]
	s.Journal = append(append([]journal.Entry{}, s.Journal[:11]...), append(steps, s.Journal[11:]...)...)
	report := *s.Report
	s.Report = &report
	s.Summary = Summarize(s.ID, s.Phase, s.Repository, s.Journal, s.Report)
	change(&s)
	h.sessions = []*Session{&s}
	return h
}

// TestSourceChangedMeanwhile: a repository that changed while the run went on is not
// called untouched, in the checks and in the timeline.
func TestSourceChangedMeanwhile(t *testing.T) {
	t.Parallel()
	change := &evidence.SourceChange{KeptOutBy: "bwrap", Changes: []evidence.SourceDifference{{What: "worktree: stray.txt"}}}
	checked := func(m *evidence.SourceChange) journal.Entry {
		return entry(20, evidence.StepSourceChecked, "source", journal.Completed, 6*time.Second, 0, nil, evidence.SourceChecked{Meanwhile: m})
	}
	body := pageOf(t, with(func(s *Session) { s.Report.SourceChangedMeanwhile = change }, checked(change)), "")
	const says = "source changed while the run went on (worktree: stray.txt); not judged, since the sandbox (bwrap) kept the run away from it"
	if strings.Contains(body, "Repository untouched") || strings.Contains(body, "unchanged: HEAD") || strings.Count(body, "<small>"+says) != 1 ||
		!strings.Contains(body, `<b>Repository</b> <small title="`+says) {
		t.Errorf("the page does not say it:\n%s", body)
	}
	body = pageOf(t, with(func(*Session) {}, checked(nil)), "")
	if !strings.Contains(body, "Repository untouched") || !strings.Contains(body, "unchanged: HEAD") || strings.Contains(body, says) {
		t.Error("a repository that did not change is said to have changed")
	}
}
