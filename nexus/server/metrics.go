package server

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"remit/nexus/registry"
	"remit/nexus/store"
)

// meter holds the figures of this replica. Labels come from our own tables only,
// so their number is bounded.
type meter struct {
	replays   atomic.Int64
	conflicts atomic.Int64 // keys that came with another request
	inFlight  atomic.Int64

	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	refusals *prometheus.CounterVec // by reason code
}

// bounds are the upper ends of the latency buckets, in seconds.
var bounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}

func newMeter() *meter {
	m := &meter{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "remit_request_seconds", Help: "Time to answer a request.",
			Buckets: bounds},
			[]string{"operation", "status"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "remit_refusals_total", Help: "Refused requests by reason code."},
			[]string{"code"}),
	}
	m.registry.MustRegister(m.requests, m.refusals, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.counter("remit_idempotent_replays_total", "Stored answers that were repeated.", m.replays.Load)
	m.counter("remit_idempotency_conflicts_total", "Keys that came again with another request.", m.conflicts.Load)
	m.gauge("remit_requests_in_flight", "Requests being served.", m.inFlight.Load)
	return m
}

func (m *meter) counter(name, help string, value func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
		func() float64 { return float64(value()) }))
}

func (m *meter) gauge(name, help string, value func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
}

func (m *meter) served(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Observe(took.Seconds())
}

func (m *meter) refused(code string) { m.refusals.WithLabelValues(code).Inc() }

// measure adds the figures that the parts of a server know.
func (s *Server) measure() {
	m := s.metrics
	m.gauge("remit_lanes_open", "Live lanes of this replica.", func() int64 { return int64(s.lanes.Open()) })
	m.gauge("remit_read_only", "1 while the books are wrong and nothing may change.", func() int64 {
		if s.readOnly.Load() {
			return 1
		}
		return 0
	})
	m.gauge("remit_draining", "1 while this replica goes away.", func() int64 {
		if s.draining.Load() {
			return 1
		}
		return 0
	})
	if mirror := s.opt.Mirror; mirror != nil {
		m.counter("remit_bridge_taken_total", "Events that relays have taken.", func() int64 { return mirror.Figures().Taken })
		m.counter("remit_bridge_refused_total", "Events that must not leave, or that a relay refused for good.",
			func() int64 { return mirror.Figures().Refused })
		m.counter("remit_bridge_relay_failures_total", "Visits to relays that failed.", func() int64 { return mirror.Figures().Failures })
	}
	m.registry.MustRegister(&depth{server: s})
	s.scrape = m.scraper()
}

// Bounds of a scrape: frequent scrapes must not keep the store busy.
const (
	scrapesAtOnce = 4
	scrapeTime    = 10 * time.Second
)

// scraper is one handler for both listeners, so that its bounds hold for both.
func (m *meter) scraper() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTime,
		DisableCompression: true})
}

// MetricsHandler serves /metrics without a credential, for a listener of its own
// that only a monitoring system reaches. With local it refuses requests that come
// through a proxy or under another name, as those of a web page do.
func (s *Server) MetricsHandler(local bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if local && !isLocal(r) {
			http.Error(w, "only for this machine", http.StatusForbidden)
			return
		}
		s.scrape.ServeHTTP(w, r)
	})
	return mux
}

// depth collects what the store knows: how much waits, for how long, and what is
// held. Every replica of a store says the same.
type depth struct {
	server *Server

	mu   sync.Mutex
	at   time.Time
	last store.Figures
	err  error
}

// figuresKept is how long figures are good: many who ask make one query.
const figuresKept = time.Second

// figuresTime bounds the query.
const figuresTime = 5 * time.Second

