package jobs

import (
	"encoding/json"
	"fmt"
	"slices"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
	"remit/proof/record"
)

// Settlement is how a job was judged and paid, with the reasons of the verdict.
type Settlement struct {
	record.Settlement
	Outcome    job.Outcome
	ExitCode   int
	Violations []record.Violation
}

// Settle judges the stored response of a job, moves its money and marks its
// provider. It writes exactly four events into the run's log. Settling again
// returns the first settlement with changed=false and writes nothing.
func Settle(tx *store.Tx, p authority.Principal, id string) (s Settlement, changed bool, err error) {
	if err := p.Require(authority.ScopeJobs); err != nil {
		return Settlement{}, false, err
	}
	j, err := lockOwn(tx, p, id)
	if err != nil {
		return Settlement{}, false, err
	}
	switch state := State(j.State); {
	case j.Outcome != "":
		s, err := settlementOf(j)
		return s, false, err
	case state == Expired:
		return Settlement{}, false, reason.Errorf(reason.ReservationExpired, "the reservation of job %s ran out before it was settled", id)
	case state.Final():
		return Settlement{}, false, reason.Errorf(reason.JobClosed, "job %s is %s: %s", id, state, j.Reason)
	case state != Submitted:
		return Settlement{}, false, reason.Errorf(reason.Conflict, "job %s is %s: there is no response to judge", id, state)
	}
	if s, err = settle(tx, p, j); err != nil {
		return Settlement{}, false, err
	}
	return s, true, nil
}

// settle decides first, then moves the money, which may still be refused, and
// only then writes the rest.
func settle(tx *store.Tx, p authority.Principal, j Job) (Settlement, error) {
	req, resp, err := read(j.Type, j.Request, j.Response)
	if err != nil {
		return Settlement{}, fmt.Errorf("settle job %s: %w", j.ID, err)
	}
	verdict := job.Check(req, resp)
	money, _, err := treasury.Resolve(tx, j.ReservationID, treasury.Resolution{
		Release: verdict.Passed, Reason: string(verdict.Reason), JobID: j.ID, ExitCode: verdict.ExitCode, Passed: verdict.Passed,
	})
	if err != nil {
		return Settlement{}, err
	}
	if err := setState(&j, Verified); err != nil {
		return Settlement{}, err
	}
	violations, err := json.Marshal(verdict.Violations)
	if err != nil {
		return Settlement{}, fmt.Errorf("settle job %s: %w", j.ID, err)
	}
	j.VerifiedAt, j.ClosedAt = tx.Now(), tx.Now()
	j.Outcome, j.ExitCode, j.Reason, j.Violations = string(verdict.Outcome), int64(verdict.ExitCode), string(verdict.Reason), violations
	j.Payment = money.Status
	proof, err := verification(tx, p, j, verdict, req, resp)
	if err != nil {
		return Settlement{}, err
	}
	j.ReceiptSHA256 = proof
	if err := (paid{job: j, status: money.Status, reason: j.Reason, resolution: money.ResolutionID, exitCode: verdict.ExitCode, verification: proof}).record(tx, p); err != nil {
		return Settlement{}, err
	}
	to := Failed
	if verdict.Passed {
		to = Settled
	}
	if err := setState(&j, to); err != nil {
		return Settlement{}, err
	}
	if j, err = save(tx, j); err != nil {
		return Settlement{}, err
	}
	if err := endAttempt(tx, j, string(to)); err != nil {
		return Settlement{}, err
	}
	if err := markProvider(tx, j, verdict); err != nil {
		return Settlement{}, err
	}
	return settlementOf(j)
}

// verification writes the receipt and the event of a verdict, and returns the
// digest of the receipt.
func verification(tx *store.Tx, p authority.Principal, j Job, v job.Verdict, req job.Request, resp job.Response) (string, error) {
	receiptType := record.VerificationFailed
	if v.Passed {
		receiptType = record.VerificationPassed
	}
	found := slices.Clone(v.Violations)
	for i := range found {
		found[i].Detail = clip(found[i].Detail)
	}
	r, err := receipt(tx, j.RunID, p, receiptType, keyOf("verify", j), record.Verdict{
		JobID: j.ID, JobHash: j.Hash, ProviderID: j.ProviderID, Verifier: job.VerifierVersion, Outcome: string(v.Outcome),
		ExitCode: v.ExitCode, Reason: v.Reason, Violations: found, ResponseSHA256: j.ResponseSHA256,
	})
	if err != nil {
		return "", err
	}
	commands := outcomesOf(req, resp)
	payload := map[string]any{"command": j.Type, "cwd": "", "duration_ms": int64(0)}
	if n := len(commands); n > 0 {
		payload = map[string]any{"command": commands[n-1]["command"], "cwd": commands[n-1]["cwd"], "duration_ms": commands[n-1]["duration_ms"]}
	}
	payload["exit_code"], payload["job_hash"], payload["job_id"], payload["commands"] = v.ExitCode, j.Hash, j.ID, commands
	err = event(tx, j.RunID, p, "verification", keyOf("verification", j), payload)
	return r.SHA256, err
}

// marks says what each outcome is to the provider.
var marks = map[job.Outcome]registry.Kind{
	job.Passed: registry.Success, job.JobFailed: registry.Unverified, job.ProviderFault: registry.Violation,
}

// markProvider marks the provider. A quarantine takes its open offers away.
func markProvider(tx *store.Tx, j Job, v job.Verdict) error {
	marked, err := registry.Mark(tx, j.ProviderID, j.ID, marks[v.Outcome], v.Reason)
	if err != nil || !marked.Quarantined {
		return err
	}
	return withdraw(tx, j.ProviderID, reason.ProviderQuarantined)
}

// settlementOf tells a settlement from the row of its job.
func settlementOf(j Job) (Settlement, error) {
	s := Settlement{Outcome: job.Outcome(j.Outcome), ExitCode: int(j.ExitCode), Settlement: record.Settlement{
		JobID: j.ID, JobHash: j.Hash, RunID: j.RunID, ProviderID: j.ProviderID, ReservationID: j.ReservationID, ReservedMsats: j.AmountMsats,
		Passed: j.Outcome == string(job.Passed), Status: j.Payment, Reason: j.Reason, VerificationReceiptSHA256: j.ReceiptSHA256,
	}}
	if s.Status == record.Released {
		s.SettledMsats = s.ReservedMsats
	}
	if err := json.Unmarshal(j.Violations, &s.Violations); err != nil {
		return Settlement{}, fmt.Errorf("read the violations of job %s: %w", j.ID, err)
	}
	return s, nil
}

// Verify judges a response without any effect, by the same rules.
func Verify(jobType string, request, response json.RawMessage) (job.Verdict, error) {
	req, resp, err := read(jobType, request, response)
	if err != nil {
		return job.Verdict{}, err
	}
	return job.Check(req, resp), nil
}
