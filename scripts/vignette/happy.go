package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
)

// happyRun is the run of the issue, as `remit run` made it.
type happyRun struct {
	runID, session, sessionDir string
	out                        string // what --out wrote
	events                     []event
	job                        job
	receipts                   map[string]receipt
}

// walk takes the issue through the whole pipeline with one command: the change is
// made and verified here, proved by a provider, paid, and bundled.
func (v *vignette) walk(ctx context.Context, s *step) {
	h := &happyRun{out: v.path("bundle"), receipts: map[string]receipt{}}
	v.happy = h
	args := []string{"run", "--nexus", v.nexus.url, "--token-file", v.aliceToken, "--repo", v.repo,
		"--issue", filepath.Join(v.fixture, "ISSUE.md"), "--allow", v.target, "--verify", v.verify,
		"--engine", "fake", "--fake-patch", filepath.Join(v.fixture, "fix.patch"), "--json", "--out", h.out}
	done := v.procs.run(ctx, v.path("alice"), args)
	var report struct {
		Status     string `json:"status"`
		Session    string `json:"session_id"`
		SessionDir string `json:"session_dir"`
		RunID      string `json:"nexus_run_id"`
	}
	if err := json.Unmarshal(done.stdout, &report); err != nil {
		giveUp("remit run: exit %d: %w: %s", done.exit, err, done.stderr)
	}
	s.ok(done.exit == 0 && report.Status == "pass", "remit run takes the issue to a verified, proved and paid change: exit 0, pass",
		done.exit, report.Status, string(done.stderr))
	s.ok(report.RunID != "" && report.Session != "", "it names its session and its run", string(done.stdout))
	h.runID, h.session, h.sessionDir = report.RunID, report.Session, report.SessionDir
	h.events = v.nexus.log(ctx, v.alice, h.runID)
	jobs := v.jobs(ctx, h.runID)
	if len(jobs) != 1 {
		giveUp("the run has %d jobs, want 1", len(jobs))
	}
	h.job = jobs[0]
	v.fromIssue(ctx, s)
}

// fromIssue is step 2: the receipts of the claim and of the run.
func (v *vignette) fromIssue(ctx context.Context, s *step) {
	h := v.happy
	var row struct {
		Owner string `json:"owner"`
		Repo  string `json:"repo_ref"`
		Issue string `json:"issue_ref"`
	}
	v.nexus.get(ctx, v.alice, "/v1/runs/"+h.runID, &row)
	s.ok(row.Owner == "alice" && row.Issue != "" && row.Repo != "", "the run is the user's, and names repository and issue", row)
	h.keep(s.receipts(h.events, []shape{
		one("IssueClaimed", "issue_id", row.Issue, "claim_identity", "user:alice", "repo_ref", row.Repo, "claim_id", begins("clm_")),
		one("RunCreated", "run_id", h.runID, "repo_ref", row.Repo, "issue_ref", row.Issue, "policy_bundle_id", some, "owner", "alice"),
	}))
	s.none("the log has no gap, and every payload and receipt has the digest of its content", integrity(h.events))
}

func (h *happyRun) keep(found map[string]receipt) { maps.Copy(h.receipts, found) }

// enrolled is step 1 once more: what the dispatch relied on is in the run's log.
func (v *vignette) enrolled(_ context.Context, s *step) {
	set := members("provider_id", v.a.id, "device_id", v.a.device, "provider_mode", "off", "caps_revision", 1)
	limits := caps()
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		set = append(set, field{"caps." + name, is(limits[name])})
	}
	v.happy.keep(s.receipts(v.happy.events, []shape{
		one("DeviceEnrolled", "device_id", v.a.device, "roles", holds("provider"), "name", v.a.name, "owner", "alice"),
		{"CapsSet", set},
	}))
}

// dispatchedJob is step 3.
func (v *vignette) dispatchedJob(ctx context.Context, s *step) {
	h, j := v.happy, v.happy.job
	s.equal("the job's hash is the SHA-256 of its canonical request", bareDigest(j.Request), j.Hash)
	asked := need(parse(j.Request))
	h.keep(s.receipts(h.events, []shape{
		one("JobDispatched", "job_type", jobType, "job_hash", j.Hash, "job_id", j.ID, "provider_id", v.a.id, "tier", "owned",
			"idempotency_key", some, "reservation_id", j.ReservationID, "amount_msats", v.a.price, "eligible_providers", 2, "attempt", 1),
	}))
	commands, _ := at(asked, "commands").([]any)
	s.ok(len(commands) == 1 && text(commands[0], "cmd") == v.verify, "it runs the verification command of the issue", commands)
	source, found := strings.CutPrefix(text(asked, "repo", "source"), "artifact:")
	s.ok(found && isDigest(source) == "" && len(text(asked, "repo", "git_ref")) == 40,
		"over the patched tree, which is named by its digest and commit", at(asked, "repo"))
	pack := v.nexus.get(ctx, v.alice, "/v1/runs/"+h.runID+"/artifacts/"+source, nil)
	s.ok(digest(pack.raw) == source && strings.HasPrefix(string(pack.raw), "PACK"), "source.pack is a git pack and has that digest",
		digest(pack.raw))
	foreign := request{as: v.bob, method: http.MethodGet, path: "/v1/runs/" + h.runID + "/artifacts/" + source}
	v.nexus.refused(ctx, s, "which no other user can read", foreign, http.StatusNotFound, "not_found")
}

