package evidence

import (
	"encoding/json"
	"fmt"
	"slices"

	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/record"
)

// contractClaims are the rules of the contract that the journal states a
// second time, or that its facts have to keep.
type contractClaims struct {
	TaskID               *string    `json:"task_id"`
	Title                *string    `json:"title"`
	MutationMode         *string    `json:"mutation_mode"`
	RiskClass            *string    `json:"risk_class"`
	ApprovalRequired     bool       `json:"approval_required"`
	ExpectDiff           *bool      `json:"expect_diff"`
	Network              *string    `json:"network"`
	Tests                *string    `json:"tests"`
	PolicyBundleID       *string    `json:"policy_bundle_id"`
	VerificationCommands *[]string  `json:"verification_commands"`
	Issue                *issueName `json:"issue"`
}

type issueName struct {
	Number *int64 `json:"number"`
}

// contradictions says where the journal does not agree with itself. A chain
// can be forged from its first entry by the holder of the disk; what no run
// can have written must not pass all the same. Only statements that are there
// are compared: which ones a pass needs is the matter of the verdict.
func (r *run) contradictions() []string {
	var out []string
	agree := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	r.contradictContract(agree)
	agree(r.opened.AllowedMutationScope == "" || r.opened.AllowedMutationScope == MutationScope(r.opened.MutationMode),
		"allowed_mutation_scope is not what the mutation mode means")
	r.contradictApproval(agree)
	r.contradictBaseline(agree)
	r.contradictParent(agree)
	r.contradictChecked(agree)
	r.contradictEnvironment(agree)
	r.contradictEngine(agree)
	r.contradictUsage(agree)
	r.contradictLifecycle(agree)
	r.contradictEnding(agree)
	r.contradictVerification(agree)
	r.contradictControl(agree)
	r.contradictRuns(agree)
	r.contradictRepeats(agree)
	r.contradictProofs(agree)
	r.contradictSettlement(agree)
	r.contradictDelivery(agree)
	if r.outcome != nil && r.completed != nil {
		agree(r.outcome.Outcome != "accepted" || r.completed.Status == StatusPass, "a run that did not pass was accepted")
	}
	return out
}

type agreeFunc func(ok bool, format string, args ...any)

// contradictContract holds entry 0 and the decision against the contract.
func (r *run) contradictContract(agree agreeFunc) {
	var c contractClaims
	if len(r.contract.Contract) > 0 && json.Unmarshal(r.contract.Contract, &c) == nil {
		o := r.opened
		same := func(field string, contract *string, opened string) {
			agree(contract == nil || *contract == opened, "the contract's %s is not that of the run", field)
		}
		same("task_id", c.TaskID, o.CaseID)
		same("title", c.Title, o.Title)
		same("mutation_mode", c.MutationMode, o.MutationMode)
		same("policy_bundle_id", c.PolicyBundleID, o.PolicyBundleID)
		agree(c.ExpectDiff == nil || *c.ExpectDiff == o.ExpectDiff, "the contract's expect_diff is not that of the run")
		agree(c.VerificationCommands == nil || slices.Equal(*c.VerificationCommands, o.VerificationCommands),
			"the contract's verification_commands are not those of the run")
		// The two classes that no contract can free of an approval. A check of what is there already asks for none.
		risky := c.RiskClass != nil && (*c.RiskClass == "high" || *c.RiskClass == "critical")
		agree(o.ApprovalRequired || r.checks() || !c.ApprovalRequired && !risky, "the contract asks for an approval and the run does not")
		if c.Issue != nil && c.Issue.Number != nil {
			agree(o.IssueNumber != nil && *o.IssueNumber == *c.Issue.Number, "the contract's issue is not that of the run")
		}
		agree(c.Tests == nil || r.verification == nil || r.verification.TestsRule == *c.Tests, "the verifier did not follow the contract's tests rule")
		agree(c.Network == nil || r.engineInput == nil || r.engineInput.Network == *c.Network, "the engine did not have the contract's network")
	}
	var d struct {
		ContractDigest *string `json:"contract_digest"`
		RequestedMode  *string `json:"requested_mutation_mode"`
	}
	if len(r.eligibility) > 0 && json.Unmarshal(r.eligibility, &d) == nil {
		agree(d.ContractDigest == nil || *d.ContractDigest == r.opened.ContractSHA256, "the eligibility decision is about another contract")
		agree(d.RequestedMode == nil || *d.RequestedMode == r.opened.MutationMode, "the eligibility decision is about another mutation mode")
	}
}

