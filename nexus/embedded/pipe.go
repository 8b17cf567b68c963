package embedded

import (
	"context"
	"net"
	"sync"
)

// pipe is a listener whose connections are pipes in memory: no address, no
// port, nothing that another process could reach.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept implements net.Listener.
func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *pipe) Addr() net.Addr { return address{} }

func (p *pipe) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "pipe" }
