package harness

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/session"
)

// listener is an authority that gets the journal of a run while the run goes on.
type listener interface {
	// Hear takes the journal so far, and skips the entries that the authority has
	// already. The authority gets each entry once and in order, whatever fails in
	// between.
	Hear(ctx context.Context, entries []journal.Entry) error
}

// The pace of telling: an entry is sent at once, and the next ones together after a
// pause. An authority that cannot be reached is asked less and less often.
const (
	tellEvery   = 250 * time.Millisecond
	tellTimeout = 10 * time.Second
	tellRetry   = time.Second
	tellRarely  = 30 * time.Second
	// tellLast limits the last call to an authority that was out of reach at the call
	// before: a run does not wait for it a second time.
	tellLast = 200 * time.Millisecond
	// announceTime bounds telling an authority of a run that it never agreed to.
	announceTime = 5 * time.Second
)

// telling sends the journal to an authority elsewhere, beside the run. The run never
// waits for it, and does not know whether it succeeds. When the run ends, the run sends
// the entries that are left.
type telling struct {
	grown chan struct{} // has a token when the journal has grown
	last  chan struct{} // is closed when the journal grows no more
	away  atomic.Bool   // the authority could not be reached at the last call
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// beginTelling follows the journal from here on. It sends nothing to the authority of
// this machine: the session itself has what that authority would show.
func (r *run) beginTelling(ctx context.Context) {
	to, ok := r.Authority.(listener)
	if !ok || r.Nexus == "" || r.telling != nil {
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &telling{grown: make(chan struct{}, 1), last: make(chan struct{}), stop: stop}
	t.grown <- struct{}{}
	r.follow(t.grown)
	r.telling = t
	t.done.Go(func() { t.tell(ctx, to, r.w) })
}

func (t *telling) tell(ctx context.Context, to listener, w *journal.Writer) {
	wait := tellRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.grown:
		case <-t.last:
		}
		complete := t.complete()
		one, cancel := context.WithTimeout(ctx, tellTimeout)
		err := to.Hear(one, w.Entries())
		silent := one.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		code := reason.CodeOf(err)
		t.away.Store(err != nil && (silent || code == reason.StoreUnavailable))
		pause := tellEvery
		switch {
		case complete:
			return
		case err == nil:
			wait = tellRetry
		case !t.away.Load() && code != reason.RateLimited:
			return // it says no: an older authority, or a run that has ended there
		default:
			pause, wait = wait, min(2*wait, tellRarely)
			t.again()
		}
		select {
		case <-ctx.Done():
			return
		case <-t.last:
			if t.away.Load() {
				return
			}
		case <-time.After(pause):
		}
	}
}

// complete reports whether the journal grows no more.
func (t *telling) complete() bool {
	select {
	case <-t.last:
		return true
	default:
		return false
	}
}

// again makes the loop send the missing entries once more.
func (t *telling) again() {
	select {
	case t.grown <- struct{}{}:
	default:
	}
}

// lastEntry sends the end of the journal at once, beside what the run still does.
func (r *run) lastEntry() {
	if r.telling != nil && !r.telling.complete() {
		r.follow(nil)
		close(r.telling.last)
	}
}

// endTelling ends what goes on beside the run. A request under way is waited for,
// at most tellTimeout, as it would have to be sent again; not one to an authority
// that did not answer the last time either.
func (r *run) endTelling() {
	if r.telling == nil {
		return
	}
	r.lastEntry()
	if r.telling.away.Load() {
		r.telling.stop()
	}
	r.telling.done.Wait()
	r.telling.stop()
}

// tellRest sends the entries of the journal that were not sent yet. Only an authority
// out of reach is an error: the bundle that comes next has every entry.
func (r *run) tellRest(ctx context.Context) error {
	r.endTelling()
	to, ok := r.Authority.(listener)
	if !ok || r.Nexus == "" {
		return nil
	}
	if r.telling != nil && r.telling.away.Load() {
		last, cancel := context.WithTimeout(ctx, tellLast)
		defer cancel()
		err := to.Hear(last, r.w.Entries())
		if err != nil && (last.Err() != nil || reason.CodeOf(err) == reason.StoreUnavailable) {
			return reason.Errorf(reason.StoreUnavailable, "the nexus did not answer while the run went on, nor at its end: %w", err)
		}
		return nil
	}
	err := to.Hear(ctx, r.w.Entries())
	if reason.CodeOf(err) == reason.StoreUnavailable || ctx.Err() != nil {
		return err
	}
	return nil
}

// announce makes the authority elsewhere know of a run that ended before it agreed
// to it: one that was blocked. Such a run claims no issue and asks for no proof. It
// is not made where the authority could not be asked at all.
func (r *run) announce(ctx context.Context, out *Outcome) (there bool) {
	if r.Nexus == "" || out.Report == nil || out.Report.Status != evidence.StatusBlocked {
		return false
	}
	for _, b := range out.Report.Blockers {
		if b.Code == reason.StoreUnavailable || b.Code == reason.Unauthenticated {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	c := r.claimOf()
	c.IssueRef, c.Proof.Capability = "", ""
	if r.Home.ChangeLocal(r.session.ID, func(l *session.Local) { l.Asked = true }) != nil {
		return false
	}
	_, err := r.Authority.Open(ctx, c)
	r.claimed = err == nil
	return r.claimed
}
