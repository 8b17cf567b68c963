package lanes

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Source knows who may watch what, and what the state behind a stream is.
type Source interface {
	// Authorize refuses a caller that may not watch the topic; not_found when
	// it must not even know.
	Authorize(tx *store.Tx, c identity.Caller, t Topic) error
	// Snapshot is the present state behind the topic's stream, a JSON object.
	Snapshot(tx *store.Tx, t Topic) (json.RawMessage, error)
}

// Defaults of Options.
const (
	// DefaultReplayBudget bounds what one reader may have replayed: beyond it a
	// snapshot is cheaper for both sides.
	DefaultReplayBudget = 10_000
	// DefaultPresenceLag is where news of presence are no news any more.
	DefaultPresenceLag = 256
	// DefaultJobsLag is more offers than a provider can have.
	DefaultJobsLag = 512
	// DefaultWriteTimeout is how long a reader may take nothing.
	DefaultWriteTimeout = 10 * time.Second
	// DefaultPing finds dead connections, and tokens that were revoked.
	DefaultPing = 20 * time.Second
	// DefaultMaxLanes bounds the connections of one replica.
	DefaultMaxLanes = 10_000
	// DefaultPerPrincipal keeps one principal from taking them all.
	DefaultPerPrincipal = 64
)

// TicketTTL is how long a ticket is good.
const TicketTTL = 30 * time.Second

// Options of lanes. Store, Source and Log are required; zero numbers are defaults.
type Options struct {
	Store  *store.Store
	Source Source
	Log    *slog.Logger

	Origins                            []string // besides the request's own host, e.g. "panel.example.com"
	ReplayBudget, PresenceLag, JobsLag int64
	WriteTimeout, Ping                 time.Duration
	MaxLanes, PerPrincipal             int
}

func (o Options) withDefaults() Options {
	positive(&o.ReplayBudget, DefaultReplayBudget)
	positive(&o.PresenceLag, DefaultPresenceLag)
	positive(&o.JobsLag, DefaultJobsLag)
	positive(&o.WriteTimeout, DefaultWriteTimeout)
	positive(&o.Ping, DefaultPing)
	positive(&o.MaxLanes, DefaultMaxLanes)
	positive(&o.PerPrincipal, DefaultPerPrincipal)
	return o
}

func positive[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Lanes serves the lanes of one replica.
type Lanes struct {
	opt  Options
	ctx  context.Context // of the feeds and the lanes
	stop context.CancelCauseFunc
	open sync.WaitGroup // lanes

	mu           sync.Mutex
	feeds        map[string]*feed
	perPrincipal map[string]int
	count        int
	draining     bool
}

// New makes the lanes of a replica. Drain ends them.
func New(opt Options) *Lanes {
	ctx, stop := context.WithCancelCause(context.Background())
	return &Lanes{opt: opt.withDefaults(), ctx: ctx, stop: stop, feeds: map[string]*feed{}, perPrincipal: map[string]int{}}
}

// errDraining is the cause of what ends because the replica goes away.
var errDraining = errors.New("the replica is draining")

// Drain refuses new lanes, says goodbye to the open ones and waits for them.
// Their readers come back with their cursors, to another replica.
func (l *Lanes) Drain() {
	l.mu.Lock()
	l.draining = true
	l.mu.Unlock()
	l.stop(errDraining)
	l.open.Wait()
}

// Open counts the lanes that are open.
func (l *Lanes) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// addLane counts a lane of a principal, within its limits; removeLane ends that.
func (l *Lanes) addLane(principal string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.draining:
		return reason.Errorf(reason.StoreUnavailable, "%w", errDraining).WithHint("connect again, with the last cursor")
	case l.count >= l.opt.MaxLanes:
		return reason.Errorf(reason.RateLimited, "this replica has %d lanes open", l.count)
	case l.perPrincipal[principal] >= l.opt.PerPrincipal:
		return reason.Errorf(reason.RateLimited, "%d lanes of %q are open", l.perPrincipal[principal], principal)
	}
	l.count++
	l.perPrincipal[principal]++
	l.open.Add(1)
	return nil
}

func (l *Lanes) removeLane(principal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	if l.perPrincipal[principal]--; l.perPrincipal[principal] == 0 {
		delete(l.perPrincipal, principal)
	}
	l.open.Done()
}

