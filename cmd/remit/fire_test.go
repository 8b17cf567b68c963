//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/nexus/api"
	"remit/nexus/store/storetest"
)

// underFire counts what was killed while the authority was at work, and what
// became of everything that it had acknowledged.
var underFire = &tally.Table{Name: "authority under fire", Rows: []string{
	"one nexus on SQLite",
	"two replicas on PostgreSQL",
}}

// TestUnderFireAlone kills a nexus and its providers with SIGKILL, again and
// again, while runs are made, dispatched and settled through a plain proxy.
// After it every acknowledged id is present with what was acknowledged, debits
// equal credits, nothing is resolved twice, no reservation outlives its time
// and no process is left over.
func TestUnderFireAlone(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	s := fireSize{row: underFire.Rows[0], replicas: 1, providers: 2, workers: 6, atLeast: 5 * time.Second, kills: 5, most: 15,
		pause: [2]time.Duration{300 * time.Millisecond, 1100 * time.Millisecond}}
	if limit, soak := soaking(t); soak {
		s.atLeast, s.most = limit, 0
	}
	c := underFire.Row(t, s.row)
	tally.AtItsTurn(c, 0, 4)
	openFire(t, c, s)
}

// TestUnderFireReplicas does the same to two replicas on one database and three
// providers: all jobs are settled exactly once.
func TestUnderFireReplicas(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	s := fireSize{row: underFire.Rows[1], replicas: 2, providers: 3, workers: 8, units: 40, kills: 6, most: 15,
		pause: [2]time.Duration{700 * time.Millisecond, 1800 * time.Millisecond}}
	if _, soak := soaking(t); soak {
		s.units, s.most = 500, 0
	}
	c := underFire.Row(t, s.row)
	tally.AtItsTurn(c, 1, 4)
	s.store = storetest.Postgres(c) // without a server the row says so
	openFire(t, c, s)
}

// fireSize is how much is done, and how much of it is killed.
type fireSize struct {
	row                 string
	replicas, providers int
	workers             int
	store               string // DSN, "" for a SQLite file
	// The load goes on until all of these are reached.
	atLeast time.Duration
	units   int64
	kills   int

	pause [2]time.Duration // between two kills
	most  int              // kills, so that a slow machine comes to an end as well; 0 for no limit
}

// fire is an authority, its providers, and those who use it, all as processes
// that only meet over sockets.
type fire struct {
	t       *testing.T
	c       *tally.Count
	size    fireSize
	root    string // of everything that the processes write
	marker  string
	door    *plainProxy
	nexuses []*victim
	daemons []*victim
	answers *ledgerOfAnswers
	admin   *caller
	owner   *caller
	load    *load
	killer  *killer
	account api.Account
}

const (
	fireOwner  = "alice"       // of the runs and of the providers
	fireBudget = 1_000_000_000 // msats: enough for every job
	clerks     = 2             // who write beside the jobs
)

// openFire takes a fire from its beginning to the last look at what it left.
func openFire(t *testing.T, c *tally.Count, s fireSize) {
	t.Helper()
	// A zero is shown too. Jobs end as settled, withheld, lost with their providers
	// or left unsettled on purpose; answers are all that was acknowledged.
	for _, figure := range []string{"kills", "jobs", "settled", "withheld", "lost", "left", "answers", "missing", "doubled", "orphans"} {
		c.Add(figure, 0)
	}
	ctx := t.Context()
	if end, ok := t.Deadline(); ok { // a minute before: a test that is cut off says nothing
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, end.Add(-time.Minute), errors.New("the fire took too long"))
		defer stop()
	}
	f := &fire{t: t, c: c, size: s, root: t.TempDir(), door: newPlainProxy(t), answers: new(ledgerOfAnswers)}
	f.marker = "REMIT_FIRE_" + filepath.Base(filepath.Dir(f.root)) + "_" + strconv.Itoa(os.Getpid())
	f.build(ctx)
	f.burn(ctx)
	f.look(ctx)
}

// burn loads the authority while the killer is about, and lets what is open
// come to its end when he is gone.
func (f *fire) burn(ctx context.Context) {
	began := time.Now()
	seed := fireSeed(f.t)
	f.c.Note("REMIT_CRASH_SEED=%d", seed)
	f.killer = &killer{random: rand.New(rand.NewPCG(seed, uint64(f.size.replicas))), victims: [2][]*victim{f.nexuses, f.daemons}, pause: f.size.pause,
		downTime: 400 * time.Millisecond, most: f.size.most, kills: map[string]int{}}
	killing, peace := context.WithCancel(ctx)
	defer peace()
	stewarding, goHome := context.WithCancel(ctx)
	defer goHome()
	var workers, others sync.WaitGroup
	others.Go(func() { f.killer.run(killing) })
	lifted, seen := 0, 0
	others.Go(func() { lifted = f.load.steward(stewarding, f.admin) })
	others.Go(func() { seen = f.sandboxes(stewarding) })
	var taken atomic.Int64
	more := func() bool {
		return time.Since(began) < f.size.atLeast || taken.Load() < f.size.units || f.killer.total() < f.size.kills
	}
	for range f.size.workers {
		workers.Go(func() {
			f.load.work(ctx, func() int64 { return taken.Add(1) - 1 }, more)
			peace() // what is open ends in quiet
		})
	}
	// The clerks write until the last job has ended: their requests meet the kills
	// that the jobs, which mostly wait, do not.
	var working atomic.Bool
	working.Store(true)
	for i := range clerks {
		others.Go(func() { f.load.clerk(ctx, fmt.Sprint("clerk-", i), working.Load) })
	}
	workers.Wait()
	working.Store(false)
	goHome()
	others.Wait()
	f.tell(time.Since(began), lifted)
	if seen == 0 {
		f.t.Error("no process of a job was ever seen, so that a search for those that are left shows nothing")
	}
}

// tell counts what happened, and demands that no client met what must not be.
func (f *fire) tell(took time.Duration, lifted int) {
	f.t.Helper()
	for _, err := range slices.Concat(f.load.errs, f.killer.errs) {
		f.t.Error(err)
	}
	for _, fault := range f.answers.faults {
		f.t.Errorf("an answer that must not be: %s", fault)
	}
	kills, units := f.killer.total(), f.load.units.Load()
	f.c.Add("kills", kills)
	f.c.Note("%s of load: %d units of work in %d jobs, %d other runs, %d requests acknowledged, %d attempts without an answer, %d answers repeated, %d dispatches refused, %d quarantines lifted; killed: %v",
		took.Round(100*time.Millisecond), units, len(f.load.jobs), len(f.load.noted), len(f.answers.list), f.answers.broken, f.answers.replayed, f.load.refused, lifted, f.killer.kills)
	if kills < f.size.kills || units < f.size.units {
		f.t.Errorf("only %d kills and %d units of work", kills, units)
	}
}

// fireSeed is new each time; REMIT_CRASH_SEED gives one again.
func fireSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("REMIT_CRASH_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// look checks what is left when the fire is out: first with everybody alive,
// then on the store alone.
func (f *fire) look(ctx context.Context) {
	// What the kills cut off is dead although its daemon lives again.
	f.orphans("a sandbox outlived its daemon", f.marker)
	f.logs(ctx)
	f.books(ctx)
	f.repeatAll(ctx)
	f.emptySpools(ctx)
	f.stop()
	f.orphans("left over at the end", f.marker, f.root)
	f.leftFiles()
	f.sweepAfterTTL(ctx)
}
