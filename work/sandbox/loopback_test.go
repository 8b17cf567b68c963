//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// greeter serves the listeners of Runs.
type greeter struct {
	t        testing.TB
	listener atomic.Pointer[net.Listener] // of the last Run
	calls    atomic.Int64
	accepted atomic.Int64
	last     atomic.Pointer[net.Conn]
}

// serve says hello to every connection and keeps it.
func (g *greeter) serve(l net.Listener) {
	g.calls.Add(1)
	g.listener.Store(&l)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.accepted.Add(1)
			g.last.Store(&c)
			_, _ = io.WriteString(c, "hello\n") // a client that left does not matter
		}
	}()
}

// said connects from a shell; bash can, without a program of ours.
func said(port int) []string {
	return []string{"/bin/bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && head -n 1 <&3", port)}
}

// TestLoopback: several commands of one Run reach the same listener, which was
// handed out once, at the port that was asked for.
func TestLoopback(t *testing.T) {
	t.Parallel()
	for name, d := range layers(t) {
		for _, port := range []int{0, 1, 4711, 65535} {
			g, at := &greeter{t: t}, port
			if at == 0 {
				at = DefaultLoopbackPort
			}
			var out bytes.Buffer
			c := Command{Argv: said(at), Stdout: &out, Stderr: &out}
			r, err := d.Run(t.Context(), Spec{Lower: t.TempDir(), Commands: []Command{c, c, c}, Loopback: g.serve, LoopbackPort: port})
			if err != nil || out.String() != "hello\nhello\nhello\n" || g.calls.Load() != 1 || len(r.Commands) != 3 {
				t.Fatalf("%s, port %d: %v %q, %d calls", name, port, err, out.String(), g.calls.Load())
			}
			l := *g.listener.Load()
			if want := "127.0.0.1:" + strconv.Itoa(at); l.Addr().String() != want {
				t.Errorf("the listener is on %s, not %s", l.Addr(), want)
			}
		}
	}
}

// TestLoopbackServesHTTP: the limits, the filter and the control groups of a
// Run do not stand in the way of an ordinary server and client.
func TestLoopbackServesHTTP(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := Spec{Limits: Limits{Pids: 32, MemoryMB: 256, OpenFiles: 64}, Loopback: func(l net.Listener) {
		h := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s from %s", r.Method, r.URL.Path, r.Host)
		})}
		go func() { ended <- h.Serve(l) }()
	}}
	o := try(t, open1(t), s, "python3", "-c", "import urllib.request as u; print(u.urlopen('http://127.0.0.1:18080/v1/models').read().decode())")
	if o.ExitCode == 127 {
		t.Skip("SKIPPED, no python3")
	}
	if o.out != "GET /v1/models from 127.0.0.1:18080\n" {
		t.Errorf("%d %q", o.ExitCode, o.out)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the server ended with %v", err)
	}
}

