package main

import (
	"context"
	"net/http"
)

// unverified is the failure case "verification fails": the tests of the issue
// run on the tree with the bug. The provider does its work honestly, the
// verdict is no, nothing is paid, and the provider is marked.
func (v *vignette) unverified(ctx context.Context, s *step) error {
	r, err := v.newRun(ctx, "unverified")
	if err != nil {
		return err
	}
	before, err := v.look(ctx, v.a)
	if err != nil {
		return err
	}
	spent, err := v.spent(ctx)
	if err != nil {
		return err
	}
	var j job
	if _, err := v.nexus.do(ctx, v.dispatch(r, "dispatch-unverified", order{command: v.verify}), http.StatusCreated, &j); err != nil {
		return err
	}
	if _, err := r.await(ctx, "JobFailed"); err != nil {
		return err
	}
	var judged settlement
	if _, err := v.nexus.repeated(ctx, s, "settling twice is settling once", v.settle(j.ID, "settle-unverified"), http.StatusOK,
		&judged); err != nil {
		return err
	}
	v.tally.add(judged)
	s.ok(judged.Status == "withheld" && !judged.Passed && judged.ExitCode != 0 && judged.Outcome == "job_failed",
		"the verdict is no, and the money is withheld", judged)
	now, err := v.spent(ctx)
	if err != nil {
		return err
	}
	s.equal("the budget has paid nothing", now-spent, int64(0))
	after, err := v.look(ctx, v.a)
	if err != nil {
		return err
	}
	s.equal("the provider is marked once", after.Strikes.Unverified-before.Strikes.Unverified, int64(1))
	if j, err = v.job(ctx, j.ID); err != nil {
		return err
	}
	events, err := v.closeRun(ctx, s, r, "failed", union(createdKeys(), dispatchedKeys(v.a, j.Hash, 1), []string{leasedKey(j.Hash, j.Fence)},
		answeredKeys(j.Hash, "failed", 1), settledKeys(j.Hash, "withheld"), []string{penaltyKey(j.ID, "unverified", v.a)}))
	if err != nil {
		return err
	}
	found := s.receipts(events, []shape{
		{"JobFailed", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.a.id)}, {"reason", is("command_failed")},
			{"response_sha256", is(j.ResponseHash)},
			{"artifacts", items(2)}, {"runs", items(1)}, {"environment.provider.id", is(v.a.id)}}},
		{"VerificationFailed", []field{{"job_hash", is(j.Hash)}, {"provider_id", is(v.a.id)}, {"verifier", some},
			{"reason", is("verification_failed")},
			{"exit_code", is(judged.ExitCode)}, {"response_sha256", is(j.ResponseHash)}}},
		{"PaymentWithheld", []field{{"job_hash", is(j.Hash)}, {"amount_msats", is(0)}, {"reserved_msats", is(v.a.price)},
			{"reservation_id", is(j.ReservationID)},
			{"provider_id", is(v.a.id)}, {"reason", some}, {"resolution_id", some}}},
		{"ProviderPenalized", []field{{"provider_id", is(v.a.id)}, {"job_id", is(j.ID)}, {"kind", is("unverified")},
			{"reason", is("verification_failed")}}},
	})
	s.equal("PaymentWithheld points to the verification receipt",
		text(found["PaymentWithheld"].Payload, "verification_receipt_sha256"), found["VerificationFailed"].SHA256)
	s.none("no receipt says that anything was released", unexpected(events, "PaymentReleased", "VerificationPassed", "JobCompleted"))
	return nil
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
