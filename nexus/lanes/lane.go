package lanes

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/proof/reason"
)

// lane is one open connection.
type lane struct {
	lanes  *Lanes
	ws     *websocket.Conn
	topic  Topic
	parent string // the credential behind the ticket, see identity.Live
	cancel context.CancelCauseFunc
	after  int64 // the last event that was sent
}

// closing is a reason of the authority's to end a lane.
type closing struct {
	status websocket.StatusCode
	text   string
}

func (c closing) Error() string { return c.text }

// How lanes end.
var (
	closedReadOnly = closing{websocket.StatusPolicyViolation, string(reason.LaneReadOnly)}
	closedSlow     = closing{websocket.StatusTryAgainLater, string(reason.LaneSlowConsumer)}
	closedToken    = closing{websocket.StatusPolicyViolation, string(reason.TokenExpired)}
	closedDraining = closing{websocket.StatusGoingAway, "draining"}
	closedStore    = closing{websocket.StatusInternalError, string(reason.StoreUnavailable)}
)

// serve delivers until one side ends the lane.
func (c *lane) serve(ctx context.Context, cursor *int64) {
	var side sync.WaitGroup
	side.Go(func() { c.cancel(c.refuseMessages(ctx)) })
	side.Go(func() { c.cancel(c.watch(ctx)) })
	err := c.deliver(ctx, cursor)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	c.cancel(err)
	end, ok := errors.AsType[closing](err)
	switch {
	case ok:
	case errors.Is(err, errDraining):
		end = closedDraining
	case reason.CodeOf(err) == reason.StoreUnavailable:
		end = closedStore
	default:
		_ = c.ws.CloseNow() // the reader is gone
		side.Wait()
		return
	}
	_ = c.ws.Close(end.status, end.text) // best effort: it may be gone as well
	side.Wait()
}

// refuseMessages answers pings and closes, and takes no message.
func (c *lane) refuseMessages(ctx context.Context) error {
	// The library closes the connection when its context ends, before the
	// reason can be said. It ends by itself when the lane is closed.
	if _, _, err := c.ws.Reader(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return closedReadOnly
}

// watch finds dead connections and dead tokens.
func (c *lane) watch(ctx context.Context) error {
	for sleep(ctx, c.lanes.opt.Ping) {
		err := c.lanes.opt.Store.View(ctx, func(tx *store.Tx) error { return identity.Live(tx, c.parent) })
		switch reason.CodeOf(err) {
		case reason.TokenExpired, reason.Unauthenticated:
			return closedToken
		}
		pong, cancel := context.WithTimeout(ctx, c.lanes.opt.WriteTimeout)
		err = c.ws.Ping(pong)
		cancel()
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// deliver sends frame after frame.
func (c *lane) deliver(ctx context.Context, cursor *int64) error {
	if err := c.greet(ctx, cursor); err != nil {
		return err
	}
	f := c.lanes.follow(c.topic.Name, c.after)
	defer f.release()
	current := false // up to date once: only then can it be slow
	for {
		frames, lag, wake := f.next(c.after)
		switch {
		case lag == 0:
			current = true
			select {
			case <-wake:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case lag > c.lanes.opt.ReplayBudget || current && lag > c.patience():
			if err := c.overtaken(ctx, current); err != nil {
				return err
			}
		case len(frames) > 0:
			if err := c.sendAll(ctx, frames); err != nil {
				return err
			}
		default:
			if err := c.replay(ctx); err != nil {
				return err
			}
		}
	}
}

// patience is how far a reader that was up to date may fall behind.
func (c *lane) patience() int64 {
	switch c.topic.Kind {
	case Fleet:
		return c.lanes.opt.PresenceLag
	case Jobs:
		return c.lanes.opt.JobsLag
	}
	return c.lanes.opt.ReplayBudget
}

// overtaken deals with a reader that the stream has left behind.
func (c *lane) overtaken(ctx context.Context, current bool) error {
	switch {
	case c.topic.Kind == Jobs && current:
		return closedSlow
	case c.topic.Kind == Fleet && current:
		return c.restart(ctx, api.LaneFrameTypeResync, reason.LaneSlowConsumer)
	}
	return c.restart(ctx, api.LaneFrameTypeReset, reason.ReplayBudgetExceeded)
}

// greet sends the first frame and decides whether the cursor can be continued.
func (c *lane) greet(ctx context.Context, cursor *int64) error {
	var head, floor int64
	err := c.lanes.opt.Store.View(ctx, func(tx *store.Tx) (err error) {
		head, floor, err = tx.Head(c.topic.Name)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.sendFrame(ctx, api.LaneFrame{Type: api.LaneFrameTypeHello, HeadSeq: &head, FloorSeq: &floor}); err != nil {
		return err
	}
	switch {
	case cursor == nil:
		return c.snapshot(ctx)
	case *cursor < floor:
		return c.restart(ctx, api.LaneFrameTypeReset, reason.RetentionFloorBreach)
	case *cursor > head:
		return c.restart(ctx, api.LaneFrameTypeReset, reason.CursorInvalid)
	case head-*cursor > c.lanes.opt.ReplayBudget:
		return c.restart(ctx, api.LaneFrameTypeReset, reason.ReplayBudgetExceeded)
	}
	c.after = *cursor
	return nil
}

// restart announces that a snapshot replaces all that the reader knows.
func (c *lane) restart(ctx context.Context, how api.LaneFrameType, why reason.Code) error {
	code := string(why)
	if err := c.sendFrame(ctx, api.LaneFrame{Type: how, Reason: &code}); err != nil {
		return err
	}
	return c.snapshot(ctx)
}

// snapshot sends the state and the seq that it includes, read at one moment.
func (c *lane) snapshot(ctx context.Context) error {
	var state json.RawMessage
	var head int64
	err := c.lanes.opt.Store.View(ctx, func(tx *store.Tx) (err error) {
		if head, _, err = tx.Head(c.topic.Name); err != nil {
			return err
		}
		state, err = c.lanes.opt.Source.Snapshot(tx, c.topic)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.sendFrame(ctx, api.LaneFrame{Type: api.LaneFrameTypeSnapshot, Seq: &head, Snapshot: &state}); err != nil {
		return err
	}
	c.after = head
	return nil
}

// replay sends the next events out of the store.
func (c *lane) replay(ctx context.Context) error {
	events, err := c.lanes.read(ctx, c.topic.Name, c.after)
	if err != nil {
		return err
	}
	if len(events) == 0 || events[0].Seq != c.after+1 {
		return c.restart(ctx, api.LaneFrameTypeReset, reason.RetentionFloorBreach)
	}
	frames := make([][]byte, 0, len(events))
	for _, e := range events {
		frame, err := eventFrame(e)
		if err != nil {
			return err
		}
		frames = append(frames, frame)
	}
	return c.sendAll(ctx, frames)
}

// sendAll sends the frames of the events behind after.
func (c *lane) sendAll(ctx context.Context, frames [][]byte) error {
	for _, frame := range frames {
		if err := c.send(ctx, frame); err != nil {
			return err
		}
		c.after++
	}
	return nil
}

func (c *lane) sendFrame(ctx context.Context, f api.LaneFrame) error {
	f.StreamID = c.topic.Name
	frame, err := encode(f)
	if err != nil {
		return err
	}
	return c.send(ctx, frame)
}

// send waits for the reader up to the write timeout. The context of the lane is
// left out on purpose: a lane that ends finishes its frame and says why.
func (c *lane) send(ctx context.Context, frame []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.lanes.opt.WriteTimeout)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, frame)
}
