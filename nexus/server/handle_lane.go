package server

import (
	"encoding/json"
	"net/http"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/jobs"
	"remit/nexus/lanes"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
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

// laneSource says who may watch which lane, and what is behind it.
type laneSource struct{}

// Authorize implements lanes.Source: one's own fleet, runs and journal, and a
// provider its own offers. What is not the caller's does not exist for it.
func (laneSource) Authorize(tx *store.Tx, c identity.Caller, t lanes.Topic) error {
	if err := c.Require(authority.ScopeRead); err != nil {
		return err
	}
	if c.Kind == authority.Provider && t.Kind != lanes.Jobs { // what an owner has is no matter of the machines that work
		return noLane(t)
	}
	allowed := false
	switch t.Kind {
	case lanes.Fleet, lanes.Account:
		allowed = c.Owns(t.Subject)
	case lanes.Run:
		_, err := jobs.FindRun(tx, c.Principal, t.Subject)
		if err != nil && reason.CodeOf(err) != reason.NotFound {
			return err
		}
		allowed = err == nil
	case lanes.Jobs:
		allowed = c.ProviderID() == t.Subject
	}
	if !allowed {
		return noLane(t)
	}
	return nil
}

func noLane(t lanes.Topic) error { return reason.Errorf(reason.LaneUnknown, "no lane %.80q", t.Name) }

// jobsSnapshot is the state of a provider's lane.
type jobsSnapshot struct {
	Provider api.Provider `json:"provider"`
	Leases   []api.Lease  `json:"leases"`
	Offers   []offer      `json:"offers"`
}

// accountSnapshot is all that the lane of an account says of its state.
type accountSnapshot struct {
	Owner string `json:"owner"`
}

// offer is a job that the provider may lease.
type offer struct {
	JobID       string `json:"job_id"`
	JobType     string `json:"job_type"`
	JobHash     string `json:"job_hash"`
	AmountMsats int64  `json:"amount_msats"`
}

func offerOf(j jobs.Job) offer {
	return offer{JobID: j.ID, JobType: j.Type, JobHash: j.Hash, AmountMsats: j.AmountMsats}
}

// Snapshot implements lanes.Source.
func (laneSource) Snapshot(tx *store.Tx, t lanes.Topic) (json.RawMessage, error) {
	var state any
	var err error
	switch t.Kind {
	case lanes.Fleet:
		state, err = fleetState(tx, t.Subject)
	case lanes.Run:
		var run jobs.SummedRun
		if run, err = tx.SummedRun(t.Subject); err == nil {
			state, err = runOf(run)
		}
	case lanes.Jobs:
		state, err = jobsState(tx, t.Subject)
	case lanes.Account:
		state = accountSnapshot{Owner: t.Subject} // its resources are asked for by themselves
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(state)
}

// fleetState is a snapshot of a fleet. One that was cut says so, and where the
// rest is.
func fleetState(tx *store.Tx, owner string) (registry.Snapshot, error) {
	s, _, err := registry.Fleet(tx, owner)
	if s.Cut {
		s.NextCursor = cursor(listName(api.ListProviders.ID, api.ListProviders.Path, owner), s.Workers[len(s.Workers)-1].ProviderID)
	}
	return s, err
}

func jobsState(tx *store.Tx, providerID string) (jobsSnapshot, error) {
	self := authority.Principal{ID: authority.ProviderPrincipal(providerID), Kind: authority.Provider}
	found, err := registry.Find(tx, self, providerID)
	if err != nil {
		return jobsSnapshot{}, err
	}
	held, err := jobs.Held(tx, self)
	if err != nil {
		return jobsSnapshot{}, err
	}
	offered, err := tx.JobsOffered(providerID, jobs.MaxLeases)
	return jobsSnapshot{Provider: providerOf(found, tx.Now()), Leases: itemsOf(held, leaseOf), Offers: itemsOf(offered, offerOf)}, err
}