var (
	jobsDesc       = prometheus.NewDesc("remit_jobs", "Open jobs by state.", []string{"state"}, nil)
	jobsOldestDesc = prometheus.NewDesc("remit_jobs_oldest_seconds",
		"How long the oldest job has been in a state; of leased ones, the age of the oldest lease.", []string{"state"}, nil)
	leasesAgeDesc = prometheus.NewDesc("remit_leases_age_seconds",
		"Age of all leases together; divided by remit_jobs{state=\"leased\"} it is their mean.", nil, nil)
	overdueDesc = prometheus.NewDesc("remit_sweep_overdue_seconds",
		"How long the lease or offer that is overdue most waits for a sweep.", nil, nil)
	sweptDesc      = prometheus.NewDesc("remit_sweep_age_seconds", "Time since this replica swept last.", nil, nil)
	reservedDesc   = prometheus.NewDesc("remit_reservations_open", "Reservations that are not settled.", nil, nil)
	reservedMsats  = prometheus.NewDesc("remit_reservations_open_msats", "What they hold, in msats.", nil, nil)
	reservedOldest = prometheus.NewDesc("remit_reservations_oldest_seconds", "Age of the oldest of them.", nil, nil)
	providersDesc  = prometheus.NewDesc("remit_providers",
		"Providers by pool (owned, reserve_pool) and state (ready, silent, off, quarantined).", []string{"pool", "state"}, nil)
	connectionsDesc = prometheus.NewDesc("remit_store_connections", "Connections to the database: at most, open, in use.", []string{"state"}, nil)
	waitsDesc       = prometheus.NewDesc("remit_store_connection_waits_total", "How often a command waited for a connection.", nil, nil)
	waitedDesc      = prometheus.NewDesc("remit_store_connection_wait_seconds_total", "How long commands waited for a connection.", nil, nil)
	upDesc          = prometheus.NewDesc("remit_store_up", "1 if the store answered this scrape.", nil, nil)
	buildDesc       = prometheus.NewDesc("remit_build_info", "The version of this replica and the kind of its store.",
		[]string{"version", "store"}, nil)
)

// Describe implements prometheus.Collector.
func (d *depth) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{jobsDesc, jobsOldestDesc, leasesAgeDesc, overdueDesc, sweptDesc, reservedDesc, reservedMsats,
		reservedOldest,
		providersDesc, connectionsDesc, waitsDesc, waitedDesc, upDesc, buildDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector. A store that does not answer costs its
// own figures and no others.
func (d *depth) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	s := d.server
	gauge(buildDesc, 1, s.opt.Version, s.opt.Store.Dialect())
	pool := s.opt.Store.Pool()
	gauge(connectionsDesc, float64(pool.Max), "max")
	gauge(connectionsDesc, float64(pool.Open), "open")
	gauge(connectionsDesc, float64(pool.InUse), "in_use")
	ch <- prometheus.MustNewConstMetric(waitsDesc, prometheus.CounterValue, float64(pool.Waits))
	ch <- prometheus.MustNewConstMetric(waitedDesc, prometheus.CounterValue, pool.Waited.Seconds())
	if at := s.swept.Load(); at != 0 {
		gauge(sweptDesc, s.opt.Clock().Sub(time.UnixMilli(at)).Seconds())
	}
	f, err := d.figures()
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	seconds := func(since int64) float64 {
		if since == 0 {
			return 0
		}
		return float64(max(0, f.Now-since)) / 1000
	}
	for _, q := range f.Queues {
		gauge(jobsDesc, float64(q.Count), q.State)
		gauge(jobsOldestDesc, seconds(q.Oldest), q.State)
	}
	gauge(leasesAgeDesc, float64(f.LeasedMillis)/1000)
	gauge(overdueDesc, seconds(f.DueSince))
	gauge(reservedDesc, float64(f.Reservations))
	gauge(reservedMsats, float64(f.ReservedMsats))
	gauge(reservedOldest, seconds(f.ReservedSince))
	for _, p := range f.Providers {
		pool := registry.Owned
		if p.Pool {
			pool = registry.Pool
		}
		gauge(providersDesc, float64(p.Count), pool, p.State)
	}
}

// figures asks the store, or says what it said a moment ago.
func (d *depth) figures() (store.Figures, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.at.IsZero() || now.Sub(d.at) >= figuresKept {
		ctx, cancel := context.WithTimeout(context.Background(), figuresTime)
		defer cancel()
		d.err = d.server.opt.Store.View(ctx, func(tx *store.Tx) (err error) {
			d.last, err = tx.Figures(registry.ReservePool, registry.StaleAfter.Milliseconds())
			return err
		})
		d.at = time.Now()
	}
	return d.last, d.err
}
