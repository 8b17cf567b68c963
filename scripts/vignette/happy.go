package main

import (
	"context"
	"encoding/json"
	"fmt"
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
func (v *vignette) walk(ctx context.Context, s *step) error {
	h := &happyRun{out: v.path("bundle"), receipts: map[string]receipt{}}
	v.happy = h
	args := []string{"run", "--nexus", v.nexus.url, "--token-file", v.aliceToken, "--repo", v.repo, "--issue",
		filepath.Join(v.fixture, "ISSUE.md"),
		"--allow", v.target, "--verify", v.verify, "--engine", "fake", "--fake-patch", filepath.Join(v.fixture,
			"fix.patch"), "--json", "--out", h.out}
	done, err := v.procs.run(ctx, v.path("alice"), args)
	if err != nil {
		return err
	}
	var report struct {
		Status     string `json:"status"`
		Session    string `json:"session_id"`
		SessionDir string `json:"session_dir"`
		RunID      string `json:"nexus_run_id"`
	}
	if err := json.Unmarshal(done.stdout, &report); err != nil {
		return fmt.Errorf("remit run: exit %d: %w: %s", done.exit, err, done.stderr)
	}
	s.ok(done.exit == 0 && report.Status == "pass", "remit run takes the issue to a verified, proved and paid change: exit 0, pass",
		done.exit, report.Status, string(done.stderr))
	s.ok(report.RunID != "" && report.Session != "", "it names its session and its run", string(done.stdout))
	h.runID, h.session, h.sessionDir = report.RunID, report.Session, report.SessionDir
	if h.events, err = v.nexus.log(ctx, v.alice, h.runID); err != nil {
		return err
	}
	var list struct {
		Items []job `json:"items"`
	}
	if _, err := v.nexus.get(ctx, v.alice, "/v1/runs/"+h.runID+"/jobs", &list); err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("the run has %d jobs, want 1", len(list.Items))
	}
	h.job = list.Items[0]
	return v.fromIssue(ctx, s)
}

// fromIssue is step 2: the receipts of the claim and of the run.
func (v *vignette) fromIssue(ctx context.Context, s *step) error {
	h := v.happy
	var row struct {
		Owner string `json:"owner"`
		Repo  string `json:"repo_ref"`
		Issue string `json:"issue_ref"`
	}
	if _, err := v.nexus.get(ctx, v.alice, "/v1/runs/"+h.runID, &row); err != nil {
		return err
	}
	s.ok(row.Owner == "alice" && row.Issue != "" && row.Repo != "", "the run is the user's, and names repository and issue", row)
	h.keep(s.receipts(h.events, []shape{
		{"IssueClaimed", []field{{"issue_id", is(row.Issue)}, {"claim_identity", is("user:alice")}, {"repo_ref", is(row.Repo)},
			{"claim_id", begins("clm_")}}},
		{"RunCreated", []field{{"run_id", is(h.runID)}, {"repo_ref", is(row.Repo)}, {"issue_ref", is(row.Issue)}, {"policy_bundle_id", some},
			{"owner", is("alice")}}},
	}))
	s.none("the log has no gap, and every payload and receipt has the digest of its content", integrity(h.events))
	return nil
}

func (h *happyRun) keep(found map[string]receipt) {
	for name, r := range found {
		h.receipts[name] = r
	}
}

// enrolled is step 1 once more: what the dispatch relied on is in the run's log.
func (v *vignette) enrolled(_ context.Context, s *step) error {
	set := []field{{"provider_id", is(v.a.id)}, {"device_id", is(v.a.device)}, {"provider_mode", is("off")}, {"caps_revision", is(1)}}
	limits := caps()
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		set = append(set, field{"caps." + name, is(limits[name])})
	}
	v.happy.keep(s.receipts(v.happy.events, []shape{
		{"DeviceEnrolled", []field{{"device_id", is(v.a.device)}, {"roles", holds("provider")}, {"name", is(v.a.name)}, {"owner", is("alice")}}},
		{"CapsSet", set},
	}))
	return nil
}

// dispatchedJob is step 3.
func (v *vignette) dispatchedJob(ctx context.Context, s *step) error {
	h, j := v.happy, v.happy.job
	s.equal("the job's hash is the SHA-256 of its canonical request", bareDigest(j.Request), j.Hash)
	asked, err := parse(j.Request)
	if err != nil {
		return err
	}
	h.keep(s.receipts(h.events, []shape{
		{"JobDispatched", []field{{"job_type", is(jobType)}, {"job_hash", is(j.Hash)}, {"job_id", is(j.ID)}, {"provider_id", is(v.a.id)},
			{"tier", is("owned")},
			{"idempotency_key", some}, {"reservation_id", is(j.ReservationID)}, {"amount_msats", is(v.a.price)}, {"eligible_providers",
				is(2)}, {"attempt", is(1)}}},
	}))
	commands, _ := at(asked, "commands").([]any)
	s.ok(len(commands) == 1 && text(commands[0], "cmd") == v.verify, "it runs the verification command of the issue", commands)
	source, found := strings.CutPrefix(text(asked, "repo", "source"), "artifact:")
	s.ok(found && isDigest(source) == "" && len(text(asked, "repo", "git_ref")) == 40,
		"over the patched tree, which is named by its digest and commit", at(asked, "repo"))
	pack, err := v.nexus.get(ctx, v.alice, "/v1/runs/"+h.runID+"/artifacts/"+source, nil)
	if err != nil {
		return err
	}
	s.ok(digest(pack.raw) == source && strings.HasPrefix(string(pack.raw), "PACK"), "source.pack is a git pack and has that digest",
		digest(pack.raw))
	foreign := request{as: v.bob, method: http.MethodGet, path: "/v1/runs/" + h.runID + "/artifacts/" + source}
	return v.nexus.refused(ctx, s, "which no other user can read", foreign, http.StatusNotFound, "not_found")
}

