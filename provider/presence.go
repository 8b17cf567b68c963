package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"remit/nexus/api"
	"remit/proof/reason"
)

// goodbye is how long the authority has to take each of the last words of a
// daemon: a nexus that is away must not keep a machine from shutting down.
const goodbye = 5 * time.Second

// heartbeat says that this provider lives, and whether it goes on living.
func (d *Daemon) heartbeat(ctx context.Context, status api.HeartbeatRequestStatus) error {
	_, err := api.Heartbeat.Do(ctx, d.client, api.NewKey(), d.id.ProviderID, api.HeartbeatRequest{Version: d.version, Status: &status})
	return err
}

// appear gives the first sign of life. A nexus that is away is waited for, as it is at
// any later time: the machine may have been started before it. A daemon that is asked
// to stop before it is answered has ended: the authority may have heard that it runs,
// so it says so.
func (d *Daemon) appear(ctx context.Context) (ended bool, err error) {
	for {
		err := d.heartbeat(ctx, api.HeartbeatRequestStatusRunning)
		switch {
		case err == nil:
			return false, nil
		case ctx.Err() != nil && !isDismissed(ctx):
			d.stopped(ctx)
			return true, nil
		case reason.CodeOf(err) != reason.StoreUnavailable:
			return false, d.explain(err)
		}
		d.log.Warn("the nexus is away, and is waited for", "error", err)
		_ = api.Pause(ctx, leaseAgain) // the context is asked above
	}
}

// keepBeating gives signs of life while the daemon is present, that it stops
// from the moment on that it is asked to, and at last that it has stopped. All
// of them come from here, one after the other, and each is waited for: an older
// one must not arrive after a newer one.
func (d *Daemon) keepBeating(ctx, present context.Context) {
	t := time.NewTicker(d.beat)
	defer t.Stop()
	asked, status := ctx.Done(), api.HeartbeatRequestStatusRunning
	for {
		select {
		case <-asked:
			asked, status = nil, api.HeartbeatRequestStatusStopping
		case <-present.Done():
			d.stopped(ctx)
			return
		case <-t.C:
		}
		if isDismissed(ctx) {
			continue // it would not be taken
		}
		if status == api.HeartbeatRequestStatusStopping && !d.alone(nil) {
			continue // another daemon of this registration goes on, and says so
		}
		beat, stop := linger(ctx, goodbye, errStopping)
		err := d.heartbeat(beat, status)
		stop(nil)
		switch {
		case d.dismissed(err):
		case err != nil:
			d.log.Warn("the sign of life was not taken", "status", status, "error", err)
		case ctx.Err() == nil:
			d.handInAll(ctx)
		}
	}
}

// stopped says that no daemon works here any more, if that is so.
func (d *Daemon) stopped(ctx context.Context) {
	if isDismissed(ctx) {
		return
	}
	d.alone(func() {
		last, stop := linger(ctx, goodbye, errStopping)
		defer stop(nil)
		if err := d.heartbeat(last, api.HeartbeatRequestStatusStopped); err != nil {
			d.log.Warn("the end of this provider was not taken", "error", err)
		}
	})
}

// voiceFile is locked, shared, by every daemon of a registration that gives signs
// of life; see [Daemon.alone].
const voiceFile = "announcing"

