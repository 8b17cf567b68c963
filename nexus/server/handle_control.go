package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"remit/nexus/api"
	"remit/proof/reason"
)

// controlFor is how long a control summary is shown: making one reads many files.
const controlFor = 5 * time.Second

// control keeps the control summary of this machine for a moment.
type control struct {
	sync.Mutex
	text []byte
	made time.Time
}

func controlRoutes() []route {
	return []route{{Operation: api.GetControlSummary.Operation, special: (*Server).getControlSummary}}
}

// getControlSummary shows how far the engines of this machine have come, to people
// of this machine. It is nothing that a nexus of a team has, and no file of the
// home is shown to a stranger.
func (s *Server) getControlSummary(w http.ResponseWriter, r *request) error {
	if s.opt.Control == nil || !isLocal(r.Request) {
		return reason.Errorf(reason.NotFound, "this nexus shows nothing of the machine that it runs on").
			WithHint("`remit ladder status` shows it there")
	}
	text, err := s.control.summary(r.Context(), s.opt.Clock(), s.opt.Control)
	if err != nil {
		return err
	}
	s.write(w, r, reply{status: http.StatusOK, contentType: "application/json", body: text})
	return nil
}

// summary makes one at a time.
func (c *control) summary(ctx context.Context, now time.Time, make func(context.Context) (json.RawMessage, error)) ([]byte, error) {
	c.Lock()
	defer c.Unlock()
	if c.text != nil && now.Sub(c.made) < controlFor && !now.Before(c.made) {
		return c.text, nil
	}
	text, err := make(ctx)
	if err != nil {
		return nil, err
	}
	c.text, c.made = text, now
	return text, nil
}
