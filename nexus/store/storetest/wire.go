package storetest

import (
	"context"
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
	w.listen(io.TeeReader(client, server))
	_ = server.Close()
	<-back
}

// listen notes the statements of one connection until it ends.
func (w *Wire) listen(from io.Reader) {
	messages := pgproto3.NewBackend(from, nil)
	if _, err := messages.ReceiveStartupMessage(); err != nil {
		return
	}
	prepared := map[string]string{}
	var bound string
	var flight Flight
	for {
		message, err := messages.Receive()
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *pgproto3.Parse:
			prepared[m.Name] = m.Query
		case *pgproto3.Bind:
			bound = prepared[m.PreparedStatement]
		case *pgproto3.Execute:
			flight = append(flight, bound)
		case *pgproto3.Query:
			w.note(Flight{m.String})
		case *pgproto3.Sync:
			w.note(flight)
			flight = nil
		}
	}
}

// note adds a flight, unless it only prepares, or is a hint between replicas,
// which nobody waits for.
func (w *Wire) note(f Flight) {
	if len(f) == 0 || strings.Contains(f[0], "pg_notify") || strings.HasPrefix(f[0], "LISTEN") || strings.Contains(f[0], "string_to_array") {
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
