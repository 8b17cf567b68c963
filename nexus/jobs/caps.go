package jobs

import (
	"encoding/json"
	"fmt"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/record"
)

// allowance is what stands with a job from its lease on. An owner may change the
// caps while it runs, and the provider is judged by the caps of the lease.
type allowance struct {
	Owner    registry.Caps   `json:"owner"`
	Revision int64           `json:"caps_revision"`
	Granted  job.CapsApplied `json:"granted"` // the owner's, within what the job asks for
}

// allow writes the allowance of a job that a provider leases now.
func allow(by registry.Provider, n job.Needs) (json.RawMessage, error) {
	text, err := canon.Marshal(allowance{by.Caps, by.CapsRevision, by.Caps.Grant(n)})
	if err != nil {
		return nil, fmt.Errorf("note what a job may use: %w", err)
	}
	return text, nil
}

// allowanceOf reads it; nil for a job without a lease, and for one of before
// there were allowances.
func allowanceOf(j Job) (*allowance, error) {
	if len(j.Caps) == 0 {
		return nil, nil
	}
	a := new(allowance)
	if err := json.Unmarshal(j.Caps, a); err != nil {
		return nil, fmt.Errorf("read what job %s may use: %w", j.ID, err)
	}
	return a, nil
}

// capsEnforced writes the proof that the caps held: what the sandbox enforced
// beside what it observed, and what the owner allows. Without what was enforced
// and observed there is no receipt, and the metrics say so.
func capsEnforced(tx *store.Tx, p authority.Principal, j Job, resp job.Response) error {
	caps, usage := resp.Enforced(), resp.Observed()
	if caps == nil || usage == nil {
		return nil
	}
	a, err := allowanceOf(j)
	if err != nil {
		return err
	}
	if a == nil {
		now, err := registry.Lock(tx, j.ProviderID)
		if err != nil {
			return err
		}
		a = &allowance{Owner: now.Caps, Revision: now.CapsRevision}
	}
	exceeded, missing := exceeds(*caps, *usage, a.Owner), unenforced(*caps)
	payload := map[string]any{
		"job_id": j.ID, "job_hash": j.Hash, "provider_id": j.ProviderID, "caps": caps, "observed": usage, "owner_caps": a.Owner,
		"caps_revision": a.Revision, "within": len(exceeded) == 0 && len(missing) == 0, "exceeded": exceeded, "not_enforced": missing,
	}
	_, err = receipt(tx, j.RunID, p, record.CapsEnforced, attemptKey("caps-enforced", j), payload)
	return err
}

// Tolerances of the comparison of usage with caps.
const (
	wallSlack   = 10_000  // milliseconds that stopping a job may take beyond its time
	cpuSlack    = 1_000   // milliseconds by which a job may be ahead of its share
	memorySlack = 1 << 20 // bytes that the kernel may charge to be done with something
)

// exceeds names what was larger than allowed: use above the enforced caps, and
// enforced caps above those that the owner had set. Disk is not compared with its
// use: the cap bounds what is there at one time, and what is observed of an
// engine run is all that its commands wrote.
func exceeds(caps job.CapsApplied, use job.Usage, owner registry.Caps) []string {
	list := []string{}
	for _, rule := range []struct {
		name        string
		value, most int64
	}{
		{"memory", use.PeakMemoryBytes, caps.MemoryBytes() + memorySlack},
		{"wall", use.WallMillis, caps.TimeoutSecs*1000 + wallSlack},
		// A thousandth of a processor is a millisecond of it in every second.
		{"cpu", use.CPUMillis, (use.WallMillis+cpuSlack)*max(caps.CPUMillis, 1)/1000 + cpuSlack},
		{"caps.cpu_millis", caps.CPUMillis, owner.CPUMillis},
		{"caps.memory_mb", caps.MemoryMB, owner.MemoryMB},
		{"caps.disk_mb", caps.DiskMB, max(owner.DiskMB, 1)}, // as it is granted
		{"caps.timeout_secs", caps.TimeoutSecs, owner.TimeoutSecs},
	} {
		if rule.value > rule.most {
			list = append(list, rule.name)
		}
	}
	if owner.Pids > 0 && caps.Pids > owner.Pids {
		list = append(list, "caps.pids")
	}
	if caps.Network != "" && !owner.Within(caps.Network) {
		list = append(list, "caps.network")
	}
	if caps.Network == job.NetworkNone && use.NetworkBytes > 0 {
		list = append(list, "network")
	}
	return list
}

// unenforced names the caps that nothing held: of those a job can take as much as
// the machine has.
func unenforced(caps job.CapsApplied) []string {
	list := []string{}
	for _, c := range []struct {
		name string
		held bool
	}{
		{"cpu_millis", caps.CPUMillis > 0}, {"memory_mb", caps.MemoryMB > 0}, {"disk_mb", caps.DiskMB > 0},
		{"pids", caps.Pids > 0}, {"timeout_secs", caps.TimeoutSecs > 0}, {"network", caps.Network != ""},
	} {
		if !c.held {
			list = append(list, c.name)
		}
	}
	return list
}
