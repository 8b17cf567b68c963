package jobs

import (
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
)

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
