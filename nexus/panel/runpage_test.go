//go:build !race

package panel

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remit/law/task"
	"remit/nexus/authority"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
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
	s.Summary = Summarize(s.ID, s.Phase, s.Repository, s.Journal)
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

// TestNotAsSealed: what is shown of a file is held against the digest that was
// recorded, wherever it is shown.
func TestNotAsSealed(t *testing.T) {
	t.Parallel()
	h := hostileHome()
	sealed := func(name string) journal.Entry {
		text := h.files[name]
		return entry(20, evidence.StepArtifact, "artifact-"+name, journal.Completed, 6*time.Second, 0, nil,
			evidence.ArtifactRecorded{Path: name, SHA256: canon.Digest([]byte(text)), Bytes: int64(len(text))})
	}
	steps := []journal.Entry{sealed(evidence.PatchFile), sealed(evidence.TestLogFile), sealed(evidence.TestResultsFile)}
	manifest := strings.TrimPrefix(canon.Digest([]byte("{}")), "sha256:") + "  " + evidence.SummaryFile + "\n"
	const warning = "not as sealed: <code>"
	for name, c := range map[string]struct {
		change func(files map[string]string)
		path   string
		want   string // the name, "" for no warning
	}{
		"nothing":              {func(map[string]string) {}, "", ""},
		"the log as it was":    {func(map[string]string) {}, "/log/" + evidence.TestLogFile, ""},
		"the change as it was": {func(map[string]string) {}, "/changes", ""},
		"a patch of the same size": {func(f map[string]string) {
			f[evidence.PatchFile] = strings.Replace(f[evidence.PatchFile], "+evil", "+good", 1)
		}, "", evidence.PatchFile},
		"a longer patch":           {func(f map[string]string) { f[evidence.PatchFile] += "+x\n" }, "/changes", evidence.PatchFile},
		"no patch":                 {func(f map[string]string) { delete(f, evidence.PatchFile) }, "", evidence.PatchFile},
		"a log":                    {func(f map[string]string) { f[evidence.TestLogFile] += "ok\n" }, "/log/" + evidence.TestLogFile, evidence.TestLogFile},
		"a log, on the run's page": {func(f map[string]string) { f[evidence.TestLogFile] += "ok\n" }, "", evidence.TestLogFile},
		"results of tests":         {func(f map[string]string) { f[evidence.TestResultsFile] = "" }, "", evidence.TestResultsFile},
		"a document":               {func(f map[string]string) { f[evidence.SummaryFile] = "{]" }, "/log/" + evidence.SummaryFile, evidence.SummaryFile},
		"a document as it was":     {func(f map[string]string) { f[evidence.SummaryFile] = "{}" }, "/log/" + evidence.SummaryFile, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := with(func(*Session) {}, steps...)
			h.files[evidence.ManifestFile] = manifest
			c.change(h.files)
			body := pageOf(t, h, c.path)
			if c.want == "" && strings.Contains(body, warning) || c.want != "" && !strings.Contains(body, warning+c.want+"<") {
				t.Errorf("the warning is %q", between(body, warning, "<"))
			}
		})
	}
	running := with(func(s *Session) { s.Phase = Running }, steps...)
	running.files[evidence.TestLogFile] = "begun anew\n"
	if body := pageOf(t, running, ""); strings.Contains(body, warning) {
		t.Error("a file that is being written is held against the run before")
	}
}

