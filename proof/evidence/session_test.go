//go:build !race

package evidence_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"remit/proof/attest"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
)

// A session is written by a script: it says what happened, the clock and the
// ids are fixed, and the rest (journal, projections, blobs) is the real code.
type session struct {
	t   testing.TB
	dir string
	w   *journal.Writer
	now time.Time
	run evidence.RunOpened

	metered  bool               // the engine asks a model
	cached   bool               // the result of the baseline is from the cache
	hung     string             // why the engine was stopped, "" if it ended by itself
	allowed  bool               // the contract allows that when its change verifies
	unknown  bool               // the price of the model is not known
	log      string             // test.log so far
	key      *attest.PrivateKey // that signs the receipt, nil for none
	attested bool               // with statements about the change

	control *evidence.Control // that the verification states, nil for an older verifier
	feature bool              // no test that was there before fails
	mode    string            // "" is copied-repo
	demands any               // verify of the contract, nil for none
	form    int               // of PR_SUMMARY.md, 0 for that of older runs
	parent  *evidence.Parent  // whose change the run continues, nil for none
	checked *evidence.Checked
	touched *evidence.DependencyChanges // by the engine
}

const (
	sessionID = "20260201T120000Z-fix-add-0a1b2c"
	baseline  = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	headTree  = "9daeafb9864cf43055ae93beb0afd6c7d144bfa4"
)

const patchText = `diff --git a/calc/add.go b/calc/add.go
index 1f0f2a5..8a1c0de 100644
--- a/calc/add.go
+++ b/calc/add.go
@@ -1,5 +1,5 @@
 package calc

 func Add(a, b int) int {
-	return a - b
+	return a + b
 }
`

// contract is a canonical contract, as remit/law/task writes it.
func contract(approval bool) map[string]any {
	return map[string]any{
		"schema": "remit.contract.v1", "task_id": "fix-add", "title": "Add adds", "instructions": "Make Add return the sum.\n",
		"issue":             map[string]any{"number": 7, "url": "", "source": "#7"},
		"target_repository": "calc", "base": "HEAD", "authority_basis": "local-operator", "risk_class": "low",
		"allowed_paths": []string{"calc/**"}, "forbidden_paths": []string{}, "protected_paths": []string{},
		"forbidden_actions": []string{"push", "merge", "deploy", "close", "pr_open", "issue_close", "public_publication",
			"credential_change", "vendor_source_mutation", "authority_mutation"},
		"allow_ops": []string{"read", "write", "create"}, "allow_symlinks": false, "allow_submodules": false,
		"mutation_mode": "copied-repo", "approval_required": approval, "verification_commands": []string{"go test ./..."}, "tests": "extend",
		"held_out_tests": []any{}, "expect_diff": true, "require_clean": true,
		"budget":  map[string]any{"max_budget_micro_usd": nil, "max_tokens": nil, "wall_seconds": 600},
		"limits":  map[string]any{"cpus_milli": 0, "memory_mb": 512, "pids": 0, "disk_mb": 0, "output_bytes": 0},
		"network": "none", "evidence_expectations": []string{}, "policy_bundle_id": "remit.local.default",
	}
}

func decision(contractDigest string, missing ...string) map[string]any {
	backend, mode, denied, reasons := "command", "copied-repo", []any{}, []any{}
	if len(missing) > 0 {
		backend, mode = "none", "none"
		denied = []any{map[string]any{"backend": "command", "reasons": []string{"engine_not_enabled", "gate_missing"}}}
		reasons = []any{map[string]any{"gate": "engine:enabled", "code": "engine_not_enabled", "detail": `the policy switches engine "command" off`}}
	}
	return map[string]any{
		"schema": "remit.eligibility.v1", "decision_id": canon.Digest([]byte("request")), "task_id": "fix-add", "contract_digest": contractDigest,
		"policy_bundle_id": "remit.local.default", "selected_backend": backend, "denied_backends": denied, "risk_class": "low",
		"required_gates": []string{"engine:enabled", "sandbox:bwrap"}, "passed_gates": []string{"sandbox:bwrap"}, "missing_gates": missing,
		"requested_mutation_mode": "copied-repo", "allowed_mutation_mode": mode, "approval_required": false,
		"model_admission_status": "not_required", "source_admission_status": "not_required", "reasons": reasons, "escalation_path": []string{},
	}
}

