package lanes

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Source knows who may watch what, and what the state behind a stream is.
type Source interface {
	// Authorize refuses a caller that may not watch the topic; not_found when
	// it must not even know.
	Authorize(tx *store.Tx, c identity.Caller, t Topic) error
	// Snapshot is the present state behind the topic's stream, a JSON object.
	Snapshot(tx *store.Tx, t Topic) (json.RawMessage, error)
}

// Defaults of Options.
const (
	// DefaultReplayBudget bounds what one reader may have replayed: beyond it a
	// snapshot is cheaper for both sides.
	DefaultReplayBudget = 10_000
	// DefaultPresenceLag is where news of presence are no news any more.
	DefaultPresenceLag = 256
	// DefaultJobsLag is more offers than a provider can have.
	DefaultJobsLag = 512
	// DefaultWriteTimeout is how long a reader may take nothing.
	DefaultWriteTimeout = 10 * time.Second
	// DefaultPing finds dead connections, and tokens that were revoked.
	DefaultPing = 20 * time.Second
	// DefaultMaxLanes bounds the connections of one replica.
	DefaultMaxLanes = 10_000
	// DefaultPerPrincipal keeps one principal from taking them all.
	DefaultPerPrincipal = 64
)

// TicketTTL is how long a ticket is good.
const TicketTTL = 30 * time.Second

// Options of lanes. Store, Source and Log are required; zero numbers are defaults.
type Options struct {
	Store  *store.Store
	Source Source
	Log    *slog.Logger

	Origins                            []string // besides the request's own host, e.g. "panel.example.com"
	ReplayBudget, PresenceLag, JobsLag int64
	WriteTimeout, Ping                 time.Duration
	MaxLanes, PerPrincipal             int
}

func (o Options) withDefaults() Options {
	positive(&o.ReplayBudget, DefaultReplayBudget)
	positive(&o.PresenceLag, DefaultPresenceLag)
	positive(&o.JobsLag, DefaultJobsLag)
	positive(&o.WriteTimeout, DefaultWriteTimeout)
	positive(&o.Ping, DefaultPing)
	positive(&o.MaxLanes, DefaultMaxLanes)
	positive(&o.PerPrincipal, DefaultPerPrincipal)
	return o
}

func positive[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Lanes serves the lanes of one replica.
type Lanes struct {
	opt  Options
	ctx  context.Context // of the feeds and the lanes
	stop context.CancelCauseFunc
	open sync.WaitGroup // lanes

	mu           sync.Mutex
	feeds        map[string]*feed
	perPrincipal map[string]int
	count        int
	draining     bool
}

// New makes the lanes of a replica. Drain ends them.
func New(opt Options) *Lanes {
	ctx, stop := context.WithCancelCause(context.Background())
	return &Lanes{opt: opt.withDefaults(), ctx: ctx, stop: stop, feeds: map[string]*feed{}, perPrincipal: map[string]int{}}
}

// errDraining is the cause of what ends because the replica goes away.
var errDraining = errors.New("the replica is draining")

// Drain refuses new lanes, says goodbye to the open ones and waits for them.
// Their readers come back with their cursors, to another replica.
func (l *Lanes) Drain() {
	l.mu.Lock()
	l.draining = true
	l.mu.Unlock()
	l.stop(errDraining)
	l.open.Wait()
}

// Open counts the lanes that are open.
func (l *Lanes) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// addLane counts a lane of a principal, within its limits; removeLane ends that.
func (l *Lanes) addLane(principal string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.draining:
		return reason.Errorf(reason.StoreUnavailable, "%w", errDraining).WithHint("connect again, with the last cursor")
	case l.count >= l.opt.MaxLanes:
		return reason.Errorf(reason.RateLimited, "this replica has %d lanes open", l.count)
	case l.perPrincipal[principal] >= l.opt.PerPrincipal:
		return reason.Errorf(reason.RateLimited, "%d lanes of %q are open", l.perPrincipal[principal], principal)
	}
	l.count++
	l.perPrincipal[principal]++
	l.open.Add(1)
	return nil
}

func (l *Lanes) removeLane(principal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	if l.perPrincipal[principal]--; l.perPrincipal[principal] == 0 {
		delete(l.perPrincipal, principal)
	}
	l.open.Done()
}
