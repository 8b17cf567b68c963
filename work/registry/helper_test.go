package registry

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"remit/proof/reason"
)

// way is a front that serves on a loopback port.
type way struct {
	*Front
	base string
	t    *testing.T
}

func anything(Package) error { return nil }

// open serves a front until the end of the test.
func open(t *testing.T, o Options) way {
	t.Helper()
	if o.Allow == nil {
		o.Allow = anything
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.Serve(l)
	t.Cleanup(func() { f.Close() })
	return way{f, "http://" + l.Addr().String(), t}
}

// get asks for a path as a client does. An answer that breaks off is "broken: …".
func (w way) get(path string, header ...string) (int, string) {
	w.t.Helper()
	resp, err := w.ask(http.MethodGet, path, header...)
	if err != nil {
		return 0, "broken: " + err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, "broken: " + err.Error()
	}
	return resp.StatusCode, string(body)
}

func (w way) ask(method, path string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return http.DefaultTransport.RoundTrip(req)
}

// raw sends bytes, in which HOST stands for the front's own address, and returns
// the status of each answer until the front closes the connection.
func (w way) raw(text string) (statuses []int) {
	w.t.Helper()
	host := strings.TrimPrefix(w.base, "http://")
	c, err := net.Dial("tcp4", host)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = io.WriteString(c, strings.ReplaceAll(text, "HOST", host)) }() // the front may close before the end
	r := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses
		}
		statuses = append(statuses, resp.StatusCode)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Close {
			return statuses
		}
	}
}

// upstreams is one registry.
func upstreams(e Ecosystem, url string) map[Ecosystem]Upstream {
	return map[Ecosystem]Upstream{e: {URL: url}}
}

// site of tests: a registry that answers from a table, and remembers who asked.
type table struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]http.HandlerFunc // by escaped path
	asked []string                    // request targets
	heads []http.Header
}

func registryOf(t *testing.T, pages map[string]http.HandlerFunc) *table {
	s := &table{pages: pages}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.RequestURI)
	s.heads = append(s.heads, r.Header.Clone())
	page := s.pages[r.URL.EscapedPath()]
	s.mu.Unlock()
	if page == nil {
		http.NotFound(w, r)
		return
	}
	page(w, r)
}

func (s *table) targets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// page answers with a body.
func page(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

// network is a resolver and a network of tests: names to addresses, and addresses
// to servers on this machine. What is not in it does not exist.
type network struct {
	names   map[string][]string
	servers map[string]string // "8.8.4.4:443" to "127.0.0.1:PORT"
	mu      sync.Mutex
	dialled []string
}

func (n *network) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, a := range n.names[strings.TrimSuffix(host, ".")] {
		out = append(out, netip.MustParseAddr(a))
	}
	if out == nil {
		return nil, fmt.Errorf("no such host: %s", host)
	}
	return out, nil
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, address)
	n.mu.Unlock()
	to, ok := n.servers[address]
	if !ok {
		return nil, fmt.Errorf("no route to %s", address)
	}
	return new(net.Dialer).DialContext(ctx, kind, to)
}

// one returns the only delivery of a path.
func one(t *testing.T, list []Delivery, path string) Delivery {
	t.Helper()
	var found []Delivery
	for _, d := range list {
		if d.Path == path {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d deliveries of %s, want 1; all: %+v", len(found), path, list)
	}
	return found[0]
}

// want holds the code of the only delivery.
func want(t *testing.T, list []Delivery, code reason.Code) {
	t.Helper()
	if len(list) != 1 || list[0].Refused != code {
		t.Errorf("deliveries are %+v, want one with the code %q", list, code)
	}
}

// quiet is the log of a server whose handshakes fail on purpose.
var quiet = log.New(io.Discard, "", 0)

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func repeat(s string, n int) string { return string(bytes.Repeat([]byte(s), n)) }