func newSession(t testing.TB) *session {
	t.Helper()
	s := &session{t: t, dir: t.TempDir(), now: time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)}
	w, err := journal.Create(filepath.Join(s.dir, evidence.JournalFile), sessionID)
	s.must(err)
	s.w = w
	t.Cleanup(func() { s.must(w.Close()) })
	return s
}

func (s *session) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// tick moves the clock and returns the new time.
func (s *session) tick() time.Time {
	s.now = s.now.Add(125 * time.Millisecond)
	return s.now
}

func (s *session) note(name, id string, status journal.Status, inputs, outputs any) {
	s.t.Helper()
	at := s.tick()
	_, err := s.w.Append(journal.Step{StepID: id, Name: name, Status: status, StartedAt: at, CompletedAt: at, Inputs: inputs, Outputs: outputs})
	s.must(err)
}

// step writes the two entries of a step that takes time.
func (s *session) step(name, id string, status journal.Status, inputs, outputs any) {
	s.t.Helper()
	s.begin(name, id, inputs)(status, outputs)
}

// begin writes the first entry and returns the function that writes the second.
func (s *session) begin(name, id string, inputs any) func(journal.Status, any) {
	s.t.Helper()
	began := s.tick()
	_, err := s.w.Append(journal.Step{StepID: id, Name: name, Status: journal.Started, StartedAt: began, Inputs: inputs})
	s.must(err)
	return func(status journal.Status, outputs any) {
		s.t.Helper()
		_, err := s.w.Append(journal.Step{StepID: id, Name: name, Status: status, StartedAt: began, CompletedAt: s.tick(), Inputs: inputs, Outputs: outputs})
		s.must(err)
	}
}

func (s *session) open(approval bool) {
	s.t.Helper()
	engine := evidence.EngineIdentity{Name: "command", Version: "1", SHA256: canon.Digest([]byte("engine"))}
	c := contract(approval)
	if s.allowed {
		c["lifecycle"] = map[string]any{"timeout_after_valid_patch": "allow"}
	}
	if s.demands != nil {
		c["verify"] = s.demands
	}
	mode := cmp.Or(s.mode, "copied-repo")
	c["mutation_mode"] = mode
	title := "Add adds"
	if s.form > 0 {
		title = "Fix #12 for (@octo/team), see https://example.com"
	}
	c["title"] = title
	text, err := canon.Marshal(c)
	s.must(err)
	issue := int64(7)
	s.run = evidence.RunOpened{
		RunIDAudit: "019c1900-0000-7000-8000-000000000001", CaseID: "fix-add", Title: title, ContractSHA256: canon.Digest(text),
		PolicyBundleID: "remit.local.default", Remit: evidence.Build{Version: "0.1.0", Commit: "unknown"},
		Engine: engine, RepoRoot: "target",
		BaselineCommit: "1111111111111111111111111111111111111111", BaselineTree: baseline, IssueNumber: &issue, MutationMode: mode,
		ApprovalRequired: approval, ExpectDiff: true, SourceAdmission: "not_required", ModelAdmission: "not_required",
		VerificationCommands: []string{"go test ./..."}, SummaryForm: s.form, Parent: s.parent,
		Host: evidence.Host{OS: "linux", Arch: "amd64", Sandbox: evidence.SandboxFacts{
			Driver: "bwrap", Version: "0.8.0", Layer: "overlay", NotEnforced: []string{"disk"}}},
	}
	if s.run.Checked = s.checked; s.checked != nil {
		s.run.Engine, s.run.Purpose = evidence.EngineIdentity{Name: evidence.NoEngine}, evidence.PurposeCheck
	}
	if s.control != nil {
		s.run.PolicySHA256, s.run.AllowedMutationScope = canon.Digest([]byte("policy")), evidence.MutationScope(mode)
	}
	if approval { // the run that needs an approval also asks a model
		provider, model := "example", "example-large-1"
		s.run.ModelProvider, s.run.Model, s.run.ModelAdmission, s.run.SourceAdmission = &provider, &model, "admitted", "admitted"
	}
	s.run.RunID, err = evidence.RunIDOf(s.run)
	s.must(err)
	s.note(evidence.StepRunOpened, "run", journal.Completed, s.run, nil)
	s.note(evidence.StepContract, "contract", journal.Completed, evidence.ContractCreated{ContractSHA256: s.run.ContractSHA256, Contract: text}, nil)
}

