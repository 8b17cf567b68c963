package main

import (
	"context"
	"net/http"
)

// unverified is the failure case "verification fails": the tests of the issue
// run on the tree with the bug. The provider does its work honestly, the
// verdict is no, nothing is paid, and the provider is marked.
func (v *vignette) unverified(ctx context.Context, s *step) {
	r := v.newRun(ctx, "unverified")
	before := v.look(ctx, v.a)
	spent := v.spent(ctx)
	var j job
	v.nexus.do(ctx, v.dispatch(r, "dispatch-unverified", order{command: v.verify}), http.StatusCreated, &j)
	r.await(ctx, "JobFailed")
	var judged settlement
	v.nexus.repeated(ctx, s, "settling twice is settling once", v.settle(j.ID, "settle-unverified"), http.StatusOK, &judged)
	v.tally.add(judged)
	s.ok(judged.Status == "withheld" && !judged.Passed && judged.ExitCode != 0 && judged.Outcome == "job_failed",
		"the verdict is no, and the money is withheld", judged)
	s.equal("the budget has paid nothing", v.spent(ctx)-spent, int64(0))
	after := v.look(ctx, v.a)
	s.equal("the provider is marked once", after.Strikes.Unverified-before.Strikes.Unverified, int64(1))
	j = v.job(ctx, j.ID)
	events := v.closeRun(ctx, s, r, "failed", leasedKeys(v.a, j.Hash, 1, j.Fence), answeredKeys(j.Hash, "failed", 1),
		settledKeys(j.Hash, "withheld"), []string{penaltyKey(j.ID, "unverified", v.a)})
	found := s.receipts(events, []shape{
		one("JobFailed", "job_hash", j.Hash, "provider_id", v.a.id, "reason", "command_failed", "response_sha256", j.ResponseHash,
			"artifacts", items(2), "runs", items(1), "environment.provider.id", v.a.id),
		one("VerificationFailed", "job_hash", j.Hash, "provider_id", v.a.id, "verifier", some, "reason", "verification_failed",
			"exit_code", judged.ExitCode, "response_sha256", j.ResponseHash),
		one("PaymentWithheld", "job_hash", j.Hash, "amount_msats", 0, "reserved_msats", v.a.price, "reservation_id", j.ReservationID,
			"provider_id", v.a.id, "reason", some, "resolution_id", some),
		one("ProviderPenalized", "provider_id", v.a.id, "job_id", j.ID, "kind", "unverified", "reason", "verification_failed"),
	})
	s.equal("PaymentWithheld points to the verification receipt",
		text(found["PaymentWithheld"].Payload, "verification_receipt_sha256"), found["VerificationFailed"].SHA256)
	s.none("no receipt says that anything was released", unexpected(events, "PaymentReleased", "VerificationPassed", "JobCompleted"))
}

// unexpected lists receipts of types that should not be there.
func unexpected(events []event, types ...string) (found []string) {
	for _, e := range events {
		if e.is(types...) {
			found = append(found, e.Key)
		}
	}
	return found
}
