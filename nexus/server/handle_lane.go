package server

import (
	"net/http"

	"remit/nexus/api"
	"remit/nexus/store"
)

func (s *Server) laneRoutes() []route {
	return []route{
		briefly(mutation(api.CreateLaneTicket, s.createLaneTicket)),
		{Operation: api.OpenLane.Operation, special: (*Server).openLane},
	}
}

func (s *Server) createLaneTicket(tx *store.Tx, r *request, body api.TicketRequest) (answer, error) {
	t, err := s.lanes.IssueTicket(tx, r.caller, body.Topic)
	if err != nil {
		return answer{}, err
	}
	return answer{value: t, secret: true}, nil
}

func (s *Server) openLane(w http.ResponseWriter, r *request) error {
	return s.lanes.Serve(w, r.Request, r.PathValue("topic"))
}