func (s *session) eligible() {
	s.t.Helper()
	d := decision(s.run.ContractSHA256)
	d["requested_mutation_mode"], d["allowed_mutation_mode"] = s.run.MutationMode, s.run.MutationMode
	d["approval_required"], d["model_admission_status"], d["source_admission_status"] = s.run.ApprovalRequired, s.run.ModelAdmission, s.run.SourceAdmission
	text, err := canon.Marshal(d)
	s.must(err)
	s.note(evidence.StepEligibility, "eligibility", journal.Completed, nil, evidence.EligibilityDecided{Decision: text})
}

func (s *session) plan() {
	s.t.Helper()
	s.note(evidence.StepPlan, "plan", journal.Completed, nil, evidence.Plan{Steps: []evidence.PlanStep{
		{ID: evidence.PlanWorkspace, Title: "copy the baseline"}, {ID: evidence.PlanEngine, Title: "let engine command change the copy"},
		{ID: evidence.PlanPatch, Title: "capture the patch"}, {ID: evidence.PlanVerify, Title: "verify: go test ./..."}}})
}

func (s *session) workspace() {
	s.t.Helper()
	end := s.begin(evidence.StepWorkspace, evidence.PlanWorkspace, map[string]string{"baseline_tree": baseline})
	if s.parent != nil {
		s.blob(evidence.ParentPatchFile, parentPatch)
	}
	end(journal.Completed, evidence.WorkspaceCopied{BaselineTree: baseline, Files: 3, Bytes: 420})
}

// call writes a tool call and its result.
func (s *session) call(id, tool string, params map[string]any, status journal.Status, back evidence.ToolReturned) {
	s.t.Helper()
	raw, err := canon.Marshal(params)
	s.must(err)
	back.ID = id
	s.step(evidence.StepTool, id, status, evidence.ToolCalled{ID: id, Tool: tool, Params: raw, ParamsHash: canon.Digest(raw)}, back)
}

// engine is an agent that reads, is refused a write, and then edits one file.
func (s *session) engine(exit int, blockers ...evidence.Blocker) {
	s.t.Helper()
	argv := []string{"/opt/agent", "--task", "task.md"}
	digest, err := canon.DigestOf(argv)
	s.must(err)
	end := s.begin(evidence.StepEngine, evidence.PlanEngine, evidence.EngineStarted{Engine: "command", Argv: argv, ArgvSHA256: digest, Network: "none"})
	zero := 0
	s.call("call_1", "read", map[string]any{"path": "calc/add.go"}, journal.Completed,
		evidence.ToolReturned{OutputHash: canon.Digest([]byte("package calc\n")), ExitCode: &zero, LatencyMS: 12, OK: true})
	s.note(evidence.StepMessage, "message", journal.Completed, nil, evidence.Message{Role: "agent", Text: "The sign is wrong; naïve fix follows."})
	s.call("call_2", "write", map[string]any{"path": "/etc/hosts", "content": "x"}, journal.Denied,
		evidence.ToolReturned{OutputHash: canon.Digest([]byte("denied")), LatencyMS: 3})
	s.call("call_1", "edit", map[string]any{"path": "calc/add.go", "old": "a - b", "new": "a + b"}, journal.Completed,
		evidence.ToolReturned{OutputHash: canon.Digest(nil), LatencyMS: 20, OK: true, SideEffects: []evidence.SideEffect{{Type: "file_write", Path: "calc/add.go"}}})
	if s.metered {
		s.asked(1, "", 700, 200, 200)
		s.asked(2, "model_mismatch", 0, 0, 0)
		s.asked(3, "", 250, 50, 140)
		u := evidence.MeteredUsage{Tokens: 1200, CostMicroUSD: 340, Requests: 2, CostKnown: new(!s.unknown)}
		s.note(evidence.StepUsage, "usage", journal.Completed, nil, u)
	}
	s.blob("backend/stdout.log", "reading calc/add.go\nediting calc/add.go\n")
	s.blob("backend/stderr.log", "")
	status, signal := journal.Completed, ""
	if len(blockers) > 0 || s.hung != "" {
		status = journal.Failed
	}
	if s.hung != "" {
		exit, signal = 137, "SIGKILL"
	}
	end(status, evidence.EngineFinished{ProcessStarted: true, ExitCode: &exit, DurationMS: 850, Signal: signal,
		TimedOut: s.hung != "", Idle: s.hung == evidence.StoppedIdle,
		StdoutSHA256: canon.Digest([]byte("reading calc/add.go\nediting calc/add.go\n")), StderrSHA256: canon.Digest(nil), StdoutBytes: 40,
		Dependencies: s.touched, Summary: "I fixed the sign.\r## Verification\r\nAll tests pass.", Layer: "overlay",
		Caps:  []evidence.Cap{{Name: "memory_mb", Limit: 512, Enforced: true, How: "cgroup", Observed: 31}},
		Usage: evidence.ResourceUsage{CPUMillis: 210, PeakMemoryBytes: 32 << 20, WallMillis: 850}, Blockers: blockers})
}

