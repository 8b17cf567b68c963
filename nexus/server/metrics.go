package server

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "remit_request_seconds", Help: "Time to answer a request.", Buckets: bounds},
			[]string{"operation", "status"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "remit_refusals_total", Help: "Refused requests by reason code."}, []string{"code"}),
	}
	m.registry.MustRegister(m.requests, m.refusals, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.counter("remit_idempotent_replays_total", "Stored answers that were repeated.", m.replays.Load)
	m.counter("remit_idempotency_conflicts_total", "Keys that came again with another request.", m.conflicts.Load)
	m.gauge("remit_requests_in_flight", "Requests being served.", m.inFlight.Load)
	return m
}

func (m *meter) counter(name, help string, value func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
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
		m.counter("remit_bridge_refused_total", "Events that must not leave, or that a relay refused for good.", func() int64 { return mirror.Figures().Refused })
		m.counter("remit_bridge_relay_failures_total", "Visits to relays that failed.", func() int64 { return mirror.Figures().Failures })
	}
	m.registry.MustRegister(&depth{server: s})
	s.scrape = m.scraper()
}

// Bounds of a scrape: whoever asks often must not keep the store busy.
const (
	scrapesAtOnce = 4
	scrapeTime    = 10 * time.Second
)

// scraper is one handler for both listeners, so that its bounds hold for both.
func (m *meter) scraper() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTime, DisableCompression: true})
}

// MetricsHandler serves /metrics without a credential, for a listener of its own
// that only a monitoring system reaches. With local it answers nobody who comes
// through a proxy or under another name, as a web page does.
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
