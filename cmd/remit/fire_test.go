package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
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
	s := fireSize{row: underFire.Rows[0], replicas: 1, providers: 2, workers: 6, atLeast: 5 * time.Second, kills: 5,
		pause: [2]time.Duration{300 * time.Millisecond, 1100 * time.Millisecond}}
	if limit, soak := soaking(t); soak {
		s.atLeast = limit
	}
	openFire(t, underFire.Row(t, s.row), s)
}

// TestUnderFireReplicas does the same to two replicas on one database and three
// providers: all jobs are settled exactly once.
func TestUnderFireReplicas(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	s := fireSize{row: underFire.Rows[1], replicas: 2, providers: 3, workers: 8, units: 60, kills: 6, most: 15,
		pause: [2]time.Duration{700 * time.Millisecond, 1800 * time.Millisecond}}
	if _, soak := soaking(t); soak {
		s.units, s.most = 500, 0
	}
	c := underFire.Row(t, s.row)
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

// deadline is how long all of it may take on a machine that is busy otherwise.
func (s fireSize) deadline() time.Duration {
	return 2*s.atLeast + time.Duration(s.units)*2*time.Second + 3*time.Minute
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
	ctx, stop := context.WithTimeoutCause(t.Context(), s.deadline(), errors.New("the fire took too long"))
	defer stop()
	f := &fire{t: t, c: c, size: s, root: t.TempDir(), door: newPlainProxy(t), answers: new(ledgerOfAnswers)}
	f.marker = "REMIT_FIRE_" + filepath.Base(filepath.Dir(f.root)) + "_" + strconv.Itoa(os.Getpid())
	f.build(ctx)
	f.burn(ctx)
	f.look(ctx)
}

// build starts everything and waits until the providers can be offered jobs.
func (f *fire) build(ctx context.Context) {
	t, repo := f.t, gitRepo(f.t, map[string]string{"hello.txt": "hello\n"})
	data := filepath.Join(f.root, "data")
	for i := range f.size.replicas {
		args := []string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", data, "--rate", "2000"}
		if f.size.store != "" {
			args = append(args, "--store", f.size.store)
		}
		v := newVictim(t, f.root, fmt.Sprintf("nexus-%d", i), args...)
		v.at, v.gone = f.door.add, f.door.remove
		f.nexuses = append(f.nexuses, v)
		f.start(v) // one after the other: the first one makes the administrator
	}
	n := &nexus{t, f.door.url(), f.nexuses[0].first.Token}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * f.size.workers}}
	t.Cleanup(client.CloseIdleConnections)
	token := n.do(n.admin, "POST", "/v1/tokens", "owner", object{"kind": "user", "owner": fireOwner,
		"scopes": []string{"runs:write", "jobs:write", "providers:write", "treasury:write", "read"}}, http.StatusCreated).text("token")
	f.admin = &caller{f.door.url(), n.admin, client, f.answers}
	f.owner = &caller{f.door.url(), token, client, f.answers}
	f.load = &load{owner: f.owner, repo: repo, marker: f.marker}
	if err := f.owner.post(ctx, "/v1/treasury/accounts", "account", object{"limit": fireBudget}, &f.account); err != nil {
		t.Fatal(err)
	}
	if err := f.admin.post(ctx, "/v1/treasury/fund", "fund", object{"account_id": f.account.AccountID, "amount": fireBudget}, &f.account); err != nil {
		t.Fatal(err)
	}
	for i := range f.size.providers {
		f.provider(ctx, n, fmt.Sprintf("rack-%d", i), repo)
	}
}

