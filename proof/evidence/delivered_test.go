//go:build !race

package evidence_test

import (
	"time"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// delivered is a run whose verified change is a commit in a disposable repository.
func delivered(s *session) {
	s.mode, s.metered = "sandbox-repo", true
	s.open(true)
	s.eligible()
	s.plan()
	a := evidence.Approval{Scope: "calc/**", MutationMode: s.mode, ContractSHA256: s.run.ContractSHA256}
	s.note(evidence.StepApprovalRequested, "approval", journal.Completed, nil, a)
	a.Actor = "local-operator:1000"
	s.note(evidence.StepApprovalGranted, "approval", journal.Completed, nil, a)
	s.workspace()
	policy := evidence.BranchPolicy{Branch: "remit/" + sessionID, BaselineCommit: string(s.run.BaselineCommit), Repository: evidence.DisposableRepository,
		TargetSHA256: canon.Digest([]byte("/home/user/calc")), Dir: "$REMIT_HOME/disposable/" + sessionID,
		Protected: []string{"HEAD", "refs/heads/** but the new branch", "refs/tags/**", "refs/remotes/**"}}
	s.note(evidence.StepBranchPolicy, "branch-policy", journal.Completed, nil, policy)
	s.proof("branch-policy", map[string]any{"branch": policy.Branch, "allowed": true})
	s.engine(0)
	s.patch()
	s.writes()
	s.verify(true)
	s.source()
	s.proof("approval", evidence.ApprovalProof(s.w.Entries()))
	s.proof("target-admission", map[string]any{"required": false})
	s.proof("forbidden-actions", map[string]any{"actions": []map[string]any{{"action": "push", "could_happen": false, "why": "the sandbox has no network"}}})
	s.step(evidence.StepDelivered, "delivery", journal.Completed, map[string]string{"branch": policy.Branch}, evidence.Delivered{
		Branch: policy.Branch, Commit: "b1c425372d32baa6984a933777b5312b779b1fc7", Tree: headTree, BaselineCommit: string(s.run.BaselineCommit),
		Message: "Add adds\n\nVerified by Remit.\n", CommittedAt: s.now.Truncate(time.Minute).Unix(), Differs: []string{}})
	disposed := evidence.Disposed{Repository: evidence.DisposableRepository, KeptUntil: "2026-02-15T12:00:00.000Z", Why: "it has the change until the operator rejects it"}
	s.note(evidence.StepDisposed, "disposal", journal.Completed, nil, disposed)
	s.proof("disposal", disposed)
	s.complete()
}

// takenBack is the operator's rejection, with which the branch went.
func (s *session) takenBack() {
	s.t.Helper()
	s.note(evidence.StepOutcome, "outcome", journal.Completed, nil,
		evidence.Outcome{Outcome: "rejected", Reason: "not now", Actor: "user:1", Branch: evidence.BranchRemoved})
}