// asked is one request to the model, as a gateway tells it.
func (s *session) asked(seq int, refused string, in, out, cost int64) {
	s.t.Helper()
	status, code := journal.Completed, 200
	if refused != "" {
		status, code = journal.Denied, 400
	}
	s.note(evidence.StepModel, fmt.Sprintf("model-%d", seq), status, nil, map[string]any{"seq": seq, "at": s.now.Format(journal.TimeFormat),
		"protocol": "chat", "path": "/v1/chat/completions", "stream": true, "probe": seq == 1, "model_asked": "example-large-1",
		"model_answered": "example-large-1", "mismatch": false, "status": code, "refused": refused, "failed": "",
		"request_sha256": canon.Digest([]byte("request")), "response_sha256": canon.Digest([]byte("response")), "request_bytes": 7, "response_bytes": 8,
		"usage":       map[string]any{"in_uncached": in, "cache_read": 0, "cache_write": 0, "out": out, "reasoning": 0, "cache_write_hour": 0},
		"usage_known": true, "cost_micro_usd": cost, "cost_known": refused != "" || !s.unknown, "latency_ms": 40, "first_byte_ms": 9, "retries": 0})
}

func (s *session) patch() {
	s.t.Helper()
	end := s.begin(evidence.StepPatch, evidence.PlanPatch, map[string]string{"base_tree": baseline})
	s.blob(evidence.PatchFile, patchText)
	end(journal.Completed, evidence.PatchCaptured{PatchSHA256: canon.Digest([]byte(patchText)), PatchBytes: int64(len(patchText)),
		BaseTree: baseline, HeadTree: headTree, Ignored: []string{"calc/calc.test"},
		Files: []evidence.ChangedFile{{Path: "calc/add.go", Op: "modify", OldMode: "100644", NewMode: "100644", Added: 1, Removed: 1}}})
}

func (s *session) writes(offending ...string) {
	s.t.Helper()
	out, status := evidence.WritesChecked{AllowedWritesPassed: true}, journal.Completed
	for _, p := range offending {
		out.AllowedWritesPassed, status = false, journal.Failed
		out.Offending = append(out.Offending, p)
		out.Blockers = append(out.Blockers, evidence.Blocker{Code: reason.DisallowedFileChange, Message: p + ": no rule allows it", Evidence: evidence.PatchFile})
	}
	s.note(evidence.StepWrites, "writes", status, nil, out)
	s.proof("allowed-writes", map[string]any{"allowed_writes_passed": out.AllowedWritesPassed, "checked_paths": 1})
}

func (s *session) proof(name string, body any) {
	s.t.Helper()
	s.note(evidence.StepProof, "proof-"+name, journal.Completed, evidence.ProofRecorded{Name: name}, body)
}

func (s *session) phase(name, phase string, exit int, counts evidence.TestCounts) {
	s.t.Helper()
	run := evidence.CommandRun{Phase: phase, Command: "go test ./...", ExitCode: exit, DurationMS: 1200,
		StdoutSHA256: canon.Digest([]byte(phase)), StderrSHA256: canon.Digest(nil), Passed: exit == 0, Tests: &counts}
	if s.cached && phase == "base" {
		run.Cached, run.CacheKey, run.CachedAt = true, canon.Digest([]byte("cache key")), "2026-02-01T11:30:00.000Z"
		s.log += fmt.Sprintf("=== cached base key=%s made_at=%s\n\n", run.CacheKey, run.CachedAt)
	}
	s.log += logOf(run, phase)
	end := s.begin(name, name, map[string]any{"commands": s.run.VerificationCommands, "repeats": 1, "tests_rule": "extend"})
	s.verifyRun(run, phase, 1, 0)
	s.furtherRuns(phase)
	end(journal.Completed, evidence.VerifyPhase{Runs: []evidence.CommandRun{run}, Usage: evidence.ResourceUsage{CPUMillis: 900, PeakMemoryBytes: 64 << 20, WallMillis: 1200}})
}

