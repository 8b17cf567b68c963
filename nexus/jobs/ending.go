package jobs

import (
	"cmp"
	"errors"
	"fmt"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
	"remit/proof/record"
)

// ending is how a job ends without a verdict.
type ending struct {
	to  State
	why reason.Code
	by  authority.Principal
}

// closeUnpaid ends a locked, open job without a verdict, and its run where that was
// made for its jobs.
func closeUnpaid(tx *store.Tx, j Job, e ending) (Job, error) {
	j, err := closeJob(tx, j, e)
	if err != nil {
		return Job{}, err
	}
	return j, endWithJob(tx, j)
}

// MetadataForm is the entry of a run's metadata that says that the page for new runs
// has made it. Such a run has no client, and ends with its jobs.
const MetadataForm = "form"

// madeForJobs reports whether a run ends with its jobs.
func madeForJobs(r Run) bool {
	return metadataOf(r)[MetadataForm] != ""
}

// endWithJob is endWithJobs after the end of a job: the page makes runs for engines.
func endWithJob(tx *store.Tx, j Job) error {
	if j.Type != job.EngineRun {
		return nil
	}
	return endWithJobs(tx, j.RunID)
}

// endWithJobs ends a run that was made for its jobs when none of them is open: it
// succeeds when each has passed. Locks of jobs come before those of the run.
func endWithJobs(tx *store.Tx, runID string) error {
	if seen, err := tx.Run(runID); err != nil || !madeForJobs(seen) {
		return err
	}
	run, err := tx.LockRun(runID) // of two jobs that end at once one sees the other
	if err != nil || RunState(run.State).Final() {
		return err
	}
	end := FinishRequest{Status: RunSucceeded}
	list, err := tx.JobsOfRun(runID, "", maxJobs)
	if err != nil {
		return err
	}
	for _, j := range list {
		switch {
		case !State(j.State).Final():
			return nil
		case job.Outcome(j.Outcome) != job.Passed && end.Status == RunSucceeded:
			end = FinishRequest{Status: RunFailed, Reason: cmp.Or(j.Reason, j.Outcome)}
		}
	}
	if RunState(run.State) == RunCanceling {
		end = FinishRequest{Status: RunCanceled, Reason: string(reason.Cancelled)}
	}
	_, err = FinishRun(tx, authority.Sweeper(), runID, end)
	return err
}

// closeJob ends a locked, open job without a verdict: the money goes back, the fence
// moves, the provider gets a cancel, and the log says why.
func closeJob(tx *store.Tx, j Job, e ending) (Job, error) {
	money, _, err := treasury.Cancel(tx, j.ReservationID, string(e.why))
	if err != nil {
		return Job{}, fmt.Errorf("give back the money of job %s: %w", j.ID, err)
	}
	was, fence := State(j.State), j.Fence
	if err := setState(&j, e.to); err != nil {
		return Job{}, err
	}
	j.ClosedAt, j.Reason, j.Payment = tx.Now(), string(e.why), record.Withheld
	if was != Submitted { // a response that was handed in keeps its fence
		j.Fence++
	}
	if j, err = save(tx, j); err != nil {
		return Job{}, err
	}
	if err := endAttempt(tx, j, string(e.to)); err != nil {
		return Job{}, err
	}
	// A job that no provider had begun was rejected; one that was begun failed.
	receiptType, key := record.JobFailed, keyOf("job-"+string(e.to), j)
	if was == Queued {
		receiptType = record.JobRejected
	}
	if _, err := receipt(tx, j.RunID, e.by, receiptType, key, record.Ending{
		JobID: j.ID, JobHash: j.Hash, JobType: &j.Type, ProviderID: j.ProviderID, Attempt: j.Attempt,
		State: new(string(e.to)), Was: string(was), Reason: string(e.why),
	}); err != nil {
		return Job{}, err
	}
	if err := (paid{job: j, status: record.Withheld, reason: money.Reason, resolution: money.ResolutionID, exitCode: 1}).record(tx,
		e.by); err != nil {
		return Job{}, err
	}
	if was == Submitted {
		return j, nil
	}
	return j, notifyCancel(tx, j.ProviderID, j, fence, string(e.why))
}

