package registry

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Provider is a provider as the authority knows it.
type Provider struct {
	store.ProviderRow      // its Caps are the text of the ones below
	Caps              Caps // zero until the owner has set them
}

// Device is a machine of an owner.
type Device = store.DeviceRow

// Classes of provider. The class is the owner's word; reserve_pool also needs
// a scope.
const (
	SingleNode     = "single_node"
	LocalCluster   = "local_cluster"
	BundleRack     = "bundle_rack"
	InstanceMarket = "instance_market"
	ReservePool    = "reserve_pool"
)

// Status is where a provider is in its life.
type Status string

// The states of a provider.
const (
	Starting Status = "starting" // enabled, and not heard of yet
	Running  Status = "running"  // enabled and heard of
	Stopping Status = "stopping" // its daemon finishes what it has
	Stopped  Status = "stopped"  // switched off, or its daemon has ended
	Failed   Status = "failed"   // quarantined
)

// moves lists where a status may go. Staying is always allowed.
var moves = map[Status][]Status{
	Starting: {Running, Stopping, Stopped, Failed},
	Running:  {Stopping, Stopped, Failed, Starting},
	Stopping: {Stopped, Failed, Running},
	Stopped:  {Starting, Running, Failed},
	Failed:   {Stopped}, // by lifting the quarantine, and in no other way
}

// CanMove reports whether a status may follow another.
func CanMove(from, to Status) bool { return from == to || slices.Contains(moves[from], to) }

// StaleAfter is how long a heartbeat counts.
const StaleAfter = 120 * time.Second

// Liveness words.
const (
	Fresh   = "fresh"
	Stale   = "stale"
	Missing = "missing" // never heard of
)

// Liveness says whether a provider was heard of lately, by the store's clock.
func (p Provider) Liveness(now int64) string {
	switch {
	case p.HeartbeatAt == 0:
		return Missing
	case now-p.HeartbeatAt > StaleAfter.Milliseconds():
		return Stale
	}
	return Fresh
}

// InPool reports whether the provider works for all owners.
func (p Provider) InPool() bool { return p.Class == ReservePool }

// Quarantined reports whether the provider is out of service.
func (p Provider) Quarantined() bool { return p.QuarantinedAt > 0 }

// Retired reports whether the provider is out of service for good.
func (p Provider) Retired() bool { return p.RetiredAt > 0 }

// Strikes is how often the provider has failed or broken a rule.
func (p Provider) Strikes() int64 { return p.Failures + p.Violations }

// Full reports whether the provider holds as many jobs as it may.
func (p Provider) Full() bool { return p.Leased >= p.Caps.Concurrency }

// Tiers of conduct.
const (
	Preferred   = "preferred"
	Qualified   = "qualified"
	Provisional = "provisional"
)

// Conduct is the tier that the provider has earned.
func (p Provider) Conduct() string {
	switch {
	case p.Strikes() >= provisionalStrikes:
		return Provisional
	case p.Successes >= preferredSuccesses && p.Strikes() == 0:
		return Preferred
	}
	return Qualified
}

// FromRow reads a stored provider.
func FromRow(row store.ProviderRow) (Provider, error) {
	caps, err := capsOf(row.Caps)
	return Provider{ProviderRow: row, Caps: caps}, err
}

func provider(row store.ProviderRow, err error) (Provider, error) {
	if err != nil {
		return Provider{}, err
	}
	return FromRow(row)
}

