package jobs

import (
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Cancel ends a job that has not been handed in. It is a change of state and
// not a wish: the fence moves, so whatever its provider still delivers is
// refused. Canceling again changes nothing.
func Cancel(tx *store.Tx, p authority.Principal, id string) (Job, error) {
	if err := p.Require(authority.ScopeJobs); err != nil {
		return Job{}, err
	}
	j, err := lockOwn(tx, p, id)
	if err != nil {
		return Job{}, err
	}
	switch state := State(j.State); {
	case state == Canceled:
		return j, nil
	case state.Final():
		return Job{}, reason.Errorf(reason.JobClosed, "job %s is %s", id, state)
	case state == Submitted:
		return Job{}, reason.Errorf(reason.Conflict, "job %s was handed in: settle it", id)
	}
	return closeUnpaid(tx, j, ending{to: Canceled, why: reason.Cancelled, by: p})
}

// Disabled is what an emergency switch has done.
type Disabled struct {
	Provider registry.Provider
	Changed  bool
	Canceled []string // jobs that it was running
}

// Disable switches a provider off at once: no lease from this commit on, the
// jobs that it runs are canceled, and those it was only offered go to another
// provider. What it had handed in before is judged and paid like any other.
func Disable(tx *store.Tx, p authority.Principal, id, why string) (Disabled, error) {
	off, changed, err := registry.SwitchOff(tx, p, id, why)
	if err != nil || !changed {
		return Disabled{Provider: off}, err
	}
	d := Disabled{Changed: true}
	if d.Canceled, err = withdrawAll(tx, p, id); err != nil {
		return Disabled{}, err
	}
	d.Provider, err = registry.Lock(tx, id)
	return d, err
}

// Retire takes a provider out of service for good: what it runs is canceled, and
// what it was offered goes to another, as when it is switched off. What it had
// handed in is judged and paid like any other.
func Retire(tx *store.Tx, p authority.Principal, id, why string) (registry.Provider, error) {
	gone, changed, err := registry.Retire(tx, p, id, why)
	if err != nil || !changed {
		return gone, err
	}
	if _, err := withdrawAll(tx, p, id); err != nil {
		return registry.Provider{}, err
	}
	return registry.Lock(tx, id)
}

// withdrawAll takes from a provider that is off what it has: it names the jobs that
// were running.
func withdrawAll(tx *store.Tx, p authority.Principal, id string) (canceled []string, err error) {
	for {
		held, err := tx.JobsHeld(id, MaxLeases)
		if err != nil {
			return nil, err
		}
		if len(held) == 0 {
			return canceled, withdraw(tx, id, reason.ProviderDisabled)
		}
		for _, h := range held {
			j, err := lockJob(tx, h.ID)
			if err != nil {
				return nil, err
			}
			if j, err = closeUnpaid(tx, j, ending{to: Canceled, why: reason.ProviderDisabled, by: p}); err != nil {
				return nil, err
			}
			canceled = append(canceled, j.ID)
		}
	}
}

// Enrol is registry.EnrolProvider for a machine that gets a credential of its
// own now. What an earlier machine of this registration has is taken from it: it
// can neither renew nor hand in any more.
func Enrol(tx *store.Tx, p authority.Principal, r registry.ProviderRequest) (registry.Provider, error) {
	made, err := registry.EnrolProvider(tx, p, r)
	if err != nil {
		return registry.Provider{}, err
	}
	if _, err := withdrawAll(tx, p, made.ID); err != nil {
		return registry.Provider{}, err
	}
	return registry.Lock(tx, made.ID)
}

// CancelRun asks a run to end: it takes no more jobs, and those that were not
// handed in are canceled. FinishRun ends it.
func CancelRun(tx *store.Tx, p authority.Principal, runID, why string) (Run, error) {
	if err := p.Require(authority.ScopeRuns); err != nil {
		return Run{}, err
	}
	if len(why) > maxValue {
		return Run{}, invalid("reason", "is longer than %d bytes", maxValue)
	}
	if err := cancelJobs(tx, p, runID); err != nil {
		return Run{}, err
	}
	r, err := lockRun(tx, p, runID)
	if err != nil {
		return Run{}, err
	}
	if RunState(r.State) == RunCanceling || RunState(r.State) == RunCanceled {
		return r, nil
	}
	if err := moveRun(tx, &r, runMove{event: EventCancelRequested}); err != nil {
		return Run{}, err
	}
	if err := event(tx, r.ID, p, EventCancelRequested, keyCancelRequested, map[string]any{"reason": why}); err != nil {
		return Run{}, err
	}
	if err := endWithJobs(tx, r.ID); err != nil {
		return Run{}, err
	}
	return tx.Run(r.ID)
}

// maxJobs bounds the jobs of a run that one command looks at.
const maxJobs = 1000

// cancelJobs cancels the queued and leased jobs of a run.
func cancelJobs(tx *store.Tx, p authority.Principal, runID string) error {
	if _, err := FindRun(tx, p, runID); err != nil {
		return err
	}
	list, err := tx.JobsOfRun(runID, "", maxJobs)
	if err != nil {
		return err
	}
	for _, seen := range list {
		if s := State(seen.State); s != Queued && s != Leased {
			continue
		}
		j, err := lockJob(tx, seen.ID)
		if err != nil {
			return err
		}
		if s := State(j.State); s != Queued && s != Leased {
			continue
		}
		if _, err := closeJob(tx, j, ending{to: Canceled, why: reason.Cancelled, by: p}); err != nil {
			return err
		}
	}
	return nil
}

// FinishRequest ends a run.
type FinishRequest struct {
	Status      RunState // succeeded, failed or canceled
	Reason      string
	ExpectedSeq *int64 // last event that the caller saw; nil when it does not matter
}

// FinishRun ends a run and seals its log. A run succeeds only when all its jobs
// have ended; failing or canceling it cancels what is open and settles what was
// handed in. Finishing again with the same status changes nothing.
func FinishRun(tx *store.Tx, p authority.Principal, runID string, f FinishRequest) (Run, error) {
	if err := p.Require(authority.ScopeRuns); err != nil {
		return Run{}, err
	}
	if !f.Status.Final() {
		return Run{}, invalid("status", "is %.32q, must be succeeded, failed or canceled", f.Status)
	}
	if len(f.Reason) > maxValue {
		return Run{}, invalid("reason", "is longer than %d bytes", maxValue)
	}
	seen, err := FindRun(tx, p, runID)
	if err != nil {
		return Run{}, err
	}
	if RunState(seen.State).Final() {
		_, err := RunState(seen.State).next(runMove{EventFinished, f.Status})
		return seen, err
	}
	if err := expectSeq(tx, runID, f.ExpectedSeq); err != nil {
		return Run{}, err
	}
	if f.Status != RunSucceeded {
		if err := closeJobs(tx, p, runID); err != nil {
			return Run{}, err
		}
	}
	r, err := lockRun(tx, p, runID)
	if err != nil {
		return Run{}, err
	}
	if err := allEnded(tx, runID); err != nil {
		return Run{}, err
	}
	was := RunState(r.State)
	if err := moveRun(tx, &r, runMove{EventFinished, f.Status}); err != nil || was.Final() {
		return r, err
	}
	if err := event(tx, runID, p, EventFinished, keyRunFinished, map[string]any{"status": string(f.Status), "reason": f.Reason}); err != nil {
		return Run{}, err
	}
	if err := tx.ReleaseClaims(runID); err != nil {
		return Run{}, err
	}
	return tx.Run(runID)
}

// closeJobs cancels what is open and settles what was handed in.
func closeJobs(tx *store.Tx, p authority.Principal, runID string) error {
	if err := cancelJobs(tx, p, runID); err != nil {
		return err
	}
	list, err := tx.JobsOfRun(runID, "", maxJobs)
	if err != nil {
		return err
	}
	for _, j := range list {
		if State(j.State) != Submitted {
			continue
		}
		_, _, _, err := settleJob(tx, authority.Sweeper(), j.ID)
		if reason.CodeOf(err) == reason.ReservationExpired {
			if j, err = lockJob(tx, j.ID); err == nil {
				_, err = closeJob(tx, j, ending{to: Expired, why: reason.ReservationExpired, by: p})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// allEnded demands that no job of the run is open, and shows in the log what
// the jobs have meant for their providers.
func allEnded(tx *store.Tx, runID string) error {
	after := ""
	for {
		list, err := tx.JobsOfRun(runID, after, maxJobs)
		if err != nil {
			return err
		}
		for _, j := range list {
			after = j.ID
			if !State(j.State).Final() {
				return reason.Errorf(reason.Conflict, "job %s is %s", j.ID, j.State).WithHint("settle or cancel the jobs of a run before it ends")
			}
			if err := showPenalties(tx, runID, j.ID, j.ProviderID); err != nil {
				return err
			}
		}
		if len(list) < maxJobs {
			return nil
		}
	}
}

func expectSeq(tx *store.Tx, runID string, expected *int64) error {
	if expected == nil {
		return nil
	}
	head, _, err := tx.Head(authority.RunStream(runID))
	if err == nil && head != *expected {
		err = reason.Errorf(reason.PreconditionFailed, "the log is at %d, not at %d", head, *expected)
	}
	return err
}
