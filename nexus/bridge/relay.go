package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/nip01"
)

// Limits of a built-in relay.
const (
	maxMessage     = 32 << 10 // bytes of one message
	maxStored      = 10_000   // events; the oldest go first
	maxConnections = 256      // at a time
)

// Relay is a built-in relay for tests and a local network: it keeps, in memory,
// only events with a valid signature that Accept takes. Of addressable ones (NIP-01) it
// keeps the newest of one author, kind and d tag.
type Relay struct {
	Accept     func(e *Event) error // nil: those of the two classes of the mirror
	MaxMessage int64                // bytes of one message; 0: what the mirror needs

	mu      sync.Mutex
	events  []Event
	refused int64
	open    atomic.Int64 // connections
}

// Refused counts the events that the relay did not take.
func (r *Relay) Refused() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// ServeHTTP speaks the relay side of NIP-01 over WebSocket: EVENT, REQ, CLOSE.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	defer r.open.Add(-1)
	if r.open.Add(1) > maxConnections {
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
		return
	}
	// Any origin may read and write: a relay is public by nature, and what it
	// takes is signed by its author.
	c, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(cmp.Or(r.MaxMessage, maxMessage))
	for {
		_, msg, err := c.Read(req.Context())
		if err != nil {
			return
		}
		for _, answer := range r.answer(msg) {
			if err := send(req.Context(), c, answer); err != nil {
				return
			}
		}
	}
}

// answer gives the messages that follow one of a client.
func (r *Relay) answer(msg []byte) [][]any {
	var parts []json.RawMessage
	var verb string
	if json.Unmarshal(msg, &parts) != nil || len(parts) < 2 || json.Unmarshal(parts[0], &verb) != nil {
		return [][]any{{"NOTICE", "invalid: not a message of NIP-01"}}
	}
	switch verb {
	case "EVENT":
		var e Event
		if err := json.Unmarshal(parts[1], &e); err != nil {
			return [][]any{{"NOTICE", "invalid: not an event"}}
		}
		if err := r.put(e); err != nil {
			return [][]any{{"OK", e.ID, false, "blocked: " + err.Error()}}
		}
		return [][]any{{"OK", e.ID, true, ""}}
	case "REQ":
		var id string
		if err := json.Unmarshal(parts[1], &id); err != nil || len(id) > 64 {
			return [][]any{{"NOTICE", "invalid: subscription id"}}
		}
		return r.query(id, parts[2:])
	case "CLOSE":
		return nil // a query is answered at once: nothing stays open
	}
	return [][]any{{"NOTICE", "unsupported: " + clip(verb)}}
}

func (r *Relay) query(id string, raw []json.RawMessage) [][]any {
	filters := make([]Filter, len(raw))
	for i, f := range raw {
		if err := json.Unmarshal(f, &filters[i]); err != nil {
			return [][]any{{"CLOSED", id, "invalid: filter"}}
		}
	}
	var out [][]any
	sent := make([]int, len(filters))
	for _, e := range r.newest() {
		for i := range filters {
			if f := &filters[i]; f.Match(&e) && (f.Limit <= 0 || sent[i] < f.Limit) {
				sent[i]++
				out = append(out, []any{"EVENT", id, e})
				break
			}
		}
	}
	return append(out, []any{"EOSE", id})
}

// newest lists what the relay has in the order of NIP-01: by created_at, the
// newest first, then by id.
func (r *Relay) newest() []Event {
	r.mu.Lock()
	list := slices.Clone(r.events)
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b Event) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// put keeps an event; the same one again is no error.
func (r *Relay) put(e Event) error {
	accept := r.Accept
	if accept == nil {
		accept = Allowed
	}
	err := accept(&e)
	if err == nil {
		err = e.Verify()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.refused++
		return err
	}
	i := slices.IndexFunc(r.events, func(o Event) bool {
		return o.ID == e.ID || e.Addressable() && o.PubKey == e.PubKey && o.Kind == e.Kind && o.Tag("d") == e.Tag("d")
	})
	switch {
	case i >= 0 && (r.events[i].CreatedAt > e.CreatedAt || r.events[i].CreatedAt == e.CreatedAt && r.events[i].ID <= e.ID):
		return nil // NIP-01: of two of the same second the lower id stays
	case i >= 0:
		r.events = slices.Delete(r.events, i, i+1)
	case len(r.events) >= maxStored:
		r.events = slices.Delete(r.events, 0, 1)
	}
	r.events = append(r.events, e)
	return nil
}

func send(ctx context.Context, c *websocket.Conn, message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return c.Write(ctx, websocket.MessageText, b)
}

// Sent is what became of one event.
type Sent = nip01.Sent

// The outcomes.
const (
	Untried = nip01.Untried
	Taken   = nip01.Taken
	Later   = nip01.Later
	Refused = nip01.Refused
)

// Send sends events to a relay, one after the other, and waits until it has
// said of each what becomes of it. An event that is not of the two classes, or
// does not verify, is refused here. When ctx has no time left for one more, the
// rest is untried. The error is about the relay.
func Send(ctx context.Context, relay string, events []Event) ([]Sent, error) {
	list := make([]Sent, len(events))
	good := 0
	for i := range events {
		if err := errors.Join(Allowed(&events[i]), events[i].Verify()); err != nil {
			list[i] = Sent{Outcome: Refused, Err: err}
			continue
		}
		good++
	}
	if good == 0 {
		return list, nil
	}
	r, err := nip01.Dial(ctx, relay, maxMessage)
	if err != nil {
		return list, err
	}
	defer r.Close()
	for i, tried := 0, 0; i < len(events); i++ {
		if list[i].Outcome == Refused {
			continue
		}
		if until, ok := ctx.Deadline(); ok && tried > 0 && time.Until(until) < nip01.Time {
			break
		}
		tried++
		if list[i], err = r.Publish(ctx, &events[i]); err != nil {
			return list, err
		}
	}
	return list, nil
}

// Fetch asks a relay for stored events and calls each with every one that it
// sends, whatever it is: it can be broken, forged, or none that was asked for.
func Fetch(ctx context.Context, relay string, f Filter, each func(raw json.RawMessage)) error {
	r, err := nip01.Dial(ctx, relay, maxMessage)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Query(ctx, f, each)
}
