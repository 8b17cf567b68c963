package requester

import (
	"context"
	"encoding/json"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
	"remit/proof/record"
)

// Patience is how long an authority may be out of reach while it is waited for.
const Patience = 2 * time.Minute

// Await waits on the run's lane until a provider has handed in the job or it has
// ended without one. The authority may be out of reach for the given time.
func Await(ctx context.Context, conn *Connection, j api.Job, most time.Duration) (api.Job, error) {
	var seen int64
	lost := time.Time{}
	for pause := api.DefaultRetry.Base; ; pause = min(2*pause, api.DefaultRetry.Max) {
		now, err := api.GetJob.Get(ctx, conn.Client, j.JobID)
		if err == nil {
			if j = now; j.State != api.JobStateQueued && j.State != api.JobStateLeased {
				return j, nil
			}
			before := seen
			if err = follow(ctx, conn, j, &seen); err == nil {
				continue // the work has ended: read the job again
			}
			if seen > before {
				lost, pause = time.Time{}, api.DefaultRetry.Base
			}
		}
		switch {
		case ctx.Err() != nil:
			return j, context.Cause(ctx)
		case lost.IsZero():
			lost = time.Now()
		case time.Since(lost) > most:
			return j, reason.Errorf(reason.StoreUnavailable, "the authority is out of reach while provider %s works on job %s: %w", j.ProviderID,
				j.JobID, err)
		}
		if err := api.Pause(ctx, pause); err != nil {
			return j, err
		}
	}
}

// retryUnreachable repeats a request whose key makes that safe while the authority is
// out of reach. That of this process is never: what it lacks does not come back
// by waiting.
func (q *Requester) retryUnreachable(ctx context.Context, conn *Connection, p job.Proof, request func() error) error {
	began := time.Now()
	for pause := api.DefaultRetry.Base; ; pause = min(2*pause, api.DefaultRetry.Max) {
		err := request()
		if err == nil || conn.Worker != nil || reason.CodeOf(err) != reason.StoreUnavailable || time.Since(began) > q.Patience {
			return err
		}
		if p.Waiting != nil {
			p.Waiting(q.Patience, err)
			p.Waiting = nil
		}
		if stopped := api.Pause(ctx, pause); stopped != nil {
			return stopped
		}
	}
}

// follow reads the run's lane until a receipt says that work on the job has ended.
func follow(ctx context.Context, conn *Connection, j api.Job, seen *int64) error {
	lane, err := api.Listen(ctx, conn.Client, "run:"+j.RunID+":events", *seen)
	if err != nil {
		return err
	}
	defer lane.Close()
	for {
		f, err := lane.Next(ctx)
		if err != nil {
			return err
		}
		switch {
		case f.Type == api.LaneFrameTypeReset:
			*seen = 0
		case f.Event != nil && f.Event.Seq > *seen:
			*seen = f.Event.Seq
			if endsWork(*f.Event, j.JobID) {
				return nil
			}
		}
	}
}

// endsWork reports whether an event says that work on the job has ended. After a
// fallback another provider continues, which the job's state shows.
func endsWork(e api.Event, jobID string) bool {
	var r record.Receipt
	if json.Unmarshal(e.Payload, &r) != nil {
		return false
	}
	if about, ok := r.About(); !ok || about.JobID != jobID {
		return false
	}
	switch r.Type {
	case record.JobCompleted, record.JobFailed, record.JobRejected, record.PaymentWithheld, record.PaymentReleased:
		return true
	}
	return false
}

// dispatchWait is how long the nexus lets one dispatch wait for a provider.
const dispatchWait = 20 * time.Second

// Dispatch queues a job of a run. The nexus waits for a provider that could take
// it; a longer wait is several requests, each with a key of its own behind the
// first, since a refusal that is recorded is the answer to its key for good. A run
// has the same job only once.
func Dispatch(ctx context.Context, c *api.Client, run, key string, ask api.DispatchRequest,
	wait time.Duration) (got api.Ensured[api.Job], err error) {
	err = awaitProvider(ctx, wait, nil, func(left time.Duration) error {
		ask.WaitSecs = waitSecs(left)
		got, err = api.DispatchJob.Do(ctx, c, key, run, ask)
		key = api.NewKey()
		return err
	})
	return got, err
}

// waitSecs is what one request says of the time that is left.
func waitSecs(left time.Duration) *int64 {
	return api.Optional(int64((min(left, dispatchWait) + time.Second - 1) / time.Second))
}

// awaitProvider repeats a request for as long as it is refused for the lack of a
// provider and there is time left; waiting hears of the first refusal.
func awaitProvider(ctx context.Context, wait time.Duration, waiting func(time.Duration, error),
	request func(left time.Duration) error) error {
	for until := time.Now().Add(wait); ; {
		asked := time.Now()
		err := request(max(0, time.Until(until)))
		if err == nil || !comesAndGoes(err) || !time.Now().Before(until) {
			return err
		}
		if waiting != nil {
			waiting(wait, err)
			waiting = nil
		}
		// A provider that is named and switched off is refused without a wait.
		if cause := api.Pause(ctx, min(time.Until(until), time.Until(asked.Add(time.Second)))); cause != nil {
			return cause
		}
	}
}

// comesAndGoes reports whether a request was refused for the lack of a provider.
func comesAndGoes(err error) bool {
	switch reason.CodeOf(err) {
	case reason.NoProvider, reason.ProviderDisabled, reason.ProviderUnavailable:
		return true
	}
	return false
}
