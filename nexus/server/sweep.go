package server

import (
	"context"
	"fmt"
	"time"

	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/nexus/treasury"
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
	// blobsKept is how long content is kept that nobody's artifact has: whoever
	// stores it has an hour to say whose it is.
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
