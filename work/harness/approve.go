package harness

import (
	"context"
	"fmt"
	"strings"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/law/job"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/session"
)

// approved is what the run knows of the approval of its contract.
type approved struct {
	state  eligibility.Approval
	detail string // why it does not hold, in words
	// by is the approval of an authority; without an id it is the word of
	// the person who started the run.
	by job.Approval
}

// maxApprovals bounds how often a run asks that approves itself and whose
// approval is used up by others, which run under the same contract.
const maxApprovals = 16

// seekApproval asks the authority whether the contract is approved, and uses
// the approval up. It comes before the decision, which depends on it, and so
// before anything is copied or started. A run without an authority has the word
// of who started it.
func (r *run) seekApproval(ctx context.Context) error {
	switch {
	case r.Denier != "":
		r.approved = approved{state: eligibility.ApprovalDenied, by: job.Approval{DecidedBy: r.Denier}}
		return nil
	case r.Authority == nil:
		if r.Approver != "" {
			r.approved = approved{state: eligibility.ApprovalGranted, by: job.Approval{DecidedBy: r.Approver}}
		}
		return nil
	case !r.opened.ApprovalRequired || !r.worthAsking():
		return nil
	}
	contract, err := r.Contract.Canonical()
	if err != nil {
		return fmt.Errorf("encoding the contract: %w", err)
	}
	packet := job.Packet{Contract: contract, ContractSHA256: r.opened.ContractSHA256, RepoRef: r.claimOf().RepoRef, TTL: r.ApprovalTTL,
		Grant: r.Approver != "", Wait: r.WaitApproval, Waiting: r.tellWaiting, Binding: r.binding(), Asker: r.asker()}
	r.sync() // a person may take days
	for range maxApprovals {
		a, err := r.Authority.Ask(ctx, packet)
		if err != nil {
			return fmt.Errorf("asking the authority for an approval: %w", err)
		}
		if r.approved = approvedOf(a, ""); a.Status != job.ApprovalGranted {
			r.tell(evidence.StepApprovalRequested, "denied", approvedOf(a, r.Nexus).detail)
			return nil
		}
		if r.CheckGrant != nil {
			if err := r.CheckGrant(a, packet); err != nil {
				r.approved.state, r.approved.by.DecidedBy, r.approved.by.DecidedAt = eligibility.ApprovalNone, "", ""
				r.approved.detail = fmt.Sprintf("approval %s counts as none, because remit.yaml asks for signed records: %v; `remit approve %[1]s` signs it", a.ID, err)
				r.tell(evidence.StepApprovalRequested, "denied", r.approved.detail)
				return nil
			}
		}
		if err := r.useApproval(ctx, a); err != nil {
			return err
		}
		// Another run was faster: the one who approves for themselves asks again.
		if r.approved.state != eligibility.ApprovalConsumed || r.Approver == "" {
			break
		}
	}
	return nil
}

// binding is what the run works with, where its approval is for that besides the
// contract; else nil.
func (r *run) binding() *job.Binding {
	if !job.Bound(r.Contract.MutationMode) {
		return nil
	}
	b := &job.Binding{Engine: r.opened.Engine.Name, EngineVersion: r.opened.Engine.Version, EngineSHA256: r.opened.Engine.SHA256,
		BaselineCommit: string(r.opened.BaselineCommit), TargetSHA256: admission.TargetDigest(r.source.Root())}
	if r.opened.Model != nil && r.opened.ModelProvider != nil {
		b.ModelProvider, b.Model = *r.opened.ModelProvider, *r.opened.Model
	}
	return b
}

// asker is what the run says of itself to who approves it.
func (r *run) asker() *job.Asker {
	a := &job.Asker{SessionID: r.session.ID, Engine: r.opened.Engine.Name, EngineVersion: r.opened.Engine.Version,
		Lowered: append([]task.Lowered{}, r.Lowered...)}
	if r.opened.Model != nil && r.opened.ModelProvider != nil {
		a.ModelProvider, a.Model = *r.opened.ModelProvider, *r.opened.Model
	}
	if a.Check() != nil { // it may have what no page shows; asking does not depend on it
		return nil
	}
	return a
}

// worthAsking reports whether only the approval is missing: no person is asked
// about a run that would not begin.
func (r *run) worthAsking() bool {
	req := r.eligibilityRequest()
	req.Approval, req.ApprovalDetail = eligibility.ApprovalGranted, ""
	return len(r.Contract.VerificationCommands) > 0 && !eligibility.Decide(req).Blocked()
}

