package requester

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
)

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
