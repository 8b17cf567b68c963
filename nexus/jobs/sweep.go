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

// AwayAfter is how long no replica sweeps before the authority counts as having
// been away: three of the pauses between sweeps. A shorter absence is not seen,
// and costs who holds a lease that is as short.
const AwayAfter = 15 * time.Second

// absence is a time in which the authority could not be reached: it was restarted,
// or its machine slept. A provider that could not renew a lease, or take an offer,
// because of that is not to blame, and gets the time of one more.
//
// The zero value is none. Times are unix milliseconds of the store's clock.
type absence struct{ from, until int64 }

// Watch notes that the authority is there, and returns how long it had been away
// before, 0 if it was not. Every replica calls it before it sweeps.
func Watch(tx *store.Tx) (away time.Duration, err error) {
	w, err := tx.LockWatch()
	now := tx.Now()
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return 0, err
	case now <= w.SeenAt:
		return 0, nil // another replica was faster, or the clock went back
	case now-w.SeenAt > AwayAfter.Milliseconds():
		away = time.Duration(now-w.SeenAt) * time.Millisecond
		w.AwayFrom, w.AwayUntil = w.SeenAt, now
	}
	w.SeenAt = now
	return away, tx.PutWatch(w)
}

// lastAbsence returns the last absence: the one that just ends, if no sweep has
// noted it yet, since requests arrive before the first sweep does.
func lastAbsence(tx *store.Tx) (absence, error) {
	w, err := tx.Watch()
	if errors.Is(err, store.ErrNotFound) {
		return absence{}, nil
	}
	if now := tx.Now(); now-w.SeenAt > AwayAfter.Milliseconds() {
		return absence{w.SeenAt, now}, err
	}
	return absence{w.AwayFrom, w.AwayUntil}, err
}

// extend prolongs the lease or the offer of a job that could not be renewed, or
// taken, while the authority was away. It is pure but for the job, and reports
// whether it changed that.
func (a absence) extend(j *Job) bool {
	switch State(j.State) {
	case Leased:
		return a.prolong(&j.LeaseUntil, j.LeaseTTL)
	case Queued:
		return a.prolong(&j.OfferUntil, OfferTTL.Milliseconds())
	}
	return false
}

// prolong moves an end that was ttl away when it was set last. It counts only
// if it was still to come when the absence began, and was not set after it; and
// if there was not time enough beside the absence: two renewals of three fit
// into what is left by one that takes less than a third.
func (a absence) prolong(end *int64, ttl int64) bool {
	if a.until-a.from <= ttl/3 || *end <= a.from || *end >= a.until+ttl {
		return false
	}
	*end = a.until + ttl
	return true
}

// Bounds of how long a run may be silent.
const (
	MinSilence = time.Minute
	MaxSilence = 30 * 24 * time.Hour
	// DefaultSilence is for runs whose owner has set no time of their own. It is
	// longer than the work of any agent that still lives.
	DefaultSilence = 24 * time.Hour
)

// EndSilent ends open runs whose client has died: nothing was written into their
// log for as long as their owner allows (fallback where the owner says nothing,
// below 0: never), and none of their jobs is open, since a job has a deadline of
// its own and writes into the log when it ends. What could not be said because the
// authority was away counts as no silence. Such a run fails with run_silent,
// and its issue is free. It ends at most limit runs (0: DefaultSweep) and returns
// which.
func EndSilent(tx *store.Tx, fallback time.Duration, limit int) (ended []string, err error) {
	if limit <= 0 {
		limit = DefaultSweep
	}
	if fallback == 0 {
		fallback = DefaultSilence
	}
	away, err := lastAbsence(tx)
	if err != nil {
		return nil, err
	}
	ids, err := tx.SilentRuns(tx.Now(), max(0, fallback.Milliseconds()), away.until, limit)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		run, err := tx.LockRun(id)
		if err != nil {
			return nil, err
		}
		quiet, err := silence(tx, id)
		if err != nil {
			return nil, err
		}
		allowed := time.Duration(run.Silence) * time.Millisecond
		if allowed == 0 {
			allowed = fallback
		}
		if RunState(run.State).Final() || quiet < allowed {
			continue // it has a new event meanwhile
		}
		if _, err := FinishRun(tx, authority.Sweeper(), id, FinishRequest{Status: RunFailed, Reason: string(reason.RunSilent)}); err != nil {
			return nil, fmt.Errorf("end silent run %s: %w", id, err)
		}
		ended = append(ended, id)
	}
	return ended, nil
}

// silence is how old the last event in the log of a run is.
func silence(tx *store.Tx, runID string) (time.Duration, error) {
	head, _, err := tx.Head(authority.RunStream(runID))
	if err != nil || head == 0 {
		return 0, err
	}
	last, err := tx.Events(authority.RunStream(runID), head-1, 1)
	if err != nil || len(last) == 0 {
		return 0, err
	}
	return time.Duration(tx.Now()-last[0].RecordedAt) * time.Millisecond, nil
}