// contradictBaseline follows the tree from the commit to the patch.
func (r *run) contradictBaseline(agree agreeFunc) {
	r.contradictUnopened(agree)
	if r.workspace != nil {
		agree(r.workspace.BaselineTree == string(r.opened.BaselineTree), "another tree than the baseline's was copied")
	}
	if r.patch == nil {
		return
	}
	agree(r.patch.BaseTree == string(r.opened.BaselineTree), "the patch is against another tree than the baseline's")
	agree((r.patch.HeadTree == r.patch.BaseTree) == (len(r.patch.Files) == 0), "the trees before and after the patch do not fit the files that it lists")
	for _, a := range r.artifacts {
		if a.Path == PatchFile {
			agree(a.Bytes == r.patch.PatchBytes, "patch.diff does not have the length of the patch that was captured")
		}
	}
}

func (r *run) contradictEngine(agree agreeFunc) {
	in := r.engineInput
	if in == nil {
		return
	}
	agree(in.Engine == r.opened.Engine.Name, "another engine ran than the one that the run names")
	if in.ArgvSHA256 != "" {
		digest, err := canon.DigestOf(in.Argv)
		agree(err == nil && digest == in.ArgvSHA256, "argv_sha256 is not the digest of the engine's argv")
	}
}

// contradictVerification holds the runs of the verifier against their phase
// and against the commands that were asked for.
func (r *run) contradictVerification(agree agreeFunc) {
	captured := slices.IndexFunc(r.entries, func(e journal.Entry) bool { return e.Name == StepPatch && e.Status == journal.Completed })
	for i := range r.entries {
		e := &r.entries[i]
		phase := map[string]string{StepVerifyBase: "base", StepVerifyHead: "head"}[e.Name]
		if phase == "" || e.Status == journal.Started {
			continue
		}
		agree(phase == "base" || i > captured, "the patched tree was verified before the patch was captured")
		var p VerifyPhase
		if decode(e.Outputs, &p) != nil {
			continue // fold has refused it
		}
		for _, c := range p.Runs {
			agree(c.Phase == phase, "%s has a run of phase %q", e.Name, c.Phase)
			agree(!c.Cached || phase == "base", "the patched tree was not run: its result is from the cache")
			agree(c.Cached == (c.CacheKey != "" && c.CachedAt != "") && c.CachedAt <= e.StartedAt, "a result is from the cache and does not say from which entry, or from a later one")
			agree(c.Cached == p.Runs[0].Cached && c.CacheKey == p.Runs[0].CacheKey && c.CachedAt == p.Runs[0].CachedAt, "one phase is from two entries of the cache")
			agree(slices.Contains(r.opened.VerificationCommands, c.Command), "the verifier ran %q, which the run does not name", c.Command)
		}
	}
}

// contradictRepeats looks for facts that a run states once and that are stated
// again, differently: the later one would hide the earlier.
func (r *run) contradictRepeats(agree agreeFunc) {
	said := map[string]string{}
	for i := range r.entries {
		e := &r.entries[i]
		agree(i == 0 || e.Name != StepRunOpened, "entry %d opens the run again", i)
		fact := ""
		switch {
		case e.Status == journal.Started || e.Status == journal.Skipped:
		case e.Name == StepContract:
			fact = string(e.Inputs)
		case e.Name == StepEligibility, e.Name == StepTaken, e.Name == StepLifecycle, e.Name == StepEnding, e.Name == StepWrites, e.Name == StepSourceChecked, e.Name == StepVerification, e.Name == StepPatch,
			e.Name == StepBranchPolicy, e.Name == StepDelivered && e.Status == journal.Completed, e.Name == StepDisposed:
			fact = string(e.Outputs)
		case e.Name == StepProof:
			fact = string(e.Inputs) + string(e.Outputs)
		}
		if fact == "" || fact == "{}" {
			continue
		}
		key := e.Name
		if e.Name == StepProof {
			key += string(e.Inputs)
		}
		earlier, repeated := said[key]
		agree(!repeated || earlier == fact, "entry %d states %s again, differently", i, e.Name)
		said[key] = fact
	}
}

