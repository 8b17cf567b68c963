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
	var events []store.Event
	for _, run := range runs {
		stream, after := authority.RunStream(run.ID), int64(0)
		for more := true; more; {
			some, err := tx.Events(stream, after, store.MaxEvents)
			if err != nil {
				return answer{}, err
			}
			events = append(events, some...)
			if more = len(some) == store.MaxEvents; more {
				after = some[len(some)-1].Seq
			}
		}
	}
	report := metrics.Compute(events)
	report.Count(s.metrics.replays.Load(), s.metrics.conflicts.Load())
	return answer{status: http.StatusOK, value: report}, nil
}
