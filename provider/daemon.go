package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"remit/nexus/api"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine/command"
	"remit/work/sandbox"
	"remit/work/workspace"
)

// Daemon runs jobs for one provider.
type Daemon struct {
	id Identity
	// credential is what the authority knows this provider by; it is searched
	// for in the evidence of engine runs.
	credential   string
	home         string
	keyDir       string
	version      string
	build        evidence.Build
	client       *api.Client
	driver       sandbox.Driver
	cache        *workspace.Cache
	spool        spool
	sources      []string
	engines      map[string]*command.Engine
	agents       *Agents
	environments Environments
	scratch      string
	caps         api.Caps
	ttl, beat    time.Duration
	grace        time.Duration
	logClosing   time.Duration // as the constant, more in a test
	log          *slog.Logger
	clock        func() time.Time
	presence     *os.File // locked while this process lives
	voice        *os.File // locked while this process gives signs of life

	mu        sync.Mutex
	running   map[string]context.CancelCauseFunc // by job id
	abandoned []held                             // leases of work that was killed

	known known

	dismiss context.CancelCauseFunc // ends the daemon; nil while it does one job
}

// defaultTTL and defaultHeartbeat suit a network of ordinary quality: a lease
// outlives two lost renewals, and presence goes stale after four lost signs.
const (
	defaultTTL       = 30 * time.Second
	defaultHeartbeat = 30 * time.Second
)

// leaseAgain is the pause after a lease that could not be taken. An offer waits
// for half a minute.
const leaseAgain = time.Second

// maxLeases is how many jobs the authority gives out at once.
const maxLeases = 20

// Open reads the registration and prepares a daemon. It starts nothing.
func Open(c Config) (*Daemon, error) {
	id, client, err := c.State.connect(c.Client)
	if err != nil {
		return nil, err
	}
	d := &Daemon{id: id, client: client, version: c.Version, build: evidence.Build{Version: c.Version, Commit: c.Commit}, driver: c.Driver,
		home: c.Home, keyDir: c.KeyDir, spool: spool{filepath.Join(c.State.Dir, spoolDir)}, caps: c.Caps,
		ttl: c.LeaseTTL, beat: c.Heartbeat, grace: c.Grace, log: c.Log, clock: c.Clock, logClosing: logClosing,
		running: map[string]context.CancelCauseFunc{}}
	if _, d.credential, err = c.State.Load(); err != nil {
		return nil, err
	}
	if err := checkEnforced(c); err != nil {
		return nil, err
	}
	if d.engines, err = openEngines(c.Engines); err != nil {
		return nil, err
	}
	d.agents, d.environments = c.Agents, c.Environments
	if err := d.agents.proved(d.driver.Describe().Driver); err != nil {
		return nil, err
	}
	for name := range d.engines {
		if _, twice := d.agents.find(name); twice {
			return nil, fmt.Errorf("engine %q: offered twice, as a program and as an agent", name)
		}
	}
	for _, dir := range c.Sources {
		path, err := filepath.EvalSymlinks(dir)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, fmt.Errorf("source directory: %w", err)
		}
		d.sources = append(d.sources, path)
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if missing := unenforced(c.Driver); len(missing) > 0 {
		d.log.Warn("CAPS ARE NOT ENFORCED on this machine: a job can take all of it", "caps", missing)
	}
	d.agents.tell(d.log)
	for _, dir := range []string{c.Scratch, d.spool.dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("making the provider's directories: %w", err)
		}
	}
	d.scratch = c.Scratch
	if err := d.clearLeftovers(c.State.Dir); err != nil {
		return nil, err
	}
	if err := d.openVoice(c.State.Dir); err != nil {
		return nil, err
	}
	if d.cache, err = workspace.OpenCache(c.CacheDir); err != nil {
		return nil, err
	}
	if d.ttl <= 0 {
		d.ttl = defaultTTL
	}
	if d.beat <= 0 {
		d.beat = defaultHeartbeat
	}
	if d.clock == nil {
		d.clock = time.Now
	}
	return d, nil
}

// Run works until the context ends: it hands in what an earlier life left in
// the spool, keeps up signs of life, and takes jobs when the lane says that
// there are some. When the context ends it takes no more, says that it stops,
// lets what runs go on for the time of grace, hands back what has not ended
// then, and says that it has stopped.
//
// It ends by itself when the authority does not take its credential any more:
// nothing but its operator can help then.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, d.dismiss = context.WithCancelCause(ctx)
	defer d.dismiss(nil)
	if ended, err := d.appear(ctx); ended || err != nil {
		return err
	}
	d.handInAll(ctx)
	working, kill := linger(ctx, d.grace, errStopping)
	defer kill(nil)
	context.AfterFunc(ctx, func() {
		if isDismissed(ctx) {
			kill(errStale) // whatever comes of it, the authority would refuse it
		}
	})
	// The lane and the signs of life go on while there is work, and no longer.
	present, leave := context.WithCancel(context.WithoutCancel(ctx))
	var jobs, others sync.WaitGroup
	others.Go(func() { d.keepBeating(ctx, present) })
	wake := make(chan struct{}, 1)
	others.Go(func() { d.listen(present, wake) })
	d.takeJobs(ctx, working, &jobs, wake)
	jobs.Wait()
	leave()
	others.Wait()
	if isDismissed(ctx) {
		return d.explain(context.Cause(ctx))
	}
	return nil
}

