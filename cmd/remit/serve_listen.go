package main

import (
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
func (f *serveFlags) completeDrain(local bool) {
	if f.drainDelay >= 0 {
		return
	}
	if f.drainDelay = drainDelay; local {
		f.drainDelay = 0
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
	case f.drainTimeout <= 0 || f.drainTimeout > maxDrain || f.drainDelay > maxDrain:
		return "", false, usagef("--drain-delay and --drain-timeout are at most %s, and a timeout is more than 0s", maxDrain)
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
	log.Info("draining", "cause", context.Cause(ctx), "delay", f.drainDelay.String())
	s.Unready()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-time.After(f.drainDelay): // who asks /readyz sees that this replica goes away
	}
	s.Drain()
	return drain(context.WithoutCancel(ctx), h, s.InFlight, f.drainTimeout)
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
		{"presence-lag", &l.lanes.PresenceLag, lanes.DefaultPresenceLag, "events behind which a slow reader of presence has to start again"},
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
