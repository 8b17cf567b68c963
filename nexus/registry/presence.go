package registry

import (
	"encoding/json"

	"remit/nexus/authority"
	"remit/nexus/store"
)

// presenceKept is how many events a presence lane keeps: a reader that is further
// behind takes a snapshot. They are removed in batches of as many.
const presenceKept = 2048

// Presence is what a lane shows of a provider.
type Presence struct {
	WorkerID        string          `json:"worker_id"` // the provider's id
	ProviderID      string          `json:"provider_id"`
	DeviceID        string          `json:"device_id"`
	OwnerUserID     string          `json:"owner_user_id"`
	Name            string          `json:"name"`
	Version         string          `json:"version"`
	Roles           []string        `json:"roles"`
	Status          Status          `json:"status"`
	Enabled         bool            `json:"enabled"`
	LatestSeq       int64           `json:"latest_seq"` // revision of the provider
	HeartbeatState  string          `json:"heartbeat_state"`
	HeartbeatAgeMS  int64           `json:"heartbeat_age_ms"` // -1: never heard of
	Capabilities    []string        `json:"capabilities"`
	Caps            Caps            `json:"caps"`
	MinPriceMsats   int64           `json:"min_price_msats"`
	ReservePool     bool            `json:"reserve_pool"`
	Qualified       bool            `json:"qualified"`
	Conduct         string          `json:"conduct"`
	Successes       int64           `json:"successes"`
	FailureStrikes  int64           `json:"failure_strikes"`
	ViolationStrike int64           `json:"violation_strikes"`
	Unverified      int64           `json:"unverified"`
	Quarantined     bool            `json:"quarantined"`
	Quarantine      string          `json:"quarantine_reason"`
	Leased          int64           `json:"leased_jobs"`
	Retired         bool            `json:"retired,omitempty"` // it is not in snapshots any more
	Observed        json.RawMessage `json:"observed"`
}

// Present describes a provider as of now.
func Present(p Provider, now int64) Presence {
	age := int64(-1)
	if p.HeartbeatAt > 0 {
		age = max(0, now-p.HeartbeatAt)
	}
	return Presence{
		WorkerID: p.ID, ProviderID: p.ID, DeviceID: p.DeviceID, OwnerUserID: p.Owner, Name: p.Name, Version: p.Version,
		Roles: []string{RoleProvider}, Status: Status(p.Status), Enabled: p.Enabled, LatestSeq: p.Revision,
		HeartbeatState: p.Liveness(now), HeartbeatAgeMS: age, Capabilities: p.Capabilities, Caps: p.Caps,
		MinPriceMsats: p.PriceMsats, ReservePool: p.InPool(), Qualified: p.Conduct() != Provisional && !p.Quarantined(),
		Conduct: p.Conduct(), Successes: p.Successes, FailureStrikes: p.Failures, ViolationStrike: p.Violations,
		Unverified: p.Unverified, Quarantined: p.Quarantined(), Quarantine: p.QuarantineReason, Leased: p.Leased, Retired: p.Retired(),
		Observed: p.Observed,
	}
}

// Snapshot is the state of a presence lane as of one of its events.
type Snapshot struct {
	Workers []Presence `json:"workers"`
	// Cut says that there are more than are listed. NextCursor leads to them: GET
	// /v1/providers takes it.
	Cut        bool   `json:"cut"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// maxSnapshot bounds a snapshot.
const maxSnapshot = 1000

// Fleet returns a snapshot of an owner's providers and the sequence number of
// the last event that it contains. Take both from one View.
func Fleet(tx *store.Tx, owner string) (Snapshot, int64, error) {
	list, err := providers(tx.ProvidersOf(owner, "", maxSnapshot+1))
	if err != nil {
		return Snapshot{}, 0, err
	}
	cut := len(list) > maxSnapshot
	list = list[:min(len(list), maxSnapshot)]
	s := Snapshot{Cut: cut, Workers: make([]Presence, len(list))}
	for i, p := range list {
		s.Workers[i] = Present(p, tx.Now())
	}
	head, _, err := tx.Head(authority.FleetStream(owner))
	return s, head, err
}

// announce appends the state of a provider to its owner's lane, and its ad to
// the outbox of the mirror.
func announce(tx *store.Tx, p Provider) error {
	if err := advertise(tx, p); err != nil {
		return err
	}
	return authority.PostEvent(tx, authority.FleetStream(p.Owner), authority.Principal{ID: authority.ProviderPrincipal(p.ID)},
		"worker."+p.Status, "", Present(p, tx.Now()), presenceKept)
}
