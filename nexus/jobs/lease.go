package jobs

import (
	"errors"
	"fmt"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Bounds of a lease. A daemon renews at a third of the TTL.
const (
	DefaultLease = 30 * time.Second
	MinLease     = time.Second
	MaxLease     = 10 * time.Minute
	MaxLeases    = 20
	// leaseGrace is what a job gets beyond its own time limit, for fetching the
	// tree and delivering the result. Then no renewal helps any more.
	leaseGrace = 2 * time.Minute
)

// LeaseRequest asks for work.
type LeaseRequest struct {
	Max int           // 0: one
	TTL time.Duration // 0: DefaultLease
	// JobID asks for this job or none; "" takes what was offered first.
	JobID string
}

// Lease is the right to work on a job, until LeaseUntil and as long as the
// fence is the job's.
type Lease struct {
	Job        Job
	Fence      int64
	LeaseUntil int64 // unix milliseconds
	RenewEvery time.Duration
	Caps       *job.CapsApplied // what the job may use; nil for a lease of before there were any
}

func leaseOf(j Job) (Lease, error) {
	a, err := allowanceOf(j)
	l := Lease{Job: j, Fence: j.Fence, LeaseUntil: j.LeaseUntil, RenewEvery: time.Duration(j.LeaseTTL) * time.Millisecond / 3}
	if a != nil {
		l.Caps = &a.Granted
	}
	return l, err
}

func leaseTTL(ttl time.Duration) (time.Duration, error) {
	if ttl == 0 {
		ttl = DefaultLease
	}
	if ttl < MinLease || ttl > MaxLease {
		return 0, invalid("ttl", "is %s, must be %s to %s", ttl, MinLease, MaxLease)
	}
	return ttl, nil
}

// TakeLeases gives a provider jobs that were offered to it, up to its
// concurrency. A provider that is off, quarantined or silent gets none.
func TakeLeases(tx *store.Tx, p authority.Principal, r LeaseRequest) ([]Lease, error) {
	if err := p.Require(authority.ScopeWork); err != nil {
		return nil, err
	}
	ttl, err := leaseTTL(r.TTL)
	if err != nil {
		return nil, err
	}
	if r.Max < 0 || r.Max > MaxLeases {
		return nil, invalid("max", "is %d, must be 1 to %d", r.Max, MaxLeases)
	}
	if p.ProviderID() == "" {
		return nil, reason.Errorf(reason.Forbidden, "only a provider leases jobs")
	}
	// The same lock as Disable takes: after it commits, this sees it.
	found, offered, err := registry.LockWithOffers(tx, p.ProviderID(), MaxLeases)
	if err != nil {
		return nil, fmt.Errorf("lease jobs: %w", err)
	}
	switch {
	case found.Quarantined():
		return nil, reason.Errorf(reason.ProviderQuarantined, "provider %s is quarantined: %s", found.ID, found.QuarantineReason)
	case !found.Enabled:
		return nil, reason.Errorf(reason.ProviderDisabled, "provider %s is switched off", found.ID)
	case found.Liveness(tx.Now()) != registry.Fresh:
		return nil, reason.Errorf(reason.Conflict, "the heartbeat of provider %s is %s", found.ID, found.Liveness(tx.Now())).
			WithHint("send a heartbeat before asking for work")
	}
	free := min(found.Caps.Concurrency-found.Leased, int64(max(r.Max, 1)))
	if free <= 0 {
		return nil, nil
	}
	var leases []Lease
	for _, o := range offered {
		if int64(len(leases)) == free {
			break
		}
		if r.JobID != "" && r.JobID != o.ID {
			continue
		}
		j, ok, err := lease(tx, p, found, o, ttl)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		l, err := leaseOf(j)
		if err != nil {
			return nil, err
		}
		leases = append(leases, l)
	}
	return leases, nil
}

// lease leases one offered job. It does not when the offer has ended, or when the
// caps have become too small for the job: a sweep then offers it to another
// provider. The provider is locked, without which no job moves to or from it.
func lease(tx *store.Tx, p authority.Principal, by registry.Provider, offered Job, ttl time.Duration) (Job, bool, error) {
	j, err := tx.LockOffer(offered)
	if err != nil {
		return Job{}, false, fmt.Errorf("lock job %s: %w", offered.ID, err)
	}
	now := tx.Now()
	req, err := job.Parse(j.Type, j.Request)
	if err != nil {
		return Job{}, false, fmt.Errorf("read job %s: %w", j.ID, err)
	}
	fits := by.Caps.Allow(req.Needs()) == nil
	if now >= j.OfferUntil {
		away, err := lastAbsence(tx)
		if err != nil {
			return Job{}, false, err
		}
		away.extend(&j)
	}
	if State(j.State) != Queued || j.ProviderID != by.ID || now >= j.OfferUntil || !fits {
		return Job{}, false, nil
	}
	if err := setState(&j, Leased); err != nil {
		return Job{}, false, err
	}
	j.Fence++
	j.LeasedAt, j.LeaseTTL = now, ttl.Milliseconds()
	j.DeadlineAt = now + req.Needs().TimeoutSecs*1000 + leaseGrace.Milliseconds()
	j.LeaseUntil = min(now+j.LeaseTTL, j.DeadlineAt)
	if j.Caps, err = allow(by, req.Needs()); err != nil {
		return Job{}, false, err
	}
	if j, err = save(tx, j); err != nil {
		return Job{}, false, err
	}
	if err := tx.PutAttempt(store.AttemptRow{JobID: j.ID, Attempt: j.Attempt, ProviderID: j.ProviderID, ReservationID: j.ReservationID,
		AmountMsats: j.AmountMsats, DispatchedAt: j.DispatchedAt, LeasedAt: j.LeasedAt}); err != nil {
		return Job{}, false, err
	}
	err = event(tx, j.RunID, p, "job.leased", fmt.Sprintf("%s:%d", keyOf("job-leased", j), j.Fence), map[string]any{
		"job_id": j.ID, "job_hash": j.Hash, "provider_id": j.ProviderID, "fence": j.Fence, "attempt": j.Attempt,
	})
	return j, err == nil, err
}

// Held returns the jobs that a provider has leased, for a daemon that comes
// back from a restart.
func Held(tx *store.Tx, p authority.Principal) ([]Lease, error) {
	if p.ProviderID() == "" {
		return nil, reason.Errorf(reason.Forbidden, "only a provider holds leases")
	}
	list, err := tx.JobsHeld(p.ProviderID(), MaxLeases)
	leases := make([]Lease, len(list))
	for i, j := range list {
		var unread error
		leases[i], unread = leaseOf(j)
		err = errors.Join(err, unread)
	}
	return leases, err
}

// RenewRequest asks for more time.
type RenewRequest struct {
	Fence int64
	TTL   time.Duration // 0: as before
}

// Renew prolongs a lease, at most to the deadline of the job.
func Renew(tx *store.Tx, p authority.Principal, id string, r RenewRequest) (Lease, error) {
	j, err := lockLease(tx, p, id, r.Fence)
	if err != nil {
		return Lease{}, err
	}
	if r.TTL != 0 {
		ttl, err := leaseTTL(r.TTL)
		if err != nil {
			return Lease{}, err
		}
		j.LeaseTTL = ttl.Milliseconds()
	}
	// Messages may arrive out of order: a lease never gets shorter.
	j.LeaseUntil = max(j.LeaseUntil, min(tx.Now()+j.LeaseTTL, j.DeadlineAt))
	if j, err = save(tx, j); err != nil {
		return Lease{}, err
	}
	return leaseOf(j)
}

// lockLease locks a job and checks that the principal is the provider that works on
// it, under this fence, now.
func lockLease(tx *store.Tx, p authority.Principal, id string, fence int64) (Job, error) {
	if err := p.Require(authority.ScopeWork); err != nil {
		return Job{}, err
	}
	if p.ProviderID() == "" {
		return Job{}, reason.Errorf(reason.Forbidden, "only a provider works on jobs")
	}
	seen, err := Find(tx, p, id)
	if err != nil {
		return Job{}, err
	}
	j, err := lockSeen(tx, seen)
	if err != nil {
		return Job{}, err
	}
	if tx.Now() >= j.LeaseUntil {
		away, err := lastAbsence(tx)
		if err != nil {
			return Job{}, err
		}
		away.extend(&j)
	}
	return j, checkLease(j, p.ProviderID(), fence, tx.Now())
}

// checkLease returns why a lease does not count. It is pure, and on an error the daemon
// kills its work.
func checkLease(j Job, providerID string, fence, now int64) error {
	switch {
	case State(j.State).Final():
		return reason.Errorf(reason.JobClosed, "job %s is %s: %s", j.ID, j.State, j.Reason)
	case j.ProviderID != providerID || j.Fence != fence:
		return reason.Errorf(reason.StaleFence, "fence %d of job %s is no longer valid", fence, j.ID)
	case State(j.State) != Leased:
		return reason.Errorf(reason.JobClosed, "job %s is %s", j.ID, j.State)
	case now >= j.LeaseUntil:
		return reason.Errorf(reason.LeaseExpired, "the lease of job %s ran out", j.ID)
	}
	return nil
}
