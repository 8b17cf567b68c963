package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/canon"
)

// work runs a leased job to its end and hands the result in.
func (d *Daemon) work(ctx context.Context, l api.Lease) error {
	log := d.log.With("job", l.Job.JobID, "fence", l.Fence)
	if kept, err := d.spool.load(l.Job.JobID); err == nil && kept != nil && kept.JobHash == l.Job.JobHash {
		// Finished in an earlier life whose lease was lost: the result is still
		// the result of this request.
		kept.Fence = l.Fence
		err := d.deliver(ctx, l, *kept)
		log.Info("kept result", "handed_in", err == nil, "error", err)
		return err
	}
	log.Info("job taken", "type", l.Job.JobType)
	result, err := d.execute(ctx, l)
	if err != nil {
		log.Warn("job given up", "error", err)
		if !errors.Is(err, errStale) { // else another provider has it already
			d.handBack(ctx, held{l.Job.JobID, l.Fence})
		}
		return errors.Join(err, d.spool.drop(l.Job.JobID))
	}
	err = d.deliver(ctx, l, result)
	log.Info("job ended", "handed_in", err == nil, "error", err)
	return err
}

// execute runs a job under its lease. The work is killed when the lease is
// lost or the job cancelled; only a cancelled job still has a result.
func (d *Daemon) execute(ctx context.Context, l api.Lease) (Result, error) {
	none := Result{}
	req, err := job.Parse(l.Job.JobType, l.Job.Request)
	if err != nil {
		return none, fmt.Errorf("reading the job's request: %w", err)
	}
	if req.Hash() != l.Job.JobHash {
		return none, fmt.Errorf("the request of job %s does not have the hash that the authority gives", l.Job.JobID)
	}
	dir, err := d.spool.begin(l.Job.JobID)
	if err == nil {
		err = d.spool.mark(held{l.Job.JobID, l.Fence})
	}
	if err != nil {
		return none, err
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d.register(l.Job.JobID, stop)
	defer d.register(l.Job.JobID, nil)
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		d.renew(working, l, stop)
	}()
	resp, files, err := d.perform(working, l, req, dir)
	cause := context.Cause(working)
	stop(nil)
	<-renewing
	// Work that was killed fails in many ways; why it was killed is what counts.
	if cause != nil && !errors.Is(cause, errCancelled) {
		return none, cause
	}
	if err != nil {
		return none, err
	}
	return d.keep(l, resp, files)
}

// perform does what a job of its type asks for; dir is its place in the spool.
func (d *Daemon) perform(ctx context.Context, l api.Lease, req job.Request, dir string) (job.Response, []File, error) {
	switch req := req.(type) {
	case job.SandboxRunRequest:
		return (&sandboxRun{Daemon: d, req: req, caps: d.binding(l.Caps), runID: l.Job.RunID, dir: dir}).run(ctx)
	case job.EngineRunRequest:
		log, closeLog := d.openLog(ctx, l)
		defer closeLog()
		return (&engineRun{Daemon: d, req: req, caps: d.binding(l.Caps), runID: l.Job.RunID, dir: dir, progress: log}).run(ctx)
	}
	return nil, nil, fmt.Errorf("this daemon does not run %s", l.Job.JobType)
}

// keep makes a result last.
func (d *Daemon) keep(l api.Lease, resp job.Response, files []File) (Result, error) {
	body, err := json.Marshal(resp)
	if err != nil {
		return Result{}, fmt.Errorf("encoding the response: %w", err)
	}
	r := Result{l.Job.JobID, l.Job.JobHash, l.Fence, body, files}
	return r, d.spool.finish(r)
}

func (d *Daemon) register(jobID string, stop context.CancelCauseFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if stop == nil {
		delete(d.running, jobID)
		return
	}
	d.running[jobID] = stop
}

// renew keeps the lease until the work ends, and ends the work when the lease
// cannot be kept.
func (d *Daemon) renew(ctx context.Context, l api.Lease, stop context.CancelCauseFunc) {
	ttl := seconds(d.ttl)
	t := time.NewTicker(max(10*time.Millisecond, d.ttl/3))
	defer t.Stop()
	until := d.clock().Add(d.ttl)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		asked := d.clock()
		answer, cancel := context.WithDeadline(ctx, until)
		_, err := api.RenewLease.Do(answer, d.client, api.NewKey(), l.Job.JobID, api.RenewRequest{Fence: l.Fence, TTLSeconds: &ttl})
		cancel()
		switch {
		case err == nil:
			until = asked.Add(d.ttl) // from before the request: never longer than the authority's
		case ctx.Err() != nil:
			return
		case refusal(err):
			stop(fmt.Errorf("%w: %w", errStale, err))
			d.dismissed(err)
			return
		case !d.clock().Before(until):
			stop(errLost)
			return
		}
	}
}