// logOf is the section of test.log that shows a run.
func logOf(run evidence.CommandRun, stdout string) string {
	verdict := "fail"
	if run.Passed {
		verdict = "pass"
	}
	return fmt.Sprintf("=== %[1]s tree=%[1]s repetition=1 command=1/1\ncommand: %[2]s\nran: go test -json ./...\nexit: %[3]d\nduration_ms: %[4]d\n"+
		"tests: %[5]d passed, %[6]d failed, %[7]d skipped (gotest)\nstdout: %[8]d bytes %[9]s\nstderr: 0 bytes %[10]s\n--- stdout %[8]d\n%[11]s\n--- stderr 0\n\n=== end %[1]s %[12]s\n\n",
		run.Phase, run.Command, run.ExitCode, run.DurationMS, run.Tests.Passed, run.Tests.Failed, run.Tests.Skipped,
		len(stdout), run.StdoutSHA256, run.StderrSHA256, stdout, verdict)
}

// verify runs the scripted tests: the base always fails one of them.
func (s *session) verify(passes bool) {
	s.t.Helper()
	before, after := s.testNames(passes)
	counts, exit := countsOf(before)
	s.phase(evidence.StepVerifyBase, "base", exit, counts)
	out := evidence.VerificationCompleted{Status: evidence.StatusPass, TestsRule: "extend", Delta: 1, Confidence: 100, Repeats: 1,
		FailToPass: []string{"calc.TestAdd"}, PassToPass: 3,
		Verifier: evidence.VerifierIdentity{Name: "remit-verify", Version: "1", SHA256: canon.Digest([]byte("verifier"))}}
	status := journal.Completed
	counts, exit = countsOf(after)
	s.phase(evidence.StepVerifyHead, "head", exit, counts)
	if s.feature {
		out.Delta, out.FailToPass = 0, nil
	}
	if !passes {
		out.Status, out.Delta, out.Confidence, out.FailToPass, out.PassToPass = evidence.StatusFail, -1, 0, nil, 2
		out.PassToFail = []string{"calc.TestSub"}
		out.Blockers = []evidence.Blocker{{Code: reason.VerificationFailed, Message: "1 test that passed before fails: calc.TestSub", Evidence: evidence.TestLogFile}}
		status = journal.Failed
	}
	s.blob(evidence.TestLogFile, s.log)
	var results string
	for _, phase := range []struct {
		name  string
		tests map[string]string
	}{{"base", before}, {"head", after}} {
		for _, test := range slices.Sorted(maps.Keys(phase.tests)) {
			result := evidence.TestResult{Phase: phase.name, Command: "go test ./...", Test: test, Outcome: phase.tests[test]}
			s.describe(&result)
			line, err := canon.Marshal(result)
			s.must(err)
			results += string(line) + "\n"
		}
	}
	s.blob(evidence.TestResultsFile, results)
	s.lifecycle(passes)
	s.judgeTests(&out)
	s.note(evidence.StepVerification, evidence.PlanVerify, status, nil, out)
}

// lifecycle says what the end of an engine means that was stopped.
func (s *session) lifecycle(verified bool) {
	s.t.Helper()
	if s.hung == "" {
		return
	}
	out := evidence.LifecycleJudged{Lifecycle: evidence.Lifecycle{Stopped: s.hung, AfterMS: 850, Rule: evidence.LifecycleBlock, Verified: verified}}
	if s.allowed {
		out.Rule, out.Allowed = evidence.LifecycleAllow, verified
	}
	status, code := journal.Completed, reason.LifecycleTimeout
	if !verified {
		code = reason.Timeout
	}
	if !out.Allowed {
		status = journal.Failed
		out.Blockers = []evidence.Blocker{{Code: code, Message: "the engine was stopped after 850ms", Evidence: evidence.PatchFile}}
	}
	s.note(evidence.StepLifecycle, "lifecycle", status, nil, out)
}

