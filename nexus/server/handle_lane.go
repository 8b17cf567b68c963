package server

import (
	"net/http"

	"remit/nexus/api"
	"remit/nexus/store"
)

func (s *Server) createLaneTicket(tx *store.Tx, r *request) (answer, error) {
	var body api.TicketRequest
	if err := r.json(&body); err != nil {
		return answer{}, err
	}
	t, err := s.lanes.IssueTicket(tx, r.caller, body.Topic)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, value: t, secret: true}, nil
}

func (s *Server) openLane(w http.ResponseWriter, r *request) error {
	return s.lanes.Serve(w, r.Request, r.PathValue("topic"))
}
