// Package nip01 is the client's side of Nostr (NIP-01) over WebSocket: it sends an event
// and waits for what the relay says of it, and asks for events that are stored.
//
// A relay is not trusted. Every exchange has a limit of time, of messages and of bytes in
// each message. What a relay says of itself reaches the caller as short printable text.
// Events come as they were sent: the caller verifies them.
package nip01

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/coder/websocket"

	"remit/proof/nostr"
	"remit/proof/reason"
)

// Time bounds one exchange with a relay: a connection, an event that it is to take, a
// query.
const Time = 10 * time.Second

// The bounds of an exchange.
const (
	MaxURL    = 255    // bytes of the URL of a relay
	MaxStored = 10_000 // events that a query may bring
	maxNoise  = 1000   // messages between that are not about it
)

// CheckURL refuses what is not the URL of a relay. It holds no password: it is
// stored and shown.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	bad := err != nil || len(text) > MaxURL || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss"
	if bad || u.User != nil || u.Fragment != "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return reason.Errorf(reason.RequestInvalid, "that is not the URL of a relay").
			WithHint("want ws://host[:port] or wss://host[:port], without user or password")
	}
	return nil
}

// noRedirect talks to the relay that was named and follows no redirect of it.
var noRedirect = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Relay is a connection to a relay.
type Relay struct{ conn *websocket.Conn }

// Dial connects to a relay. A message of it may have at most so many bytes.
func Dial(ctx context.Context, relay string, limit int64) (*Relay, error) {
	ctx, cancel := context.WithTimeout(ctx, Time)
	defer cancel()
	c, _, err := websocket.Dial(ctx, relay, &websocket.DialOptions{HTTPClient: noRedirect}) //nolint:bodyclose // Dial has closed it
	if err != nil {
		return nil, unavailable("connecting to the relay: %w", err)
	}
	c.SetReadLimit(limit)
	return &Relay{c}, nil
}

// Close ends the connection at once: every answer that counts has been read.
func (r *Relay) Close() { _ = r.conn.CloseNow() }

func unavailable(format string, args ...any) error {
	return reason.Errorf(reason.RelayUnavailable, format, args...)
}

// Outcome is what became of an event that was sent.
type Outcome int

// The outcomes.
const (
	Untried Outcome = iota // the relay was gone or takes nothing at the moment
	Taken
	Later   // not taken: an error of the relay, or the connection was lost over it
	Refused // not taken, and not to be tried again
)

// Sent is what became of one event. Err says why it was not taken.
type Sent struct {
	Outcome Outcome
	Err     error
}

// Publish sends one event and waits until the relay has said what becomes of it. An
// error means that the next one has no better
// chance.
func (r *Relay) Publish(ctx context.Context, e *nostr.Event) (Sent, error) {
	ctx, cancel := context.WithTimeout(ctx, Time)
	defer cancel()
	if err := r.send(ctx, []any{"EVENT", e}); err != nil {
		err = unavailable("sending event %.16s…: %w", e.ID, err)
		return Sent{Later, err}, err
	}
	for range maxNoise {
		parts, err := r.receive(ctx)
		if err != nil {
			err = unavailable("waiting for the relay to take event %.16s…: %w", e.ID, err)
			return Sent{Later, err}, err
		}
		var verb, id, text string
		var ok bool
		if len(parts) < 4 || unmarshal(parts, &verb, &id, &ok, &text) != nil || verb != "OK" || id != e.ID {
			continue // a relay may say other things in between
		}
		if ok {
			return Sent{Outcome: Taken}, nil
		}
		err = unavailable("the relay refused event %.16s…: %s", e.ID, Plain(text))
		switch prefix, _, _ := strings.Cut(text, ":"); prefix { // as NIP-01 has it
		case "blocked", "invalid", "pow", "restricted", "mute":
			return Sent{Refused, err}, nil
		case "rate-limited", "auth-required": // says nothing about the event
			return Sent{Untried, err}, err
		}
		return Sent{Later, err}, nil
	}
	err := unavailable("the relay says nothing of event %.16s… in %d messages", e.ID, maxNoise)
	return Sent{Later, err}, err
}

// maxSaid bounds what is kept of what a relay says, in characters.
const maxSaid = 200

// Plain makes a stranger's text fit for a log and a database.
func Plain(s string) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
	if runes := []rune(text); len(runes) > maxSaid {
		return string(runes[:maxSaid]) + "…"
	}
	return text
}

// Query asks the relay for stored events and calls each with every one that it
// sends, whatever it is: it can be broken, forged, or none that was asked for.
func (r *Relay) Query(ctx context.Context, f nostr.Filter, each func(raw json.RawMessage)) error {
	const subscription = "remit"
	ctx, cancel := context.WithTimeout(ctx, Time)
	defer cancel()
	if err := r.send(ctx, []any{"REQ", subscription, f}); err != nil {
		return unavailable("asking the relay: %w", err)
	}
	for n, noise := 0, 0; n <= MaxStored && noise <= maxNoise; {
		parts, err := r.receive(ctx)
		if err != nil {
			return unavailable("reading from the relay: %w", err)
		}
		var verb, id string
		if len(parts) < 2 || unmarshal(parts, &verb, &id) != nil || id != subscription {
			noise++
			continue
		}
		switch {
		case verb == "EOSE":
			return nil
		case verb == "CLOSED":
			return unavailable("the relay closed the query")
		case verb == "EVENT" && len(parts) > 2:
			n++
			each(parts[2])
		default:
			noise++
		}
	}
	return unavailable("the relay sent more than %d messages", MaxStored)
}

func (r *Relay) receive(ctx context.Context) ([]json.RawMessage, error) {
	_, msg, err := r.conn.Read(ctx)
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

func (r *Relay) send(ctx context.Context, message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return r.conn.Write(ctx, websocket.MessageText, b)
}