// handInAll hands in what the spool holds. What the authority does not want any
// more is dropped; what it cannot take now stays.
func (d *Daemon) handInAll(ctx context.Context) {
	d.handBackAll(ctx)
	results, err := d.spool.all()
	if err != nil {
		d.log.Warn("the spool cannot be read", "error", err)
		return
	}
	for _, r := range results {
		if d.works(r.JobID) {
			continue // the goroutine that works on it hands it in
		}
		if err := d.handIn(ctx, r); err != nil {
			d.log.Warn("a finished job could not be handed in", "job", r.JobID, "error", err)
		}
	}
}

// handIn uploads the output and hands in the response. The keys come from the
// job and its fence, so repeating it after a lost answer changes nothing.
func (d *Daemon) handIn(ctx context.Context, r Result) error {
	for _, f := range r.Files {
		if err := d.upload(ctx, r, f); err != nil {
			return d.settleSpool(r, err)
		}
	}
	_, err := api.CompleteJob.Do(ctx, d.client, key(r, "complete"), r.JobID, api.CompleteRequest{Fence: r.Fence, Response: r.Response})
	return d.settleSpool(r, err)
}

func (d *Daemon) upload(ctx context.Context, r Result, f File) error {
	open := func() (io.ReadCloser, error) {
		file, err := os.Open(filepath.Join(d.spool.path(r.JobID), filepath.Base(f.Name)))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errSpool, err)
		}
		return file, nil
	}
	_, err := api.PutArtifact.Put(ctx, d.client, key(r, f.Name),
		api.PutArtifactParams{JobID: r.JobID, Digest: f.SHA256, Fence: r.Fence, Name: f.Name},
		api.Content{Open: open, Size: f.Bytes})
	return err
}

// settleSpool drops a result that was taken, or that the authority will never take.
func (d *Daemon) settleSpool(r Result, err error) error {
	if err == nil || obsolete(err) {
		return errors.Join(err, d.spool.drop(r.JobID))
	}
	return err
}

// key is the Idempotency-Key of one step of a result.
func key(r Result, step string) string {
	return canon.Digest(fmt.Appendf(nil, "%s\n%d\n%s", r.JobID, r.Fence, step))
}

// presenceFile is locked, shared, by every daemon of a registration while its
// process lives. The kernel drops the lock however the process ends.
const presenceFile = "running"

// scratchName begins the names of the directories that work is done in.
const scratchName = "job-"

// clearLeftovers takes the lock of presence and, if no other daemon has it, removes
// what daemons that were killed have left behind: their scratch directories, and
// the output of attempts that never got a result, whose leases are then handed
// back. Results that wait to be handed in stay.
func (d *Daemon) clearLeftovers(state string) error {
	f, err := os.OpenFile(filepath.Join(state, presenceFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("marking the provider as running: %w", err)
	}
	d.presence = f
	fd := int(f.Fd())
	switch err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		if err := d.removeLeftovers(); err != nil {
			return errors.Join(err, f.Close())
		}
	case !errors.Is(err, unix.EWOULDBLOCK):
		return errors.Join(fmt.Errorf("marking the provider as running: %w", err), f.Close())
	}
	if err := shareLock(f); err != nil {
		return errors.Join(fmt.Errorf("marking the provider as running: %w", err), f.Close())
	}
	return nil
}

func (d *Daemon) removeLeftovers() error {
	left, err := filepath.Glob(filepath.Join(d.scratch, scratchName+"*"))
	if err != nil {
		return fmt.Errorf("listing what earlier daemons left: %w", err)
	}
	cutOff, leases, err := d.spool.cutOff()
	if err != nil {
		return err
	}
	d.abandoned = append(d.abandoned, leases...)
	for _, dir := range append(left, cutOff...) {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing what an earlier daemon left: %w", err)
		}
	}
	return nil
}
