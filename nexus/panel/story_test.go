//go:build !race

package panel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"remit/law/ladder"
	"remit/law/task"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
)

// storyNow is when the pictures of the panel are taken.
var storyNow = time.Date(2026, 11, 23, 15, 4, 0, 0, time.UTC)

// attempt is one run of a task of the story.
type attempt struct {
	id, engine, version, provider, model string
	task                                 string
	at, took                             time.Duration // since ten o'clock
	cost                                 int64
	patch                                string
	added, removed                       int
	fixed, broken, kept                  int
	says                                 string
	block                                *evidence.Blocker
}

// storyTests are the cases of the story's tests. The first fail before the change.
var storyTests = []string{"TestSlug/punctuation", "TestSlug/apostrophe", "TestSlug/two_dashes", "TestSlug/simple", "TestSlug/spaces", "TestSlug/umlaut",
	"TestShorten/same", "TestShorten/other", "TestRedirect/known", "TestRedirect/gone", "TestRedirect/loop"}

const storyPatch = `diff --git a/slug/slug.go b/slug/slug.go
--- a/slug/slug.go
+++ b/slug/slug.go
@@ -8,9 +8,15 @@ import "strings"
 // Make returns the part of an address that a title gets.
 func Make(title string) string {
-	return strings.ReplaceAll(strings.ToLower(title), " ", "-")
+	var b strings.Builder
+	for _, r := range strings.ToLower(title) {
+		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
+			b.WriteRune(r)
+		} else if r == ' ' || r == '-' {
+			b.WriteRune('-')
+		}
+	}
+	return b.String()
 }
 
 // Shorten cuts a slug at a dash.
diff --git a/slug/slug_test.go b/slug/slug_test.go
--- a/slug/slug_test.go
+++ b/slug/slug_test.go
@@ -12,4 +12,5 @@ func TestSlug(t *testing.T) {
 		"simple":      {"Hello", "hello"},
 		"spaces":      {"a b c", "a-b-c"},
+		"two dashes":  {"a -- b", "a-b"},
 	} {
`

// story is a home with the attempts of several agents at some tasks.
type story struct {
	*memoryHome
	of map[string]*memoryHome // by session
}

// Open implements Home.
func (s *story) Open(ctx context.Context, id, name string) (io.ReadSeekCloser, int64, error) {
	if of := s.of[id]; of != nil {
		return of.Open(ctx, id, name)
	}
	return s.memoryHome.Open(ctx, id, name)
}

// Audit implements Home.
func (s *story) Audit(context.Context, string) (*bundle.Report, error) {
	r := &bundle.Report{Status: bundle.Pass, RunStatus: evidence.StatusPass}
	for _, name := range []string{"zip.structure", "manifest.hashes", "schemas", "journal", "projections", "verdict"} {
		r.Gates = append(r.Gates, bundle.GateResult{Name: name, Status: bundle.Pass})
	}
	return r, nil
}

