package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"remit/nexus/registry"
	"remit/nexus/store"
)

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
	jobsDesc        = prometheus.NewDesc("remit_jobs", "Open jobs by state.", []string{"state"}, nil)
	jobsOldestDesc  = prometheus.NewDesc("remit_jobs_oldest_seconds", "How long the oldest job has been in a state; of leased ones, the age of the oldest lease.", []string{"state"}, nil)
	leasesAgeDesc   = prometheus.NewDesc("remit_leases_age_seconds", "Age of all leases together; divided by remit_jobs{state=\"leased\"} it is their mean.", nil, nil)
	overdueDesc     = prometheus.NewDesc("remit_sweep_overdue_seconds", "How long the lease or offer that is overdue most waits for a sweep.", nil, nil)
	sweptDesc       = prometheus.NewDesc("remit_sweep_age_seconds", "Time since this replica swept last.", nil, nil)
	reservedDesc    = prometheus.NewDesc("remit_reservations_open", "Reservations that are not settled.", nil, nil)
	reservedMsats   = prometheus.NewDesc("remit_reservations_open_msats", "What they hold, in msats.", nil, nil)
	reservedOldest  = prometheus.NewDesc("remit_reservations_oldest_seconds", "Age of the oldest of them.", nil, nil)
	providersDesc   = prometheus.NewDesc("remit_providers", "Providers by pool (owned, reserve_pool) and state (ready, silent, off, quarantined).", []string{"pool", "state"}, nil)
	connectionsDesc = prometheus.NewDesc("remit_store_connections", "Connections to the database: at most, open, in use.", []string{"state"}, nil)
	waitsDesc       = prometheus.NewDesc("remit_store_connection_waits_total", "How often a command waited for a connection.", nil, nil)
	waitedDesc      = prometheus.NewDesc("remit_store_connection_wait_seconds_total", "How long commands waited for a connection.", nil, nil)
	upDesc          = prometheus.NewDesc("remit_store_up", "1 if the store answered this scrape.", nil, nil)
	buildDesc       = prometheus.NewDesc("remit_build_info", "The version of this replica and the kind of its store.", []string{"version", "store"}, nil)
)

// Describe implements prometheus.Collector.
func (d *depth) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{jobsDesc, jobsOldestDesc, leasesAgeDesc, overdueDesc, sweptDesc, reservedDesc, reservedMsats, reservedOldest,
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
