package panel

import (
	"net/http"
	"time"

	"remit/nexus/api"
)

// bridgePage is what is mirrored to relays, and how far it has come.
type bridgePage struct {
	api.BridgeEventPage
	Events []mirrored
	Next   string
}

// mirrored is one event of the outbox.
type mirrored struct {
	api.BridgeEvent
	Mark string
	At   time.Time
}

// bridgeMarks are the marks of the states of the outbox.
var bridgeMarks = map[string]string{"waiting": "run", "pending": "run", "sent": "pass", "refused": "fail", "superseded": "none"}

func (p *Panel) bridge(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	limit := pageSize
	got, err := api.ListBridgeEvents.Get(r.Context(), v.client,
		api.ListBridgeEventsParams{Cursor: api.Optional(r.URL.Query().Get("cursor")), Limit: &limit})
	if err != nil {
		return nil, err
	}
	d := bridgePage{BridgeEventPage: got}
	for _, e := range got.Items {
		d.Events = append(d.Events, mirrored{e, bridgeMarks[string(e.State)], time.Unix(e.CreatedAt, 0)})
	}
	if got.NextCursor != nil {
		d.Next = withQuery("/bridge", "cursor", *got.NextCursor)
	}
	return &page{name: "bridge", Title: "Bridge", Nav: "treasury", Data: d}, nil
}
