package requester

import (
	"context"
	"encoding/json"
	"errors"
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
	now, other, err := newest(ctx, conn, p)
	if err != nil {
		return a, "", err
	}
	var before *job.Approval
	if now == nil || now.Status == api.ApprovalStatusConsumed || now.Status == api.ApprovalStatusExpired {
		if now != nil {
			earlier, err := approvalOf(*now)
			if err != nil {
				return a, "", err
			}
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
	if a, err = approvalOf(*now); err != nil {
		return a, "", err
	}
	a.Before, a.Refused, a.Other = before, refused, other
	return a, now.Owner, fits(*now, p)
}

// recentApprovals is how many approvals of a contract are looked at: those for
// other work stand between the ones for this.
const recentApprovals = 100

// newest is the latest approval of a contract for this work, nil when there is
// none: an open or denied one has no successor, so nothing before it counts. A
// denial counts whatever it was for. other is the latest one that is open for other
// work.
func newest(ctx context.Context, conn *Connection, p job.Packet) (now *api.Approval, other *job.Approval, err error) {
	bound, err := p.Binding.Digest()
	if err != nil {
		return nil, nil, err
	}
	most := recentApprovals
	page, err := api.ListApprovals.Get(ctx, conn.Client, api.ListApprovalsParams{Limit: &most, ContractSha256: &p.ContractSHA256})
	if err != nil {
		return nil, nil, fmt.Errorf("looking for an approval: %w", err)
	}
	for i := range page.Items {
		found, err := approvalOf(page.Items[i])
		switch {
		case err != nil:
			return nil, nil, err
		case found.Status == job.ApprovalDenied:
			return &page.Items[i], nil, nil
		case found.BindingSHA256 == bound && now == nil:
			now = &page.Items[i]
		case found.BindingSHA256 != bound && other == nil && (found.Status == job.ApprovalRequested || found.Status == job.ApprovalGranted):
			other = &found
		}
	}
	return now, other, nil
}

// request asks for an approval. The key is that of the contract, the repository
// and the approval before: a repeat is the same request, whichever run makes it.
func request(ctx context.Context, conn *Connection, p job.Packet, before *api.Approval) (*api.Approval, error) {
	bound, err := p.Binding.Digest()
	if err != nil {
		return nil, err
	}
	step := "approval of " + p.RepoRef
	if bound != "" {
		step += " for " + bound
	}
	if before != nil {
		step += " after " + before.ApprovalID
	}
	body := api.ApprovalRequest{Contract: string(p.Contract), RepoRef: p.RepoRef, Binding: api.BindingOf(p.Binding)}
	if p.TTL > 0 {
		body.TTLSeconds = api.Optional(int64(p.TTL / time.Second))
		step += fmt.Sprint(" for ", p.TTL) // another body is another request
	}
	asker, err := p.Asker.Text()
	if err != nil {
		return nil, err
	}
	told := body
	told.Asker = api.AskerOf(p.Asker)
	made, err := api.RequestApproval.Do(ctx, conn.Client, derive(p.ContractSHA256, step+" asked by "+asker), api.None{}, told)
	if p.Asker != nil && reason.CodeOf(err) == reason.RequestInvalid { // an authority that is older does not know the field
		made, err = api.RequestApproval.Do(ctx, conn.Client, derive(p.ContractSHA256, step), api.None{}, body)
	}
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
	bound, err := p.Binding.Digest()
	if err != nil {
		return err
	}
	got, err := a.Binding.Work().Digest()
	if err != nil {
		return err
	}
	switch {
	case a.ContractSha256 != p.ContractSHA256:
		return reason.Errorf(reason.DigestMismatch, "the authority answers with approval %.64q of another contract", a.ApprovalID)
	case a.Status == api.ApprovalStatusDenied: // final for the contract, wherever
	case got != bound:
		return reason.Errorf(reason.ApprovalOtherWork, "the authority answers with approval %.64q, which is for another engine, model, commit or target", a.ApprovalID)
	case a.RepoRef != p.RepoRef:
		return reason.Errorf(reason.Conflict, "approval %s of this contract is open for another repository, %.128q", a.ApprovalID, a.RepoRef).
			WithHint("let it be used there, or give this run another contract")
	}
	return nil
}

func approvalOf(a api.Approval) (job.Approval, error) {
	bound, err := a.Binding.Work().Digest()
	return job.Approval{ID: a.ApprovalID, ContractSHA256: a.ContractSha256, BindingSHA256: bound, Status: string(a.Status), RequestedBy: a.RequestedBy,
		DecidedBy: api.Value(a.DecidedBy), DecidedAt: api.Value(a.DecidedAt), ExpiresAt: a.ExpiresAt, Reason: api.Value(a.Reason),
		RunID: api.Value(a.RunID)}, err
}

// Use uses a granted approval up for the run of [Requester.Open], and returns
// the receipts of its log. The same run may do so again.
func (q *Requester) Use(ctx context.Context, a job.Approval) (receipts []record.Recorded, err error) {
	err = q.with(ctx, func(conn *Connection) error {
		used, err := api.ConsumeApproval.Do(ctx, conn.Client, q.key("approval:"+a.ID), a.ID,
			api.ApprovalUse{RunID: q.run, ContractSha256: a.ContractSHA256, BindingSha256: api.Optional(a.BindingSHA256)})
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

// The authority of this machine has no lane: nothing of it lives between two
// calls. So its file is looked at, this often at first and at last.
const (
	lookFirst = 100 * time.Millisecond
	lookLast  = 2 * time.Second
)

// awaitDecision waits for a decision as long as the packet says. No decision in that
// time, or a caller that gives up, is no error.
func (q *Requester) awaitDecision(ctx context.Context, p job.Packet, a job.Approval, owner string) (job.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Wait)
	defer cancel()
	before := a.Before
	for pause := lookFirst; ctx.Err() == nil; pause = min(2*pause, lookLast) {
		err := q.with(ctx, func(conn *Connection) error {
			if conn.Worker == nil {
				return watch(ctx, conn, &a, owner)
			}
			return look(ctx, conn, &a)
		})
		a.Before = before
		switch {
		case err == nil && a.Status != job.ApprovalRequested:
			return a, nil
		case err != nil && ctx.Err() == nil && !again(err):
			return a, err
		}
		_ = api.Pause(ctx, pause) // its end is looked at above
	}
	return a, nil
}

// again reports whether an authority that cannot be reached may be asked again.
func again(err error) bool {
	switch reason.CodeOf(err) {
	case reason.StoreUnavailable, reason.RateLimited, "": // "" is a lane that broke off
		return true
	}
	return false
}

func look(ctx context.Context, conn *Connection, a *job.Approval) error {
	now, err := read(ctx, conn, a.ID)
	if err != nil {
		return err
	}
	seen, err := approvalOf(*now)
	seen.Refused = a.Refused
	*a = seen
	return err
}

// watch waits on the lane of the account for news of the approval. Nothing is
// missed: the lane tells what comes after its snapshot, and the approval is looked
// at when that is there.
func watch(ctx context.Context, conn *Connection, a *job.Approval, owner string) error {
	lane, err := api.Listen(ctx, conn.Client, "user:"+owner+":receipts", -1)
	if err != nil {
		return err
	}
	defer lane.Close()
	expires, err := time.Parse(api.TimeLayout, a.ExpiresAt)
	if err != nil {
		return reason.Errorf(reason.RequestInvalid, "approval %s: expires_at: %w", a.ID, err)
	}
	until, cancel := context.WithDeadline(ctx, expires)
	defer cancel()
	for {
		f, err := lane.Next(until)
		if err != nil {
			if until.Err() != nil && ctx.Err() == nil { // nothing tells of the end of its time
				err = nil
			}
			return errors.Join(err, look(ctx, conn, a))
		}
		if f.Snapshot == nil && (f.Event == nil || !about(*f.Event, a.ID)) {
			continue
		}
		if err := look(ctx, conn, a); err != nil || a.Status != job.ApprovalRequested {
			return err
		}
	}
}

// about reports whether an event of an account is of an approval.
func about(e api.Event, approval string) bool {
	var r struct {
		Payload struct {
			ApprovalID string `json:"approval_id"`
		} `json:"payload"`
	}
	return json.Unmarshal(e.Payload, &r) == nil && r.Payload.ApprovalID == approval
}
