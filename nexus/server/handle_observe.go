package server

import (
	"context"
	"net/http"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
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
	return s.json(w, r, http.StatusOK, s.health())
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
	return s.json(w, r, http.StatusOK, s.health())
}

// getPrometheus answers whoever may read everything. A monitoring system has a
// listener of its own, see [Server.MetricsHandler].
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

// json writes a value that no action made.
func (s *Server) json(w http.ResponseWriter, r *request, status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	s.write(w, r, reply{status: status, contentType: "application/json", body: body})
	return nil
}
