package gateway

import (
	"context"
	"sync"
	"time"
)

// Limits against an agent that sends, or a provider that answers, without end.
const (
	// MaxConnections is how many connections one listener serves at a time.
	MaxConnections = 256
	// MaxRequests is how many requests of a run are refused in words and recorded,
	// whatever its limits allow, and how many go out where no limit says how
	// many: a record is memory and disk, and a program that asks in a loop makes
	// thousands a second. What is under way at that moment may come on top.
	MaxRequests = 20_000
	// MaxRequestBytes is the largest request body: what the providers take.
	MaxRequestBytes = 32 << 20
	// MaxAnswerBytes is the largest answer that is not a stream.
	MaxAnswerBytes = 32 << 20
	// MaxEventBytes is the largest event of a stream. The last one of a responses
	// stream repeats the whole answer.
	MaxEventBytes = 16 << 20
	// MaxErrorBytes is how much of a provider's error is passed on.
	MaxErrorBytes = 64 << 10
)

// bounds are the limits that tests make smaller.
type bounds struct {
	request, answer, event int64         // bytes
	requests               int64         // of a run, refused ones, and others where no limit is
	allBodies              int64         // bytes of all request bodies together
	body                   time.Duration // for an engine to send its body
	write                  time.Duration // for an engine to take one piece of the answer
	idle                   time.Duration // between two pieces of an answer
	drain                  time.Duration // to read on after the engine hung up
	rest                   time.Duration // for the connection to end after the stream
	retries                int
	backoff                time.Duration // before the first retry; doubles
	patience               time.Duration // the longest Retry-After that is waited for
}

var defaultBounds = bounds{
	request: MaxRequestBytes, answer: MaxAnswerBytes, event: MaxEventBytes,
	requests:  MaxRequests,
	allBodies: 256 << 20,
	body:      time.Minute,
	write:     2 * time.Minute,
	idle:      10 * time.Minute, // a model may think for minutes without a word
	drain:     30 * time.Second,
	rest:      50 * time.Millisecond, // the engine sees the end of its answer after it
	retries:   3, backoff: 500 * time.Millisecond, patience: time.Minute,
}

// pool bounds the memory of all request bodies: an agent may open many
// connections and send much on each.
type pool struct {
	turn chan struct{} // its holder may take; the others wait in line
	mu   sync.Mutex
	free int64
	more chan struct{} // closed when something was put back
}

func newPool(size int64) *pool {
	return &pool{turn: make(chan struct{}, 1), free: size, more: make(chan struct{})}
}

// take waits until n bytes are free. n must not be more than the pool has.
func (p *pool) take(ctx context.Context, n int64) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	for {
		p.mu.Lock()
		if p.free >= n {
			p.free -= n
			p.mu.Unlock()
			return nil
		}
		more := p.more
		p.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *pool) put(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
	close(p.more)
	p.more = make(chan struct{})
}
