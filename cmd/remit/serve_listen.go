package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"remit/nexus/jobs"
	"remit/nexus/lanes"
	"remit/nexus/registry"
	"remit/nexus/server"
	"remit/nexus/store"
	"remit/proof/reason"
)

const (
	// drainTimeout is how long requests may take after the signal to stop. What they
	// commit counts; what they do not get answered is repeated with its key.
	drainTimeout = 10 * time.Second
	// drainDelay is longer than the usual pause between two looks of a load balancer.
	drainDelay = 5 * time.Second
	// maxDrain bounds both. Supervisors kill what takes longer, unless configured otherwise.
	maxDrain = time.Hour
)

// completeDrain does not wait for a load balancer that cannot be there.
func (l *limits) completeDrain(local bool) {
	if l.drainDelay != unset {
		return
	}
	if l.drainDelay = drainDelay; local {
		l.drainDelay = 0
	}
}

// endpoint says where to listen, and whether only this machine reaches it. Other
// machines are not served without a certificate.
func (f serveFlags) endpoint(ctx context.Context) (address string, local bool, err error) {
	address, local, err = resolve(ctx, f.listen)
	switch {
	case err != nil:
		return "", false, wrongAddress("--listen", f.listen, err)
	case f.tlsCert == "" && f.tlsKey == "" && !local && !f.plaintext:
		return "", false, usagef("%s can be reached by other machines: give --tls-cert and --tls-key, or --plaintext behind a proxy that has TLS", f.listen)
	}
	return address, local, nil
}

// resolve finds the address of a HOST:PORT, and whether only this machine
// reaches it. A name is looked up here and not once more by who listens.
func resolve(ctx context.Context, listen string) (address string, local bool, err error) {
	host, service, err := net.SplitHostPort(listen)
	if err != nil {
		var wrong *net.AddrError
		if errors.As(err, &wrong) {
			err = errors.New(wrong.Err)
		}
		return "", false, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil || service == "" {
		return "", false, fmt.Errorf("%q is no port", service)
	}
	if host != "" && net.ParseIP(host) == nil {
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return "", false, fmt.Errorf("%q is no address of this machine: %w", host, err)
		}
		host = found[0]
		for _, text := range found {
			if ip := net.ParseIP(text); ip != nil && ip.To4() != nil {
				host = text // as net.Listen prefers it
				break
			}
		}
	}
	ip := net.ParseIP(host)
	return net.JoinHostPort(host, fmt.Sprint(port)), ip != nil && ip.IsLoopback(), nil
}

// run serves until the context ends, then drains.
func (f serveFlags) run(ctx context.Context, s *server.Server, handler http.Handler, listener net.Listener, log *slog.Logger) error {
	stop, err := f.asides(ctx, s, log)
	defer stop()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	h := s.HTTPServer()
	h.Handler = handler
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("draining", "cause", context.Cause(ctx), "delay", f.limits.drainDelay.String())
	s.Unready()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-time.After(f.limits.drainDelay): // who asks /readyz sees that this replica goes away
	}
	s.Drain()
	return drain(context.WithoutCancel(ctx), h, s.InFlight, f.limits.drainTimeout)
}

// drain waits for the requests that are running, and cuts them off after a time.
func drain(ctx context.Context, h *http.Server, inFlight func() int64, most time.Duration) error {
	quiet, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := h.Shutdown(quiet)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	cut := fmt.Errorf("drain: %d requests had not ended after %s and were cut off; what they have committed counts, and repeating them with their keys tells",
		inFlight(), most)
	return errors.Join(cut, h.Close())
}

// limits are the bounds of one replica of the nexus. Each has a flag, and its
// default is in docs/nexus.md.
type limits struct {
	rate, refused       float64
	burst, refusedBurst int
	lanes               lanes.Options
	timeouts            server.Timeouts
	sweep               server.Sweep
	store               store.Options
	drainDelay          time.Duration
	drainTimeout        time.Duration
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
		zero  bool // may be 0, which has a meaning of its own
	}
)

// unset is the default of a time that depends on other flags.
const unset = time.Duration(math.MinInt64)

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
		{"presence-lag", &l.lanes.PresenceLag, lanes.DefaultPresenceLag, "events behind which a slow reader of presence has to start again"},
		{"jobs-lag", &l.lanes.JobsLag, lanes.DefaultJobsLag, "events behind which a slow reader of offers is cut off"},
	}
}