// mark counts a job against its provider and shows the penalty in the run's log.
func mark(tx *store.Tx, j Job, kind registry.Kind, why reason.Code) error {
	marked, err := registry.Mark(tx, j.ProviderID, j.ID, kind, why)
	if err != nil {
		return err
	}
	return afterMark(tx, j, marked)
}

// afterMark shows the penalties of a job in its run's log, and takes from a
// provider that is in quarantine now what it was offered.
func afterMark(tx *store.Tx, j Job, marked registry.Marked) error {
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
		copied, err := record.NewReceipt(r.Type, r.Principal, key+":"+providerID, r.Payload)
		if err != nil {
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

// Ending is one way in which a job ends without a verdict, and unpaid.
type Ending struct {
	State State
	Why   reason.Code
	// Lost is true when neither the job nor its requester is the cause: the same
	// request may be dispatched again, in another run.
	Lost bool
}

// Endings returns every ending without a verdict. All others come from [Settle],
// and have an outcome. The table of docs/nexus.md says when each happens.
func Endings() []Ending {
	return []Ending{
		{Failed, reason.OfflineMidRun, true},
		{Failed, reason.HandedBack, true},
		{Failed, reason.Timeout, true},
		{Failed, reason.ProviderUnavailable, true},
		{Canceled, reason.ProviderQuarantined, true},
		{Canceled, reason.ProviderDisabled, true},
		{Canceled, reason.Cancelled, false},
		{Expired, reason.ReservationExpired, false},
	}
}

// Release hands a lease back before its job is done: the provider ends, or had
// to give the work up. The job goes to another provider, once, like one that was
// lost; without one it fails. No provider is paid, and there is no strike.
//
// It counts like a job that did not pass its verification, which lowers the rank
// until verified work makes up for it: to take jobs and give them back must not
// be free. A provider that could not keep its lease because the authority was
// away does not pay for that.
func Release(tx *store.Tx, p authority.Principal, id string, fence int64) (Job, error) {
	j, err := lockLease(tx, p, id, fence)
	if err != nil {
		return Job{}, err
	}
	away, err := lastAbsence(tx)
	if err != nil {
		return Job{}, err
	}
	if j.LeasedAt >= away.until {
		if err := mark(tx, j, registry.Unverified, reason.HandedBack); err != nil {
			return Job{}, err
		}
	}
	moved, err := fallBack(tx, &j, lost{why: reason.HandedBack})
	if err != nil || moved {
		return j, err
	}
	return closeUnpaid(tx, j, ending{to: Failed, why: reason.HandedBack, by: p})
}

// Heartbeat records what a provider says about itself. When it says that it ends,
// what it was offered goes to others in the same transaction.
func Heartbeat(tx *store.Tx, p authority.Principal, id string, r registry.HeartbeatRequest) (registry.Provider, error) {
	found, err := registry.Heartbeat(tx, p, id, r)
	if err != nil || r.Status != registry.Stopping && r.Status != registry.Stopped {
		return found, err
	}
	return found, reofferJobs(tx, id)
}

// reofferJobs offers the open offers of a provider to others. An offer that no
// other provider can take stays: its provider may only be restarting.
func reofferJobs(tx *store.Tx, providerID string) error {
	for {
		offered, err := tx.JobsOffered(providerID, MaxLeases)
		if err != nil {
			return err
		}
		some := false
		for _, o := range offered {
			j, err := lockJob(tx, o.ID)
			if err != nil {
				return err
			}
			if State(j.State) != Queued || j.ProviderID != providerID {
				continue
			}
			moved, err := fallBack(tx, &j, lost{why: reason.HandedBack})
			if err != nil {
				return err
			}
			some = some || moved
		}
		if !some || len(offered) < MaxLeases {
			return nil
		}
	}
}
