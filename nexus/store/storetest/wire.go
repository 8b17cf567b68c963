package storetest

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Wire is what stores say to a PostgreSQL server, as it is on the way there.
type Wire struct {
	mu      sync.Mutex
	flights []Flight
}

// Flight is the statements that went to the server at once: a round trip.
type Flight []string

// Tap returns a DSN of the same database that leads over a wire.
func Tap(t testing.TB, dsn string) (tapped string, w *Wire) {
	t.Helper()
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if config.TLSConfig != nil {
		t.Skip("postgres: SKIPPED: what is encrypted cannot be counted")
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = &Wire{}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.carry(ctx, client, config) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); stop(); all.Wait() })
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = listener.Addr().String(), query.Encode()
	return u.String(), w
}

// carry connects a client with the server until one of them leaves.
func (w *Wire) carry(ctx context.Context, client net.Conn, config *pgconn.Config) {
	defer func() { _ = client.Close() }()
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	server, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	hangUp := context.AfterFunc(ctx, func() { _ = client.Close(); _ = server.Close() })
	defer hangUp()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	w.forward(client, server)
	_ = server.Close()
	<-back
}

// maxMessage bounds a message of a client, in bytes.
const maxMessage = 64 << 20

// forward passes on what a client says until it ends, and notes its statements.
// A flight is noted before it is passed on, so before its answer is known.
func (w *Wire) forward(client io.Reader, server io.Writer) {
	from, to := bufio.NewReader(client), bufio.NewWriter(server)
	heard := hearing{prepared: map[string]string{}}
	for typed := 0; ; typed = 1 { // only the first message has no type
		head := make([]byte, typed+4)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(head[typed:])
		if size < 4 || size > maxMessage {
			return
		}
		message := append(head, make([]byte, size-4)...)
		if _, err := io.ReadFull(from, message[len(head):]); err != nil {
			return
		}
		if typed == 1 {
			w.note(heard.message(head[0], message[len(head):]))
		}
		_, err := to.Write(message)
		if err == nil && from.Buffered() == 0 {
			err = to.Flush()
		}
		if err != nil {
			return
		}
	}
}

// hearing is what one connection has said before.
type hearing struct {
	prepared map[string]string
	bound    string
	flight   Flight
}

// message takes a message and returns the flight that ends with it, nil for most.
func (h *hearing) message(kind byte, body []byte) (done Flight) {
	var parse pgproto3.Parse
	var bind pgproto3.Bind
	var query pgproto3.Query
	switch kind {
	case 'P':
		if parse.Decode(body) == nil {
			h.prepared[parse.Name] = parse.Query
		}
	case 'B':
		if bind.Decode(body) == nil {
			h.bound = h.prepared[bind.PreparedStatement]
		}
	case 'E':
		h.flight = append(h.flight, h.bound)
	case 'Q':
		if query.Decode(body) == nil {
			return Flight{query.String}
		}
	case 'S':
		done, h.flight = h.flight, nil
	}
	return done
}

// note adds a flight, unless it only prepares, or is a hint between replicas, for
// which no command waits.
func (w *Wire) note(f Flight) {
	if len(f) == 0 || strings.Contains(f[0], "pg_notify") || strings.HasPrefix(f[0], "LISTEN") || strings.Contains(f[0],
		"FROM stream WHERE name = ANY") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flights = append(w.flights, f)
}

// Take returns the flights since it was last asked.
func (w *Wire) Take() []Flight {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.flights
	w.flights = nil
	return taken
}

// Statements counts what flights hold.
func Statements(flights []Flight) (n int) {
	for _, f := range flights {
		n += len(f)
	}
	return n
}