// TestLoopbackOfManyRuns: Runs at the same time, and a keeper that stood by,
// each have a network of their own with the same port.
func TestLoopbackOfManyRuns(t *testing.T) {
	t.Parallel()
	d := open1(t)
	failures := make(chan error, 4)
	for i := range cap(failures) {
		lower := t.TempDir()
		go func() {
			var out bytes.Buffer
			text := fmt.Sprintf("run %d\n", i)
			_, err := d.Run(context.Background(), Spec{Lower: lower, Commands: []Command{{Argv: said(DefaultLoopbackPort), Stdout: &out, Stderr: &out}}, Loopback: func(l net.Listener) {
				go func() {
					for c, err := l.Accept(); err == nil; c, err = l.Accept() {
						_, _ = io.WriteString(c, text) // compared at the other end
					}
				}()
			}})
			if err == nil && out.String() != text {
				err = fmt.Errorf("run %d got %q", i, out.String())
			}
			failures <- err
		}()
	}
	for range cap(failures) {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}

// TestLoopbackWithStandby: a keeper that was started before there was a
// listener makes one.
func TestLoopbackWithStandby(t *testing.T) { // not parallel: a process has one keeper that stands by
	w := awaited(t)
	g := &greeter{t: t}
	s := Spec{Loopback: g.serve}
	if o := try(t, open1(t), s, said(DefaultLoopbackPort)...); o.out != "hello\n" {
		t.Errorf("%q", o.out)
	}
	gone(t, w.pid())
	run1(t, noOp(t)) // and the next one, without a listener, is as ever
}

// TestNoLoopback: without a listener nothing listens, and each command has a
// network namespace of its own.
func TestNoLoopback(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := Command{Argv: []string{"/bin/sh", "-c", "readlink /proc/self/ns/net"}, Stdout: &out}
	for _, loopback := range []func(net.Listener){nil, func(net.Listener) {}} {
		out.Reset()
		if _, err := open1(t).Run(t.Context(), Spec{Lower: t.TempDir(), Commands: []Command{c, c, c, c, c, c}, Loopback: loopback}); err != nil {
			t.Fatal(err)
		}
		host, err := os.Readlink("/proc/self/ns/net")
		must(t, err)
		names := strings.Fields(out.String())
		// The number of one that is gone may be given again, though not each time.
		one := !slices.ContainsFunc(names, func(n string) bool { return n != names[0] })
		if len(names) != 6 || one != (loopback != nil) || slices.Contains(names, host) {
			t.Errorf("namespaces %q, of the host %s", names, host)
		}
	}
	if o := try(t, open1(t), Spec{}, said(DefaultLoopbackPort)...); o.ExitCode == 0 {
		t.Errorf("a server answers: %q", o.out)
	}
}

// TestLoopbackWithoutConfinement: driver none says that its listener is on the
// host, and a port that is taken is an error, not another port.
func TestLoopbackWithoutConfinement(t *testing.T) {
	t.Parallel()
	d := openNone(t, t.TempDir())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := taken.Addr().(*net.TCPAddr).Port
	g := &greeter{t: t}
	_, err = d.Run(t.Context(), Spec{Lower: t.TempDir(), Commands: []Command{{Argv: []string{"true"}}}, Loopback: g.serve, LoopbackPort: port})
	if reason.CodeOf(err) != reason.SandboxUnavailable || g.calls.Load() != 0 {
		t.Errorf("%v, %d calls", err, g.calls.Load())
	}
	taken.Close()
	if o := try(t, d, Spec{Loopback: g.serve, LoopbackPort: port}, said(port)...); o.out != "hello\n" {
		t.Errorf("%d %q", o.ExitCode, o.out)
	}
	if c, err := net.Dial("tcp", taken.Addr().String()); err == nil {
		c.Close()
		t.Error("the listener is open after the Run")
	}
	if text := strings.Join(d.Describe().NotEnforced, "\n"); !strings.Contains(text, "loopback") {
		t.Errorf("not said: %s", text)
	}
}

// TestLoopbackPort: what is no port is refused before anything starts.
func TestLoopbackPort(t *testing.T) {
	t.Parallel()
	for _, port := range []int{-1, 65536, 1 << 20} {
		g := &greeter{t: t}
		s := Spec{Lower: t.TempDir(), Loopback: g.serve, LoopbackPort: port}
		if _, err := open1(t).Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), strconv.Itoa(port)) || g.calls.Load() != 0 {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

// TestWayOut: connections above the bound wait, and the end takes all back.
func TestWayOut(t *testing.T) {
	t.Parallel()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := newWayOut(raw)
	var mine []net.Conn
	for range maxConnections {
		client, err := net.Dial("tcp", raw.Addr().String())
		must(t, err)
		t.Cleanup(func() { client.Close() })
		c, err := w.Accept()
		must(t, err)
		mine = append(mine, c)
	}
	last, err := net.Dial("tcp", raw.Addr().String())
	must(t, err)
	defer last.Close()
	next := make(chan net.Conn, 1)
	go func() {
		c, _ := w.Accept()
		next <- c
	}()
	select {
	case <-next:
		t.Fatal("one more than the bound was accepted")
	case <-time.After(20 * time.Millisecond):
	}
	for range 2 { // the second close gives nothing back
		mine[0].Close()
	}
	c := <-next
	if c == nil || len(w.taken) != maxConnections || len(w.open) != maxConnections {
		t.Fatalf("%v, %d taken, %d open", c, len(w.taken), len(w.open))
	}
	waits := make(chan error, 1)
	go func() {
		_, err := w.Accept()
		waits <- err
	}()
	w.end()
	if err := <-waits; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the one that waited got %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection is open after the end: %v", err)
	}
	if len(w.taken) != 0 || len(w.open) != 0 {
		t.Errorf("%d taken, %d open", len(w.taken), len(w.open))
	}
}

// hostAddress is an address of this host that is not its loopback, "" if none.
func hostAddress() string {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}

// openSockets counts the sockets of this process with that kernel name.
func openSockets(inode uint64) (n int) {
	for _, fd := range numbered("/proc/self/fd") {
		if target, _ := os.Readlink("/proc/self/fd/" + fd); target == fmt.Sprintf("socket:[%d]", inode) {
			n++
		}
	}
	return n
}

// inodeOf returns the kernel's name of a socket.
func inodeOf(t testing.TB, c syscall.Conn) uint64 {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	var st unix.Stat_t
	must(t, raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }))
	must(t, err)
	return st.Ino
}
