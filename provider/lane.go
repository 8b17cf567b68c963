package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/proof/reason"
)

// maxFrame bounds one frame of the lane, in bytes.
const maxFrame = 1 << 20

// eventCancel is the lane's event that asks for the end of a job; its payload
// has the job_id. Every other event only wakes the daemon.
const eventCancel = "job.cancel"

// listen keeps the provider's lane open and wakes the worker when something
// arrives: at each connection as well, since offers may have been missed.
func (d *Daemon) listen(ctx context.Context, wake chan<- struct{}) {
	pause := api.DefaultRetry.Base
	var after int64
	for ctx.Err() == nil {
		connected := d.clock()
		err := d.follow(ctx, &after, wake)
		if ctx.Err() != nil {
			return
		}
		d.log.Warn("the lane broke", "error", err)
		if d.clock().Sub(connected) > time.Minute {
			pause = api.DefaultRetry.Base
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		pause = min(2*pause, api.DefaultRetry.Max)
	}
}

// follow reads the lane until it breaks.
func (d *Daemon) follow(ctx context.Context, after *int64, wake chan<- struct{}) error {
	topic := "jobs:" + d.id.ProviderID
	t, err := d.client.CreateLaneTicketWithResponse(ctx, &api.CreateLaneTicketParams{IdempotencyKey: api.NewKey()}, api.TicketRequest{Topic: topic})
	if err != nil {
		return err
	}
	if t.JSON201 == nil {
		return reason.Errorf(reason.StoreUnavailable, "no ticket for the lane")
	}
	u, err := url.Parse(d.id.Nexus)
	if err != nil {
		return fmt.Errorf("the nexus's URL: %w", err)
	}
	u.Scheme = strings.Replace(u.Scheme, "http", "ws", 1)
	u = u.JoinPath("v1", "lanes", topic)
	if *after > 0 {
		u.RawQuery = url.Values{"after_seq": {strconv.FormatInt(*after, 10)}}.Encode()
	}
	c, _, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{Subprotocols: t.JSON201.Subprotocols}) //nolint:bodyclose // Dial has closed it
	if err != nil {
		return reason.Errorf(reason.StoreUnavailable, "opening the lane: %w", err)
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(maxFrame)
	signal(wake)
	for {
		_, msg, err := c.Read(ctx)
		if err != nil {
			return err
		}
		var f api.LaneFrame
		if err := json.Unmarshal(msg, &f); err != nil {
			return reason.Errorf(reason.RequestInvalid, "a frame of the lane cannot be read: %w", err)
		}
		d.frame(f, after)
		signal(wake)
	}
}

// frame takes note of one frame. Events come by (stream_id, seq); one that was
// seen before changes nothing.
func (d *Daemon) frame(f api.LaneFrame, after *int64) {
	switch {
	case f.Type == api.LaneFrameTypeReset:
		*after = 0
	case f.Event == nil:
		*after = max(*after, api.Value(f.Seq))
	case f.Event.Seq > *after:
		*after = f.Event.Seq
		if f.Event.EventType == eventCancel {
			var about struct {
				JobID string `json:"job_id"`
			}
			if json.Unmarshal(f.Event.Payload, &about) == nil {
				d.cancel(about.JobID, errCancelled)
			}
		}
	}
}
