package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"remit/proof/reason"
)

// maxMessage bounds one message of a relay connection, in bytes.
const maxMessage = 32 << 10

// maxStored bounds what a built-in relay keeps; the oldest events go first.
const maxStored = 10_000

// Filter is the part of NIP-01's filters that this house asks with.
type Filter struct {
	IDs     []string `json:"ids,omitempty"`
	Authors []string `json:"authors,omitempty"`
	Kinds   []int    `json:"kinds,omitempty"`
	D       []string `json:"#d,omitempty"`
	Limit   int      `json:"limit,omitempty"`
}

func (f *Filter) match(e *Event) bool {
	has := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	return has(f.IDs, e.ID) && has(f.Authors, e.PubKey) && has(f.D, e.Tag("d")) && (len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind))
}

// Relay is a built-in relay for tests and a local network: it keeps, in memory,
// only events of the two classes with a valid signature. Both classes are
// addressable (NIP-01): of one author, kind and d tag it keeps the newest.
type Relay struct {
	mu      sync.Mutex
	events  []Event
	refused int64
}

// Refused counts the events that the relay did not take.
func (r *Relay) Refused() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// ServeHTTP speaks the relay side of NIP-01 over WebSocket: EVENT, REQ, CLOSE.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	// Any origin may read and write: a relay is public by nature, and what it
	// takes is signed by its author.
	c, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(maxMessage)
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
	r.mu.Lock()
	defer r.mu.Unlock()
	var out [][]any
	sent := make([]int, len(filters))
	for _, e := range slices.Backward(r.events) {
		for i := range filters {
			if f := &filters[i]; f.match(&e) && (f.Limit <= 0 || sent[i] < f.Limit) {
				sent[i]++
				out = append(out, []any{"EVENT", id, e})
				break
			}
		}
	}
	return append(out, []any{"EOSE", id})
}

// put keeps an event; the same one again is no error.
func (r *Relay) put(e Event) error {
	err := Allowed(&e)
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
		return o.PubKey == e.PubKey && o.Kind == e.Kind && o.Tag("d") == e.Tag("d")
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

// relayTime bounds one exchange with a relay.
const relayTime = 10 * time.Second

func dial(ctx context.Context, url string) (*websocket.Conn, error) {
	c, _, err := websocket.Dial(ctx, url, nil) //nolint:bodyclose // Dial has closed it
	if err != nil {
		return nil, reason.Errorf(reason.RelayUnavailable, "connecting to the relay: %w", err)
	}
	c.SetReadLimit(maxMessage)
	return c, nil
}

// Publish sends events to a relay and waits until it has taken each. The error
// joins what became of those that it did not take.
func Publish(ctx context.Context, url string, events ...Event) error {
	for i := range events {
		if err := errors.Join(Allowed(&events[i]), events[i].Verify()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, relayTime)
	defer cancel()
	c, err := dial(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(websocket.StatusNormalClosure, "") }()
	var failed []error
	for i := range events {
		if err := publish(ctx, c, &events[i]); err != nil {
			failed = append(failed, err)
			if ctx.Err() != nil {
				break
			}
		}
	}
	return errors.Join(failed...)
}

func publish(ctx context.Context, c *websocket.Conn, e *Event) error {
	if err := send(ctx, c, []any{"EVENT", e}); err != nil {
		return reason.Errorf(reason.RelayUnavailable, "sending event %.16s…: %w", e.ID, err)
	}
	for {
		parts, err := receive(ctx, c)
		if err != nil {
			return reason.Errorf(reason.RelayUnavailable, "waiting for the relay to take event %.16s…: %w", e.ID, err)
		}
		var verb, id, text string
		var ok bool
		if len(parts) < 4 || unmarshal(parts, &verb, &id, &ok, &text) != nil || verb != "OK" || id != e.ID {
			continue // a relay may say other things in between
		}
		if !ok {
			return reason.Errorf(reason.RelayUnavailable, "the relay refused event %.16s…: %s", e.ID, clip(text))
		}
		return nil
	}
}

// Fetch asks a relay for stored events. What does not belong to the two classes,
// or does not verify, is counted and left out: relays are not trusted.
func Fetch(ctx context.Context, url string, f Filter) (events []Event, refused int, err error) {
	ctx, cancel := context.WithTimeout(ctx, relayTime)
	defer cancel()
	c, err := dial(ctx, url)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = c.Close(websocket.StatusNormalClosure, "") }()
	const subscription = "remit"
	if err := send(ctx, c, []any{"REQ", subscription, f}); err != nil {
		return nil, 0, reason.Errorf(reason.RelayUnavailable, "asking the relay: %w", err)
	}
	for len(events)+refused < maxStored {
		parts, err := receive(ctx, c)
		if err != nil {
			return nil, refused, reason.Errorf(reason.RelayUnavailable, "reading from the relay: %w", err)
		}
		var verb, id string
		if len(parts) < 2 || unmarshal(parts, &verb, &id) != nil || id != subscription {
			continue
		}
		switch {
		case verb == "EOSE":
			return events, refused, nil
		case verb == "CLOSED":
			return events, refused, reason.Errorf(reason.RelayUnavailable, "the relay closed the query")
		case verb == "EVENT" && len(parts) > 2:
			var e Event
			if json.Unmarshal(parts[2], &e) != nil || Allowed(&e) != nil || e.Verify() != nil || !f.match(&e) {
				refused++
				continue
			}
			events = append(events, e)
		}
	}
	return events, refused, reason.Errorf(reason.RelayUnavailable, "the relay sent more than %d events", maxStored)
}

func receive(ctx context.Context, c *websocket.Conn) ([]json.RawMessage, error) {
	_, msg, err := c.Read(ctx)
	if err != nil {
		return nil, err
	}
	var parts []json.RawMessage
	if json.Unmarshal(msg, &parts) != nil {
		parts = nil // noise: the caller goes on
	}
	return parts, nil
}

func unmarshal(parts []json.RawMessage, into ...any) error {
	for i, v := range into {
		if err := json.Unmarshal(parts[i], v); err != nil {
			return err
		}
	}
	return nil
}
