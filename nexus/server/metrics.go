package server

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// meter holds the figures of this replica, in the text format of Prometheus.
// Labels come from our own tables only, so their number is bounded.
type meter struct {
	replays   atomic.Int64
	conflicts atomic.Int64 // keys that came with another request
	inFlight  atomic.Int64

	mu       sync.Mutex
	requests map[requestLabels]*series
	refusals map[string]int64 // by reason code
}

type requestLabels struct {
	operation string
	status    int
}

// series counts requests and sums up how long they took.
type series struct {
	count   int64
	seconds float64
	buckets [len(bounds)]int64
}

// bounds are the upper ends of the latency buckets, in seconds.
var bounds = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}

func newMeter() *meter {
	return &meter{requests: map[requestLabels]*series{}, refusals: map[string]int64{}}
}

func (m *meter) served(operation string, status int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := requestLabels{operation, status}
	s := m.requests[key]
	if s == nil {
		s = new(series)
		m.requests[key] = s
	}
	s.count++
	s.seconds += took.Seconds()
	for i, bound := range bounds {
		if took.Seconds() <= bound {
			s.buckets[i]++
		}
	}
}

func (m *meter) refused(code string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusals[code]++
}

// write prints everything in a stable order.
func (m *meter) write(w io.Writer, lanes int, readOnly bool) {
	gauge := func(kind, name, help string, value int64) {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", name, help, name, kind, name, value)
	}
	gauge("gauge", "remit_lanes_open", "Live lanes of this replica.", int64(lanes))
	gauge("gauge", "remit_requests_in_flight", "Requests being served.", m.inFlight.Load())
	gauge("counter", "remit_idempotent_replays_total", "Stored answers that were repeated.", m.replays.Load())
	gauge("counter", "remit_idempotency_conflicts_total", "Keys that came again with another request.", m.conflicts.Load())
	frozen := int64(0)
	if readOnly {
		frozen = 1
	}
	gauge("gauge", "remit_read_only", "1 while the books are wrong and nothing may change.", frozen)

	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(w, "# HELP remit_refusals_total Refused requests by reason code.\n# TYPE remit_refusals_total counter\n")
	for _, code := range slices.Sorted(maps.Keys(m.refusals)) {
		fmt.Fprintf(w, "remit_refusals_total{code=%q} %d\n", code, m.refusals[code])
	}
	const name = "remit_request_seconds"
	fmt.Fprintf(w, "# HELP %s Time to answer a request.\n# TYPE %s histogram\n", name, name)
	keys := slices.SortedFunc(maps.Keys(m.requests), func(a, b requestLabels) int {
		if a.operation != b.operation {
			return compare(a.operation, b.operation)
		}
		return a.status - b.status
	})
	for _, k := range keys {
		s := m.requests[k]
		labels := fmt.Sprintf("operation=%q,status=\"%d\"", k.operation, k.status)
		for i, bound := range bounds {
			fmt.Fprintf(w, "%s_bucket{%s,le=\"%g\"} %d\n", name, labels, bound, s.buckets[i])
		}
		fmt.Fprintf(w, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %g\n%s_count{%s} %d\n",
			name, labels, s.count, name, labels, s.seconds, name, labels, s.count)
	}
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}
