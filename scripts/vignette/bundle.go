package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The receipts of steps 1 to 6 that a bundle has to hold.
var proven = []string{
	"DeviceEnrolled", "CapsSet", "IssueClaimed", "RunCreated", "BudgetReserved", "JobDispatched", "JobCompleted", "CapsEnforced",
	"VerificationPassed", "PaymentReleased",
}

// bundled is step 7: the change goes out as a branch, and everything that was
// receipted is in the bundle.
func (v *vignette) bundled(ctx context.Context, s *step) {
	h := v.happy
	v.uploaded(ctx, s, filepath.Join(h.out, "BUNDLE.zip"))
	v.exported(ctx, s)
	final := v.path("bundle.zip")
	v.command(ctx, "export", h.session, "--to", "zip", "--out", final)
	v.amended(ctx, s, final)
	for _, audited := range []string{filepath.Join(h.out, "BUNDLE.zip"), final} {
		done := v.procs.run(ctx, v.path("alice"), []string{"audit", audited})
		s.ok(done.exit == 0, "remit audit accepts "+filepath.Base(audited), string(done.stdout), string(done.stderr))
	}
	done := need(v.procs.finish(exec.CommandContext(ctx, "python3", "vectors/verify.py", final)))
	s.ok(done.exit == 0, "so does the second verifier, in Python", string(done.stdout), string(done.stderr))
	summary := need(os.ReadFile(filepath.Join(h.sessionDir, "PR_SUMMARY.md")))
	s.ok(strings.Contains(string(summary), h.session) && strings.Contains(string(summary), v.target),
		"PR_SUMMARY.md names the session and the changed file", string(summary))
	v.receipted(ctx, s)
}

// command runs the program as the user and demands exit 0.
func (v *vignette) command(ctx context.Context, args ...string) finished {
	done := v.procs.run(ctx, v.path("alice"), args)
	if done.exit != 0 {
		giveUp("remit %s: exit %d: %s%s", strings.Join(args, " "), done.exit, done.stdout, done.stderr)
	}
	return done
}

// uploaded compares the bundle at the authority with the one on disk.
func (v *vignette) uploaded(ctx context.Context, s *step, zip string) {
	sum := fileDigest(zip)
	a := v.nexus.get(ctx, v.alice, "/v1/runs/"+v.happy.runID+"/artifacts/"+sum, nil)
	s.equal("the sealed bundle is at the nexus, byte for byte", digest(a.raw), sum)
}

// amended compares the bundle that the authority serves after the export with
// the one that was sealed by it.
func (v *vignette) amended(ctx context.Context, s *step, zip string) {
	sum := fileDigest(zip)
	a := v.nexus.get(ctx, v.alice, "/v1/runs/"+v.happy.runID+"/bundle", nil)
	s.equal("the nexus serves the bundle as it was sealed after the export", digest(a.raw), sum)
}

// exported puts the change on a branch, and looks for it in the repository.
func (v *vignette) exported(ctx context.Context, s *step) {
	const branch = "remit/vignette"
	done := v.command(ctx, "export", v.happy.session, "--to", "branch", "--branch", branch, "--json", "--nexus", v.nexus.url,
		"--token-file", v.aliceToken)
	var said struct {
		Branch string `json:"branch"`
		Commit string `json:"commit"`
	}
	must(json.Unmarshal(done.stdout, &said))
	head := need(os.ReadFile(filepath.Join(v.repo, ".git", "refs", "heads", filepath.FromSlash(branch))))
	s.ok(said.Branch == branch && said.Commit != "" && strings.TrimSpace(string(head)) == said.Commit,
		"the change is a commit on a new branch of the repository", said, string(head))
	events := v.nexus.log(ctx, v.alice, v.happy.runID)
	v.happy.events = events
	s.receipts(events, []shape{one("ForgeUpdated", "branch", branch, "commit", said.Commit, "pr_ref", "refs/heads/"+branch)})
	told, others := toldJournal(events)
	journal := entryHashes(filepath.Join(v.happy.sessionDir, "journal.jsonl"))
	s.ok(len(told) > 0 && len(told) <= len(journal) && slices.Equal(told, journal[:len(told)]),
		"the log of the run holds the journal as the client sent it, in order and once", told, journal)
	j := v.happy.job
	s.exactly("and exactly the events of steps 1 to 7, by key", keysOf(others),
		slices.Concat(createdKeys(), leasedKeys(v.a, j.Hash, 1, j.Fence), answeredKeys(j.Hash, "completed", 1),
			settledKeys(j.Hash, "released"), []string{"run-finished", "forge-updated:" + said.Commit + ":" + bareDigest([]byte(branch))}))
}

