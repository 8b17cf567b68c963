package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"remit/proof/reason"
)

// Connect is no registry but the way out for what has no front: tunnels (CONNECT) to
// hosts that the user allows. It is weaker than a front. What passes in a tunnel is
// not seen: neither which packages they are, nor what the client sends of the source.
const Connect Ecosystem = "connect"

// Bounds on tunnels.
const (
	// TunnelUp is what all tunnels of a fetch may send to hosts, in bytes: requests have
	// some hundred bytes for each package, and a source tree has more.
	TunnelUp = 4 << 20
	// maxTunnels are those of a fetch, refused ones too.
	maxTunnels = 2000
	// maxHello bounds the first message of TLS.
	maxHello = 64 << 10
)

// TunnelOptions are what a [Tunnel] is made of.
type TunnelOptions struct {
	Hosts  []string // in small letters; port 443 of each, and no other
	Limits Limits
	Up     int64 // 0 is [TunnelUp]
	// Resolve and Dial are those of [Options].
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// Tunnel is a proxy that knows CONNECT and nothing else. The name in the first message
// of TLS has to be that of the request, every address of it public, and the address that
// was checked is dialled. It serves until [Tunnel.Close].
type Tunnel struct {
	o        TunnelOptions
	record   record
	up, down atomic.Int64
	service
}

// NewTunnel makes one. It connects to nothing.
func NewTunnel(o TunnelOptions) *Tunnel {
	o.Limits = o.Limits.orDefault()
	if o.Up == 0 {
		o.Up = TunnelUp
	}
	if o.Resolve == nil {
		o.Resolve = lookup
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	t := &Tunnel{o: o}
	t.record.most = maxTunnels
	t.service.init(t, o.Limits.Connections)
	return t
}

// Close ends every tunnel, waits for them, and returns each with the bytes that came, and
// each refusal.
func (t *Tunnel) Close() []Delivery {
	t.end()
	return t.record.list()
}

// ServeHTTP opens one tunnel, or says why not.
func (t *Tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !t.enter() {
		panic(http.ErrAbortHandler)
	}
	defer t.underway.Done()
	if !t.record.room() {
		panic(http.ErrAbortHandler)
	}
	told := Delivery{Ecosystem: Connect, Path: plain(r.Method+" "+r.RequestURI, recordedPath)}
	defer func() { t.record.add(told) }()
	err := t.open(w, r, &told)
	if err == nil {
		return
	}
	told.Refused, told.Why = reason.CodeOf(err), plain(messageOf(err), 300)
	if !errors.Is(err, errBegun) {
		w.Header().Set("Connection", "close")
		status := http.StatusForbidden
		if r.Method != http.MethodConnect {
			status = http.StatusMethodNotAllowed
		}
		http.Error(w, fmt.Sprintf("remit: %s (%s)", told.Why, told.Refused), status)
	}
}

// errBegun is an error of a tunnel whose client was answered.
var errBegun = errors.New("the tunnel was begun")

func begun(err *reason.Error) error {
	err.Err = errBegun
	return err
}

// open checks a request, and carries bytes in both directions until one side ends.
func (t *Tunnel) open(w http.ResponseWriter, r *http.Request, told *Delivery) error {
	if r.Method != http.MethodConnect {
		return refused(reason.RegistryRefused, "the method is %s: only CONNECT leads out of here", plain(r.Method, 20))
	}
	host, port, err := net.SplitHostPort(r.RequestURI)
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if err != nil || port != "443" || !publicName(host) || !slices.Contains(t.o.Hosts, host) {
		return refused(reason.RegistryRefused, "%s is none of the hosts that are allowed, at port 443", plain(r.RequestURI, 100))
	}
	told.Name, told.Version, told.Path = host, port, "CONNECT "+host+":"+port
	addrs, err := resolved(r.Context(), t.o.Resolve, host, configured)
	if err != nil {
		return refused(reason.CodeOf(err), "%s has no address, or one that is not public", host)
	}
	client, early, err := hijack(w)
	if err != nil {
		return err
	}
	endClient := t.owned(client)
	defer endClient()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return begun(refused(reason.RegistryIncomplete, "the client went away"))
	}
	first, name := hello(io.MultiReader(early, client), client, t.o.Limits.StallTime)
	if strings.TrimSuffix(strings.ToLower(name), ".") != host {
		return begun(refused(reason.RegistryRefused, "the tunnel to %s is not TLS for that host, but for %s", host, plain(name, 100)))
	}
	var server net.Conn
	for _, a := range addrs[:min(len(addrs), 4)] {
		if server, err = t.o.Dial(r.Context(), "tcp", net.JoinHostPort(a.Unmap().String(), port)); err == nil {
			break
		}
	}
	if err != nil {
		return begun(refused(reason.RegistryUnreachable, "%s does not take connections", host))
	}
	endServer := t.owned(server)
	defer endServer()
	return t.carry(client, server, io.MultiReader(bytes.NewReader(first), client), told)
}

// owned has a connection end with the fetch, and returns what ends it before.
func (t *Tunnel) owned(c net.Conn) func() {
	end := func() { _ = c.Close() } // it ends here, one way or the other
	stop := context.AfterFunc(t.base, end)
	return func() { stop(); end() }
}

// hijack takes the connection over, with what the client has sent already.
func hijack(w http.ResponseWriter) (net.Conn, io.Reader, error) {
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, refused(reason.RegistryRefused, "the request came by no connection")
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // what is buffered is there
	return c, bytes.NewReader(bytes.Clone(early)), nil
}

// hello reads the first message of a client of TLS, and returns what was read and the
// name of the server that it wants; "" where it is none.
func hello(from io.Reader, c net.Conn, wait time.Duration) (read []byte, name string) {
	_ = c.SetReadDeadline(time.Now().Add(wait)) // of a connection that is open
	var seen bytes.Buffer
	errSeen := errors.New("seen")
	_ = tls.Server(readOnly{from: io.TeeReader(io.LimitReader(from, maxHello), &seen)}, &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name = h.ServerName
			return nil, errSeen
		}}).Handshake() // it always ends with an error: it is only read
	_ = c.SetReadDeadline(time.Time{})
	return seen.Bytes(), name
}

