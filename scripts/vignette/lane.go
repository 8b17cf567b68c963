package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/coder/websocket"
)

// The subprotocols of a lane: its version, and the ticket that opens it.
const (
	laneProtocol = "remit.lane.v1"
	ticketPrefix = "remit.ticket."
)

// lane follows a topic from its first event, in the background.
type lane struct {
	topic string
	ws    *websocket.Conn
	ended chan struct{}

	mu      sync.Mutex
	events  []event
	gaps    []string
	err     error
	changed chan struct{} // closed and replaced when something arrived
}

// follow opens a lane with a ticket, behind event 0.
func (n *nexus) follow(ctx context.Context, as caller, topic string) *lane {
	ticket := n.do(ctx, as.post("/v1/lanes/tickets", newKey(), object{"topic": topic}), http.StatusCreated, nil).text("ticket")
	ws, err := n.dial(ctx, topic, ticket)
	if err != nil {
		giveUp("open the lane %s: %w", topic, err)
	}
	l := &lane{topic: topic, ws: ws, ended: make(chan struct{}), changed: make(chan struct{})}
	go l.read(context.WithoutCancel(ctx))
	return l
}

func (n *nexus) dial(ctx context.Context, topic, ticket string) (*websocket.Conn, error) {
	url := strings.Replace(n.url, "http", "ws", 1) + "/v1/lanes/" + topic + "?after_seq=0"
	options := &websocket.DialOptions{Subprotocols: []string{laneProtocol, ticketPrefix + ticket}}
	ws, _, err := websocket.Dial(ctx, url, options) //nolint:bodyclose // Dial has closed it
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(1 << 20)
	return ws, nil
}

func (l *lane) read(ctx context.Context) {
	defer close(l.ended)
	for {
		_, msg, err := l.ws.Read(ctx)
		if err == nil {
			err = l.take(msg)
		}
		if err != nil {
			l.mu.Lock()
			l.err = err
			close(l.changed)
			l.changed = make(chan struct{})
			l.mu.Unlock()
			return
		}
	}
}

// take applies one frame. Events come by number, without a gap, from 1 on.
func (l *lane) take(msg []byte) error {
	var frame struct {
		Type  string `json:"type"`
		Event *event `json:"event"`
	}
	if err := json.Unmarshal(msg, &frame); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case frame.Type == "reset" || frame.Type == "resync":
		l.gaps = append(l.gaps, frame.Type)
	case frame.Event == nil:
		return nil
	default:
		if want := int64(len(l.events)) + 1; frame.Event.Seq != want || frame.Event.Stream != l.topic {
			l.gaps = append(l.gaps, fmt.Sprintf("event %d of %s where %d of %s was due", frame.Event.Seq, frame.Event.Stream, want, l.topic))
		}
		l.events = append(l.events, *frame.Event)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// until waits for an event, which may have arrived already.
func (l *lane) until(ctx context.Context, what string, found func(event) bool) (event, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for seen := 0; ; {
		l.mu.Lock()
		list, changed, err := l.events, l.changed, l.err
		l.mu.Unlock()
		for ; seen < len(list); seen++ {
			if found(list[seen]) {
				return list[seen], nil
			}
		}
		if err != nil {
			return event{}, fmt.Errorf("the lane %s ended before %s: %w", l.topic, what, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return event{}, fmt.Errorf("waited in vain on %s for %s: %w", l.topic, what, context.Cause(ctx))
		}
	}
}

// seen returns the events so far, and where the numbers broke.
func (l *lane) seen() (events []event, gaps []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events), slices.Clone(l.gaps)
}

// closedByPolicy reports whether the authority ended a lane for what its client
// did.
func closedByPolicy(err error) bool {
	return websocket.CloseStatus(err) == websocket.StatusPolicyViolation
}

func (l *lane) close() {
	_ = l.ws.CloseNow() // it may be closed
	<-l.ended
}
