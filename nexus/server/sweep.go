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

// Sweep is what a replica does without being asked. Every task is idempotent
// and any replica may run it, so nobody has to be chosen.
type Sweep struct {
	// Every is the pause between two sweeps of leases and reservations; 0 is
	// DefaultSweep, below 0 sweeps only when Server.Sweep is called.
	Every time.Duration
	// Audit is the pause between two audits of the books; 0 is DefaultAudit.
	Audit time.Duration
	// Retention is how long stored answers, and credentials that are past their
	// end, are kept; 0 is DefaultRetention.
	Retention time.Duration
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
	// ticketsKept is how long a ticket that ended is told from one that never was.
	// There may be hundreds a second, of which nobody has a use any more.
	ticketsKept = time.Minute
	// ticketBatch of them end in one transaction.
	ticketBatch = 5000
	// uploadsKept is how long an upload may be without a byte, which ends long
	// before that, until what is left of it is removed.
	uploadsKept = 6 * artifactTimeout
	// pruneBatch bounds the transaction that forgets old answers.
	pruneBatch = 500
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
	s.sweeping.Go(func() { s.repeat(ctx, "audit", s.opt.Sweep.Audit, s.Audit) })
	s.sweeping.Go(func() { s.repeat(ctx, "uploads", uploadsKept, s.pruneUploads) })
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

// Audit folds the books again. Books that do not balance make the authority
// read-only, loudly.
func (s *Server) Audit(ctx context.Context) error {
	breaches, err := treasury.Audit(ctx, s.opt.Store)
	if err != nil {
		return err
	}
	for _, b := range breaches {
		s.opt.Log.Error("an invariant of the books is violated", "breach", b)
	}
	return s.opt.Store.View(ctx, func(tx *store.Tx) error {
		freeze, err := tx.LedgerFreeze()
		if err == nil {
			s.readOnly.Store(freeze != nil)
		}
		return err
	})
}

// Sweep ends what ran out of time: offers and leases, responses that nobody
// settles, reservations; and forgets stored answers beyond their retention. One
// that fails does not keep the others from running.
func (s *Server) Sweep(ctx context.Context) error {
	tasks := []struct {
		name string
		run  func(tx *store.Tx) (int, error)
	}{
		{"leases", func(tx *store.Tx) (int, error) {
			swept, err := jobs.Expire(tx, 0)
			return swept.Total(), err
		}},
		{"responses", func(tx *store.Tx) (int, error) {
			settled, err := jobs.SettleOverdue(tx, s.opt.Sweep.Settle, 0)
			return len(settled), err
		}},
		{"reservations", func(tx *store.Tx) (int, error) {
			freed, err := jobs.Reconcile(tx, authority.Sweeper(), 0, 0)
			return len(freed), err
		}},
		{"strikes", func(tx *store.Tx) (int, error) {
			return registry.Fade(tx, s.opt.Sweep.FailureFade, s.opt.Sweep.ViolationFade, pruneBatch)
		}},
		{"sessions", func(tx *store.Tx) (int, error) {
			n, err := tx.PruneSessions(tx.Now()-s.opt.Sweep.Retention.Milliseconds(), pruneBatch)
			return int(n), err
		}},
		{"tickets", func(tx *store.Tx) (int, error) {
			n, err := tx.PruneTokens(string(identity.Ticket), tx.Now()-ticketsKept.Milliseconds(), ticketBatch)
			return int(n), err
		}},
		{"tokens", func(tx *store.Tx) (int, error) {
			n, err := tx.PruneTokens("", tx.Now()-s.opt.Sweep.Retention.Milliseconds(), pruneBatch)
			return int(n), err
		}},
		{"stored answers", func(tx *store.Tx) (int, error) {
			n, err := tx.PruneIdempotency(tx.Now()-s.opt.Sweep.Retention.Milliseconds(), pruneBatch)
			return int(n), err
		}},
	}
	var failed []error
	// Before all others: whom it excuses is not to be struck.
	err := s.watch(ctx)
	if err != nil {
		failed = append(failed, err)
	}
	s.stuck.Store(err != nil && ctx.Err() == nil)
	for _, task := range tasks {
		count := 0
		err := s.opt.Store.Update(ctx, func(tx *store.Tx) (err error) {
			count, err = task.run(tx)
			return err
		})
		switch {
		case reason.CodeOf(err) == reason.ReadOnlyMode: // the audit has said so
		case err != nil:
			failed = append(failed, fmt.Errorf("sweep %s: %w", task.name, err))
		case count > 0:
			s.opt.Log.Info("swept", "what", task.name, "count", count)
		}
	}
	if len(failed) == 0 {
		s.swept.Store(s.opt.Clock().UnixMilli())
	}
	return errors.Join(failed...)
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
