package server

import (
	"net/http"

	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/metrics"
	"remit/nexus/store"
)

// maxMetricRuns bounds the runs that one question looks at: the newest ones.
const maxMetricRuns = 200

// getMetrics folds the logs of one run, or of the caller's newest ones. What is
// about requests and not about runs is this replica's count.
func (s *Server) getMetrics(tx *store.Tx, r *request) (answer, error) {
	var runs []jobs.Run
	if id := r.URL.Query().Get("run_id"); id != "" {
		run, err := jobs.FindRun(tx, r.caller.Principal, id)
		if err != nil {
			return answer{}, err
		}
		runs = []jobs.Run{run}
	} else {
		var err error
		if runs, err = jobs.Runs(tx, r.caller.Principal, "", maxMetricRuns); err != nil {
			return answer{}, err
		}
	}
	// What people said of changes later is in the log of their account.
	streams := []string{authority.AccountStream(r.caller.Owner)}
	for _, run := range runs {
		streams = append(streams, authority.RunStream(run.ID))
	}
	var events []store.Event
	for _, stream := range streams {
		some, err := whole(tx, stream)
		if err != nil {
			return answer{}, err
		}
		events = append(events, some...)
	}
	report := metrics.Compute(events)
	report.Count(s.metrics.replays.Load(), s.metrics.conflicts.Load())
	return answer{status: http.StatusOK, value: report}, nil
}

// whole reads a stream from its beginning.
func whole(tx *store.Tx, stream string) (events []store.Event, err error) {
	for after := int64(0); ; {
		some, err := tx.Events(stream, after, store.MaxEvents)
		if err != nil {
			return nil, err
		}
		events = append(events, some...)
		if len(some) < store.MaxEvents {
			return events, nil
		}
		after = some[len(some)-1].Seq
	}
}