// executed is step 4: the artifacts, to the byte.
func (v *vignette) executed(ctx context.Context, s *step) error {
	h, j := v.happy, v.happy.job
	s.equal("the response has the digest that the authority recorded", digest(j.Response), j.ResponseHash)
	h.keep(s.receipts(h.events, []shape{
		{"JobCompleted", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.a.id)}, {"status", is("success")},
			{"response_sha256", is(j.ResponseHash)},
			{"artifacts", items(2)}, {"runs", items(1)}, {"environment.image_digest", is("host")}, {"environment.provider.id", is(v.a.id)},
			{"environment.provider.version", some}, {"environment.provider.os", is("linux")}, {"environment.provider.arch",
				some}, {"environment.provider.kernel", some},
			{"environment.sandbox.driver", some}, {"environment.sandbox.version", some}, {"environment.sandbox.layer", some}}},
		{"CapsEnforced", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.a.id)}, {"caps.cpu_millis", atLeast(1)},
			{"caps.memory_mb", atLeast(1)},
			{"caps.timeout_secs", atLeast(1)}, {"caps.network", is("none")}, {"observed.peak_memory_bytes", atLeast(1)}, {"observed.wall_ms",
				atLeast(1)},
			{"observed.cpu_time_ms", atLeast(1)}, {"within", is(true)}, {"caps_revision", is(1)}}},
	}))
	response, err := parse(j.Response)
	if err != nil {
		return err
	}
	s.none("this machine's sandbox can enforce every cap (if not, remit doctor tells what is missing)", unenforced(response))
	config, _ := at(response, "sandbox", "config").(object)
	s.ok(len(config) > 0, "the environment manifest holds the sandbox's configuration", at(response, "sandbox"))
	return v.outputs(ctx, s, h.receipts["JobCompleted"].Payload)
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
func (v *vignette) outputs(ctx context.Context, s *step, completed object) error {
	runs, _ := at(completed, "runs").([]any)
	if len(runs) != 1 {
		return fmt.Errorf("there are %d runs of commands, want 1", len(runs))
	}
	s.none("the command has exit code, duration and the digests of its output", wrong(runs[0], []field{
		{"exit_code", is(0)}, {"duration_ms", atLeast(1)}, {"stdout_sha256", isDigest}, {"stderr_sha256", isDigest}}))
	artifacts, _ := at(completed, "artifacts").([]any)
	for _, a := range artifacts {
		name, sum := text(a, "path"), text(a, "sha256")
		got, err := v.nexus.get(ctx, v.alice, "/v1/jobs/"+v.happy.job.ID+"/artifacts/"+sum, nil)
		if err != nil {
			return err
		}
		stream := map[string]string{"stdout.0": "stdout_sha256", "stderr.0": "stderr_sha256"}[name]
		s.ok(digest(got.raw) == sum && text(runs[0], stream) == sum && int64(len(got.raw)) == number(a, "size_bytes"),
			name+" can be read, and has the digest and size that the receipt says", digest(got.raw), len(got.raw))
	}
	return nil
}

// judged is step 5.
func (v *vignette) judged(_ context.Context, s *step) error {
	h, j := v.happy, v.happy.job
	h.keep(s.receipts(h.events, []shape{
		{"VerificationPassed", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.a.id)}, {"verifier", some}, {"outcome", is("passed")},
			{"exit_code", is(0)},
			{"reason", is("")}, {"response_sha256", is(j.ResponseHash)}, {"violations", items(0)}}},
	}))
	s.none("no verdict says otherwise", unexpected(h.events, "VerificationFailed", "JobFailed", "JobRejected"))
	return nil
}

// settled is step 6.
func (v *vignette) settled(ctx context.Context, s *step) error {
	h, j := v.happy, v.happy.job
	h.keep(s.receipts(h.events, []shape{
		{"BudgetReserved", []field{{"scope", some}, {"amount_msats", is(v.a.price)}, {"reservation_id", begins("rsv_")},
			{"idempotency_key", some}, {"payer", is(v.account)},
			{"job_hash", is(j.Hash)}}},
		{"PaymentReleased", []field{{"job_hash", is(j.Hash)}, {"amount_msats", is(v.a.price)}, {"reservation_id", is(j.ReservationID)},
			{"provider_id", is(v.a.id)},
			{"resolution_id", some}, {"verification_receipt_sha256", is(h.receipts["VerificationPassed"].SHA256)}}},
	}))
	place := func(name string) int64 { return firstOf(h.events, func(e event) bool { return e.is(name) }) }
	s.ok(place("BudgetReserved") < place("JobDispatched"), "the budget was reserved before the job was dispatched", place("BudgetReserved"),
		place("JobDispatched"))
	s.ok(place("VerificationPassed") < place("PaymentReleased"), "and released after the verdict", place("VerificationPassed"),
		place("PaymentReleased"))
	var again settlement
	if _, err := v.nexus.do(ctx, v.settle(j.ID, "settle-happy-again"), http.StatusOK, &again); err != nil {
		return err
	}
	v.tally.add(again)
	after, err := v.nexus.log(ctx, v.alice, h.runID)
	if err != nil {
		return err
	}
	s.ok(again.Status == "released" && again.ReceiptSHA256 == h.receipts["VerificationPassed"].SHA256,
		"settling it again tells the first settlement", again)
	s.exactly("and writes nothing", keysOf(after), keysOf(h.events))
	s.none("nothing was withheld", unexpected(after, "PaymentWithheld"))
	return nil
}