// useApproval binds a granted approval to this run. Until the authority has
// said so, nothing is approved.
func (r *run) useApproval(ctx context.Context, a job.Approval) error {
	r.approved.state = eligibility.ApprovalNone
	if err := r.claim(ctx); err != nil {
		return err
	}
	receipts, err := r.Authority.Use(ctx, a)
	r.received(receipts)
	if err == nil {
		r.approved.state = eligibility.ApprovalGranted
		r.tell(evidence.StepApprovalRequested, "completed", fmt.Sprintf("%s, granted by %s", a.ID, a.DecidedBy))
		return nil
	}
	refusals := map[reason.Code]eligibility.Approval{reason.ApprovalConsumed: eligibility.ApprovalConsumed,
		reason.ApprovalDenied: eligibility.ApprovalDenied, reason.ApprovalExpired: eligibility.ApprovalExpired,
		reason.ApprovalOtherWork: eligibility.ApprovalOtherWork}
	state, refused := refusals[reason.CodeOf(err)]
	if !refused {
		return fmt.Errorf("using the approval: %w", err)
	}
	r.approved.state, r.approved.detail = state, err.Error()
	r.approved.by.DecidedBy, r.approved.by.DecidedAt = "", "" // of the grant, which holds no more
	r.tell(evidence.StepApprovalRequested, "denied", r.approved.detail)
	return nil
}

// tellWaiting shows what the run waits for.
func (r *run) tellWaiting(a job.Approval) {
	r.tell(evidence.StepApprovalRequested, "waiting", approvedOf(a, r.Nexus).detail)
	r.tell(evidence.StepApprovalRequested, "started", "")
}

// recallReceipts asks for the receipts of a run that was cut off before the
// authority's answer came, or when it was using its approval: no other run can have
// it any more, and the evidence says so. An authority out of reach does not keep
// the run from being closed.
func (r *run) recallReceipts(ctx context.Context) {
	unknown := session.NexusRun(r.w.Entries()) == ""
	using := r.opened.ApprovalRequired && !r.has(evidence.StepEligibility, journal.Completed) &&
		!r.has(evidence.StepEligibility, journal.Failed)
	if r.Authority == nil || (!unknown || !r.asked) && !using {
		return
	}
	var err error
	if unknown {
		r.found, err = r.Authority.Find(ctx, r.session.ID)
	}
	if err == nil && (r.found != "" || !unknown) {
		err = r.claim(ctx)
	}
	if err != nil {
		r.tell("authority.opened", "failed", r.scrub(err.Error()))
	}
}

// approvedOf reads what an authority says. The words name the command that
// decides, with the nexus that has to know of it: evidence does not name it.
func approvedOf(a job.Approval, nexus string) approved {
	out := approved{state: eligibility.Approval(a.Status), by: a}
	if nexus != "" {
		nexus = " --nexus " + nexus
	}
	open := fmt.Sprintf("approval %s is open until %s: `remit approve %s%s` decides about it", a.ID, a.ExpiresAt, a.ID, nexus)
	switch {
	case a.Status == job.ApprovalDenied:
		out.detail = fmt.Sprintf("approval %s was denied by %s", a.ID, a.DecidedBy)
		if a.Reason != "" {
			out.detail += ": " + a.Reason
		}
	case a.Status == job.ApprovalExpired:
		out.detail = fmt.Sprintf("the time of approval %s was over at %s", a.ID, a.ExpiresAt)
	case a.Status != job.ApprovalRequested:
	case a.Refused != nil:
		out.detail = "--approve does not count here: " + a.Refused.Error() + "; " + open
	case a.Before != nil && a.Before.Status == job.ApprovalConsumed:
		out.state = eligibility.ApprovalConsumed
		out.detail = fmt.Sprintf("approval %s was used up by run %s; %s", a.Before.ID, a.Before.RunID, open)
	case a.Before != nil:
		out.state = eligibility.ApprovalExpired
		out.detail = fmt.Sprintf("the time of approval %s was over at %s; %s", a.Before.ID, a.Before.ExpiresAt, open)
	case a.Other != nil:
		out.state = eligibility.ApprovalOtherWork
		out.detail = fmt.Sprintf("approval %s is for another engine, model, commit or target; %s", a.Other.ID, open)
	default:
		out.detail = "no decision about this contract yet; " + open
	}
	return out
}

// noteApproval journals the request for an approval and the answer, if there is
// one. A denial counts even if no approval was needed, and against a grant.
func (r *run) noteApproval() {
	if !r.opened.ApprovalRequired && r.Denier == "" {
		return
	}
	by := r.approved.by
	a := evidence.Approval{Scope: strings.Join(r.Contract.AllowedPaths, " "), MutationMode: r.opened.MutationMode,
		ContractSHA256: r.opened.ContractSHA256, ApprovalID: by.ID, Actor: by.RequestedBy}
	if by.ExpiresAt != "" {
		a.ExpiresAt = &by.ExpiresAt
	}
	r.note(evidence.StepApprovalRequested, "approval", journal.Completed, nil, a)
	a.Actor, a.DecidedAt = by.DecidedBy, by.DecidedAt
	switch r.approved.state {
	case eligibility.ApprovalDenied:
		r.note(evidence.StepApprovalDenied, "approval", journal.Denied, nil, a)
	case eligibility.ApprovalGranted:
		r.note(evidence.StepApprovalGranted, "approval", journal.Completed, nil, a)
	}
}
