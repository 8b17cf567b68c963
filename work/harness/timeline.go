package harness

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Span is one part of a run on the clock of this process. Parts that go on side
// by side overlap. Spans are for people who ask where the time went: they are no
// evidence, and no other field depends on them.
type Span struct {
	Name    string  `json:"name"` // of the journal's step, or of a part that has none
	StartMS float64 `json:"start_ms"`
	TookMS  float64 `json:"took_ms"`
}

// Timeline collects the spans of one run. A nil Timeline collects nothing. Its
// methods may be called from several goroutines.
type Timeline struct {
	start time.Time
	mu    sync.Mutex
	spans []Span
}

// NewTimeline counts from start.
func NewTimeline(start time.Time) *Timeline { return &Timeline{start: start} }

// Begin starts a span, which ends when the result is called.
func (t *Timeline) Begin(name string) (end func()) {
	if t == nil {
		return func() {}
	}
	began := time.Now()
	return func() {
		span := Span{name, milliseconds(began.Sub(t.start)), milliseconds(time.Since(began))}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.spans = append(t.spans, span)
	}
}

// Spans are all spans that have ended, in the order in which they began.
func (t *Timeline) Spans() []Span {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.spans)
	slices.SortStableFunc(out, func(a, b Span) int { return cmp.Compare(a.StartMS, b.StartMS) })
	return out
}

// Elapsed is how long the timeline has been counting.
func (t *Timeline) Elapsed() float64 { return milliseconds(time.Since(t.start)) }

// milliseconds rounds to a tenth.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}