func providers(rows []store.ProviderRow, err error) ([]Provider, error) {
	if err != nil {
		return nil, err
	}
	list := make([]Provider, len(rows))
	for i, row := range rows {
		if list[i], err = provider(row, nil); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Find reads a provider that a principal may see: its own, itself, or one of
// the reserve pool.
func Find(tx *store.Tx, p authority.Principal, id string) (Provider, error) {
	found, err := provider(tx.Provider(id))
	return visible(found, err, id, func() bool {
		return p.Owns(found.Owner) || p.ProviderID() == id || found.InPool()
	})
}

// Own reads and locks a provider that a principal may change.
func Own(tx *store.Tx, p authority.Principal, id string) (Provider, error) {
	found, err := provider(tx.LockProvider(id))
	return visible(found, err, id, func() bool { return p.Owns(found.Owner) })
}

// Lock reads and locks a provider, for the authority itself.
func Lock(tx *store.Tx, id string) (Provider, error) { return provider(tx.LockProvider(id)) }

// LockWithOffers is Lock that also lists the jobs offered to the provider, the
// oldest first.
func LockWithOffers(tx *store.Tx, id string, limit int) (Provider, []store.JobRow, error) {
	row, offers, err := tx.LockProviderAndOffers(id, limit)
	p, err := provider(row, err)
	return p, offers, err
}

func visible(found Provider, err error, id string, may func() bool) (Provider, error) {
	if errors.Is(err, store.ErrNotFound) || err == nil && (!may() || found.DeletedAt > 0) {
		return Provider{}, reason.Errorf(reason.NotFound, "no provider %.128q", id)
	}
	return found, err
}

// List returns the providers of an owner by id, after the given one.
func List(tx *store.Tx, owner, after string, limit int) ([]Provider, error) {
	return providers(tx.ProvidersOf(owner, after, limit))
}

// ListRetired returns the retired providers of an owner by id, after the given one.
func ListRetired(tx *store.Tx, owner, after string, limit int) ([]Provider, error) {
	return providers(tx.RetiredProviders(owner, after, limit))
}

// All returns every provider that is not retired by id, after the given one: for the mirror.
func All(tx *store.Tx, after string, limit int) ([]Provider, error) {
	return providers(tx.Providers(after, limit))
}

// Devices returns the devices of the principal's owner by id, after the given one.
func Devices(tx *store.Tx, p authority.Principal, after string, limit int) ([]Device, error) {
	return tx.DevicesOf(p.Owner, after, limit)
}

// MaxCandidates bounds what one dispatch looks at at once.
const MaxCandidates = 1000

// maxSilent bounds how many of those that were not heard of a refusal is about.
const maxSilent = 20

// Candidates lists what a dispatch of an owner may choose from: the providers
// with a fresh heartbeat, after the first skip of them. Silent ones cost it
// nothing, however many they are.
func Candidates(tx *store.Tx, owner string, skip int) ([]Provider, error) {
	return providers(tx.LiveProviders(live(tx, owner, skip)))
}

// RunAndCandidates also reads the run that the dispatch is for.
func RunAndCandidates(tx *store.Tx, runID, owner string) (store.RunRow, []Provider, error) {
	run, rows, err := tx.RunAndProviders(runID, live(tx, owner, 0))
	list, err := providers(rows, err)
	return run, list, err
}

func live(tx *store.Tx, owner string, skip int) store.LiveProviders {
	return store.LiveProviders{Owner: owner, SharedClass: ReservePool, Since: freshSince(tx), Limit: MaxCandidates, Skip: skip}
}

func freshSince(tx *store.Tx) int64 { return tx.Now() - StaleAfter.Milliseconds() }

// Choose orders the eligible ones among the candidates, of which first are the
// first MaxCandidates. While none is eligible it looks further; if none is in
// the end, the refusals tell of some that fell silent, too.
func Choose(tx *store.Tx, first []Provider, q Query) (Selection, error) {
	s := Select(first, q)
	for page, seen := first, 0; len(s.Choices) == 0 && len(page) == MaxCandidates; {
		seen += len(page)
		var err error
		if page, err = Candidates(tx, q.Owner, seen); err != nil {
			return s, err
		}
		s.add(Select(page, q))
	}
	if len(s.Choices) > 0 {
		return s, nil
	}
	silent, err := providers(tx.SilentProviders(q.Owner, ReservePool, freshSince(tx), maxSilent))
	if err == nil {
		s.add(Select(silent, q))
	}
	return s, err
}

// add appends a selection of further candidates to one without a choice.
func (s *Selection) add(more Selection) {
	s.Choices, s.Breadth, s.Refused = more.Choices, s.Breadth+more.Breadth, append(s.Refused, more.Refused...)
}

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
