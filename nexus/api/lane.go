package api

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"remit/proof/reason"
)

// maxFrame bounds one frame of a lane, in bytes.
const maxFrame = 1 << 20

// Lane is an open live lane. It belongs to one reader.
type Lane struct{ conn *websocket.Conn }

// Listen opens the lane of a topic, from the event after the given one on; below
// 0 the server chooses where it begins. It asks for the ticket with the client's
// credential. Errors are those of the ticket, and store_unavailable.
func Listen(ctx context.Context, c *Client, topic string, after int64) (*Lane, error) {
	t, err := CreateLaneTicket.Do(ctx, c, NewKey(), None{}, TicketRequest{Topic: topic})
	if err != nil {
		return nil, err
	}
	params := OpenLaneParams{Topic: topic}
	if after >= 0 {
		params.AfterSeq = &after
	}
	u, err := OpenLane.address(c.base, params, nil)
	if err != nil {
		return nil, err
	}
	u.Scheme = strings.Replace(u.Scheme, "http", "ws", 1)
	conn, _, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: c.lanes, Subprotocols: t.Subprotocols}) //nolint:bodyclose // Dial has closed it
	if err != nil {
		return nil, reason.Errorf(reason.StoreUnavailable, "opening the lane: %w", err)
	}
	conn.SetReadLimit(maxFrame)
	return &Lane{conn}, nil
}

// laneClient opens lanes at a nexus with TLS of its own. The upgrade to WebSocket
// needs HTTP/1.1.
func laneClient(files *tls.Config) *http.Client {
	files.NextProtos = []string{"http/1.1"}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: files,
		TLSHandshakeTimeout: connectTimeout, DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext}}
}

// Next waits for the next frame.
func (l *Lane) Next(ctx context.Context) (LaneFrame, error) {
	_, msg, err := l.conn.Read(ctx)
	if err != nil {
		return LaneFrame{}, err
	}
	var f LaneFrame
	if err := json.Unmarshal(msg, &f); err != nil {
		return LaneFrame{}, reason.Errorf(reason.RequestInvalid, "a frame of the lane cannot be read: %w", err)
	}
	return f, nil
}

// Close ends the lane without waiting for the other side.
func (l *Lane) Close() { _ = l.conn.CloseNow() }
