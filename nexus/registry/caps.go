package registry

import (
	"encoding/json"
	"fmt"

	"remit/law/job"
	"remit/proof/reason"
)

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