// Serve answers the handshake of a lane and serves it to its end. An error means
// that nothing has been written yet and the caller has to refuse.
func (l *Lanes) Serve(w http.ResponseWriter, r *http.Request, topic string) error {
	if err := l.checkOrigin(r); err != nil {
		return err
	}
	t, err := Parse(topic)
	if err != nil {
		return err
	}
	cursor, err := cursorOf(r)
	if err != nil {
		return err
	}
	if !isHandshake(r) {
		return reason.Errorf(reason.RequestInvalid, "a lane is a WebSocket: GET with Upgrade: websocket")
	}
	caller, parent, err := l.useTicket(r, t)
	if err != nil {
		return err
	}
	if err := l.addLane(caller.ID); err != nil {
		return err
	}
	defer l.removeLane(caller.ID)
	// The origin was checked above, against the same list.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.LaneProtocol}, InsecureSkipVerify: true})
	if err != nil {
		l.opt.Log.Debug("lane handshake failed", "topic", t.Name, "error", err)
		return nil // Accept has answered
	}
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	c := &lane{lanes: l, ws: ws, topic: t, parent: parent, cancel: cancel}
	c.serve(ctx, cursor)
	return nil
}

func cursorOf(r *http.Request) (*int64, error) {
	text := r.URL.Query().Get("after_seq")
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		e := reason.Errorf(reason.CursorInvalid, "%.40q is not a sequence number", text)
		e.Field = "after_seq"
		return nil, e
	}
	return &n, nil
}

func isHandshake(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// A ticket is a one-time token whose scopes name its topic and the credential
// that asked for it.
const (
	scopeTopic  = "lane:"
	scopeParent = "parent:"
)

// IssueTicket makes a ticket for one lane, in the caller's command.
func (l *Lanes) IssueTicket(tx *store.Tx, c identity.Caller, topic string) (api.Ticket, error) {
	t, err := Parse(topic)
	if err != nil {
		return api.Ticket{}, err
	}
	if err := l.opt.Source.Authorize(tx, c, t); err != nil {
		return api.Ticket{}, err
	}
	text, token, err := identity.Mint(tx, identity.Grant{
		Kind: identity.Ticket, Principal: c.ID, Owner: c.Owner, TTL: TicketTTL, OneTime: true,
		Scopes: []string{scopeTopic + t.Name, scopeParent + c.Credential()},
	})
	if err != nil {
		return api.Ticket{}, err
	}
	return api.Ticket{Ticket: text, Topic: t.Name, ExpiresAt: api.TimeOf(token.ExpiresAt),
		Subprotocols: []string{api.LaneProtocol, api.TicketPrefix + text}}, nil
}

// useTicket uses up the ticket of a handshake and returns who it was made for, with
// the name of the credential behind it.
func (l *Lanes) useTicket(r *http.Request, t Topic) (caller identity.Caller, parent string, err error) {
	ticket := ticketOf(r)
	if ticket == "" {
		return caller, "", reason.Errorf(reason.Unauthenticated, "a lane is opened with a ticket").
			WithHint("POST /v1/lanes/tickets, then offer the subprotocols of its answer")
	}
	err = l.opt.Store.Update(r.Context(), func(tx *store.Tx) error {
		if caller, err = identity.Verify(tx, ticket); err != nil {
			return err
		}
		if caller.Kind != identity.Ticket || !slices.Contains(caller.Scopes, scopeTopic+t.Name) {
			return reason.Errorf(reason.Unauthenticated, "the ticket is for another lane")
		}
		for _, scope := range caller.Scopes {
			if id, ok := strings.CutPrefix(scope, scopeParent); ok {
				parent = id
			}
		}
		if err := identity.Live(tx, parent); err != nil {
			return err
		}
		_, err := tx.ConsumeToken(caller.TokenID)
		return err
	})
	return caller, parent, err
}

// ticketOf reads the subprotocols that the client offers.
func ticketOf(r *http.Request) (ticket string) {
	lane := false
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for word := range strings.SplitSeq(line, ",") {
			word = strings.TrimSpace(word)
			lane = lane || word == api.LaneProtocol
			if t, ok := strings.CutPrefix(word, api.TicketPrefix); ok {
				ticket = t
			}
		}
	}
	if !lane {
		return ""
	}
	return ticket
}

// checkOrigin refuses a browser page of another origin. Programs send no Origin.
func (l *Lanes) checkOrigin(r *http.Request) error {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	u, err := url.Parse(origins[0])
	if len(origins) > 1 || err != nil || u.Host == "" ||
		!strings.EqualFold(u.Host, r.Host) && !slices.ContainsFunc(l.opt.Origins, func(o string) bool { return strings.EqualFold(o, u.Host) }) {
		return reason.Errorf(reason.OriginRefused, "no lanes for pages of %.100q", origins[0])
	}
	return nil
}