// TestAddressOfTheList: a status has the name that pages give it, and what an
// address cannot have is said on the page.
func TestAddressOfTheList(t *testing.T) {
	t.Parallel()
	h := hostileHome()
	h.sessions[0].Status, h.sessions[1].Status = evidence.StatusBlocked, Running
	w := newWorld(t, h, true)
	b := w.login(w.token("alice", authority.ScopeRead))
	blocked, running := `href="/runs/`+h.sessions[0].ID, `href="/runs/`+h.sessions[1].ID
	for query, want := range map[string]struct {
		blocked, running bool
		says             string
	}{
		"status=blocked": {true, false, ""}, "status=block": {true, false, ""}, "status=Blocked": {true, false, ""}, "status=running": {false, true, ""},
		"status=run": {false, true, ""}, "status=pass": {}, "": {true, true, ""},
		"status=evil<b>": {true, true, "There is no status &#34;evil&lt;b&gt;&#34;"}, "from=evil<b>": {true, true, "from=evil&lt;b&gt; is no list of runs"}, "before=evil": {true, true, "before=evil is not the id of a session"},
		"before=" + h.sessions[0].ID: {false, true, ""},
	} {
		out := b.get("/?" + query)
		if strings.Contains(out.body, blocked) != want.blocked || strings.Contains(out.body, running) != want.running {
			t.Errorf("%s: the runs are not those", query)
		}
		if said := between(out.body, `role="alert">`, "<"); !strings.HasPrefix(said, want.says) || (said == "") != (want.says == "") {
			t.Errorf("%s: it says %q", query, said)
		}
	}
}

// TestDamagedSession: a journal that cannot be read is called damaged, in the list
// and on the page, with what to type.
func TestDamagedSession(t *testing.T) {
	t.Parallel()
	h := hostileHome()
	const id = "20261123T100000Z-b-2"
	h.sessions[0] = DamagedSession(id, reason.Errorf(reason.JournalSyntax, "line 14 is no entry: %s", oneLine))
	body := pageOf(t, h, "")
	for _, want := range []string{"<b class=\"block\">Damaged</b>", "The journal of this session is damaged: line 14", "<code>remit audit " + id + "</code>", "the journal cannot be read"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %s", want)
		}
	}
	if strings.Contains(body, "chain intact") {
		t.Error("the chain is called intact")
	}
	w := newWorld(t, h, true)
	b := w.login(w.token("alice", authority.ScopeRead))
	if out := b.get("/"); !strings.Contains(out.body, "</svg>Damaged</span>") {
		t.Error("the list does not say damaged")
	}
	for _, path := range []string{"/journal", "/log/test.log", "/changes"} {
		if out := b.get("/runs/" + id + path); out.status >= 500 {
			t.Errorf("%s: %d", path, out.status)
		}
	}
}

// TestWhatToDo: a change is offered only where a person may want it, and by commands
// that take such a run, with what each does.
func TestWhatToDo(t *testing.T) {
	t.Parallel()
	const fail, block = evidence.StatusFail, evidence.StatusBlocked
	for _, c := range []struct {
		code            reason.Code
		status          string
		judged          bool
		apply, goes, by bool // git apply, --continue, --patch-of
	}{
		{reason.VerificationFailed, fail, true, true, true, false}, {reason.Timeout, block, true, true, false, false}, {reason.Cancelled, block, false, true, false, true},
		{reason.ReviewRequired, block, true, true, false, false}, {reason.DisallowedFileChange, fail, false, false, true, false}, {reason.ProtectedPath, fail, false, false, true, false},
		{reason.ProviderRefused, block, true, true, false, false}, {reason.ModelMismatch, block, true, false, false, false}, {reason.VerifierTampering, fail, true, false, true, false}, {reason.SecretLeak, fail, false, false, false, false}, {reason.ApprovalMissing, block, false, false, false, false},
	} {
		h := with(func(s *Session) {
			s.Status, s.Engine = c.status, "command"
			s.Report.AllowedWritesPassed = true
			s.Report.Blockers = []evidence.Blocker{{Code: c.code, Message: "m"}}
			if !c.judged {
				s.Journal = slices.DeleteFunc(slices.Clone(s.Journal), func(e journal.Entry) bool { return e.Name == evidence.StepVerification })
			}
		})
		id := h.sessions[0].ID
		body := pageOf(t, h, "")
		for command, want := range map[string]bool{"git apply</code>": c.apply, "remit run --continue " + id + " --message &#34;what is to be changed&#34; -- COMMAND</code>": c.goes,
			"remit run --patch-of " + id: c.by, "<code>remit logs " + id: true, "<code>remit audit " + id + "</code>": true, "of this run, which did not pass, into the working tree": c.apply,
			"did not run on this change": !c.judged} {
			if strings.Contains(body, command) != want {
				t.Errorf("%s: it offers %q: %v", c.code, command, !want)
			}
		}
	}
	outside := with(func(s *Session) { s.Report.Blockers = []evidence.Blocker{{Code: reason.VerificationFailed}} })
	if strings.Contains(pageOf(t, outside, ""), "git apply</code>") {
		t.Error("the page offers a change whose paths were not allowed")
	}
}

