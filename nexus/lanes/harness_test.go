package lanes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/lanes"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

// source lets alice watch what is hers, and counts events as its state.
type source struct{}

func (source) Authorize(_ *store.Tx, c identity.Caller, t lanes.Topic) error {
	if c.Owner != "alice" || strings.Contains(t.Subject, "bob") {
		return reason.Errorf(reason.LaneUnknown, "no lane %q", t.Name)
	}
	return nil
}

func (source) Snapshot(tx *store.Tx, t lanes.Topic) (json.RawMessage, error) {
	head, _, err := tx.Head(t.Name)
	return fmt.Appendf(nil, `{"events":%d}`, head), err
}

// replica is one server of lanes.
type replica struct {
	t     testing.TB
	store *store.Store
	lanes *lanes.Lanes
	url   string
	token string // id of alice's token
}

func newReplica(t testing.TB, st *store.Store, opt lanes.Options) *replica {
	t.Helper()
	opt.Store, opt.Source, opt.Log = st, source{}, slog.New(slog.DiscardHandler)
	r := &replica{t: t, store: st, lanes: lanes.New(opt)}
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := r.lanes.Serve(w, req, strings.TrimPrefix(req.URL.Path, "/")); err != nil {
			w.Header().Set("X-Code", string(reason.CodeOf(err)))
			http.Error(w, err.Error(), http.StatusForbidden)
		}
	}))
	// Small buffers on the way, so that a reader who does not read is soon felt.
	h.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if tcp, ok := c.(*net.TCPConn); ok && state == http.StateNew {
			_ = tcp.SetWriteBuffer(bufferSize) // a hint
		}
	}
	h.Start()
	t.Cleanup(func() { r.lanes.Drain(); h.Close() })
	r.url = h.URL
	err := st.Update(t.Context(), func(tx *store.Tx) error {
		_, token, err := identity.Mint(tx, identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice", TTL: time.Hour})
		r.token = token.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *replica) caller(owner string) identity.Caller {
	return identity.Caller{Principal: authority.Principal{ID: "user:" + owner, Owner: owner, Kind: authority.User}, TokenID: r.token}
}

func (r *replica) ticket(topic string) string {
	r.t.Helper()
	var out api.Ticket
	err := r.store.Update(r.t.Context(), func(tx *store.Tx) (err error) {
		out, err = r.lanes.IssueTicket(tx, r.caller("alice"), topic)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Ticket
}

const bufferSize = 64 << 10

// dialer has a small receive buffer.
var dialer = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(bufferSize) // a hint
	}
	return conn, err
}}}

// dial opens a lane; code is the reason when it was refused.
func (r *replica) dial(topic, ticket, query string, header http.Header) (conn *websocket.Conn, code string) {
	r.t.Helper()
	conn, resp, err := websocket.Dial(r.t.Context(), r.url+"/"+topic+query, &websocket.DialOptions{
		HTTPClient: dialer, HTTPHeader: header, Subprotocols: []string{api.LaneProtocol, api.TicketPrefix + ticket}})
	if err != nil {
		if resp == nil {
			r.t.Fatal(err)
		}
		return nil, resp.Header.Get("X-Code")
	}
	conn.SetReadLimit(8 << 20)
	r.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, ""
}

func (r *replica) open(topic, query string) *reader {
	r.t.Helper()
	conn, code := r.dial(topic, r.ticket(topic), query, nil)
	if conn == nil {
		r.t.Fatalf("refused: %s", code)
	}
	return &reader{t: r.t, conn: conn, stream: topic}
}

func (r *replica) append(stream string, n int, payload string) {
	r.t.Helper()
	r.appendAll([]string{stream}, n, payload)
}

func (r *replica) appendAll(streams []string, n int, payload string) {
	r.t.Helper()
	for range n {
		err := r.store.Update(r.t.Context(), func(tx *store.Tx) error {
			for _, stream := range streams {
				if _, err := tx.Append(store.Event{Stream: stream, Type: "tick", Payload: json.RawMessage(payload), Principal: "test"}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// reader is an honest client.
type reader struct {
	t      testing.TB
	conn   *websocket.Conn
	stream string
}

func (r *reader) next() (api.LaneFrame, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	var f api.LaneFrame
	_, text, err := r.conn.Read(ctx)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, err
	}
	if f.StreamID != r.stream {
		return f, fmt.Errorf("frame of %q on the lane of %q", f.StreamID, r.stream)
	}
	return f, nil
}

func (r *reader) want(kind api.LaneFrameType) api.LaneFrame {
	r.t.Helper()
	f, err := r.next()
	if err != nil {
		r.t.Fatal(err)
	}
	if f.Type != kind {
		r.t.Fatalf("got %s %v, want %s", f.Type, api.Value(f.Reason), kind)
	}
	return f
}

// events reads exactly the events from … to, in order.
func (r *reader) events(from, to int64) {
	r.t.Helper()
	for seq := from; seq <= to; seq++ {
		if f := r.want(api.LaneFrameTypeEvent); api.Value(f.Seq) != seq || f.Event.Seq != seq {
			r.t.Fatalf("got event %d, want %d", api.Value(f.Seq), seq)
		}
	}
}

// closed reads up to the close frame.
func (r *reader) closed(status websocket.StatusCode, text string) {
	r.t.Helper()
	for {
		_, err := r.next()
		if err == nil {
			continue
		}
		end, ok := errors.AsType[websocket.CloseError](err)
		if !ok || end.Code != status || end.Reason != text {
			r.t.Fatalf("ended with %v, want %d %s", err, status, text)
		}
		return
	}
}

// each runs a test on every database.
func each(t *testing.T, fn func(t *testing.T, open func() *store.Store)) {
	t.Helper()
	t.Parallel()
	storetest.Each(t, fn)
}

// one runs a test on SQLite.
func one(t *testing.T, opt lanes.Options) *replica {
	t.Helper()
	t.Parallel()
	return newReplica(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), opt)
}