// provider enrols one and starts its daemon. Its lease is as short as a lease
// can be, so that what a kill cost is noticed soon.
func (f *fire) provider(ctx context.Context, n *nexus, name, repo string) {
	id, joined := n.enrol(fireOwner, name)
	v := newVictim(f.t, f.root, name, "provider", "start", "--source", repo, "--concurrency", "2", "--lease", "1s", "--heartbeat", "1s")
	if err := os.CopyFS(v.home, os.DirFS(joined)); err != nil { // below the root, where what is left over is found
		f.t.Fatal(err)
	}
	credential := filepath.Join(v.home, "provider", "credential")
	if err := errors.Join(os.Chmod(filepath.Dir(credential), 0o700), os.Chmod(credential, 0o600)); err != nil {
		f.t.Fatal(err)
	}
	if err := f.owner.mutate(ctx, "PUT", "/v1/providers/"+id+"/caps", "two-at-a-time-"+name, object{"cpu_millis": 2000, "memory_mb": 1024,
		"disk_mb": 512, "pids": 256, "timeout_secs": 120, "concurrency": 2, "network": "none"}, nil); err != nil {
		f.t.Fatal(err)
	}
	f.daemons = append(f.daemons, v)
	f.start(v)
	for {
		var p api.Provider
		if err := f.owner.get(ctx, "/v1/providers/"+id, &p); err != nil {
			f.t.Fatal(err)
		}
		if p.Enabled && p.Liveness == "fresh" {
			return
		}
		wait(ctx, again)
	}
}

func (f *fire) start(v *victim) {
	f.t.Helper()
	if err := v.start(); err != nil {
		f.t.Fatal(err)
	}
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
	took := time.Since(began)
	for _, err := range slices.Concat(f.load.errs, f.killer.errs) {
		f.t.Error(err)
	}
	for _, fault := range f.answers.faults {
		f.t.Errorf("an answer that must not be: %s", fault)
	}
	kills := 0
	for _, n := range f.killer.kills {
		kills += n
	}
	f.c.Add("kills", kills)
	f.c.Note("%s of load: %d units of work in %d jobs, %d other runs, %d requests acknowledged, %d attempts without an answer, %d answers repeated, %d dispatches refused, %d quarantines lifted; killed: %v",
		took.Round(100*time.Millisecond), f.load.units.Load(), len(f.load.jobs), len(f.load.noted), len(f.answers.list), f.answers.broken, f.answers.replayed, f.load.refused, lifted, f.killer.kills)
	if kills < f.size.kills || f.load.units.Load() < f.size.units {
		f.t.Errorf("only %d kills and %d units of work", kills, f.load.units.Load())
	}
	if seen == 0 {
		f.t.Error("no process of a job was ever seen, so that a search for those that are left shows nothing")
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
	f.stop()
	f.orphans("left over at the end", f.marker, f.root)
	f.leftFiles()
	f.sweepAfterTTL(ctx)
}

// stop ends everybody as an operator does.
func (f *fire) stop() {
	for _, v := range slices.Concat(f.daemons, f.nexuses) {
		state, ok := v.end(syscall.SIGTERM)
		if !ok || !state.Success() {
			f.t.Errorf("%s did not end cleanly: %v", v.name, state)
		}
		for _, fault := range v.fault {
			f.t.Error(fault)
		}
	}
}

// sandboxes counts how often processes of jobs were seen while there was a fire.
func (f *fire) sandboxes(ctx context.Context) (seen int) {
	for wait(ctx, 100*time.Millisecond) {
		if found, err := processesWith(f.marker); err == nil && len(found) > 0 {
			seen++
		}
	}
	return seen
}

// orphans waits until no process names one of the words.
func (f *fire) orphans(what string, words ...string) {
	f.t.Helper()
	ctx, stop := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer stop()
	for {
		left, err := processesWith(words...)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if !wait(ctx, again) {
			f.c.Add("orphans", len(left))
			f.t.Errorf("%s: %q", what, left)
			return
		}
	}
}

// command runs one of ours against the authority and decodes what it prints.
func (f *fire) command(ctx context.Context, token string, into any, args ...string) {
	f.t.Helper()
	cmd := commandIn(ctx, f.t.TempDir(), args...)
	cmd.Env = append(cmd.Env, envNexus+"="+f.door.url(), envToken+"="+token)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		f.t.Fatalf("remit %v: %v: %s", args, err, out)
	}
}
