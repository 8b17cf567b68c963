package server

import (
	"net/http"
	"slices"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/metrics"
	"remit/nexus/store"
)

// maxMetricRuns bounds the runs that one question looks at: the newest ones.
const maxMetricRuns = 200

// getMetrics folds the logs of one run, or of the caller's newest ones, and says
// which. What is about requests and not about runs is this replica's count.
func (s *Server) getMetrics(tx *store.Tx, r *request) (answer, error) {
	runs, window, err := metricRuns(tx, r)
	if err != nil {
		return answer{}, err
	}
	var events []store.Event
	for _, run := range runs {
		some, err := whole(tx, authority.RunStream(run.ID))
		if err != nil {
			return answer{}, err
		}
		// What people said of a change later is in the log of their account.
		later, err := tx.EventsByKeys(authority.AccountStream(run.Owner), jobs.OutcomeKeys(run.ID), store.MaxEvents)
		if err != nil {
			return answer{}, err
		}
		events = slices.Concat(events, some, later)
	}
	report := metrics.Compute(events)
	report.Window = window
	report.Count(s.metrics.replays.Load(), s.metrics.conflicts.Load())
	return answer{status: http.StatusOK, value: report}, nil
}

// metricRuns are the run that was asked for, or the newest ones.
func metricRuns(tx *store.Tx, r *request) ([]jobs.Run, *metrics.Window, error) {
	if id := r.URL.Query().Get("run_id"); id != "" {
		run, err := jobs.FindRun(tx, r.caller.Principal, id)
		return []jobs.Run{run}, nil, err
	}
	runs, err := jobs.Runs(tx, r.caller.Principal, "", maxMetricRuns+1)
	if err != nil {
		return nil, nil, err
	}
	w := &metrics.Window{Limit: maxMetricRuns, Cut: len(runs) > maxMetricRuns}
	runs = runs[:min(len(runs), maxMetricRuns)]
	if len(runs) > 0 {
		w.From, w.To = api.TimeOf(runs[len(runs)-1].CreatedAt), api.TimeOf(runs[0].CreatedAt)
	}
	return runs, w, nil
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