// takeJobs leases what is offered until the context ends, and has it worked on
// under the context of the work.
func (d *Daemon) takeJobs(ctx, working context.Context, jobs *sync.WaitGroup, wake chan struct{}) {
	slots := make(chan struct{}, max(1, d.caps.Concurrency))
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		for more := true; more; {
			free := takeSlots(ctx, slots)
			if free == 0 {
				return
			}
			leases, err := d.lease(ctx, free)
			for range free - len(leases) {
				<-slots
			}
			if err != nil && ctx.Err() == nil && !d.dismissed(err) {
				d.log.Warn("taking a lease failed", "error", err)
				if !switchedOff(err) { // the lane does not say twice that there is work
					time.AfterFunc(leaseAgain, func() { signal(wake) })
				}
			}
			for _, lease := range leases {
				jobs.Go(func() {
					defer func() { <-slots; signal(wake) }()
					_ = d.work(working, lease) // it has logged what went wrong
				})
			}
			more = len(leases) == free
		}
	}
}

// takeSlots waits for a free slot and takes it, and others that are free. It
// takes none when the context has ended.
func takeSlots(ctx context.Context, slots chan<- struct{}) int {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; ; n++ {
		if n == maxLeases {
			return n
		}
		select {
		case slots <- struct{}{}:
		default:
			return n
		}
	}
}

// signal wakes a reader that may be awake already.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Once takes at most one job, runs it and returns whether there was one: for
// machines that are made for a single job. Its end is not announced, but for one
// that came from outside: the next machine is at work already. With wait it is
// present like any daemon until a job is offered, for at most so long, and says
// at the end that it has stopped.
func (d *Daemon) Once(ctx context.Context, wait time.Duration) (bool, error) {
	if err := d.heartbeat(ctx, api.HeartbeatRequestStatusRunning); err != nil {
		return false, d.explain(err)
	}
	d.handInAll(ctx)
	leases, err := d.lease(ctx, 1)
	if err == nil && len(leases) == 0 && wait > 0 {
		return d.onceOffered(ctx, wait)
	}
	if err != nil || len(leases) == 0 {
		return false, d.explain(err)
	}
	err = d.workOn(ctx, leases[0])
	if ctx.Err() != nil || wait > 0 {
		d.stopped(ctx)
	}
	return true, err
}

func (d *Daemon) workOn(ctx context.Context, l api.Lease) error {
	working, kill := linger(ctx, d.grace, errStopping)
	defer kill(nil)
	return d.work(working, l)
}

// onceOffered waits on the lane for an offer, leases it and works on it.
func (d *Daemon) onceOffered(ctx context.Context, patience time.Duration) (ran bool, err error) {
	ctx, d.dismiss = context.WithCancelCause(ctx)
	defer func() { d.dismiss(nil); d.dismiss = nil }()
	present, leave := context.WithCancel(context.WithoutCancel(ctx))
	var others sync.WaitGroup
	defer others.Wait()
	defer leave()
	others.Go(func() { d.keepBeating(ctx, present) })
	wake := make(chan struct{}, 1)
	others.Go(func() { d.listen(present, wake) })
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			if isDismissed(ctx) {
				err = d.explain(context.Cause(ctx))
			}
			return false, err
		case <-over.C:
			return false, nil
		case <-wake:
		}
		leases, err := d.lease(ctx, 1)
		if err != nil && ctx.Err() == nil && !d.dismissed(err) {
			d.log.Warn("asking for a job", "error", err) // the lane wakes again
		}
		if err == nil && len(leases) > 0 {
			return true, d.workOn(ctx, leases[0])
		}
	}
}

// lease asks for jobs, as many as there is room for.
func (d *Daemon) lease(ctx context.Context, room int) ([]api.Lease, error) {
	most, ttl := int64(room), seconds(d.ttl)
	r, err := api.LeaseJobs.Do(ctx, d.client, api.NewKey(), api.None{}, api.LeaseRequest{Max: &most, TTLSeconds: &ttl})
	if err != nil {
		return nil, err
	}
	return r.Leases, nil
}

// cancel ends the work of a job, if this daemon has it.
func (d *Daemon) cancel(jobID string, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if stop := d.running[jobID]; stop != nil {
		stop(cause)
	}
}

// The causes for which work ends early, or cannot be handed in.
var (
	errStale     = errors.New("the lease belongs to another provider")
	errCancelled = errors.New("the job was cancelled")
	errLost      = errors.New("the lease ran out without an answer of the authority")
	errSpool     = errors.New("the spool cannot be read")
	errStopping  = errors.New("the daemon was asked to stop, and the time of grace is over")
)

// switchedOff reports whether a person has to act before this provider
// gets work.
func switchedOff(err error) bool {
	switch reason.CodeOf(err) {
	case reason.ProviderDisabled, reason.ProviderQuarantined, reason.Forbidden, reason.Unauthenticated, reason.TokenExpired:
		return true
	}
	return false
}

// refusal reports whether the authority will give the same answer again: the
// work of this lease counts for nothing any more, or cannot be handed in.
func refusal(err error) bool {
	switch reason.CodeOf(err) {
	case reason.Forbidden, reason.Unauthenticated, reason.TokenExpired:
		return true
	}
	return obsolete(err)
}

// obsolete reports whether the result will never be taken. A credential that
// was refused does not make it so: it may be renewed.
func obsolete(err error) bool {
	switch reason.CodeOf(err) {
	case reason.StaleFence, reason.LeaseExpired, reason.JobClosed, reason.NotFound, reason.RunClosed, reason.JobInvalid,
		reason.RequestInvalid, reason.RequestTooLarge, reason.DigestMismatch, reason.Conflict:
		return true
	}
	return false
}

// seconds rounds up: a lease is never asked for that is shorter than meant.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
