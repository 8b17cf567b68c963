package provider

import (
	"context"
	"errors"
	"time"

	"remit/nexus/api"
)

// deliver hands a result in and keeps the lease meanwhile: an authority that is
// away for a moment, or a long upload, must not cost the work. When the daemon is
// asked to stop, it ends the attempt that is on its way, and makes no other. A
// result that was not taken stays in the spool.
func (d *Daemon) deliver(ctx context.Context, l api.Lease, r Result) error {
	closing, stop := linger(ctx, d.ttl, errStopping)
	defer stop(nil)
	// The loss of the lease ends the repetition, and not the request that is on
	// its way: if that is what closed the job, its answer says so.
	held, lose := context.WithCancelCause(ctx)
	d.register(l.Job.JobID, lose)
	defer d.register(l.Job.JobID, nil)
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		d.renew(held, l, lose)
	}()
	defer func() { lose(nil); <-renewing }()
	for pause := api.DefaultRetry.Base; ; pause = min(2*pause, api.DefaultRetry.Max) {
		err := d.handIn(closing, r)
		if err == nil || refusal(err) || errors.Is(err, errSpool) || !wait(held, pause) {
			return err
		}
	}
}

// works reports whether this daemon has the job in its hands.
func (d *Daemon) works(jobID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running[jobID] != nil
}

// wait returns false when the context ends before the time is up.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
