package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
)

const (
	// ticketsKept is how long a ticket that ended is told from one that never was.
	// There may be hundreds a second, of which nobody has a use any more.
	ticketsKept = time.Minute
	// briefKept outlives the attempts of a client at one request.
	briefKept = time.Minute
	// pruneBatch bounds a transaction that forgets rows: they hold nobody up for
	// longer than some tens of milliseconds.
	pruneBatch = 2000
)

// chore is one thing that a sweep does. run does a bounded part of it in a
// transaction and says how much that was; it is called until there is less than
// enough left to do.
type chore struct {
	name   string
	run    func(tx *store.Tx) (int, error)
	enough int // 0: as long as anything is done at all
}

// chores are what a sweep does, in this order.
func (s *Server) chores() []chore {
	keep := s.opt.Sweep
	prune := func(name string, kept time.Duration, remove func(tx *store.Tx, before int64, limit int) (int64, error)) chore {
		return chore{name: name, enough: pruneBatch, run: func(tx *store.Tx) (int, error) {
			n, err := remove(tx, tx.Now()-kept.Milliseconds(), pruneBatch)
			return int(n), err
		}}
	}
	tokens := func(kind authority.Kind) func(tx *store.Tx, before int64, limit int) (int64, error) {
		return func(tx *store.Tx, before int64, limit int) (int64, error) {
			return tx.PruneTokens(string(kind), before, limit)
		}
	}
	return []chore{
		{name: "leases", run: func(tx *store.Tx) (int, error) {
			swept, err := jobs.Expire(tx, 0)
			return swept.Total(), err
		}},
		{name: "responses", run: func(tx *store.Tx) (int, error) {
			settled, err := jobs.SettleOverdue(tx, keep.Settle, 0)
			return len(settled), err
		}},
		{name: "reservations", run: func(tx *store.Tx) (int, error) {
			freed, err := jobs.Reconcile(tx, authority.Sweeper(), 0, 0)
			return len(freed), err
		}},
		{name: "silent runs", run: func(tx *store.Tx) (int, error) {
			ended, err := jobs.EndSilent(tx, keep.RunSilence, 0)
			return len(ended), err
		}},
		{name: "strikes", enough: pruneBatch, run: func(tx *store.Tx) (int, error) {
			return registry.Fade(tx, keep.FailureFade, keep.ViolationFade, pruneBatch)
		}},
		prune("sessions", keep.Retention, (*store.Tx).PruneSessions),
		prune("tickets", ticketsKept, tokens(identity.Ticket)),
		prune("tokens", keep.Retention, tokens("")),
		prune("brief answers", briefKept, (*store.Tx).PruneBrief),
		prune("stored answers", keep.Retention, (*store.Tx).PruneIdempotency),
	}
}

// Sweep ends what ran out of time: offers and leases, responses that nobody
// settles, reservations, runs whose client has died; and forgets stored answers
// beyond their retention. It goes on until nothing is left, in transactions that
// are bounded each. A task that fails does not keep the others from running.
func (s *Server) Sweep(ctx context.Context) error {
	var failed []error
	// Before all others: whom it excuses is not to be struck.
	err := s.watch(ctx)
	if err != nil {
		failed = append(failed, err)
	}
	s.stuck.Store(err != nil && ctx.Err() == nil)
	for _, t := range s.chores() {
		count, err := s.finish(ctx, t)
		switch {
		case reason.CodeOf(err) == reason.ReadOnlyMode: // the audit has said so
		case err != nil:
			failed = append(failed, fmt.Errorf("sweep %s: %w", t.name, err))
		}
		if count > 0 {
			s.opt.Log.Info("swept", "what", t.name, "count", count)
		}
	}
	if len(failed) == 0 {
		s.swept.Store(s.opt.Clock().UnixMilli())
	}
	return errors.Join(failed...)
}

// finish does a chore until less than enough is left of it. Commands of others
// come in between.
func (s *Server) finish(ctx context.Context, t chore) (total int, err error) {
	for {
		count := 0
		if err := s.opt.Store.Update(ctx, func(tx *store.Tx) (err error) {
			count, err = t.run(tx)
			return err
		}); err != nil {
			return total, err
		}
		if total += count; count == 0 || count < t.enough {
			return total, nil
		}
	}
}
