package requester

import (
	"context"
	"fmt"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
	"remit/proof/record"
)

// Ask finds the approval of a contract, or asks for one. A contract has one that
// is open, and asking again finds it. One that was used up or ran out is
// followed by a new request, which says so.
func (q *Requester) Ask(ctx context.Context, p job.Packet) (a job.Approval, err error) {
	var owner string
	err = q.with(ctx, func(conn *Connection) error {
		a, owner, err = ask(ctx, conn, p)
		return err
	})
	if err != nil || a.Status != job.ApprovalRequested || p.Wait <= 0 {
		return a, err
	}
	if p.Waiting != nil {
		p.Waiting(a)
	}
	return q.awaitDecision(ctx, p, a, owner)
}

func ask(ctx context.Context, conn *Connection, p job.Packet) (a job.Approval, owner string, err error) {
	now, err := newest(ctx, conn, p.ContractSHA256)
	if err != nil {
		return a, "", err
	}
	var before *job.Approval
	if now == nil || now.Status == api.ApprovalStatusConsumed || now.Status == api.ApprovalStatusExpired {
		if now != nil {
			earlier := approvalOf(*now)
			if now.RepoRef == p.RepoRef { // else it says nothing about this repository
				before = &earlier
			}
		}
		if now, err = request(ctx, conn, p, now); err != nil {
			return a, "", err
		}
	}
	if now.Status == api.ApprovalStatusRequested && p.Grant {
		granted, err := grant(ctx, conn, now.ApprovalID)
		switch code := reason.CodeOf(err); {
		case code == reason.ScopeMissing || code == reason.Forbidden:
			a.Refused = err
		case err != nil:
			return a, "", err
		default:
			now = granted
		}
	}
	refused := a.Refused
	a = approvalOf(*now)
	a.Before, a.Refused = before, refused
	return a, now.Owner, fits(*now, p)
}

// newest is the latest approval of a contract, nil when there is none. An open
// or denied one has no successor, so nothing before it counts.
func newest(ctx context.Context, conn *Connection, contract string) (*api.Approval, error) {
	one := 1
	page, err := api.ListApprovals.Get(ctx, conn.Client, api.ListApprovalsParams{Limit: &one, ContractSha256: &contract})
	if err != nil {
		return nil, fmt.Errorf("looking for an approval: %w", err)
	}
	if len(page.Items) == 0 {
		return nil, nil
	}
	return &page.Items[0], nil
}

// request asks for an approval. The key is that of the contract, the repository
// and the approval before: a repeat is the same request, whichever run makes it.
func request(ctx context.Context, conn *Connection, p job.Packet, before *api.Approval) (*api.Approval, error) {
	step := "approval of " + p.RepoRef
	if before != nil {
		step += " after " + before.ApprovalID
	}
	body := api.ApprovalRequest{Contract: string(p.Contract), RepoRef: p.RepoRef}
	if p.TTL > 0 {
		body.TTLSeconds = api.Optional(int64(p.TTL / time.Second))
		step += fmt.Sprint(" for ", p.TTL) // another body is another request
	}
	made, err := api.RequestApproval.Do(ctx, conn.Client, derive(p.ContractSHA256, step), api.None{}, body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking for an approval: %w", err)
	case !made.Created:
		return &made.Value, nil
	}
	// The stored answer to an earlier request is of that time.
	return read(ctx, conn, made.Value.ApprovalID)
}

func read(ctx context.Context, conn *Connection, id string) (*api.Approval, error) {
	got, err := api.GetApproval.Get(ctx, conn.Client, id)
	if err != nil {
		return nil, fmt.Errorf("reading approval %s: %w", id, err)
	}
	return &got, nil
}

// grant is the word of the person who starts the run.
func grant(ctx context.Context, conn *Connection, id string) (*api.Approval, error) {
	answer, err := api.DecideApproval.Do(ctx, conn.Person(), api.NewKey(), id,
		api.ApprovalDecision{Decision: api.ApprovalDecisionDecisionGranted})
	if err != nil {
		return nil, fmt.Errorf("granting approval %s: %w", id, err)
	}
	return &answer, nil
}

// fits holds what an authority says against what it was asked: an approval of
// something else is none.
func fits(a api.Approval, p job.Packet) error {
	switch {
	case a.ContractSha256 != p.ContractSHA256:
		return reason.Errorf(reason.DigestMismatch, "the authority answers with approval %.64q of another contract", a.ApprovalID)
	case a.Status == api.ApprovalStatusDenied: // final for the contract, wherever
	case a.RepoRef != p.RepoRef:
		return reason.Errorf(reason.Conflict, "approval %s of this contract is open for another repository, %.128q", a.ApprovalID, a.RepoRef).
			WithHint("let it be used there, or give this run another contract")
	}
	return nil
}

func approvalOf(a api.Approval) job.Approval {
	return job.Approval{ID: a.ApprovalID, ContractSHA256: a.ContractSha256, Status: string(a.Status), RequestedBy: a.RequestedBy,
		DecidedBy: api.Value(a.DecidedBy), DecidedAt: api.Value(a.DecidedAt), ExpiresAt: a.ExpiresAt, Reason: api.Value(a.Reason), RunID: api.Value(a.RunID)}
}

// Use uses a granted approval up for the run of [Requester.Open], and returns the receipts of its log. The same run may do so again.
func (q *Requester) Use(ctx context.Context, a job.Approval) (receipts []record.Recorded, err error) {
	err = q.with(ctx, func(conn *Connection) error {
		used, err := api.ConsumeApproval.Do(ctx, conn.Client, q.key("approval:"+a.ID), a.ID,
			api.ApprovalUse{RunID: q.run, ContractSha256: a.ContractSHA256})
		if err != nil {
			return fmt.Errorf("using approval %s: %w", a.ID, err)
		}
		if got := used; got.Status != api.ApprovalStatusConsumed || api.Value(got.RunID) != q.run {
			return unexpected("that the approval is for this run")
		}
		receipts, err = q.receipts(ctx, conn)
		return err
	})
	return receipts, err
}
