package jobs

import (
	"fmt"
	"time"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Bounds of how long a run may be silent.
const (
	MinSilence = time.Minute
	MaxSilence = 30 * 24 * time.Hour
	// DefaultSilence is for runs whose owner has set no time of their own. It is
	// longer than the work of any agent that still lives.
	DefaultSilence = 24 * time.Hour
)

// EndSilent ends open runs whose client has died: nothing was written into their
// log for as long as their owner allows (fallback where the owner says nothing,
// below 0: never), and none of their jobs is open, since a job has a deadline of
// its own and writes into the log when it ends. What could not be said because the
// authority was away counts as no silence. Such a run fails with run_silent,
// and its issue is free. It ends at most limit runs (0: DefaultSweep) and returns
// which.
func EndSilent(tx *store.Tx, fallback time.Duration, limit int) (ended []string, err error) {
	if limit <= 0 {
		limit = DefaultSweep
	}
	if fallback == 0 {
		fallback = DefaultSilence
	}
	away, err := lastAbsence(tx)
	if err != nil {
		return nil, err
	}
	ids, err := tx.SilentRuns(tx.Now(), max(0, fallback.Milliseconds()), away.until, limit)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		run, err := tx.LockRun(id)
		if err != nil {
			return nil, err
		}
		quiet, err := silence(tx, id)
		if err != nil {
			return nil, err
		}
		allowed := time.Duration(run.Silence) * time.Millisecond
		if allowed == 0 {
			allowed = fallback
		}
		if RunState(run.State).Final() || quiet < allowed {
			continue // it has a new event meanwhile
		}
		if _, err := FinishRun(tx, authority.Sweeper(), id, FinishRequest{Status: RunFailed, Reason: string(reason.RunSilent)}); err != nil {
			return nil, fmt.Errorf("end silent run %s: %w", id, err)
		}
		ended = append(ended, id)
	}
	return ended, nil
}

// silence is how old the last event in the log of a run is.
func silence(tx *store.Tx, runID string) (time.Duration, error) {
	head, _, err := tx.Head(authority.RunStream(runID))
	if err != nil || head == 0 {
		return 0, err
	}
	last, err := tx.Events(authority.RunStream(runID), head-1, 1)
	if err != nil || len(last) == 0 {
		return 0, err
	}
	return time.Duration(tx.Now()-last[0].RecordedAt) * time.Millisecond, nil
}
