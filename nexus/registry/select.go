package registry

import (
	"cmp"
	"slices"

	"remit/law/job"
	"remit/proof/reason"
)

// Tiers of a choice.
const (
	Owned = "owned"
	Pool  = "reserve_pool"
)

// What is added to a price before choices are compared, in msats.
const (
	operatorFeeBPS     = 50 // of the price, rounded up
	poolAdder          = 500
	marketAdder        = 250
	strikePenalty      = 500
	unverifiedPenalty  = 500
	provisionalPenalty = 1000
	maxUnverified      = 5 // failing jobs count no further: they are cheap to make
)

// topologyRank lists the classes.
var topologyRank = map[string]int{LocalCluster: 1, BundleRack: 1, InstanceMarket: 2, SingleNode: 3, ReservePool: 4}

var conductRank = map[string]int{Preferred: 0, Qualified: 1, Provisional: 2}

// AllInPrice is what a job costs its requester with fees, in msats.
func (p Provider) AllInPrice() int64 {
	price := p.PriceMsats + (p.PriceMsats/10000)*operatorFeeBPS + ((p.PriceMsats%10000)*operatorFeeBPS+9999)/10000
	switch p.Class {
	case ReservePool:
		price += poolAdder
	case InstanceMarket:
		price += marketAdder
	}
	return price
}

// penalty is what past conduct adds to the price when choices are compared.
// Every verified job makes up for one that was not.
func (p Provider) penalty() int64 {
	add := strikePenalty * p.Strikes()
	if p.Conduct() == Provisional {
		add += provisionalPenalty
	}
	return add + unverifiedPenalty*min(maxUnverified, max(0, p.Unverified-p.Successes))
}

// Eligible returns nil when a provider can be offered a job, or why not.
func Eligible(p Provider, needs job.Needs, now int64) *reason.Error {
	switch {
	case p.Quarantined():
		return reason.Errorf(reason.ProviderQuarantined, "quarantined: %s", p.QuarantineReason)
	case !p.Enabled:
		return reason.Errorf(reason.ProviderDisabled, "switched off")
	case p.Liveness(now) != Fresh:
		return reason.Errorf(reason.NoProvider, "its heartbeat is %s", p.Liveness(now))
	case Status(p.Status) != Running:
		return reason.Errorf(reason.NoProvider, "is %s", p.Status)
	case !slices.Contains(p.Capabilities, needs.Capability):
		return reason.Errorf(reason.NoProvider, "does not run %s", needs.Capability)
	}
	return p.Caps.Allow(needs)
}

// Query asks for providers.
type Query struct {
	Owner         string // the requester
	Needs         job.Needs
	MaxPriceMsats int64    // 0: no limit
	Only          string   // this provider or none; "": any
	Exclude       []string // providers that had the job before
	Now           int64    // unix milliseconds
}

// Choice is an eligible provider.
type Choice struct {
	Provider Provider
	Tier     string // Owned or Pool
	AllIn    int64
}

// Refusal is a provider that was looked at and is not eligible.
type Refusal struct {
	ProviderID string
	Why        *reason.Error
}

// Selection is the answer to a query.
type Selection struct {
	Choices []Choice // best first, of one tier
	// Breadth counts the eligible providers of both tiers.
	Breadth int
	Refused []Refusal
}

// Select orders the eligible ones among candidates. Providers of others that
// are not in the pool are never chosen, whatever the caller passes.
func Select(candidates []Provider, q Query) Selection {
	var s Selection
	var owned, pool []Choice
	for _, p := range candidates {
		mine := p.Owner == q.Owner
		if !mine && !p.InPool() || q.Only != "" && p.ID != q.Only || slices.Contains(q.Exclude, p.ID) {
			continue
		}
		if why := q.refuse(p); why != nil {
			s.Refused = append(s.Refused, Refusal{ProviderID: p.ID, Why: why})
			continue
		}
		if mine {
			owned = append(owned, Choice{Provider: p, Tier: Owned, AllIn: p.AllInPrice()})
		} else {
			pool = append(pool, Choice{Provider: p, Tier: Pool, AllIn: p.AllInPrice()})
		}
	}
	s.Breadth = len(owned) + len(pool)
	s.Choices = owned
	if len(owned) == 0 {
		s.Choices = pool
	}
	slices.SortFunc(s.Choices, better)
	slices.SortFunc(s.Refused, func(a, b Refusal) int { return cmp.Compare(a.ProviderID, b.ProviderID) })
	return s
}

func (q Query) refuse(p Provider) *reason.Error {
	if why := Eligible(p, q.Needs, q.Now); why != nil {
		return why
	}
	if q.MaxPriceMsats > 0 && p.PriceMsats > q.MaxPriceMsats {
		return reason.Errorf(reason.NoProvider, "its price is %d msats, the limit is %d", p.PriceMsats, q.MaxPriceMsats)
	}
	return nil
}

// better orders choices. One with a free place comes before one that would let
// the job wait; then the order of the rule: effective price, conduct, topology,
// strikes, id.
func better(a, b Choice) int {
	return cmp.Or(
		compareBool(a.Provider.Full(), b.Provider.Full()),
		cmp.Compare(a.AllIn+a.Provider.penalty(), b.AllIn+b.Provider.penalty()),
		cmp.Compare(conductRank[a.Provider.Conduct()], conductRank[b.Provider.Conduct()]),
		cmp.Compare(topologyRank[a.Provider.Class], topologyRank[b.Provider.Class]),
		cmp.Compare(a.Provider.Strikes(), b.Provider.Strikes()),
		cmp.Compare(a.Provider.ID, b.Provider.ID),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
