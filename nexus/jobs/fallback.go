package jobs

import (
	"fmt"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
	"remit/proof/record"
)

// maxAttempts is the first provider and one fallback.
const maxAttempts = 2

// lost is why an attempt counts for nothing.
type lost struct {
	why    reason.Code
	strike bool // the provider is to blame
	// heartbeat is when the provider of an offer was heard of last.
	heartbeat int64
}

// lastSeen is when a job shows last that its provider worked: when its lease was
// renewed, or when it was offered to one that lived.
func lastSeen(j Job, heartbeat int64) int64 {
	if State(j.State) == Queued {
		return min(heartbeat, j.OfferUntil-OfferTTL.Milliseconds())
	}
	return j.LeaseUntil - j.LeaseTTL
}

// fallBack ends the present attempt of a locked job and offers the job to the
// next best provider, once. moved is false when there is none, or no money for
// it: the caller then ends the job, and the strike is given all the same.
func fallBack(tx *store.Tx, j *Job, l lost) (moved bool, err error) {
	was := *j
	if l.strike {
		marked, err := registry.MarkLost(tx, was.ProviderID, was.ID, l.why, lastSeen(was, l.heartbeat))
		if err == nil {
			err = afterMark(tx, was, marked)
		}
		if err != nil {
			return false, err
		}
	}
	next, breadth, req, err := successor(tx, was)
	if err != nil || next == nil {
		return false, err
	}
	// A job holds money once, so the old reservation has to go before the new
	// one is made: whether it can be made is therefore asked first.
	if ok, err := affordable(tx, was, next.Provider.PriceMsats); err != nil || !ok {
		return false, err
	}
	money, _, err := treasury.Cancel(tx, was.ReservationID, string(l.why))
	if err != nil {
		return false, fmt.Errorf("give back the money of job %s: %w", was.ID, err)
	}
	to := was
	to.Attempt++
	if err := priceOf(to, next.Provider, 0, req.Needs()).reserve(tx, &to, next.Provider); err != nil {
		return false, err
	}
	if err := endAttempt(tx, was, string(l.why)); err != nil {
		return false, err
	}
	if err := recordLoss(tx, was, l, money); err != nil {
		return false, err
	}
	if err := setState(&to, Queued); err != nil {
		return false, err
	}
	assign(tx, &to, *next)
	to.FallbackFrom = was.ProviderID
	to.Response, to.ResponseSHA256, to.ResponseStatus = nil, "", ""
	if to, err = save(tx, to); err != nil {
		return false, err
	}
	sweeper := authority.Sweeper()
	standing, err := registry.Standing(tx, next.Provider)
	if err != nil {
		return false, err
	}
	run, err := tx.Run(to.RunID)
	if err != nil {
		return false, err
	}
	if err := (offer{*next, breadth, "", req.Needs(), standing, run.RunFacts}).publish(tx, sweeper, to); err != nil {
		return false, err
	}
	if _, err := receipt(tx, to.RunID, sweeper, record.FallbackProviderUsed, attemptKey("fallback", to), record.Fallback{
		JobID: to.ID, JobHash: to.Hash, From: was.ProviderID, To: to.ProviderID, Reason: string(l.why), Attempt: to.Attempt,
	}); err != nil {
		return false, err
	}
	*j = to
	return true, notifyCancel(tx, was.ProviderID, was, was.Fence, string(l.why))
}

// successor finds and locks the provider for another attempt; nil when the job
// may have none.
func successor(tx *store.Tx, j Job) (*registry.Choice, int, job.Request, error) {
	if j.Attempt >= maxAttempts || j.Pinned {
		return nil, 0, nil, nil
	}
	run, err := tx.Run(j.RunID)
	if err != nil || takesJobs(run) != nil {
		return nil, 0, nil, err
	}
	req, err := job.Parse(j.Type, j.Request)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("read job %s: %w", j.ID, err)
	}
	attempts, err := tx.Attempts(j.ID)
	if err != nil {
		return nil, 0, nil, err
	}
	var had []string
	for _, a := range attempts {
		had = append(had, a.ProviderID)
	}
	candidates, err := registry.Candidates(tx, j.Owner, 0)
	if err != nil {
		return nil, 0, nil, err
	}
	c, breadth, _, err := choose(tx, candidates, registry.Query{
		Owner: j.Owner, Needs: req.Needs(), MaxPriceMsats: j.MaxPriceMsats, Exclude: had, Now: tx.Now(),
	}, func(c registry.Choice) (registry.Provider, error) { return registry.Lock(tx, c.Provider.ID) })
	return c, breadth, req, err
}

// recordLoss writes what became of an attempt that was lost: nothing is paid.
func recordLoss(tx *store.Tx, j Job, l lost, money treasury.Reservation) error {
	sweeper := authority.Sweeper()
	if _, err := receipt(tx, j.RunID, sweeper, record.JobFailed, lostKey(keyOf("job-failed", j), j), record.Ending{
		JobID: j.ID, JobHash: j.Hash, ProviderID: j.ProviderID, Attempt: j.Attempt, Was: j.State,
		Reason: string(l.why), ResponseSHA256: &j.ResponseSHA256,
	}); err != nil {
		return err
	}
	return (paid{job: j, status: record.Withheld, reason: money.Reason, resolution: money.ResolutionID, exitCode: 1,
		lost: true}).record(tx, sweeper)
}
