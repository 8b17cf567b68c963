package registry

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"remit/work/edge"
)

// service is the server of a way out, with what has to end before it has ended.
type service struct {
	server      *http.Server
	connections int // of clients at a time
	base        context.Context
	cancel      context.CancelCauseFunc

	mu       sync.Mutex
	closed   bool
	underway sync.WaitGroup // requests
	serving  sync.WaitGroup // listeners
}

func (s *service) init(h http.Handler, connections int) {
	s.connections = connections
	s.base, s.cancel = context.WithCancelCause(context.Background())
	s.server = &http.Server{
		Handler:                      h,
		Protocols:                    new(http.Protocols),
		ReadHeaderTimeout:            10 * time.Second,
		MaxHeaderBytes:               16 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0), // it would print what the client chose to send
		BaseContext:                  func(net.Listener) context.Context { return s.base },
	}
	s.server.Protocols.SetHTTP1(true)
}

// Serve answers on a listener until it or the way out is closed. It does not wait, as
// sandbox.Spec.Loopback wants it.
func (s *service) Serve(l net.Listener) {
	s.serving.Go(func() {
		_ = s.server.Serve(edge.Limit(l, s.connections)) // it ends with the listener: who fetches sees what is missing
	})
}

// enter counts a request that begins, and says so; it does not when the way out is closed.
func (s *service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.underway.Add(1)
	return true
}

// end ends every connection and request, and waits for them.
func (s *service) end() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel(errClosed)
	_ = s.server.Close() // of listeners and connections that end here
	s.serving.Wait()
	s.underway.Wait()
}