// toldJournal parts the entries of the run's journal from the other events of its
// log.
func toldJournal(events []event) (hashes []string, others []event) {
	for _, e := range events {
		if e.Type != "journal" {
			others = append(others, e)
			continue
		}
		hashes = append(hashes, text(need(parse(e.Payload)), "entry_hash"))
	}
	return hashes, others
}

// entryHashes reads those of a journal.
func entryHashes(path string) (hashes []string) {
	for line := range bytes.Lines(need(os.ReadFile(path))) {
		hashes = append(hashes, text(need(parse(line)), "entry_hash"))
	}
	return hashes
}

// receipted compares RECEIPT.json and REPLAY.jsonl with the authority's log.
func (v *vignette) receipted(_ context.Context, s *step) {
	var logged []string
	for _, e := range v.happy.events {
		if r, ok := e.receipt(); ok {
			logged = append(logged, r.Type+" "+r.SHA256)
		}
	}
	doc := need(parse(need(os.ReadFile(filepath.Join(v.happy.sessionDir, "RECEIPT.json")))))
	var inReceipt, unsealed []string
	list, _ := at(doc, "receipts").([]any)
	for _, item := range list {
		payload, _ := at(item, "payload").(object)
		r := receipt{Type: text(item, "type"), Payload: payload, Principal: text(item, "principal"), Key: text(item, "idempotency_key"),
			SHA256: text(item, "receipt_sha256")}
		inReceipt = append(inReceipt, r.Type+" "+r.SHA256)
		if !r.sealed() {
			unsealed = append(unsealed, r.Type)
		}
	}
	s.exactly("RECEIPT.json holds every receipt of the run's log, and no other", inReceipt, logged)
	s.none("each with the digest of its content", unsealed)
	for _, name := range append(proven, "ForgeUpdated") {
		s.ok(strings.Contains(strings.Join(inReceipt, "\n")+"\n", name+" sha256:"), "RECEIPT.json holds "+name, inReceipt)
	}
	payments, _ := at(doc, "payments").([]any)
	if s.equal("RECEIPT.json holds one payment", len(payments), 1) {
		s.none("of the job, at its price", wrong(payments[0], members("job_hash", v.happy.job.Hash, "amount_msats", v.a.price,
			"status", "released", "rail", some, "asset_id", some, "payment_proof.type", some, "payment_proof.value", some,
			"payment_proof.reservation_id", v.happy.job.ReservationID)))
	}
	replayed := runtimeEvents(filepath.Join(v.happy.sessionDir, "REPLAY.jsonl"))
	s.exactly("REPLAY.jsonl plays every receipt of the run's log, and no other", replayed, logged)
}

// runtimeEvents lists the receipts that a replay plays.
func runtimeEvents(path string) (list []string) {
	for line := range bytes.Lines(need(os.ReadFile(path))) {
		v, err := parse(line)
		if err != nil {
			giveUp("%s: %w", path, err)
		}
		if text(v, "event") == "RuntimeEvent" {
			list = append(list, text(v, "runtime_event_type")+" "+text(v, "payload_hash"))
		}
	}
	return list
}
