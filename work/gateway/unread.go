package gateway

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"remit/proof/reason"
	"remit/proof/record"
)

// What net/http does not take for a request, it answers by itself: two hosts, a
// header that is too large, HTTP/2, an expectation that cannot be met. Nothing
// of it gets here, and yet it was a request. Such a request is known by its
// answer: a status of failure on a connection for which the gateway has none to
// give. It is recorded and counted like every other that is refused.

// watchedListener accepts connections whose answers are looked at.
type watchedListener struct {
	net.Listener
	unread func(status int)
}

func (l watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: c, unread: l.unread}, nil
}

type watchedConn struct {
	net.Conn
	unread  func(status int)
	serving atomic.Bool // the gateway has a request of this connection
	owing   atomic.Bool // and has not begun to answer it
}

// Write looks at the beginning of what goes to the engine: net/http writes a
// status line at the beginning of a write.
func (c *watchedConn) Write(p []byte) (int, error) {
	if status := statusOf(p); status >= http.StatusOK {
		if owed := c.owing.Swap(false); !owed && !c.serving.Load() && status >= http.StatusBadRequest {
			c.unread(status)
		}
	}
	return c.Conn.Write(p)
}

// statusOf reads a status line, 0 if there is none.
func statusOf(p []byte) int {
	line, ok := bytes.CutPrefix(p, []byte("HTTP/1."))
	if !ok || len(line) < 5 {
		return 0
	}
	status, err := strconv.Atoi(string(line[2:5]))
	if err != nil {
		return 0
	}
	return status
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// taken notes that the gateway has a request, until over is called.
func taken(ctx context.Context) (over func()) {
	c, ok := ctx.Value(connKey{}).(*watchedConn)
	if !ok { // served by another server
		return func() {}
	}
	c.serving.Store(true)
	c.owing.Store(true)
	return func() { c.serving.Store(false) }
}

// unread records a request that was answered before it got here.
func (g *Gateway) unread(status int) {
	seq, ok := g.enter()
	if !ok {
		return
	}
	defer g.underway.Done()
	if g.ledger.full(g.bounds.requests) {
		return
	}
	g.ledger.refused()
	if g.record == nil {
		return
	}
	g.recordMu.Lock()
	defer g.recordMu.Unlock()
	g.record(record.ModelRequest{Seq: seq, At: g.now(), Status: status, Refused: reason.RequestInvalid,
		Detail: "it is no HTTP request that could be read", UsageKnown: true, CostKnown: true})
}
