package provider

import (
	"context"
	"encoding/json"

	"remit/nexus/api"
)

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
		if d.dismissed(err) {
			return
		}
		d.log.Warn("the lane broke", "error", err)
		if d.clock().Sub(connected) > pause {
			pause = api.DefaultRetry.Base // it lived longer than it was away
		}
		if !wait(ctx, pause) {
			return
		}
		pause = min(2*pause, api.DefaultRetry.Max)
	}
}

// follow reads the lane until it breaks.
func (d *Daemon) follow(ctx context.Context, after *int64, wake chan<- struct{}) error {
	from := *after
	if from == 0 {
		from = -1 // what was offered before is leased, not read
	}
	lane, err := api.Listen(ctx, d.client, "jobs:"+d.id.ProviderID, from)
	if err != nil {
		return err
	}
	defer lane.Close()
	signal(wake)
	for {
		f, err := lane.Next(ctx)
		if err != nil {
			return err
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
