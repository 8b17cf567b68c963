package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/metrics"
	"remit/nexus/store"
	"remit/proof/reason"
)

func (s *Server) observeRoutes() []route {
	return []route{
		{Operation: api.GetHealth.Operation, special: (*Server).getHealth},
		{Operation: api.GetReady.Operation, special: (*Server).getReady},
		{Operation: api.GetPrometheus.Operation, special: (*Server).getPrometheus},
		query(api.GetMetrics, s.getMetrics),
	}
}

// readyTimeout bounds the question to the store.
const readyTimeout = 2 * time.Second

func (s *Server) getHealth(w http.ResponseWriter, r *request) error {
	return s.sendHealth(w, r)
}

func (s *Server) getReady(w http.ResponseWriter, r *request) error {
	if s.draining.Load() {
		return reason.Errorf(reason.StoreUnavailable, "the replica is draining")
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := s.opt.Store.Ping(ctx); err != nil {
		return reason.Errorf(reason.StoreUnavailable, "the store does not answer: %w", err)
	}
	if s.stuck.Load() {
		// Reading may go on for long after a disk is full.
		return reason.Errorf(reason.StoreUnavailable, "the store takes no changes")
	}
	return s.sendHealth(w, r)
}

func (s *Server) sendHealth(w http.ResponseWriter, r *request) error {
	body, err := encode(s.health())
	if err != nil {
		return err
	}
	s.write(w, r, reply{status: http.StatusOK, contentType: "application/json", body: body})
	return nil
}

// getPrometheus answers administrators. A monitoring system has a listener of its
// own, see [Server.MetricsHandler].
func (s *Server) getPrometheus(w http.ResponseWriter, r *request) error {
	if err := s.authenticate(r); err != nil {
		return err
	}
	if err := r.caller.Require(authority.ScopeAdmin); err != nil {
		return err
	}
	plain := r.Clone(r.Context())
	plain.Header.Del("Accept") // the contract has the text, and no other form
	s.scrape.ServeHTTP(w, plain)
	return nil
}

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
	return answer{value: report}, nil
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

// whole reads a stream from its beginning, without the journal of the run: its
// figures are those of the authority's own events.
func whole(tx *store.Tx, stream string) (events []store.Event, err error) {
	for after := int64(0); ; {
		some, err := tx.EventsBut(jobs.EventJournal, stream, after, store.MaxEvents)
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