// contradictProofs holds the files below proofs/, which people read by
// themselves, against the steps that they show.
func (r *run) contradictProofs(agree agreeFunc) {
	for _, p := range r.proofs {
		r.contradictSource(p.name, p.body, agree)
		var body struct {
			AllowedWritesPassed *bool `json:"allowed_writes_passed"`
			Mutated             *bool `json:"mutated"`
			SourceMutated       *bool `json:"source_repository_mutated"`
		}
		if json.Unmarshal(p.body, &body) != nil {
			continue // not an object with these names: nothing to compare
		}
		for _, claim := range []struct {
			says *bool
			fact bool
		}{
			{body.AllowedWritesPassed, r.writes != nil && r.writes.AllowedWritesPassed},
			{body.Mutated, r.source != nil && r.source.Mutated},
			{body.SourceMutated, r.source != nil && r.source.Mutated},
		} {
			agree(claim.says == nil || *claim.says == claim.fact, "proofs/%s.json does not say what its step found", p.name)
		}
	}
}

// contradictApproval holds a grant against the receipts of the authority. Under
// an authority elsewhere only its own word counts: the person who runs
// something there is not the one who approves it. A run without an
// authority, or one that was settled here, may rest on the word of the person at
// the terminal, which names no approval.
func (r *run) contradictApproval(agree agreeFunc) {
	g := r.granted
	if r.approval != "granted" || g == nil {
		return
	}
	elsewhere := r.budget != nil && r.budget.Executed == record.ExecutedElsewhere
	if g.ApprovalID == "" {
		agree(!elsewhere || !r.opened.ApprovalRequired, "the contract was approved, and the authority that the run was under knows of no approval")
		return
	}
	for _, kind := range []string{record.ApprovalGranted, record.ApprovalConsumed} {
		found := false
		for _, a := range r.receipts {
			found = found || a.Type == kind && r.approves(a, g)
		}
		agree(found, "no receipt %s says of approval %s what %s says", kind, g.ApprovalID, StepApprovalGranted)
	}
}

// approves reports whether a receipt is about this approval, this contract and,
// when it says for which run, this run; and whether who granted is who is named.
func (r *run) approves(a record.AuthorityReceipt, g *Approval) bool {
	var p record.ApprovalUse
	if json.Unmarshal(a.Payload, &p) != nil || p.ApprovalID != g.ApprovalID || p.ContractSHA256 != r.opened.ContractSHA256 || p.MutationMode != r.opened.MutationMode {
		return false
	}
	if a.Type == record.ApprovalGranted {
		return p.Actor == g.Actor && p.Actor == a.Principal
	}
	return p.RunID != "" && (r.budget == nil || p.RunID == r.budget.RunID)
}

// BudgetSettled are the outputs of budget.settled: what the proof of the change
// by a job came to, and its price.
type BudgetSettled struct {
	record.Settlement
	Blockers []Blocker `json:"blockers"`
}

// contradictSettlement holds the authority's receipts against their digests and
// the settlement against the receipts.
func (r *run) contradictSettlement(agree agreeFunc) {
	for _, a := range r.receipts {
		agree(a.Sealed(), "the digest of receipt %s is not that of its content", a.Type)
	}
	b := r.budget
	if b == nil || b.ReservationID == "" {
		return
	}
	agree(b.Passed == (b.Status == record.Released), "the budget is %s and passed is %t", b.Status, b.Passed)
	agree(b.Status == record.Released || b.SettledMsats == 0, "the budget is %s, and %d msats were paid", b.Status, b.SettledMsats)
	found := false
	for _, a := range r.receipts {
		if p, ok := a.Payment(); ok && p.Proof.ReservationID == b.ReservationID {
			found = true
			agree(p.Status == b.Status && p.AmountMsats == b.SettledMsats && p.JobHash == b.JobHash && p.Proof.ProviderID == b.ProviderID,
				"receipt %s does not say of reservation %s what %s says", a.Type, b.ReservationID, StepBudget)
		}
	}
	agree(found, "no receipt says how reservation %s was resolved", b.ReservationID)
}
