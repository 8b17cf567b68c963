package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// sides are the two ends of an exchange, which do not end together. When the
// engine hangs up, the provider's side goes on for a while, since the usage
// stands at the end of an answer; when the provider falls silent, the engine still
// gets an error; when the gateway is closed, both end.
type sides struct {
	client context.Context // ends when the engine waits no more
	ctx    context.Context // of the provider's side
	cancel context.CancelCauseFunc
	gone   atomic.Bool // the engine takes no more
	idle   *time.Timer // ends ctx when the provider says nothing

	patience time.Duration // for the rest of an answer without a reader
	silence  time.Duration // that a provider may keep
	undo     []func() bool
	mu       sync.Mutex
	drain    *time.Timer
	ended    bool
}

// Why the provider's side ended before its answer did.
var (
	errIdle  = errors.New("the provider sent nothing for too long")
	errLeft  = errors.New("the engine hung up")
	errEnded = errors.New("the exchange is over")
)

func (s *sides) watch(engine context.Context, g *Gateway) {
	s.patience, s.silence = g.bounds.drain, g.bounds.idle
	var cancelClient context.CancelCauseFunc
	s.client, cancelClient = context.WithCancelCause(engine)
	s.ctx, s.cancel = context.WithCancelCause(g.base)
	s.undo = []func() bool{
		context.AfterFunc(g.base, func() { cancelClient(context.Cause(g.base)) }),
		context.AfterFunc(s.client, s.hangUp),
		func() bool { cancelClient(errEnded); return true },
	}
	s.idle = time.AfterFunc(s.silence, func() { s.cancel(errIdle) })
	s.idle.Stop() // no request is out yet
}

// heard notes that the provider said something.
func (s *sides) heard() { s.idle.Reset(s.silence) }

// hangUp notes that the engine reads the answer no more.
func (s *sides) hangUp() {
	s.gone.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drain == nil && !s.ended {
		s.drain = time.AfterFunc(s.patience, func() { s.cancel(errLeft) })
	}
}

// over releases everything.
func (s *sides) over() {
	for _, undo := range s.undo {
		undo()
	}
	s.cancel(errEnded)
	s.idle.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.drain != nil {
		s.drain.Stop()
	}
}
