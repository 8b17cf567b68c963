package main

import (
	"math"
	"time"

	"github.com/spf13/pflag"

	"remit/nexus/jobs"
	"remit/nexus/lanes"
	"remit/nexus/registry"
	"remit/nexus/server"
	"remit/nexus/store"
)

// limits are the bounds of one replica of the nexus. Each has a flag, and its
// default is in docs/nexus.md.
type limits struct {
	rate, refused       float64
	burst, refusedBurst int
	lanes               lanes.Options
	timeouts            server.Timeouts
	sweep               server.Sweep
	store               store.Options
}

// maxRate is more than any replica answers, in requests a second.
const maxRate = 1_000_000

// maxInterval bounds the pauses and timeouts of a nexus.
const maxInterval = 24 * time.Hour

// maxKept bounds how long stored answers are kept, and strikes count.
const maxKept = 10 * 365 * 24 * time.Hour

// number is a flag for a number, and interval one for a time.
type (
	number[T int | int64] struct {
		name  string
		to    *T
		value T
		help  string
	}
	interval struct {
		name  string
		to    *time.Duration
		value time.Duration
		most  time.Duration
		help  string
	}
)

func (l *limits) counts() []number[int] {
	return []number[int]{
		{"burst", &l.burst, 0, "requests that one principal may make at once (default twice --rate)"},
		{"refused-burst", &l.refusedBurst, server.DefaultFailures.Burst, "refused credentials that one address may show at once"},
		{"lanes-per-principal", &l.lanes.PerPrincipal, lanes.DefaultPerPrincipal, "live lanes that one principal may have open"},
		{"max-lanes", &l.lanes.MaxLanes, lanes.DefaultMaxLanes, "live lanes of this replica"},
		{"db-connections", &l.store.Connections, store.DefaultConnections, "connections to the database"},
		{"db-batch", &l.store.MaxBatch, store.DefaultBatch, "commands that a SQLite store commits together"},
	}
}

func (l *limits) sizes() []number[int64] {
	return []number[int64]{
		{"lane-replay", &l.lanes.ReplayBudget, lanes.DefaultReplayBudget, "events that one reader of a lane may have replayed; behind that it takes a snapshot"},
		{"presence-lag", &l.lanes.PresenceLag, lanes.DefaultPresenceLag, "events behind which a slow reader of presence is told to start again"},
		{"jobs-lag", &l.lanes.JobsLag, lanes.DefaultJobsLag, "events behind which a slow reader of offers is cut off"},
	}
}

func (l *limits) intervals() []interval {
	t := server.DefaultTimeouts
	return []interval{
		{"lane-ping", &l.lanes.Ping, lanes.DefaultPing, maxInterval, "pause between two looks whether the reader of a lane is there, and still may"},
		{"lane-write-timeout", &l.lanes.WriteTimeout, lanes.DefaultWriteTimeout, maxInterval, "how long the reader of a lane may take nothing"},
		{"header-timeout", &l.timeouts.Header, t.Header, maxInterval, "to read the headers of a request"},
		{"body-timeout", &l.timeouts.Body, t.Body, maxInterval, "to read a request; artifacts have 10 minutes"},
		{"write-timeout", &l.timeouts.Write, t.Write, maxInterval, "to write an answer"},
		{"idle-timeout", &l.timeouts.Idle, t.Idle, maxInterval, "between two requests of a connection"},
		{"command-timeout", &l.timeouts.Command, t.Command, maxInterval, "for the work behind a request"},
		{"sweep-interval", &l.sweep.Every, server.DefaultSweep, maxInterval, "pause between two looks at leases, offers and reservations whose time is up"},
		{"audit-interval", &l.sweep.Audit, server.DefaultAudit, maxInterval, "pause between two checks of the books"},
		{"settle-after", &l.sweep.Settle, jobs.SettleGrace, maxInterval, "how long a response waits for its requester to settle it"},
		{"failure-fade", &l.sweep.FailureFade, registry.FailureFade, maxKept, "after which a provider's strike for a failure counts no more"},
		{"violation-fade", &l.sweep.ViolationFade, registry.ViolationFade, maxKept, "after which a provider's strike for a violation counts no more"},
		{"keep-answers", &l.sweep.Retention, server.DefaultRetention, maxKept, "how long stored answers, and credentials that ended, are kept"},
	}
}

func (l *limits) add(flags *pflag.FlagSet) {
	flags.Float64Var(&l.rate, "rate", server.DefaultRate.PerSecond, "requests a second that one principal may make")
	flags.Float64Var(&l.refused, "refused-rate", server.DefaultFailures.PerSecond, "refused credentials a second that one address may show")
	for _, c := range l.counts() {
		flags.IntVar(c.to, c.name, c.value, c.help)
	}
	for _, c := range l.sizes() {
		flags.Int64Var(c.to, c.name, c.value, c.help)
	}
	for _, i := range l.intervals() {
		flags.DurationVar(i.to, i.name, i.value, i.help)
	}
}

// check refuses what would not work, or would be taken for a default.
func (l *limits) check() error {
	for name, rate := range map[string]float64{"rate": l.rate, "refused-rate": l.refused} {
		if !(rate > 0 && rate <= maxRate) { // NaN is neither
			return usagef("--%s %v: want more than 0 and at most %d a second", name, rate, maxRate)
		}
	}
	for _, c := range l.counts() {
		if least := min(1, c.value); *c.to < least || *c.to > math.MaxInt32 {
			return usagef("--%s %d: want %d to %d", c.name, *c.to, least, math.MaxInt32)
		}
	}
	for _, c := range l.sizes() {
		if *c.to < 1 || *c.to > math.MaxInt32 {
			return usagef("--%s %d: want 1 to %d", c.name, *c.to, math.MaxInt32)
		}
	}
	for _, i := range l.intervals() {
		if *i.to < time.Millisecond || *i.to > i.most {
			return usagef("--%s %s: want 1ms to %s", i.name, *i.to, i.most)
		}
	}
	return nil
}

// options are those of a server with these limits.
func (l *limits) options() server.Options {
	burst := l.burst
	if burst == 0 {
		burst = int(2*l.rate) + 1
	}
	return server.Options{Rate: server.Rate{PerSecond: l.rate, Burst: burst}, Failures: server.Rate{PerSecond: l.refused, Burst: l.refusedBurst},
		Timeouts: l.timeouts, Sweep: l.sweep, Lanes: l.lanes}
}

// storeOptions are those of its store. Zero, where there are no flags for them,
// is the default.
func (l *limits) storeOptions() store.Options { return l.store }
