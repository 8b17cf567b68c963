package requester

import (
	"context"
	"time"

	"remit/nexus/api"
	"remit/proof/reason"
)

// dispatchWait is how long the nexus lets one dispatch wait for a provider.
const dispatchWait = 20 * time.Second

// Dispatch queues a job of a run. The nexus waits for a provider that could take
// it; a longer wait is several requests, each with a key of its own behind the
// first, since a refusal that is recorded is the answer to its key for good. A run
// has the same job only once.
func Dispatch(ctx context.Context, c *api.Client, run, key string, ask api.DispatchRequest, wait time.Duration) (got api.Ensured[api.Job], err error) {
	err = awaitProvider(ctx, wait, nil, func(left time.Duration) error {
		ask.WaitSecs = waitSecs(left)
		got, err = api.DispatchJob.Do(ctx, c, key, run, ask)
		key = api.NewKey()
		return err
	})
	return got, err
}

// waitSecs is what one request says of the time that is left.
func waitSecs(left time.Duration) *int64 {
	return api.Optional(int64((min(left, dispatchWait) + time.Second - 1) / time.Second))
}

// awaitProvider repeats a request for as long as it is refused for the lack of a
// provider and there is time left; waiting hears of the first refusal.
func awaitProvider(ctx context.Context, wait time.Duration, waiting func(time.Duration, error), request func(left time.Duration) error) error {
	for until := time.Now().Add(wait); ; {
		asked := time.Now()
		err := request(max(0, time.Until(until)))
		if err == nil || !comesAndGoes(err) || !time.Now().Before(until) {
			return err
		}
		if waiting != nil {
			waiting(wait, err)
			waiting = nil
		}
		// A provider that is named and switched off is refused without a wait.
		if cause := api.Pause(ctx, min(time.Until(until), time.Until(asked.Add(time.Second)))); cause != nil {
			return cause
		}
	}
}

// comesAndGoes reports whether a request was refused for the lack of a provider.
func comesAndGoes(err error) bool {
	switch reason.CodeOf(err) {
	case reason.NoProvider, reason.ProviderDisabled, reason.ProviderUnavailable:
		return true
	}
	return false
}