// executed is step 4: the artifacts, to the byte.
func (v *vignette) executed(ctx context.Context, s *step) {
	h, j := v.happy, v.happy.job
	s.equal("the response has the digest that the authority recorded", digest(j.Response), j.ResponseHash)
	h.keep(s.receipts(h.events, []shape{
		one("JobCompleted", "job_hash", j.Hash, "provider_id", v.a.id, "status", "success", "response_sha256", j.ResponseHash,
			"artifacts", items(2), "runs", items(1), "environment.image_digest", "host", "environment.provider.id", v.a.id,
			"environment.provider.version", some, "environment.provider.os", "linux", "environment.provider.arch", some,
			"environment.provider.kernel", some, "environment.sandbox.driver", some, "environment.sandbox.version", some,
			"environment.sandbox.layer", some),
		one("CapsEnforced", "job_hash", j.Hash, "provider_id", v.a.id, "caps.cpu_millis", atLeast(1), "caps.memory_mb", atLeast(1),
			"caps.timeout_secs", atLeast(1), "caps.network", "none", "observed.peak_memory_bytes", atLeast(1),
			"observed.wall_ms", atLeast(1), "observed.cpu_time_ms", atLeast(1), "within", true, "caps_revision", 1),
	}))
	response := need(parse(j.Response))
	s.none("this machine's sandbox can enforce every cap (if not, remit doctor tells what is missing)", unenforced(response))
	config, _ := at(response, "sandbox", "config").(object)
	s.ok(len(config) > 0, "the environment manifest holds the sandbox's configuration", at(response, "sandbox"))
	v.outputs(ctx, s, h.receipts["JobCompleted"].Payload)
}

// unenforced lists the caps that the provider's sandbox says it cannot enforce.
func unenforced(response any) (list []string) {
	said, _ := at(response, "sandbox", "not_enforced").([]any)
	for _, item := range said {
		line, _ := item.(string)
		if name, _, _ := strings.Cut(line, ":"); slices.Contains([]string{"cpu", "memory", "disk", "pids", "wall", "network"}, name) {
			list = append(list, line)
		}
	}
	return list
}

// outputs downloads what the command printed and recomputes the digests.
func (v *vignette) outputs(ctx context.Context, s *step, completed object) {
	runs, _ := at(completed, "runs").([]any)
	if len(runs) != 1 {
		giveUp("there are %d runs of commands, want 1", len(runs))
	}
	s.none("the command has exit code, duration and the digests of its output", wrong(runs[0], members("exit_code", 0,
		"duration_ms", atLeast(1), "stdout_sha256", isDigest, "stderr_sha256", isDigest)))
	artifacts, _ := at(completed, "artifacts").([]any)
	for _, a := range artifacts {
		name, sum := text(a, "path"), text(a, "sha256")
		got := v.nexus.get(ctx, v.alice, "/v1/jobs/"+v.happy.job.ID+"/artifacts/"+sum, nil)
		stream := map[string]string{"stdout.0": "stdout_sha256", "stderr.0": "stderr_sha256"}[name]
		s.ok(digest(got.raw) == sum && text(runs[0], stream) == sum && int64(len(got.raw)) == number(a, "size_bytes"),
			name+" can be read, and has the digest and size that the receipt says", digest(got.raw), len(got.raw))
	}
}

// judged is step 5.
func (v *vignette) judged(_ context.Context, s *step) {
	h, j := v.happy, v.happy.job
	h.keep(s.receipts(h.events, []shape{
		one("VerificationPassed", "job_hash", j.Hash, "provider_id", v.a.id, "verifier", some, "outcome", "passed", "exit_code", 0,
			"reason", "", "response_sha256", j.ResponseHash, "violations", items(0)),
	}))
	s.none("no verdict says otherwise", unexpected(h.events, "VerificationFailed", "JobFailed", "JobRejected"))
}

// settled is step 6.
func (v *vignette) settled(ctx context.Context, s *step) {
	h, j := v.happy, v.happy.job
	h.keep(s.receipts(h.events, []shape{
		one("BudgetReserved", "scope", some, "amount_msats", v.a.price, "reservation_id", begins("rsv_"), "idempotency_key", some,
			"payer", v.account, "job_hash", j.Hash),
		one("PaymentReleased", "job_hash", j.Hash, "amount_msats", v.a.price, "reservation_id", j.ReservationID, "provider_id", v.a.id,
			"resolution_id", some, "verification_receipt_sha256", h.receipts["VerificationPassed"].SHA256),
	}))
	place := func(name string) int64 { return firstOf(h.events, func(e event) bool { return e.is(name) }) }
	s.ok(place("BudgetReserved") < place("JobDispatched"), "the budget was reserved before the job was dispatched", place("BudgetReserved"),
		place("JobDispatched"))
	s.ok(place("VerificationPassed") < place("PaymentReleased"), "and released after the verdict", place("VerificationPassed"),
		place("PaymentReleased"))
	var again settlement
	v.nexus.do(ctx, v.settle(j.ID, "settle-happy-again"), http.StatusOK, &again)
	v.tally.add(again)
	after := v.nexus.log(ctx, v.alice, h.runID)
	s.ok(again.Status == "released" && again.ReceiptSHA256 == h.receipts["VerificationPassed"].SHA256,
		"settling it again tells the first settlement", again)
	s.exactly("and writes nothing", keysOf(after), keysOf(h.events))
	s.none("nothing was withheld", unexpected(after, "PaymentWithheld"))
}
