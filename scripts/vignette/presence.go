package main

import (
	"context"
	"encoding/json"
)

// presence is what a fleet lane shows of a provider.
type presence struct {
	Provider  string `json:"provider_id"`
	Device    string `json:"device_id"`
	Owner     string `json:"owner_user_id"`
	Status    string `json:"status"`
	Enabled   bool   `json:"enabled"`
	Heartbeat string `json:"heartbeat_state"`
}

// shows makes a search for an event of a presence lane.
func shows(provider string, fits func(e event, p presence) bool) func(event) bool {
	return func(e event) bool {
		var p presence
		return json.Unmarshal(e.Payload, &p) == nil && p.Provider == provider && fits(e, p)
	}
}

// awaitFresh waits until the presence lane shows a daemon at work. from skips
// what the lane has shown before.
func (v *vignette) awaitFresh(ctx context.Context, l *lane, p *provider, from int64) error {
	_, err := l.until(ctx, "a heartbeat of "+p.name, shows(p.id, func(e event, is presence) bool {
		return e.Seq > from && is.Heartbeat == "fresh" && is.Status == "running" && is.Enabled
	}))
	return err
}

// online records that the registry sees both, and what their lanes have shown.
func (v *vignette) online(ctx context.Context, s *step) {
	must(v.awaitFresh(ctx, v.fleet, v.a, 0))
	bobs := v.nexus.follow(ctx, v.bob, "fleet:user:bob:workers")
	defer bobs.close()
	must(v.awaitFresh(ctx, bobs, v.b, 0))
	for _, p := range []*provider{v.a, v.b} {
		is := v.look(ctx, p)
		s.ok(is.Enabled && is.Liveness == "fresh" && is.Status == "running" && !is.Quarantin, p.name+" is online in the registry", is)
	}
	events, gaps := v.fleet.seen()
	enrolled := firstOf(events, shows(v.a.id, func(_ event, p presence) bool {
		return !p.Enabled && p.Heartbeat == "missing" && p.Device == v.a.device && p.Owner == "alice"
	}))
	beat := firstOf(events, shows(v.a.id, func(_ event, p presence) bool {
		return p.Enabled && p.Heartbeat == "fresh" && p.Status == "running"
	}))
	s.ok(enrolled > 0, "the presence lane has shown the enrolment", len(events), "events")
	s.ok(beat > enrolled, "then a heartbeat", beat, "after", enrolled)
	s.none("by number, without a gap", gaps)
	foreign := firstOf(events, shows(v.b.id, func(event, presence) bool { return true }))
	s.ok(foreign == 0, "and nothing of another user's provider", "event", foreign)
}

// firstOf is the number of the first event that fits, 0 when none does.
func firstOf(events []event, fits func(event) bool) int64 {
	for _, e := range events {
		if fits(e) {
			return e.Seq
		}
	}
	return 0
}
