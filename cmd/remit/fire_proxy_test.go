//go:build linux

package main

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// plainProxy is a load balancer that knows nothing of what goes through it: each
// connection goes to the next backend that lives, and breaks when that dies.
type plainProxy struct {
	listener net.Listener

	mu       sync.Mutex
	backends []string // host:port of those that live
	turn     int
	open     map[net.Conn]bool
	closed   bool
	working  sync.WaitGroup
}

func newPlainProxy(t *testing.T) *plainProxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &plainProxy{listener: listener, open: map[net.Conn]bool{}}
	p.working.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *plainProxy) url() string { return "http://" + p.listener.Addr().String() }

// add and remove say which backends live.
func (p *plainProxy) add(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backends = append(p.backends, address)
}

func (p *plainProxy) remove(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backends = slices.DeleteFunc(p.backends, func(b string) bool { return b == address })
}

func (p *plainProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		if p.register(client) {
			p.working.Go(func() { p.forward(client) })
		}
	}
}

// register remembers a connection, so that close ends it.
func (p *plainProxy) register(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close() // its reader went away
		return false
	}
	p.open[c] = true
	return true
}

// finish closes a connection; its other direction ends by that.
func (p *plainProxy) finish(c net.Conn) {
	_ = c.Close() // it may be closed already
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// next is the backend of a new connection, "" when none lives.
func (p *plainProxy) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.backends) == 0 {
		return ""
	}
	p.turn++
	return p.backends[p.turn%len(p.backends)]
}

func (p *plainProxy) forward(client net.Conn) {
	defer p.finish(client)
	address := p.next()
	if address == "" {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil || !p.register(server) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server) // ends when one of them is closed
		p.finish(client)
	})
	_, _ = io.Copy(server, client) // same
	p.finish(server)
	back.Wait()
}

func (p *plainProxy) close() {
	_ = p.listener.Close() // once
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close() // its forwarder ends
	}
	p.mu.Unlock()
	p.working.Wait()
}
