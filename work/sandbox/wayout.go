//go:build linux

package sandbox

import (
	"net"
	"sync"
)

// maxConnections bounds the accepted connections of one Run that are open at
// the same time. Each costs this process a descriptor, and a command can open
// as many as it likes: beyond the bound they wait in the kernel.
const maxConnections = 256

// wayOut is a listener whose other end belongs to a command. It accepts so many
// connections at once, and takes all of them back at the end of the Run.
type wayOut struct {
	net.Listener

	taken chan struct{} // holds a token for every open connection
	over  chan struct{} // closed with the listener
	close func() error  // of the listener, once

	mu    sync.Mutex
	open  map[*wayOutConn]struct{}
	ended bool
}

func newWayOut(l net.Listener) *wayOut {
	w := &wayOut{Listener: l, taken: make(chan struct{}, maxConnections), over: make(chan struct{}), open: map[*wayOutConn]struct{}{}}
	w.close = sync.OnceValue(func() error {
		close(w.over)
		return l.Close()
	})
	return w
}

// Accept waits for a connection, and for room.
func (w *wayOut) Accept() (net.Conn, error) {
	select {
	case w.taken <- struct{}{}:
	case <-w.over:
		return nil, net.ErrClosed
	}
	raw, err := w.Listener.Accept()
	if err != nil {
		<-w.taken
		return nil, err
	}
	c := &wayOutConn{Conn: raw, from: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		<-w.taken
		_ = raw.Close() // the other side is gone
		return nil, net.ErrClosed
	}
	w.open[c] = struct{}{}
	return c, nil
}

// Close ends the listening; connections stay.
func (w *wayOut) Close() error { return w.close() }

// end takes everything back.
func (w *wayOut) end() {
	_ = w.close() // the error changes nothing at this point
	w.mu.Lock()
	w.ended = true
	open := w.open
	w.open = map[*wayOutConn]struct{}{}
	w.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
}

// wayOutConn is an accepted connection.
type wayOutConn struct {
	net.Conn

	from *wayOut
	once sync.Once
}

// Close closes the connection and makes room for another one.
func (c *wayOutConn) Close() error {
	c.once.Do(func() {
		c.from.mu.Lock()
		delete(c.from.open, c)
		c.from.mu.Unlock()
		<-c.from.taken
	})
	return c.Conn.Close()
}
