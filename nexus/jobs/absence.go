package jobs

import (
	"errors"
	"time"

	"remit/nexus/store"
)

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