// openVoice takes the lock of those who give signs of life. While a daemon says
// that it was the last one, this waits.
func (d *Daemon) openVoice(state string) error {
	f, err := os.OpenFile(filepath.Join(state, voiceFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("marking the provider as present: %w", err)
	}
	d.voice = f
	if err := shareLock(f); err != nil {
		return errors.Join(fmt.Errorf("marking the provider as present: %w", err), f.Close())
	}
	return nil
}

// alone reports whether no other daemon of this registration lives on this
// machine, and if so does something before another one can begin. Of several
// that end at once, at least one is the last.
func (d *Daemon) alone(then func()) bool {
	// Converting a lock lets go of it for a moment. That is why this is another
	// file than the one that protects the work in progress.
	err := unix.Flock(int(d.voice.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && then != nil {
		then()
	}
	if err := shareLock(d.voice); err != nil {
		d.log.Warn("the mark of a present provider is lost", "error", err)
	}
	return err == nil
}

// shareLock takes a lock that others may hold as well. A daemon excludes
// them for a moment only.
func shareLock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// linger makes a context that ends some time after another one, for a cause, or
// when it is stopped.
func linger(ctx context.Context, d time.Duration, cause error) (later context.Context, stop context.CancelCauseFunc) {
	later, end := context.WithCancelCause(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		if d <= 0 || wait(later, d) {
			end(cause)
		}
	})
	return later, func(cause error) { forget(); end(cause) }
}

// held is the right to work on a job.
type held struct {
	jobID string
	fence int64
}

// handBack gives up the lease of work that was killed, so that another
// provider can begin at once. If the authority is away, the next sign of life that
// it takes says so.
func (d *Daemon) handBack(ctx context.Context, h held) {
	asking, stop := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer stop()
	_, err := api.ReleaseLease.Do(asking, d.client, api.NewKey(), h.jobID, api.ReleaseRequest{Fence: h.fence})
	switch {
	case err == nil:
		d.log.Info("job handed back", "job", h.jobID, "fence", h.fence)
	case refusal(err): // it is no longer leased, or leased by another provider
	default:
		d.log.Warn("a job could not be handed back", "job", h.jobID, "error", err)
		d.mu.Lock()
		d.abandoned = append(d.abandoned, h)
		d.mu.Unlock()
	}
}

// handBackAll tries once more what could not be handed back.
func (d *Daemon) handBackAll(ctx context.Context) {
	d.mu.Lock()
	list := d.abandoned
	d.abandoned = nil
	d.mu.Unlock()
	for _, h := range list {
		if ctx.Err() == nil {
			d.handBack(ctx, h)
		}
	}
}

// eventCancel is the lane's event that asks for the end of a job; its payload
// has the job_id. Every other event only wakes the daemon.
const eventCancel = "job.cancel"

// listen keeps the provider's lane open and wakes the worker when something
// arrives: at each connection as well, since offers may have been missed.
func (d *Daemon) listen(ctx context.Context, wake chan<- struct{}) {
	pause := api.DefaultRetry.Base
	var after int64
	for ctx.Err() == nil {
		connected := d.clock()
		err := d.follow(ctx, &after, wake)
		if ctx.Err() != nil {
			return
		}
		if d.dismissed(err) {
			return
		}
		d.log.Warn("the lane broke", "error", err)
		if d.clock().Sub(connected) > pause {
			pause = api.DefaultRetry.Base // it lived longer than it was away
		}
		if !wait(ctx, pause) {
			return
		}
		pause = min(2*pause, api.DefaultRetry.Max)
	}
}

// follow reads the lane until it breaks.
func (d *Daemon) follow(ctx context.Context, after *int64, wake chan<- struct{}) error {
	from := *after
	if from == 0 {
		from = -1 // what was offered before is leased, not read
	}
	lane, err := api.Listen(ctx, d.client, "jobs:"+d.id.ProviderID, from)
	if err != nil {
		return err
	}
	defer lane.Close()
	signal(wake)
	for {
		f, err := lane.Next(ctx)
		if err != nil {
			return err
		}
		d.frame(f, after)
		signal(wake)
	}
}

// frame takes note of one frame. Events come by (stream_id, seq); one that was
// seen before changes nothing.
func (d *Daemon) frame(f api.LaneFrame, after *int64) {
	switch {
	case f.Type == api.LaneFrameTypeReset:
		*after = 0
	case f.Event == nil:
		*after = max(*after, api.Value(f.Seq))
	case f.Event.Seq > *after:
		*after = f.Event.Seq
		if f.Event.EventType == eventCancel {
			var about struct {
				JobID string `json:"job_id"`
			}
			if json.Unmarshal(f.Event.Payload, &about) == nil {
				d.cancel(about.JobID, errCancelled)
			}
		}
	}
}