// TestAskedIsAbove: what was asked stands above why and the artifacts, as text.
func TestAskedIsAbove(t *testing.T) {
	t.Parallel()
	h := hostileHome()
	s := h.sessions[0]
	given := entry(13, evidence.StepContract, "contract", journal.Completed, 0, 0, nil, nil)
	given.Inputs = []byte(`{"contract":` + contract(t) + `}`) // its bytes are canonical
	s.Journal = append(s.Journal, given)
	body := pageOf(t, h, "")
	at := strings.Index(body, `id="asked"`)
	if at < 0 || at > strings.Index(body, `id="why"`) || !strings.Contains(body[at:], "evil &lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt; <code>code</code>") {
		t.Errorf("asked at %d", at)
	}
	if strings.Contains(body, "network none") || !strings.Contains(body, "no network") || !strings.Contains(body, "<dd>anything else</dd>") {
		t.Error("the limits are not said in words")
	}
	d := runPage{Contract: &task.Contract{Instructions: strings.Repeat("line\n", 20)}}
	if got := d.Asked(); strings.Count(got, "line") != askedLines || !strings.HasSuffix(got, "…") {
		t.Errorf("it begins %q", got)
	}
}

// TestSentenceCounts: one case fails, two fail.
func TestSentenceCounts(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "It fixes nothing: 1 case still fails.", 2: "It fixes nothing: 2 cases still fail."} {
		d := runPage{Session: &Session{Summary: Summary{Phase: Sealed, Status: evidence.StatusFail}}, Verified: &verified{Failing: make([]failing, n)}}
		if got := d.sentence(); !strings.HasPrefix(got, want) {
			t.Errorf("%q", got)
		}
	}
}

// TestHintNamesTheRun: what to type has the ids that the page knows, and keeps the word
// for one that it does not.
func TestHintNamesTheRun(t *testing.T) {
	t.Parallel()
	const hint = "`remit approve ID` decides; `remit show SESSION` says where"
	d := &runPage{Session: &Session{Summary: Summary{ID: "20261123T100000Z-a-1", Code: string(reason.ApprovalMissing)}}}
	d.entry(entry(0, evidence.StepApprovalRequested, "approval", journal.Completed, 0, 0, nil, evidence.Approval{ApprovalID: "apr_1"}))
	if got := d.Named(hint); got != "`remit approve apr_1` decides; `remit show 20261123T100000Z-a-1` says where" || d.Asking() != "" {
		t.Errorf("%q, %q", got, d.Asking())
	}
	d.Summary.Nexus = &NexusFacts{RunID: "run_1", Session: "20261123T100000Z-b-2"}
	if got := d.Named(hint); !strings.Contains(got, "show 20261123T100000Z-b-2`") || d.Asking() != "/approvals/apr_1" {
		t.Errorf("%q, %q", got, d.Asking())
	}
	d = &runPage{Session: &Session{Summary: Summary{Nexus: &NexusFacts{}}}}
	if got := d.Named(hint); got != hint || d.Asking() != "" {
		t.Errorf("%q, %q", got, d.Asking())
	}
}