// readOnly is a connection that is read and not answered.
type readOnly struct {
	net.Conn
	from io.Reader
}

func (r readOnly) Read(p []byte) (int, error)     { return r.from.Read(p) }
func (readOnly) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }
func (readOnly) Close() error                     { return nil }
func (readOnly) SetDeadline(time.Time) error      { return nil }
func (readOnly) SetReadDeadline(time.Time) error  { return nil }
func (readOnly) SetWriteDeadline(time.Time) error { return nil }

// carry passes bytes on under the bounds of both directions.
func (t *Tunnel) carry(client, server net.Conn, from io.Reader, told *Delivery) error {
	over := make(chan error, 2)
	go func() {
		err := counted(server, from, &t.up, t.o.Up)
		_ = server.Close() // the other direction ends with it
		over <- err
	}()
	var came atomic.Int64
	err := counted(client, io.TeeReader(server, counter{&came}), &t.down, t.o.Limits.TotalBytes)
	_ = client.Close()
	up := <-over
	told.Bytes = came.Load()
	switch {
	case errors.Is(up, errMuch):
		return begun(refused(reason.RegistryTooLarge,
			"more than %d bytes were sent to hosts, which is more than asking for packages takes", t.o.Up))
	case errors.Is(err, errMuch):
		return begun(refused(reason.RegistryTooLarge, "the hosts sent more than %d bytes, which is what a fetch may be", t.o.Limits.TotalBytes))
	}
	return nil // how a tunnel ends says nothing: its client knows what it missed
}

var errMuch = errors.New("more than it may be")

// counted copies until the end, or until all that passed is more than it may be.
func counted(to io.Writer, from io.Reader, all *atomic.Int64, most int64) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if all.Add(int64(n)) > most {
			return errMuch
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