// storyContract is the contract of a task, as it is kept.
func storyContract(t testing.TB, title string, approval bool) (text []byte, of *task.Contract) {
	t.Helper()
	yaml, err := json.Marshal(map[string]any{"task_id": strings.ReplaceAll(strings.ToLower(title), " ", "-"), "title": title,
		"instructions":  "`slug.Make(\"Don't panic!\")` returns `don't-panic!`.\n\nA slug has letters, digits and single dashes, and nothing else. Keep what works.\n",
		"allowed_paths": []string{"slug/**"}, "forbidden_paths": []string{"slug/testdata/**"}, "forbidden_actions": task.DefaultForbiddenActions(),
		"verification_commands": []string{"go test ./..."}, "approval_required": approval, "budget": map[string]any{"max_budget_micro_usd": 500_000, "wall_seconds": 900}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := task.Parse("task.yaml", yaml)
	if err == nil {
		text, err = c.Canonical()
	}
	if err != nil {
		t.Fatal(err)
	}
	return text, c
}

// session is the attempt as a session with its files.
func (a attempt) session(t testing.TB) (*Session, *memoryHome) {
	t.Helper()
	asks := a.block != nil && a.patch == ""
	text, of := storyContract(t, a.task, asks)
	const done = journal.Completed
	var entries []journal.Entry
	add := func(name, step string, status journal.Status, at, took time.Duration, in, out any) {
		entries = append(entries, entry(int64(len(entries)), name, step, status, a.at+at, took, in, out))
	}
	files := &memoryHome{files: map[string]string{}}
	keep := func(name, content string, at time.Duration) {
		files.files[name] = content
		add(evidence.StepArtifact, "artifact-"+name, done, at, 0, nil, evidence.ArtifactRecorded{Path: name, SHA256: canon.Digest([]byte(content)),
			Bytes: int64(len(content)), WrittenAt: storyNow.Format(time.RFC3339)})
	}
	opened := evidence.RunOpened{Title: a.task, CaseID: of.TaskID, ContractSHA256: canon.Digest(text), Engine: evidence.EngineIdentity{Name: a.engine, Version: a.version},
		BaselineCommit: "4be1a7c09d5e2f31"}
	if a.model != "" {
		opened.Model, opened.ModelProvider = &a.model, &a.provider
	}
	add(evidence.StepRunOpened, "run", done, 0, 0, opened, nil)
	add(evidence.StepContract, "contract", done, 0, 0, nil, nil)
	entries[1].Inputs = []byte(`{"contract":` + string(text) + `}`) // its bytes are canonical
	all := []string{"contract", "policy", "admission", "budget", "repository"}
	g := gates{Required: all, Passed: all}
	if asks {
		add(evidence.StepApprovalRequested, "approval", done, time.Millisecond, 0, nil, evidence.Approval{ApprovalID: "apr_4be1a7c09d5e2f314be1a7c09d5e2f31"})
		g = gates{Required: append(all, "approval"), Passed: all, Missing: []string{"approval"}, Ways: []string{a.block.Hint}}
	}
	add(evidence.StepEligibility, "eligibility", done, 2*time.Millisecond, 9*time.Millisecond, nil, map[string]any{"decision": g})
	report := &evidence.Report{Status: evidence.StatusPass, AllowedWritesPassed: true, OperatorOutcome: evidence.Pending}
	if a.patch != "" {
		a.work(add, keep)
	}
	status, name := done, "pass"
	if a.block != nil {
		status, name = journal.Failed, "fail"
		if a.patch == "" {
			name = "blocked"
		}
		report.Status, report.Blockers = name, []evidence.Blocker{*a.block}
	}
	if a.model != "" && a.patch != "" {
		report.Usage = evidence.MeteredUsage{Requests: 6, Tokens: 48_210, CostMicroUSD: a.cost, CostKnown: new(true)}
		add(evidence.StepUsage, "usage", done, a.took, 0, nil, report.Usage)
	}
	add(evidence.StepRunCompleted, "run", status, a.took, 0, nil, evidence.RunCompleted{Status: name, Blockers: report.Blockers})
	return &Session{Summary: Summarize(a.id, Sealed, "acme/links", entries), Journal: entries, Report: report}, files
}

// work adds what an engine and the verifier did.
func (a attempt) work(add func(string, string, journal.Status, time.Duration, time.Duration, any, any), keep func(string, string, time.Duration)) {
	const done = journal.Completed
	part := a.took / 20
	add(evidence.StepWorkspace, "workspace", done, 20*time.Millisecond, 40*time.Millisecond, nil, evidence.WorkspaceCopied{Files: 41})
	add(evidence.StepEngine, "engine", journal.Started, part, 0, evidence.EngineStarted{Engine: a.engine}, nil)
	for i, call := range []string{`{"command":"go test ./..."}`, `{"path":"slug/slug.go"}`, `{"command":"go test ./slug"}`} {
		begin := part + time.Duration(3*i+1)*part
		if a.model != "" {
			add(evidence.StepModel, fmt.Sprint("model", i), done, begin-part/2, part, nil, record.ModelRequest{ModelAsked: a.model, At: storyNow.Truncate(24 * time.Hour).Add(10*time.Hour + a.at + begin - part/2),
				LatencyMS: part.Milliseconds(), Usage: record.TokenUsage{InUncached: 7000, Out: 400}, CostMicroUSD: a.cost / 3, CostKnown: true})
		}
		step := fmt.Sprint("call", i)
		add(evidence.StepTool, step, journal.Started, begin+part/2, 0, evidence.ToolCalled{ID: step, Tool: "bash", Params: json.RawMessage(call)}, nil)
		add(evidence.StepTool, step, done, begin+part/2, part, nil, evidence.ToolReturned{ID: step, ExitCode: new(0), OK: true})
	}
	add(evidence.StepMessage, "message", done, 10*part, 0, nil, evidence.Message{Role: "assistant", Text: a.says})
	add(evidence.StepEngine, "engine", done, part, 10*part, nil, evidence.EngineFinished{Summary: a.says, ExitCode: new(0), Caps: []evidence.Cap{
		{Name: "cpu", Limit: 2000, Observed: 840, Enforced: true, How: "cgroup v2 cpu.max"}, {Name: "memory", Limit: 4 << 30, Observed: 310 << 20, Enforced: true, How: "cgroup v2 memory.max"}}})
	keep(evidence.PatchFile, a.patch, 11*part)
	changed := []evidence.ChangedFile{{Path: "slug/slug.go", Op: "modify", Added: a.added - 1, Removed: a.removed}, {Path: "slug/slug_test.go", Op: "modify", Added: 1}}
	add(evidence.StepPatch, "patch", done, 11*part, part/4, nil, evidence.PatchCaptured{PatchSHA256: canon.Digest([]byte(a.patch)), Files: changed})
	add(evidence.StepWrites, "writes", done, 11*part+part/3, 0, nil, evidence.WritesChecked{})
	phase := func(name, step string, at time.Duration, passed, failed int) {
		add(name, step, done, at, 3*part, nil, evidence.VerifyPhase{Runs: []evidence.CommandRun{{Command: "go test ./...", ExitCode: min(failed, 1), Passed: failed == 0,
			Tests: &evidence.TestCounts{Passed: passed, Failed: failed}}}})
	}
	failing := 3
	phase(evidence.StepVerifyBase, "base", 12*part, len(storyTests)-failing, failing)
	phase(evidence.StepVerifyHead, "head", 15*part, len(storyTests)-a.broken-failing+a.fixed, a.broken+failing-a.fixed)
	var results strings.Builder
	v := evidence.VerificationCompleted{Status: evidence.StatusPass, PassToPass: a.kept, Control: &evidence.Control{Status: evidence.ControlMade, Counting: a.kept, Proved: a.kept},
		NewTests: &evidence.NewTests{Tried: 1, FailWithout: []string{storyTests[2]}}, Observation: &evidence.Observation{Mode: "all", Hunks: 1, Tried: 1}}
	for i, test := range storyTests {
		base, head, message := "pass", "pass", ""
		if i < failing {
			base = "fail"
			if i < a.fixed {
				v.FailToPass = append(v.FailToPass, test)
			} else {
				head, message = "fail", `Make("a -- b") = "a----b", want "a-b"`
			}
		} else if i < failing+a.broken {
			head, message = "fail", `Make("Grüße aus Köln") = "gre-aus-kln", want "gruesse-aus-koeln"`
			v.PassToFail = append(v.PassToFail, test)
		}
		for _, r := range []evidence.TestResult{{Phase: "base", Outcome: base}, {Phase: "head", Outcome: head, Message: message}} {
			r.Command, r.Test, r.Origin, r.File = "go test ./...", "slug."+test, "base", "slug/slug_test.go"
			line, err := json.Marshal(r)
			if err != nil {
				panic(err)
			}
			results.Write(append(line, '\n'))
		}
	}
	keep(evidence.TestResultsFile, results.String(), 18*part)
	keep(evidence.TestLogFile, "=== RUN   TestSlug\n--- PASS: TestSlug (0.00s)\nok  \tlinks/slug\t0.004s\n", 18*part)
	status := done
	if a.block != nil {
		v.Status, v.Blockers, status = evidence.StatusFail, []evidence.Blocker{*a.block}, journal.Failed
	}
	add(evidence.StepVerification, "verify", status, 18*part, 0, nil, v)
	add(evidence.StepSourceChecked, "source", done, 19*part, part/10, nil, evidence.SourceChecked{})
}

// storyHome is the home of the pictures.
func storyHome(t testing.TB) *story {
	t.Helper()
	const slugs, words, router = "A slug keeps punctuation", "Count words of other scripts", "Replace the router"
	failed := func(message string) *evidence.Blocker {
		return &evidence.Blocker{Code: reason.VerificationFailed, Message: message, Evidence: evidence.TestLogFile, Hint: "read the failing cases below; `remit logs` has the whole output"}
	}
	h := &story{&memoryHome{version: 1}, map[string]*memoryHome{}}
	for _, a := range []attempt{
		{id: "20261123T143000Z-router-9d20c4", engine: "claude", version: "2.1.329", provider: "anthropic", model: "claude-sonnet", task: router, at: 4*time.Hour + 30*time.Minute, took: time.Second,
			block: &evidence.Blocker{Code: reason.ApprovalMissing, Message: "the contract needs an approval, and none was given", Hint: "`remit approve ID` decides about the request, or the page Approvals; then run again"}},
		{id: "20261123T131500Z-words-51aa07", engine: "pi", version: "0.73.1", provider: "openai", model: "gpt-large", task: words, at: 3*time.Hour + 15*time.Minute, took: 74 * time.Second, cost: 21_400,
			patch: storyPatch, added: 10, removed: 1, fixed: 3, kept: 8, says: "Words are counted by Unicode categories."},
		{id: "20261123T112000Z-slug-c7f1e2", engine: "claude", version: "2.1.329", provider: "anthropic", model: "claude-sonnet", task: slugs, at: 80 * time.Minute, took: 96 * time.Second, cost: 84_300,
			patch: storyPatch, added: 10, removed: 1, fixed: 3, kept: 8, says: "All tests pass, and two dashes are one."},
		{id: "20261123T104000Z-slug-b03d5a", engine: "codex", version: "0.169.0", provider: "openai", model: "gpt-large", task: slugs, at: 40 * time.Minute, took: 61 * time.Second, cost: 43_700,
			patch: storyPatch, added: 10, removed: 1, fixed: 2, broken: 1, kept: 7, says: "I rewrote Make and ran the tests of the package: everything is green.",
			block: failed("\"go test ./...\" exited with 1; 1 passed before and fails now: slug.TestSlug/simple; 1 failed before and still fails: slug.TestSlug/two_dashes")},
		{id: "20261123T101500Z-slug-4be1a7", engine: "command", version: "1", task: slugs, at: 15 * time.Minute, took: 8 * time.Second,
			patch: storyPatch, added: 10, removed: 1, fixed: 1, kept: 8, says: "", block: failed("\"go test ./...\" exited with 1; 2 failed before and still fail: slug.TestSlug/apostrophe, slug.TestSlug/two_dashes")},
	} {
		s, files := a.session(t)
		h.sessions = append(h.sessions, s)
		h.of[a.id] = files
	}
	return h
}

// storyMatrix is a failure matrix of which every case holds.
func storyMatrix() (out []ladder.MatrixCase) {
	for _, row := range ladder.Rows() {
		for _, c := range row.Cases {
			out = append(out, ladder.MatrixCase{Row: row.Name, Case: c.Name, ExpectedStatus: row.Status, ExpectedCode: row.Expected(c), GotStatus: string(row.Status),
				GotCode: row.Expected(c), Verdict: "held"})
		}
	}
	return out
}

// storyLadder is how far the engines of the story have come.
func storyLadder(context.Context) (json.RawMessage, error) {
	status := ladder.Summarize([]ladder.Records{{Engine: "codex", Matrix: &ladder.MatrixRecord{Record: ladder.Record{Path: "ladder/codex/matrix.json", SHA256: "sha256:" + strings.Repeat("4b", 32)},
		Status: evidence.StatusPass, Held: 12, Total: 12, FinishedAt: "2026-11-20T09:12:00Z", Current: true, Cases: storyMatrix()}}, {Engine: "claude"}, {Engine: "pi"}})
	lane := func(engine, version, provider, model, next string, proven int, then ladder.State, why string) ladder.Lane {
		l := ladder.Lane{Engine: engine, Version: version, Provider: provider, Model: model, NextAction: next, ProvenStage: proven}
		for i, stage := range status.Stages {
			s := ladder.LaneStage{Stage: stage.Number, Name: stage.Name, State: ladder.NotYet, Why: "after stage " + fmt.Sprint(proven+1)}
			switch {
			case i < proven:
				s.State, s.Why, s.Proof = ladder.Proven, "20 November", new("proofs/"+engine)
			case i == proven:
				s.State, s.Why = then, why
			}
			l.Stages = append(l.Stages, s)
		}
		return l
	}
	status.Attach(ladder.ControlOf([]ladder.Lane{
		lane("codex", "0.169.0", "openai", "gpt-large", "remit prove --engine codex --stage 4", 3, ladder.NotYet, "next"),
		lane("claude", "2.1.329", "anthropic", "claude-sonnet", "remit prove --engine claude --stage 3", 2, ladder.Stale, "the program has another digest since 21 November"),
		lane("pi", "0.73.1", "openai", "gpt-large", "remit agent setup pi", 1, ladder.Blocked, "the admission of the model ended on 22 November"),
	}))
	return json.Marshal(status)
}

// storyWorld has the story, and a nexus with machines, money, runs and an approval.
func storyWorld(t testing.TB, dress func(*Panel)) (w *world, token string, pages map[string]string) {
	t.Helper()
	h := storyHome(t)
	w = newWorldAt(t, place{clock: func() time.Time { return storyNow }, dress: dress}, h, true, storyLadder)
	scopes := []string{authority.ScopeRead, authority.ScopeRuns, authority.ScopeApprove, authority.ScopeJobs, authority.ScopeProviders, authority.ScopeTreasury}
	token = w.token("alice", scopes...)
	w.machine(token, "workshop", 1000)
	w.machine(token, "attic", 600)
	text, _ := storyContract(t, "Replace the router", true)
	asked, err := api.RequestApproval.Do(t.Context(), w.client(token), "ask", api.None{}, api.ApprovalRequest{Contract: string(text), RepoRef: "acme/links"})
	if err != nil {
		t.Fatal(err)
	}
	w.fund(token, 250_000)
	told := w.tell(token, "told", "acme/links", sealedJournal(t, "fail"), nil)
	ended := w.ended(token, "ended", "pass")
	slug := "/runs/" + h.sessions[3].ID
	pages = map[string]string{"run-fail": slug, "run-pass": "/runs/" + h.sessions[2].ID, "run-blocked": "/runs/" + h.sessions[0].ID, "run-split": slug + "?view=split", "run-audit": "/runs/" + h.sessions[2].ID + "?audit=1",
		"approval": "/approvals/" + asked.Value.ApprovalID, "compare": compareHref([]Summary{h.sessions[2].Summary, h.sessions[3].Summary, h.sessions[4].Summary}),
		"nexus-run-told": "/nexus/runs/" + told, "nexus-run": "/nexus/runs/" + ended, "login": "/login", "error": "/nothing"}
	for _, path := range pagesOf(t, h.sessions[3].ID, h.sessions[2].ID, asked.Value.ApprovalID) {
		if !strings.HasPrefix(path, "/runs/"+h.sessions[3].ID) && !strings.HasPrefix(path, "/approvals/") && !strings.HasPrefix(path, "/compare?") {
			pages[pictureName(path)] = path
		}
	}
	for _, part := range []string{"journal", "changes", "log/" + evidence.TestLogFile} {
		pages["run-"+strings.Split(part, "/")[0]] = slug + "/" + part
	}
	return w, token, pages
}

// pictureName is what the picture of an address is called.
func pictureName(path string) string {
	name := strings.Trim(strings.NewReplacer("/?", "-", "/", "-", "?", "-", "=", "-", "&", "-").Replace(path), "-")
	if path == "/" {
		name = "runs"
	}
	return name
}
