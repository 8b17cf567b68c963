package harness

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// errIdle is the cause with which an engine is stopped that gave no sign of
// life for too long.
var errIdle = errors.New("the engine gave no sign of life")

// pulse is when an engine last gave a sign of life: it printed something, or
// bytes went to or came from the gateway. A nil pulse counts nothing.
type pulse struct {
	begun time.Time
	last  atomic.Int64 // nanoseconds since begun
}

func (p *pulse) beat() {
	if p != nil {
		p.last.Store(int64(time.Since(p.begun)))
	}
}

func (p *pulse) silent() time.Duration { return time.Since(p.begun) - time.Duration(p.last.Load()) }

// watch returns a context that is cancelled with errIdle when the pulse stops
// for as long as the limit; 0 is no limit. done ends the watch, and waits for
// its end.
func watch(ctx context.Context, limit time.Duration) (watched context.Context, p *pulse, done func()) {
	if limit <= 0 {
		return ctx, nil, func() {}
	}
	p = &pulse{begun: time.Now()}
	watched, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			left := limit - p.silent()
			if left <= 0 {
				cancel(errIdle)
				return
			}
			timer := time.NewTimer(left)
			select {
			case <-timer.C:
			case <-watched.Done():
				timer.Stop()
				return
			}
		}
	}()
	return watched, p, func() {
		cancel(nil)
		<-ended
	}
}

// onlyIdle reports whether an error says that the engine was idle, and nothing
// else: the sandbox joins what went wrong besides.
func onlyIdle(err error) bool {
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case nil:
		return false
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if !onlyIdle(part) {
				return false
			}
		}
		return len(e.Unwrap()) > 0
	case interface{ Unwrap() error }:
		return onlyIdle(e.Unwrap())
	}
	return err == errIdle //nolint:errorlint // as above
}

// felt is a listener whose connections beat the pulse.
type felt struct {
	net.Listener
	pulse *pulse
}

func (l felt) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.pulse.beat()
	return feltConn{c, l.pulse}, nil
}

type feltConn struct {
	net.Conn
	pulse *pulse
}

func (c feltConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.pulse.beat()
	}
	return n, err
}

func (c feltConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.pulse.beat()
	}
	return n, err
}
