package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
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

// Caps are the hard limits that an owner sets for a provider. What is zero is
// not allowed at all, except Pids, where 0 leaves the number to the sandbox.
// What a job writes is kept in memory: it may occupy MemoryMB and DiskMB together.
type Caps struct {
	CPUMillis   int64  `json:"cpu_millis"` // of one job
	MemoryMB    int64  `json:"memory_mb"`  // of one job
	DiskMB      int64  `json:"disk_mb"`    // of one job
	GPUs        int64  `json:"gpus"`
	Pids        int64  `json:"pids"`
	TimeoutSecs int64  `json:"timeout_secs"` // longest job
	Concurrency int64  `json:"concurrency"`  // jobs at once
	Network     string `json:"network"`      // none, localhost or full; "" until set
}

// Upper bounds of caps: they keep figures sane, not machines small.
const (
	maxCPUMillis   = 1 << 20
	maxMemoryMB    = 1 << 24
	maxDiskMB      = 1 << 26
	maxPids        = 1 << 22
	maxGPUs        = 1 << 10
	maxTimeout     = 7 * 24 * 3600
	maxConcurrency = 1 << 10
)

// minPids is what the sandbox itself needs: with less no job would start, and
// that would look like a fault of the provider.
const minPids = 16

// networkRank orders network policies: each allows what those before it allow.
var networkRank = map[string]int{"none": 1, "localhost": 2, "full": 3}

// Set reports whether the owner has ever set caps.
func (c Caps) Set() bool { return c != Caps{} }

// Validate checks caps that an owner wants to set.
func (c Caps) Validate() error {
	for _, rule := range []struct {
		field          string
		value, low, up int64
	}{
		{"cpu_millis", c.CPUMillis, 1, maxCPUMillis}, {"memory_mb", c.MemoryMB, 1, maxMemoryMB},
		{"disk_mb", c.DiskMB, 0, maxDiskMB}, {"gpus", c.GPUs, 0, maxGPUs}, {"pids", c.Pids, 0, maxPids},
		{"timeout_secs", c.TimeoutSecs, 1, maxTimeout}, {"concurrency", c.Concurrency, 1, maxConcurrency},
	} {
		if rule.value < rule.low || rule.value > rule.up {
			return invalid("caps."+rule.field, "is %d, must be %d to %d", rule.value, rule.low, rule.up)
		}
	}
	if c.Pids > 0 && c.Pids < minPids {
		return invalid("caps.pids", "is %d, must be 0, which leaves it to the sandbox, or %d to %d", c.Pids, minPids, maxPids)
	}
	if networkRank[c.Network] == 0 {
		return invalid("caps.network", "is %.32q, must be none, localhost or full", c.Network)
	}
	return nil
}

// Allow returns nil when a job with these needs fits, or caps_exceeded naming
// the cap that is too small.
func (c Caps) Allow(n job.Needs) *reason.Error {
	for _, rule := range []struct {
		field     string
		need, cap int64
	}{
		{"cpu_millis", n.CPUMillis, c.CPUMillis}, {"memory_mb", n.MemoryMB, c.MemoryMB},
		{"disk_mb", n.DiskMB, c.DiskMB}, {"timeout_secs", n.TimeoutSecs, c.TimeoutSecs},
	} {
		if rule.need > rule.cap {
			return reason.Errorf(reason.CapsExceeded, "%s: %d needed, the cap is %d", rule.field, rule.need, rule.cap)
		}
	}
	if !c.Within(n.NetworkPolicy) {
		return reason.Errorf(reason.CapsExceeded, "network: %.32q needed, the cap is %.32q", n.NetworkPolicy, c.Network)
	}
	if c.Concurrency < 1 {
		return reason.Errorf(reason.CapsExceeded, "concurrency: the cap is 0")
	}
	return nil
}

// Within reports whether a network policy allows no more than the caps do.
func (c Caps) Within(network string) bool {
	return networkRank[network] > 0 && networkRank[network] <= networkRank[c.Network]
}

// Grant is what a job with these needs may use: what it asks for, and the cap of
// what it says nothing about. It is never more than the caps, and never 0, which
// would be no limit, except Pids.
func (c Caps) Grant(n job.Needs) job.CapsApplied {
	least := func(need, most int64) int64 {
		if need <= 0 || need > most {
			need = most
		}
		return max(need, 1)
	}
	return job.CapsApplied{
		CPUMillis: least(n.CPUMillis, c.CPUMillis), MemoryMB: least(n.MemoryMB, c.MemoryMB), DiskMB: least(n.DiskMB, c.DiskMB),
		Pids: c.Pids, TimeoutSecs: least(n.TimeoutSecs, c.TimeoutSecs), Network: n.NetworkPolicy,
	}
}

func capsOf(raw json.RawMessage) (Caps, error) {
	var c Caps
	if err := json.Unmarshal(raw, &c); err != nil {
		return Caps{}, fmt.Errorf("read caps: %w", err)
	}
	return c, nil
}

func invalid(field, format string, args ...any) *reason.Error {
	e := reason.Errorf(reason.RequestInvalid, format, args...)
	e.Field = field
	return e
}
