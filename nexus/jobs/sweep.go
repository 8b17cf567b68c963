package jobs

import (
	"errors"
	"fmt"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// DefaultSweep bounds the jobs of one sweep, and so how long it holds their locks.
const DefaultSweep = 50

// SettleGrace is how long a response waits for its requester to settle it. Then
// the authority does, since the verdict does not depend on who asks for it.
const SettleGrace = 5 * time.Minute

// Swept is what a sweep has done, by job id.
type Swept struct {
	FellBack []string // offered to another provider
	Extended []string // left with a provider that has no free place yet, or could not ask
	Failed   []string // no provider was left to run them
}

// Total is how many jobs the sweep has touched.
func (s Swept) Total() int { return len(s.FellBack) + len(s.Extended) + len(s.Failed) }

// Expire ends the offers and leases whose time is up, at most limit (0:
// DefaultSweep). Any replica may call it at any time; what was done is not done
// again.
func Expire(tx *store.Tx, limit int) (Swept, error) {
	if limit <= 0 {
		limit = DefaultSweep
	}
	ids, err := tx.JobsOverdue(tx.Now(), limit)
	if err != nil {
		return Swept{}, err
	}
	away, err := lastAbsence(tx)
	if err != nil {
		return Swept{}, err
	}
	var s Swept
	for _, id := range ids {
		if err := endOverdue(tx, id, away, &s); err != nil {
			return Swept{}, fmt.Errorf("expire job %s: %w", id, err)
		}
	}
	return s, nil
}

func endOverdue(tx *store.Tx, id string, away absence, s *Swept) error {
	j, err := lockJob(tx, id)
	if err != nil {
		return err
	}
	p, err := registry.Lock(tx, j.ProviderID)
	if err != nil {
		return err
	}
	req, err := job.Parse(j.Type, j.Request)
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	spared := away.extend(&j)
	l, due := overdue(j, p, req.Needs(), tx.Now())
	switch {
	case !due && spared:
		s.Extended = append(s.Extended, id)
		_, err := save(tx, j)
		return err
	case !due:
		return nil // another replica was faster
	}
	moved, err := fallBack(tx, &j, l)
	switch {
	case err != nil:
		return err
	case moved:
		s.FellBack = append(s.FellBack, id)
		return nil
	case waits(j, p):
		j.OfferUntil = tx.Now() + OfferTTL.Milliseconds()
		s.Extended = append(s.Extended, id)
		_, err = save(tx, j)
		return err
	}
	s.Failed = append(s.Failed, id)
	_, err = closeUnpaid(tx, j, ending{to: Failed, why: l.why, by: authority.Sweeper()})
	return err
}

// overdue says why the present attempt of a job is over, if it is. It is pure.
func overdue(j Job, p registry.Provider, needs job.Needs, now int64) (lost, bool) {
	switch {
	case State(j.State) == Leased && now >= j.LeaseUntil:
		if now >= j.DeadlineAt {
			// It kept renewing beyond what the job may take: its sandbox has not
			// stopped the job.
			return lost{why: reason.Timeout, strike: true}, true
		}
		return lost{why: reason.OfflineMidRun, strike: true}, true
	case State(j.State) == Queued && now >= j.OfferUntil:
		// Only a provider that could have taken the offer is to blame for not taking it.
		idle := p.Enabled && registry.Status(p.Status) == registry.Running && !p.Full() && p.Caps.Allow(needs) == nil
		return lost{why: reason.ProviderUnavailable, strike: idle, heartbeat: p.HeartbeatAt}, true
	}
	return lost{}, false
}

// waits reports whether an offer stays with a provider that is merely busy.
func waits(j Job, p registry.Provider) bool {
	return State(j.State) == Queued && p.Enabled && registry.Status(p.Status) == registry.Running && p.Full()
}

// SettleOverdue settles responses that were not settled for the grace time
// (0: SettleGrace), at most limit. It returns the jobs that it settled.
func SettleOverdue(tx *store.Tx, grace time.Duration, limit int) ([]string, error) {
	if grace == 0 {
		grace = SettleGrace
	}
	if limit <= 0 {
		limit = DefaultSweep
	}
	ids, err := tx.JobsUnsettled(tx.Now()-grace.Milliseconds(), limit)
	if err != nil {
		return nil, err
	}
	var done []string
	for _, id := range ids {
		_, changed, err := Settle(tx, authority.Sweeper(), id)
		if reason.CodeOf(err) == reason.ReservationExpired {
			continue // Reconcile gives the money back
		}
		if err != nil {
			return nil, err
		}
		if changed {
			done = append(done, id)
		}
	}
	return done, nil
}

// Reconcile gives back the money of reservations that outlived their time, or
// are at least maxAge old, and ends their jobs as expired, each with the
// receipt PaymentWithheld. A second call finds nothing.
func Reconcile(tx *store.Tx, p authority.Principal, maxAge time.Duration, limit int) ([]treasury.Reservation, error) {
	if err := p.Require(authority.ScopeAdmin); err != nil {
		return nil, err
	}
	freed, err := treasury.Reconcile(tx, tx.Now(), maxAge, limit)
	if err != nil {
		return nil, err
	}
	for _, r := range freed {
		j, err := lockJob(tx, r.JobID)
		if errors.Is(err, store.ErrNotFound) {
			continue // held for something that is no job of ours
		}
		if err != nil {
			return nil, err
		}
		if State(j.State).Final() || j.ReservationID != r.ID {
			continue
		}
		if _, err := closeUnpaid(tx, j, ending{to: Expired, why: reason.ReservationExpired, by: p}); err != nil {
			return nil, fmt.Errorf("end job %s: %w", j.ID, err)
		}
	}
	return freed, nil
}
