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
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// Sweep configures what a replica does by itself. Every task is idempotent and any
// replica may run it, so there is no leader.
type Sweep struct {
	// Every is the pause between two sweeps of leases and reservations; 0 is
	// DefaultSweep, below 0 sweeps only when Server.Sweep is called.
	Every time.Duration
	// Audit is the pause between two audits of the books; 0 is DefaultAudit.
	Audit time.Duration
	// Retention is how long stored answers, and credentials that are past their
	// end, are kept; 0 is DefaultRetention.
	Retention time.Duration
	// KeepRuns is how long the log, the jobs and the artifacts of a run are kept
	// after its end; 0 is for ever. Its sealed bundle and the ledger always are.
	KeepRuns time.Duration
	// RunSilence is how long the log of a run may be silent until the run is ended,
	// unless its owner has said something else; 0 is jobs.DefaultSilence, below 0
	// nothing is ended for that.
	RunSilence time.Duration
	// Settle is how long a response waits for its requester to settle it; 0 is
	// jobs.SettleGrace.
	Settle time.Duration
	// FailureFade and ViolationFade are when strikes count no longer; 0 is the
	// registry's.
	FailureFade, ViolationFade time.Duration
}

// Defaults of Sweep.
const (
	// DefaultSweep is short beside a lease, so that a lost provider is noticed soon.
	DefaultSweep = 5 * time.Second
	// DefaultAudit is the interval that the contract promises.
	DefaultAudit = time.Minute
	// DefaultRetention outlives every retry of an honest client.
	DefaultRetention = 7 * 24 * time.Hour
	// blobsKept is how long content without an artifact is kept: the client that
	// uploads it records the artifact afterwards.
	blobsKept = time.Hour
	// uploadsKept is how long an upload may be without a byte, which ends long
	// before that, until what is left of it is removed.
	uploadsKept = 6 * artifactTimeout
)

func (c Sweep) withDefaults() Sweep {
	if c.Every == 0 {
		c.Every = DefaultSweep
	}
	if c.Audit <= 0 {
		c.Audit = DefaultAudit
	}
	if c.Retention <= 0 {
		c.Retention = DefaultRetention
	}
	return c
}

// sweep starts the tasks; Close waits for them.
func (s *Server) sweep(ctx context.Context) {
	s.opt.Sweep = s.opt.Sweep.withDefaults()
	if s.opt.Sweep.Every < 0 {
		return
	}
	s.sweeping.Go(func() { s.repeat(ctx, "sweep", s.opt.Sweep.Every, s.Sweep) })
	s.sweeping.Go(func() { s.repeat(ctx, "audit", s.opt.Sweep.Audit, s.check) })
	s.sweeping.Go(func() { s.repeat(ctx, "uploads", uploadsKept, s.pruneUploads) })
	if s.opt.Sweep.KeepRuns > 0 {
		s.sweeping.Go(func() { s.repeat(ctx, "retention", forgetEvery, s.Forget) })
	}
}

// repeat runs a task now and after each pause. A failure is logged and tried
// again at the next turn.
func (s *Server) repeat(ctx context.Context, name string, pause time.Duration, task func(context.Context) error) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if err := task(ctx); err != nil && ctx.Err() == nil {
			s.opt.Log.Error("a task of the authority failed", "task", name, "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check is the regular audit of the books. One replica at a time does it, and all
// look whether the books are closed.
func (s *Server) check(ctx context.Context) error {
	mine := false
	// A little less than the pause, so that ticks which come early are not lost.
	pause := s.opt.Sweep.Audit - s.opt.Sweep.Audit/10
	if err := s.opt.Store.Update(ctx, func(tx *store.Tx) (err error) {
		mine, err = tx.ClaimLedgerCheck(pause.Milliseconds())
		return err
	}); err != nil {
		return err
	}
	if mine {
		return s.audit(ctx, treasury.Check)
	}
	return s.lookFrozen(ctx)
}

// Audit folds the books from the first transfer. Books that do not balance make
// the authority read-only, loudly.
func (s *Server) Audit(ctx context.Context) error { return s.audit(ctx, treasury.Audit) }

func (s *Server) audit(ctx context.Context, fold func(context.Context, *store.Store) ([]string, error)) error {
	breaches, err := fold(ctx, s.opt.Store)
	for _, b := range breaches {
		s.opt.Log.Error("an invariant of the books is violated", "breach", b)
	}
	if err != nil {
		return err
	}
	return s.lookFrozen(ctx)
}

// lookFrozen notes whether the authority is read-only.
func (s *Server) lookFrozen(ctx context.Context) error {
	return s.opt.Store.View(ctx, func(tx *store.Tx) error {
		freeze, err := tx.LedgerFreeze()
		if err == nil {
			s.readOnly.Store(freeze != nil)
		}
		return err
	})
}

// pruneUploads removes what uploads left behind whose replica was killed.
func (s *Server) pruneUploads(ctx context.Context) error {
	n, err := s.opt.Blobs.Prune(ctx, uploadsKept)
	if n > 0 {
		s.opt.Log.Info("swept", "what", "unfinished uploads", "count", n)
	}
	return err
}

// watch notes that this authority is there, and says when none was.
func (s *Server) watch(ctx context.Context) error {
	var away time.Duration
	err := s.opt.Store.Update(ctx, func(tx *store.Tx) (err error) {
		away, err = jobs.Watch(tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("note that the authority is there: %w", err)
	}
	if away > 0 {
		s.opt.Log.Warn("the authority was away: leases and offers get more time", "for", away)
	}
	return nil
}

const (
	// ticketsKept is how long a ticket that ended differs from an unknown one.
	// There may be hundreds a second.
	ticketsKept = time.Minute
	// briefKept outlives the attempts of a client at one request.
	briefKept = time.Minute
	// pruneBatch bounds a transaction that removes rows, so that it blocks others for
	// some tens of milliseconds at most.
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

// Sweep ends what ran out of time: offers, leases, responses without a settlement,
// reservations, and runs whose client has died; and removes stored answers past
// their retention. It continues until nothing is left, in bounded transactions. A
// task that fails does not stop the others.
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