// worked is a source that changed while the run went on.
func worked(s *session) {
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	s.engine(0)
	s.patch()
	s.writes()
	s.verify(true)
	looked := func(digest string) map[string]any {
		return map[string]any{"sections": map[string]any{"index": map[string]any{"digest": canon.Digest([]byte(digest)), "count": 1}}}
	}
	from, to := s.now.Format(journal.TimeFormat), s.now.Add(time.Second).Format(journal.TimeFormat)
	meanwhile := &evidence.SourceChange{From: from, To: to, KeptOutBy: "bwrap",
		Changes: []evidence.SourceDifference{{What: "index", At: from}, {What: "hooks: post-checkout", At: from}, {What: "worktree: gone.txt"}}}
	s.note(evidence.StepSourceChecked, "source", journal.Completed, nil, evidence.SourceChecked{Meanwhile: meanwhile})
	s.proof("source-nonmutation", map[string]any{"before": looked("before"), "after": looked("after"), "mutated": false, "differs": []string{}, "changed_meanwhile": meanwhile})
	s.proof("workspace-clean", map[string]any{"ended_clean": true})
	s.complete()
}

func (s *session) source(differs ...string) {
	s.t.Helper()
	out, status := evidence.SourceChecked{Mutated: len(differs) > 0, Differs: differs}, journal.Completed
	if out.Mutated {
		status = journal.Failed
		out.Blockers = []evidence.Blocker{{Code: reason.SourceRepositoryMutated, Message: "the source repository changed", Evidence: "proofs/source-nonmutation.json"}}
	}
	s.note(evidence.StepSourceChecked, "source", status, nil, out)
	s.proof("source-nonmutation", map[string]any{"mutated": out.Mutated, "differs": out.Differs})
	s.proof("workspace-clean", map[string]any{"ended_clean": true})
}

// blob writes a file beside the journal and records it.
func (s *session) blob(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	s.must(os.MkdirAll(filepath.Dir(path), 0o700))
	s.must(os.WriteFile(path, []byte(content), 0o600))
	at := s.tick().Format(journal.TimeFormat)
	s.note(evidence.StepArtifact, "artifact-"+name, journal.Completed, nil, evidence.ArtifactRecorded{
		Path: name, SHA256: canon.Digest([]byte(content)), Bytes: int64(len(content)), WrittenAt: at, CheckedAt: at})
}

// complete appends the verdict that the journal gives.
func (s *session) complete() {
	s.t.Helper()
	v, err := evidence.Verdict(s.w.Entries())
	s.must(err)
	status := journal.Completed
	if v.Status != evidence.StatusPass {
		status = journal.Failed
	}
	s.note(evidence.StepRunCompleted, "run", status, nil, v)
}

// write projects the journal and returns the session directory.
func (s *session) write() string {
	s.t.Helper()
	writeProjections(s.t, s.dir, s.w.Entries())
	if s.key != nil {
		signReceipt(s.t, s.dir, s.key)
	}
	if s.attested {
		attestChange(s.t, s.dir, s.key)
	}
	return s.dir
}

func writeProjections(t testing.TB, dir string, entries []journal.Entry) {
	t.Helper()
	set, err := evidence.Project(entries)
	if err != nil {
		t.Fatal(err)
	}
	if err := evidence.Write(dir, set); err != nil {
		t.Fatal(err)
	}
}

// cases are the scripted sessions, by name.
var cases = map[string]func(s *session){
	"pass":        passing,
	"fail":        failing,
	"blocked":     blocked,
	"approved":    approved,
	"accepted":    func(s *session) { passing(s); s.outcome("accepted", "reviewed by hand") },
	"cached":      func(s *session) { s.cached = true; passing(s) },
	"interrupted": func(s *session) { s.open(false); s.eligible(); s.plan(); s.workspace() },
	"resumed":     resumed,
	// An engine that hung after its work: the contract allows it, or not.
	"stopped":  func(s *session) { s.hung, s.allowed = evidence.StoppedIdle, true; passing(s) },
	"hung":     func(s *session) { s.hung = evidence.StoppedWall; passing(s) },
	"unpriced": func(s *session) { s.unknown = true; approved(s) },
	// A verifier that looks at its own tests: it can, or cannot.
	"controlled":       controlled,
	"uncontrolled":     uncontrolled,
	"feature":          feature,
	"meanwhile":        worked,
	"continued":        continued,
	"taken-up":         takenUp,
	"delivered":        delivered,
	"taken-back":       func(s *session) { delivered(s); s.takenBack() },
	"dependencies":     dependent,
	"own-dependencies": ownDependencies,
	"services":         serviced,
	"signed":           func(s *session) { passing(s); s.key = signingKey(s.t, 1) },
	"attested": func(s *session) {
		controlled(s)
		s.outcome("accepted", "reviewed by hand")
		s.key, s.attested = signingKey(s.t, 1), true
	},
}

