package server

import (
	"math"
	"sync"
	"time"

	"remit/proof/reason"
)

// Rate bounds how often something may happen: Burst at once, PerSecond for long.
type Rate struct {
	PerSecond float64
	Burst     int
}

// maxBuckets bounds the memory of a limiter; full buckets are dropped first, and
// a dropped bucket is a full one.
const maxBuckets = 16_384

// limiter holds one token bucket for each name. It counts on this replica only:
// N replicas let through up to N times the rate.
type limiter struct {
	rate  Rate
	clock func() time.Time

	mu      sync.Mutex
	buckets map[string]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

func newLimiter(rate Rate, clock func() time.Time) *limiter {
	return &limiter{rate: rate, clock: clock, buckets: map[string]bucket{}}
}

// allow takes one from the bucket of a name, or says how long to wait.
func (l *limiter) allow(name string) (wait time.Duration, ok bool) {
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.fill(name, now)
	if b.left < 1 {
		l.buckets[name] = b
		return time.Duration((1 - b.left) / l.rate.PerSecond * float64(time.Second)), false
	}
	b.left--
	if len(l.buckets) >= maxBuckets {
		l.forget(now)
	}
	l.buckets[name] = b
	return 0, true
}

func (l *limiter) fill(name string, now time.Time) bucket {
	b, known := l.buckets[name]
	if !known {
		return bucket{float64(l.rate.Burst), now}
	}
	if gone := now.Sub(b.at).Seconds(); gone > 0 {
		b.left = min(float64(l.rate.Burst), b.left+gone*l.rate.PerSecond)
	}
	b.at = now
	return b
}

// forget drops full buckets, or all of them when an attacker holds that many.
func (l *limiter) forget(now time.Time) {
	for name := range l.buckets {
		if l.fill(name, now).left >= float64(l.rate.Burst) {
			delete(l.buckets, name)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}

// limited is the error of a spent bucket, with the seconds to wait.
type limited struct {
	error
	seconds int
}

func (l limited) Unwrap() error { return l.error }

func tooOften(what string, wait time.Duration) error {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return limited{reason.Errorf(reason.RateLimited, "too many %s; wait %d s", what, seconds), seconds}
}