func (l *limits) intervals() []interval {
	t := server.DefaultTimeouts
	return []interval{
		{"lane-ping", &l.lanes.Ping, lanes.DefaultPing, maxInterval, "pause between two looks whether the reader of a lane is there, and still may", false},
		{"lane-write-timeout", &l.lanes.WriteTimeout, lanes.DefaultWriteTimeout, maxInterval, "how long the reader of a lane may take nothing", false},
		{"header-timeout", &l.timeouts.Header, t.Header, maxInterval, "to read the headers of a request", false},
		{"body-timeout", &l.timeouts.Body, t.Body, maxInterval, "to read a request; artifacts have 10 minutes", false},
		{"write-timeout", &l.timeouts.Write, t.Write, maxInterval, "to write an answer", false},
		{"idle-timeout", &l.timeouts.Idle, t.Idle, maxInterval, "between two requests of a connection", false},
		{"command-timeout", &l.timeouts.Command, t.Command, maxInterval, "for the work behind a request", false},
		{"sweep-interval", &l.sweep.Every, server.DefaultSweep, maxInterval, "pause between two looks at leases, offers and reservations whose time is up", false},
		{"audit-interval", &l.sweep.Audit, server.DefaultAudit, maxInterval, "pause between two checks of the books", false},
		{"settle-after", &l.sweep.Settle, jobs.SettleGrace, maxInterval, "how long a response waits for its requester to settle it", false},
		{"failure-fade", &l.sweep.FailureFade, registry.FailureFade, maxKept, "after which a provider's strike for a failure counts no more", false},
		{"violation-fade", &l.sweep.ViolationFade, registry.ViolationFade, maxKept, "after which a provider's strike for a violation counts no more", false},
		{"keep-answers", &l.sweep.Retention, server.DefaultRetention, maxKept, "how long stored answers, and credentials that ended, are kept", false},
		{"run-silence", &l.sweep.RunSilence, jobs.DefaultSilence, maxKept,
			"end a run without open jobs that has said nothing for so long, unless its owner set another time; 0 never", true},
		{"keep-runs", &l.sweep.KeepRuns, 0, maxKept,
			"remove log, jobs and artifacts of a run so long after its end, never its bundle or the books; 0 keeps all", true},
		{"drain-delay", &l.drainDelay, unset, maxDrain,
			"after SIGTERM, how long requests are still taken while /readyz says 503 (default 5s where other machines reach --listen, else 0s)", true},
		{"drain-timeout", &l.drainTimeout, drainTimeout, maxDrain, "then, how long requests that run may take", false},
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
		if i.value == unset {
			flags.Lookup(i.name).DefValue = "0s" // the text says it
		}
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
		if *i.to == i.value || i.zero && *i.to == 0 || *i.to >= time.Millisecond && *i.to <= i.most {
			continue
		}
		least := "1ms"
		if i.zero {
			least = "0, or 1ms"
		}
		return usagef("--%s %s: want %s to %s", i.name, *i.to, least, i.most)
	}
	return nil
}

// options are those of a server with these limits.
func (l *limits) options() server.Options {
	burst := l.burst
	if burst == 0 {
		burst = int(2*l.rate) + 1
	}
	sweep := l.sweep
	sweep.RunSilence = cmp.Or(sweep.RunSilence, -1) // 0 is the default there
	return server.Options{Rate: server.Rate{PerSecond: l.rate, Burst: burst},
		Failures: server.Rate{PerSecond: l.refused, Burst: l.refusedBurst}, Timeouts: l.timeouts, Sweep: sweep, Lanes: l.lanes}
}

// storeOptions are those of its store. Zero, where there are no flags for them,
// is the default.
func (l *limits) storeOptions() store.Options { return l.store }

// wrongAddress refuses what a flag says about where to listen.
func wrongAddress(flag, given string, err error) error {
	return usagef("%s %q: %w; want HOST:PORT, such as %s", flag, given, err, defaultListen)
}

// listenAt listens where --listen says.
func listenAt(ctx context.Context, given string) (net.Listener, error) {
	address, _, err := resolve(ctx, given)
	if err != nil {
		return nil, wrongAddress("--listen", given, err)
	}
	return listenOn(ctx, address, "--listen")
}

// listenOn listens on an address that a flag names. One that is taken is the
// user's to settle.
func listenOn(ctx context.Context, address, flag string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, reason.Errorf(reason.Conflict, "listen on %s: %w", address, err).
			WithHint("another program listens there: stop it, or name another address with %s", flag)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}
