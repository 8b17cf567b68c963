package lanes

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/proof/reason"
)

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
