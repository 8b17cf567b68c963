//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// The one way out of a sandbox is a listener inside that a process outside
// serves. A socket belongs to the network namespace in which it was made,
// the process that holds it: so the keeper makes it in a namespace without any other
// interface, hands it to the parent and keeps nothing. No process of ours runs
// inside for it, no file leads to it, and the bytes pass through no other process.

// backlog bounds the connections that wait to be accepted. They cost the
// parent nothing yet.
const backlog = 128

// listen moves the keeper's own thread, from which every command is forked, to
// a new network namespace, and sends the listener. The commands stay there,
// below user namespaces of their own, without a right over it.
func (k *keeper) listen() error {
	fd, err := listenIn(k.setup.Loopback)
	if err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "loopback listener: %w", err)
	}
	f := os.NewFile(uintptr(fd), "loopback")
	err = passFiles(passFD, f)
	return errors.Join(err, f.Close()) // the parent's is the only one
}

// ownNetwork says whether commands stay in a network namespace that the keeper made:
// one that a listener, or their services, share with them.
func (k *keeper) ownNetwork() bool { return k.setup.Loopback > 0 || len(k.setup.Services) > 0 }

// enterNetwork moves the calling thread to a new network namespace with a loopback,
// and returns a socket in it.
func enterNetwork() (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, fmt.Errorf("new network namespace: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := raise(fd, "lo"); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// moveToNetwork is listen without a listener.
func moveToNetwork() error {
	fd, err := enterNetwork()
	if err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "network of services: %w", err)
	}
	return unix.Close(fd)
}

// listenIn changes the network namespace of the calling thread.
func listenIn(port int) (int, error) {
	fd, err := enterNetwork()
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("listen on 127.0.0.1:%d: %w", port, err), unix.Close(fd))
	}
	return fd, nil
}

// raise switches an interface on; the kernel gives the loopback its addresses.
func raise(fd int, name string) error {
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
	}
	if err != nil {
		return fmt.Errorf("switch on %s: %w", name, err)
	}
	return nil
}

// listener returns the listener of this Run: the keeper's, or for driver none
// one on the loopback of the host.
func (r *run) listener(ctx context.Context) (*wayOut, error) {
	if !r.conf.Confined {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(r.spec.LoopbackPort))
		l, err := new(net.ListenConfig).Listen(ctx, "tcp4", address)
		if err != nil {
			return nil, reason.Errorf(reason.SandboxUnavailable, "sandbox: without confinement the listener is on this host: %w", err).
				WithHint("choose another port, or use a driver that gives each run a network of its own")
		}
		return newWayOut(l), nil
	}
	if !r.built.Listening {
		return nil, reason.Errorf(reason.InfrastructureFault, "sandbox: the keeper sent no loopback listener")
	}
	fds, err := takeFiles(int(r.session.pass.Fd()), 1) // sent before the answer
	if err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "sandbox: take the loopback listener: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "loopback")
	defer f.Close() // FileListener has its own
	l, err := net.FileListener(f)
	if err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "sandbox: loopback listener: %w", err)
	}
	return newWayOut(l), nil
}

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