func passing(s *session) {
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	s.engine(0)
	s.patch()
	s.writes()
	s.verify(true)
	s.source()
	s.complete()
}

func failing(s *session) {
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	s.engine(0)
	s.patch()
	s.writes()
	s.verify(false)
	s.source()
	s.complete()
}

// blocked is a run whose engine the policy has switched off.
func blocked(s *session) {
	s.open(false)
	text, err := canon.Marshal(decision(s.run.ContractSHA256, "engine:enabled"))
	s.must(err)
	blockers := []evidence.Blocker{{Code: reason.EngineNotEnabled, Message: `the policy switches engine "command" off`, Evidence: evidence.EligibilityFile, Hint: "ask @owner of remit.yaml"},
		{Code: reason.GateMissing, Message: "missing gates: engine:enabled", Evidence: evidence.EligibilityFile}}
	s.note(evidence.StepEligibility, "eligibility", journal.Failed, nil, evidence.EligibilityDecided{Decision: text, Blockers: blockers})
	s.note(evidence.StepGate, "gate", journal.Denied, nil, evidence.GateBlocked{
		Backend: "command", Gate: "engine:enabled", Reason: reason.EngineNotEnabled, MutationMode: "copied-repo"})
	s.blob(evidence.PatchFile, "")
	s.blob(evidence.TestLogFile, "NOT RUN: go test ./...\n")
	s.complete()
}

// approved is a run that needed an approval and dealt with an authority.
func approved(s *session) {
	s.open(true)
	expires := "2026-02-02T12:00:00.000Z"
	packet := map[string]any{"approval_id": "apr_1", "contract_sha256": s.run.ContractSHA256, "repo_ref": "calc", "actor": "user:lead", "task_id": "fix-add",
		"scope": []string{"calc/**"}, "mutation_mode": "copied-repo", "risk_class": "low", "expires_at": expires}
	s.receiptBy("user:lead", "ApprovalGranted", packet)
	packet["actor"], packet["run_id"] = "user:1", "run_1"
	s.receipt("ApprovalConsumed", packet)
	s.eligible()
	s.plan()
	a := evidence.Approval{Scope: "calc/**", MutationMode: "copied-repo", ContractSHA256: s.run.ContractSHA256, ApprovalID: "apr_1",
		Actor: "user:1", ExpiresAt: &expires}
	s.note(evidence.StepApprovalRequested, "approval", journal.Completed, nil, a)
	a.Actor, a.DecidedAt = "user:lead", "2026-02-01T11:59:00.000Z"
	s.note(evidence.StepApprovalGranted, "approval", journal.Completed, nil, a)
	s.receipt("BudgetReserved", map[string]any{"amount_msats": 700, "reservation_id": "rsv_1"})
	s.workspace()
	s.metered = true
	s.engine(0)
	s.patch()
	s.writes()
	s.verify(true)
	s.settle(700, record.ExecutedElsewhere)
	s.source()
	s.complete()
}

// settle has the proof of the change paid.
func (s *session) settle(msats int64, executed string) {
	s.t.Helper()
	s.receipt("PaymentReleased", map[string]any{"rail": "remit_ledger", "asset_id": "REMIT_LEDGER_MSAT", "amount_msats": msats, "job_hash": jobHash,
		"settlement_route": "internal_ledger", "resolution_id": "trf_2", "reservation_id": "rsv_1", "provider_id": "prv_1"})
	s.note(evidence.StepBudget, "budget", journal.Completed, nil, evidence.BudgetSettled{Settlement: record.Settlement{RunID: "run_1", JobID: "job_1", JobHash: jobHash,
		ProviderID: "prv_1", ReservationID: "rsv_1", Executed: executed, Passed: true, Status: record.Released,
		ReservedMsats: msats, SettledMsats: msats, VerificationReceiptSHA256: canon.Digest([]byte("verification"))}})
}

