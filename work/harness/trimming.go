package harness

import (
	"context"
	"fmt"
	"time"
)

// trimTime is what trimming the cache may cost a run that has nothing else left to do.
const trimTime = 5 * time.Second

// beginTrim trims the cache while the run goes on, which has locked its own tree
// by then. The result waits, but not long: what is left over is for the next
// run. A failure is reported, and ends no run.
func (r *run) beginTrim() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	freed := begin(func() (int64, error) { return r.Home.Trim(ctx) })
	return func() {
		late := time.AfterFunc(trimTime, cancel)
		defer late.Stop()
		defer cancel()
		if n, err := freed(); err != nil && ctx.Err() == nil {
			r.tell("cache.trimmed", "failed", r.scrub(err.Error()))
		} else if n > 0 {
			r.tell("cache.trimmed", "completed", fmt.Sprintf("%d MiB of base trees freed", n>>20))
		}
	}
}
