package jobs

import (
	"errors"
	"fmt"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// maxAttempts is the first provider and one fallback.
const maxAttempts = 2

// ending is how a job ends without a verdict.
type ending struct {
	to  State
	why reason.Code
	by  authority.Principal
}

// closeUnpaid ends a locked, open job without a verdict: the money goes back,
// the fence moves, the provider is told, and the log says why.
func closeUnpaid(tx *store.Tx, j Job, e ending) (Job, error) {
	money, _, err := treasury.Cancel(tx, j.ReservationID, string(e.why))
	if err != nil {
		return Job{}, fmt.Errorf("give back the money of job %s: %w", j.ID, err)
	}
	was, fence := State(j.State), j.Fence
	if err := move(&j, e.to); err != nil {
		return Job{}, err
	}
	j.ClosedAt, j.Reason, j.Payment = tx.Now(), string(e.why), Withheld
	if was != Submitted { // a response that was handed in keeps its fence
		j.Fence++
	}
	if j, err = save(tx, j); err != nil {
		return Job{}, err
	}
	if err := endAttempt(tx, j, string(e.to)); err != nil {
		return Job{}, err
	}
	// A job that nobody had begun was turned away; one that was begun failed.
	receiptType, key := authority.JobFailed, keyOf("job-"+string(e.to), j)
	if was == Queued {
		receiptType = authority.JobRejected
	}
	if _, err := receipt(tx, j.RunID, e.by, receiptType, key, map[string]any{
		"job_id": j.ID, "job_hash": j.Hash, "job_type": j.Type, "provider_id": j.ProviderID, "attempt": j.Attempt,
		"state": string(e.to), "was": string(was), "reason": string(e.why), "artifacts": []string{},
	}); err != nil {
		return Job{}, err
	}
	if err := (paid{job: j, status: Withheld, reason: money.Reason, resolution: money.ResolutionID, exitCode: 1}).record(tx, e.by); err != nil {
		return Job{}, err
	}
	if was == Submitted {
		return j, nil
	}
	return j, tellCancel(tx, j.ProviderID, j, fence, string(e.why))
}

// lost is why an attempt counts for nothing.
type lost struct {
	why    reason.Code
	strike bool // the provider is to blame
}

// fallBack ends the present attempt of a locked job and offers the job to the
// next best provider, once. moved is false when there is none, or no money for
// it: the caller then ends the job, and the strike is given all the same.
func fallBack(tx *store.Tx, j *Job, l lost) (moved bool, err error) {
	was := *j
	if l.strike {
		if err := strike(tx, was, l.why); err != nil {
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
	if err := reserve(tx, &to, next.Provider, req.Needs(), 0); err != nil {
		return false, err
	}
	if err := endAttempt(tx, was, string(l.why)); err != nil {
		return false, err
	}
	if err := recordLoss(tx, was, l, money); err != nil {
		return false, err
	}
	if err := move(&to, Queued); err != nil {
		return false, err
	}
	assign(tx, &to, *next)
	to.FallbackFrom = was.ProviderID
	to.Response, to.ResponseSHA256, to.ResponseStatus = nil, "", ""
	if to, err = save(tx, to); err != nil {
		return false, err
	}
	sweeper := authority.Sweeper()
	if err := publish(tx, sweeper, to, *next, breadth, "", req.Needs()); err != nil {
		return false, err
	}
	if _, err := receipt(tx, to.RunID, sweeper, authority.FallbackProviderUsed, attemptKey("fallback", to), map[string]any{
		"job_id": to.ID, "job_hash": to.Hash, "from": was.ProviderID, "to": to.ProviderID, "reason": string(l.why), "attempt": to.Attempt,
	}); err != nil {
		return false, err
	}
	*j = to
	return true, tellCancel(tx, was.ProviderID, was, was.Fence, string(l.why))
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
	c, breadth, _, err := choose(tx, registry.Query{
		Owner: j.Owner, Needs: req.Needs(), MaxPriceMsats: j.MaxPriceMsats, Exclude: had, Now: tx.Now(),
	})
	return c, breadth, req, err
}

// recordLoss writes what became of an attempt that was lost: nothing is paid.
func recordLoss(tx *store.Tx, j Job, l lost, money treasury.Reservation) error {
	sweeper := authority.Sweeper()
	if _, err := receipt(tx, j.RunID, sweeper, authority.JobFailed, lostKey(keyOf("job-failed", j), j), map[string]any{
		"job_id": j.ID, "job_hash": j.Hash, "provider_id": j.ProviderID, "attempt": j.Attempt, "was": j.State,
		"reason": string(l.why), "response_sha256": j.ResponseSHA256, "artifacts": []string{},
	}); err != nil {
		return err
	}
	return (paid{job: j, status: Withheld, reason: money.Reason, resolution: money.ResolutionID, exitCode: 1, lost: true}).record(tx, sweeper)
}

// strike marks the provider of a job and shows the penalty in the run's log.
func strike(tx *store.Tx, j Job, why reason.Code) error {
	marked, err := registry.Mark(tx, j.ProviderID, j.ID, registry.Failure, why)
	if err != nil {
		return err
	}
	if err := showPenalties(tx, j.RunID, j.ID, j.ProviderID); err != nil {
		return err
	}
	if marked.Quarantined {
		return withdrawOthers(tx, j.ProviderID, j.ID, reason.ProviderQuarantined)
	}
	return nil
}

// showPenalties copies the receipts that a job has caused in its provider's
// journal into the log of its run.
func showPenalties(tx *store.Tx, runID, jobID, providerID string) error {
	keys := []string{
		registry.PenaltyKey(jobID, registry.Unverified), registry.PenaltyKey(jobID, registry.Failure),
		registry.PenaltyKey(jobID, registry.Violation), registry.QuarantineKey(jobID),
	}
	for _, key := range keys {
		e, err := tx.EventByKey(authority.ProviderStream(providerID), key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		r, ok := authority.ReadReceipt(e)
		if !ok {
			continue
		}
		// One job can be marked at two providers under the same key.
		copied := r
		copied.Key = key + ":" + providerID
		if err := copied.Seal(); err != nil {
			return err
		}
		if err := authority.Copy(tx, authority.RunStream(runID), copied); err != nil {
			return err
		}
	}
	return nil
}

// withdraw takes the open offers of a provider away: each job goes to another
// provider or ends.
func withdraw(tx *store.Tx, providerID string, why reason.Code) error {
	return withdrawOthers(tx, providerID, "", why)
}

func withdrawOthers(tx *store.Tx, providerID, except string, why reason.Code) error {
	for {
		offered, err := tx.JobsOffered(providerID, MaxLeases)
		if err != nil {
			return err
		}
		left := 0
		for _, o := range offered {
			if o.ID == except {
				continue
			}
			left++
			j, err := lockJob(tx, o.ID)
			if err != nil {
				return err
			}
			if State(j.State) != Queued || j.ProviderID != providerID {
				continue
			}
			moved, err := fallBack(tx, &j, lost{why: why})
			if err == nil && !moved {
				_, err = closeUnpaid(tx, j, ending{to: Canceled, why: why, by: authority.Sweeper()})
			}
			if err != nil {
				return err
			}
		}
		if left == 0 {
			return nil
		}
	}
}