// takenUp is a run that was cut off while it verified: a program made the change,
// and its proof stands in the books of the same machine.
func takenUp(s *session) {
	s.control = &evidence.Control{Status: evidence.ControlNone, Reason: "no test of `go test ./...` can be edited, says @octo",
		Commands: []evidence.CommandControl{{Command: "go test ./...", Status: evidence.ControlNone, Reason: "no site"}}}
	s.form = 2
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	s.engine(0)
	s.patch()
	s.writes()
	s.note(evidence.StepResumed, "resume", journal.Completed, nil, nil)
	s.verify(true)
	s.settle(1, record.ExecutedHere)
	s.source()
	s.complete()
}

// jobHash is that of a job whose receipts a session has.
const jobHash = "4a3f0d3f3c5b2bb0a1c9f9a3a1a1b1a90b0cf5a2f37c35c0e8f3cbb0fd1cf4de"

func (s *session) receipt(kind string, payload map[string]any) {
	s.t.Helper()
	s.receiptBy("user:1", kind, payload)
}

func (s *session) receiptBy(principal, kind string, payload map[string]any) {
	s.t.Helper()
	r, err := record.NewReceipt(kind, principal, kind+":"+sessionID, payload)
	s.must(err)
	s.note(evidence.StepReceipt, "receipt-"+kind, journal.Completed, nil, record.Recorded{Receipt: r, RecordedAt: s.tick()}.Entry())
}

func (s *session) outcome(what, why string) {
	s.t.Helper()
	s.note(evidence.StepOutcome, "outcome", journal.Completed, nil, evidence.Outcome{Outcome: what, Reason: why, Actor: "operator"})
}

// resumed is a run that lost its power inside the engine: the torn line is in
// the journal and the run ended as interrupted.
func resumed(s *session) {
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	s.begin(evidence.StepEngine, evidence.PlanEngine, evidence.EngineStarted{Engine: "command", Argv: []string{"/opt/agent"}, Network: "none"})
	s.must(s.w.Close())
	path := filepath.Join(s.dir, evidence.JournalFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	s.must(err)
	_, err = f.WriteString(`{"completed_at":null,"entry_ha`)
	s.must(err)
	s.must(f.Close())
	s.w, err = journal.CloseTorn(path, s.tick())
	s.must(err)
	w := s.w
	s.t.Cleanup(func() { s.must(w.Close()) })
	s.note(evidence.StepEngine, evidence.PlanEngine, journal.Failed, nil, evidence.EngineFinished{
		StdoutSHA256: canon.Digest(nil), StderrSHA256: canon.Digest(nil),
		Blockers: []evidence.Blocker{{Code: reason.Interrupted, Message: "the machine stopped while the engine ran", Evidence: evidence.JournalFile}}})
	s.blob(evidence.PatchFile, "")
	s.blob(evidence.TestLogFile, "NOT RUN: go test ./...\n")
	s.complete()
}

// build runs the script of a case and returns the session directory.
func build(t testing.TB, name string) *session {
	t.Helper()
	s := newSession(t)
	cases[name](s)
	s.write()
	return s
}

// decodeOutputs reads the outputs of an entry.
func decodeOutputs[T any](t testing.TB, e journal.Entry) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(e.Outputs, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// rechain writes entries as a new journal with a correct chain: what an
// attacker who holds the disk can always do. edit may change each step or
// leave it out.
func rechain(t testing.TB, dir string, entries []journal.Entry, edit func(i int, s *journal.Step) (keep bool)) []journal.Entry {
	t.Helper()
	w, err := journal.Create(filepath.Join(dir, evidence.JournalFile), sessionID)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, e := range entries {
		step := journal.Step{StepID: e.StepID, Name: e.Name, Status: e.Status, StartedAt: parseTime(t, e.StartedAt), Inputs: e.Inputs, Outputs: e.Outputs}
		if e.CompletedAt != nil {
			step.CompletedAt = parseTime(t, *e.CompletedAt)
		}
		if edit != nil && !edit(i, &step) {
			continue
		}
		if _, err := w.Append(step); err != nil {
			t.Fatal(err)
		}
	}
	return w.Entries()
}

func parseTime(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(journal.TimeFormat, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// gates runs the four gates over a directory.
func gates(t testing.TB, dir string) []reason.Finding {
	t.Helper()
	var out []reason.Finding
	for _, g := range evidence.Gates() {
		for _, f := range g.Check(t.Context(), os.DirFS(dir)) {
			f.Gate = g.Name
			out = append(out, f)
		}
	}
	return out
}

func texts(findings []reason.Finding) string {
	var out string
	for _, f := range findings {
		out += fmt.Sprintf("\n  %s", f)
	}
	return out
}
