package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/coder/websocket"

	"remit/proof/reason"
)

// relayTime bounds one exchange with a relay: a connection, an event that it is
// to take, a query.
const relayTime = 10 * time.Second

// maxURL bounds the URL of a relay, in bytes.
const maxURL = 255

// CheckURL refuses what is not the URL of a relay. It holds no password: it is
// stored and shown.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	bad := err != nil || len(text) > maxURL || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss"
	if bad || u.User != nil || u.Fragment != "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return reason.Errorf(reason.RequestInvalid, "that is not the URL of a relay").
			WithHint("want ws://host[:port] or wss://host[:port], without user or password")
	}
	return nil
}

// noRedirect talks to the relay that was named and follows no redirect of it.
var noRedirect = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func dial(ctx context.Context, relay string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, relayTime)
	defer cancel()
	c, _, err := websocket.Dial(ctx, relay, &websocket.DialOptions{HTTPClient: noRedirect}) //nolint:bodyclose // Dial has closed it
	if err != nil {
		return nil, reason.Errorf(reason.RelayUnavailable, "connecting to the relay: %w", err)
	}
	c.SetReadLimit(maxMessage)
	return c, nil
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

// Send sends events to a relay, one after the other, and waits until it has
// said of each what becomes of it. An event that is not of the two classes, or
// does not verify, is refused here. When ctx has no time left for one more, the
// rest is untried. The error is about the relay.
func Send(ctx context.Context, relay string, events []Event) ([]Sent, error) {
	list := make([]Sent, len(events))
	good := 0
	for i := range events {
		if err := errors.Join(Allowed(&events[i]), events[i].Verify()); err != nil {
			list[i] = Sent{Refused, err}
			continue
		}
		good++
	}
	if good == 0 {
		return list, nil
	}
	c, err := dial(ctx, relay)
	if err != nil {
		return list, err
	}
	defer func() { _ = c.CloseNow() }() // every answer that counts has been read
	for i, tried := 0, 0; i < len(events); i++ {
		if list[i].Outcome == Refused {
			continue
		}
		if until, ok := ctx.Deadline(); ok && tried > 0 && time.Until(until) < relayTime {
			break
		}
		tried++
		if list[i], err = sendEvent(ctx, c, &events[i]); err != nil {
			return list, err
		}
	}
	return list, nil
}

// sendEvent sends one event. An error means that the next one has no better
// chance.
func sendEvent(ctx context.Context, c *websocket.Conn, e *Event) (Sent, error) {
	ctx, cancel := context.WithTimeout(ctx, relayTime)
	defer cancel()
	if err := send(ctx, c, []any{"EVENT", e}); err != nil {
		err = reason.Errorf(reason.RelayUnavailable, "sending event %.16s…: %w", e.ID, err)
		return Sent{Later, err}, err
	}
	for {
		parts, err := receive(ctx, c)
		if err != nil {
			err = reason.Errorf(reason.RelayUnavailable, "waiting for the relay to take event %.16s…: %w", e.ID, err)
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
		err = reason.Errorf(reason.RelayUnavailable, "the relay refused event %.16s…: %s", e.ID, plain(text))
		switch prefix, _, _ := strings.Cut(text, ":"); prefix { // as NIP-01 has it
		case "blocked", "invalid", "pow", "restricted", "mute":
			return Sent{Refused, err}, nil
		case "rate-limited", "auth-required": // says nothing about the event
			return Sent{Untried, err}, err
		}
		return Sent{Later, err}, nil
	}
}

// maxSaid bounds what is kept of what a relay says, in characters.
const maxSaid = 200

// plain makes a stranger's text fit for a log and a database.
func plain(s string) string {
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

// Fetch asks a relay for stored events and calls each with every one that it
// sends, whatever it is: it can be broken, forged, or none that was asked for.
func Fetch(ctx context.Context, relay string, f Filter, each func(raw json.RawMessage)) error {
	c, err := dial(ctx, relay)
	if err != nil {
		return err
	}
	defer func() { _ = c.CloseNow() }() // nothing is left to be said
	const subscription = "remit"
	ctx, cancel := context.WithTimeout(ctx, relayTime)
	defer cancel()
	if err := send(ctx, c, []any{"REQ", subscription, f}); err != nil {
		return reason.Errorf(reason.RelayUnavailable, "asking the relay: %w", err)
	}
	for n := 0; n <= maxStored; {
		parts, err := receive(ctx, c)
		if err != nil {
			return reason.Errorf(reason.RelayUnavailable, "reading from the relay: %w", err)
		}
		var verb, id string
		if len(parts) < 2 || unmarshal(parts, &verb, &id) != nil || id != subscription {
			continue
		}
		switch {
		case verb == "EOSE":
			return nil
		case verb == "CLOSED":
			return reason.Errorf(reason.RelayUnavailable, "the relay closed the query")
		case verb == "EVENT" && len(parts) > 2:
			n++
			each(parts[2])
		}
	}
	return reason.Errorf(reason.RelayUnavailable, "the relay sent more than %d events", maxStored)
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
