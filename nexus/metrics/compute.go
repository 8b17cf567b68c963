package metrics

import (
	"fmt"
	"maps"
	"slices"
)

// report turns what was folded into figures.
func (f *fold) report() Report {
	r := Report{Schema: Schema, Runs: int64(len(f.runs)), Unreadable: f.unreadable}
	var attempted, filled, verified, passed, released, reworked int64
	var runLatencies []int64
	byProvider, byEngine, byModel, answered := shares{}, shares{}, shares{}, map[string]bool{}
	for _, run := range f.runs {
		if run.created > 0 && run.finished > 0 {
			runLatencies = append(runLatencies, max(0, run.finished-run.created))
		}
		for _, j := range run.jobs {
			r.Jobs++
			attempted, filled = attempted+j.attempted, filled+j.filled
			if j.isReleased {
				released++
				r.ReleasedMsats += j.released
				if f.reworked[run.id] {
					reworked++
				}
			}
			if j.answered && j.provider != "" {
				answered[j.provider] = true
			}
			if !j.verified {
				continue
			}
			verified++
			if j.passed {
				passed++
			}
			byProvider.add(j.provider, j)
			byEngine.add(j.engine, j)
			byModel.add(j.model, j)
		}
	}
	r.FillRate = ratio(filled, attempted, "no job was dispatched")
	r.DispatchLatencyMedian = percentile(f.latencies, 50, "no dispatch was answered")
	r.DispatchLatencyP95 = percentile(f.latencies, 95, "no dispatch was answered")
	r.RunLatencyMedian = percentile(runLatencies, 50, "no run has ended")
	r.RunLatencyP95 = percentile(runLatencies, 95, "no run has ended")
	r.EffectiveCost = effectiveCost(r.ReleasedMsats, passed)
	r.ProviderBreadth = f.providerBreadth()
	r.PassRate = ratio(passed, verified, "no job was verified")
	if r.ProvidersAnswered = unknown("no dispatch was answered"); len(answered) > 0 {
		r.ProvidersAnswered = number(int64(len(answered)), 0)
	}
	r.CostByProvider, r.CostByEngine, r.CostByModel = byProvider.costs(), byEngine.costs(), byModel.costs()
	r.PassRateByProvider, r.PassRateByEngine, r.PassRateByModel = byProvider.ratios(), byEngine.ratios(), byModel.ratios()
	r.ReworkRate = ratio(reworked, released, "no payment was released")
	r.CapsEnforced = f.capsEnforced()
	if f.repeats {
		r.ReplaysServed, r.ConflictsRefused = number(f.replays, 0), number(f.conflicts, 0)
	} else {
		r.ReplaysServed = unknown("the events record no repetition")
		r.ConflictsRefused = r.ReplaysServed
	}
	return r
}

// effectiveCost rounds up: a cost is never understated.
func effectiveCost(msats, passed int64) Number {
	if passed == 0 {
		return unknown("no job passed verification")
	}
	cost := msats / passed
	if msats%passed != 0 {
		cost++
	}
	return number(cost, passed)
}

func (f *fold) providerBreadth() Number {
	switch {
	case f.counted && !f.silent:
		return number(f.breadth, 0)
	case f.silent:
		return unknown("a dispatch does not say how many providers were eligible")
	}
	return unknown("no job was dispatched")
}

// shares counts passed of verified jobs by name.
type shares map[string]*struct{ passed, verified, msats int64 }

// add counts a verified job.
func (s shares) add(name string, j *jobFold) {
	if name == "" {
		return
	}
	if s[name] == nil {
		s[name] = &struct{ passed, verified, msats int64 }{}
	}
	s[name].verified++
	if j.passed {
		s[name].passed++
	}
	if j.isReleased {
		s[name].msats += j.released
	}
}

func (s shares) ratios() map[string]Ratio {
	out := make(map[string]Ratio, len(s))
	for name, n := range s {
		out[name] = ratio(n.passed, n.verified, "")
	}
	return out
}

func (s shares) costs() map[string]Number {
	out := make(map[string]Number, len(s))
	for name, n := range s {
		out[name] = effectiveCost(n.msats, n.passed)
	}
	return out
}

// Tolerances of the comparison of usage with caps.
const (
	// killGraceMS is how long a job may be seen alive after its time: the
	// processes are killed, then the wall clock is read.
	killGraceMS = 10_000
	// cpuGraceMS covers the start of a job, and the periods of the CPU quota
	// within which a job may be ahead of its share.
	cpuGraceMS = 1_000
	// memoryGrace is what the kernel may charge to be done with something.
	memoryGrace = 1 << 20
	// maxCap and maxMillis are far above any real machine and job, and keep the
	// products below from wrapping around: a journal can say anything.
	maxCap, maxMillis = 1 << 26, 1 << 36
)

// capsEnforced looks for the proof of every answered job.
func (f *fold) capsEnforced() Proof {
	var p Proof
	for _, run := range f.runs {
		for _, hash := range slices.Sorted(maps.Keys(run.jobs)) {
			j := run.jobs[hash]
			if !j.answered {
				continue
			}
			p.Of++
			why := j.excess()
			if why == "" {
				p.Proven++
			} else if len(p.Lacking) < maxLacking {
				p.Lacking = append(p.Lacking, fmt.Sprintf("%s/%s: %s", run.id, hash, why))
			}
		}
	}
	if p.Of == 0 {
		p.Reason = "no dispatch was answered"
		return p
	}
	p.Holds = new(p.Proven == p.Of)
	return p
}

// excess says why a job's caps are not proven, "" when they are. A cap of 0 is
// no limit, so it proves nothing. Disk is not compared: the cap bounds what is
// there at one time, and what is observed is all that was ever written.
func (j *jobFold) excess() string {
	if j.caps == nil || j.observed == nil {
		return "no CapsEnforced receipt with caps and what was observed"
	}
	c, u := j.caps, j.observed
	switch {
	case min(u.PeakMemoryBytes, u.WallMillis, u.CPUMillis, u.DiskWriteBytes, u.NetworkBytes) < 0,
		max(u.WallMillis, u.CPUMillis) > maxMillis, max(c.CPUMillis, c.TimeoutSecs, c.MemoryMB, c.DiskMB) > maxCap:
		return "figures out of range"
	case c.MemoryMB <= 0 || c.TimeoutSecs <= 0 || c.CPUMillis <= 0:
		return "memory, time or cpu is not limited"
	case u.PeakMemoryBytes > c.MemoryBytes()+memoryGrace:
		return fmt.Sprintf("%d bytes of memory, the caps of memory and of what is written are %d and %d MB", u.PeakMemoryBytes, c.MemoryMB,
			c.DiskMB)
	case u.WallMillis > c.TimeoutSecs*1000+killGraceMS:
		return fmt.Sprintf("%d ms, the cap is %d s", u.WallMillis, c.TimeoutSecs)
	case u.CPUMillis*1000 > c.CPUMillis*(u.WallMillis+cpuGraceMS):
		return fmt.Sprintf("%d ms of cpu in %d ms, the cap is %d/1000 cpus", u.CPUMillis, u.WallMillis, c.CPUMillis)
	case c.Network == "none" && u.NetworkBytes != 0:
		return fmt.Sprintf("%d bytes over the network, which is closed", u.NetworkBytes)
	case !j.within:
		return "the receipt itself says that a cap was exceeded"
	}
	return ""
}

// Schema names the form of [Report].
const Schema = "remit.metrics.v1"

// Report is what the events of some runs amount to.
type Report struct {
	Schema string `json:"schema"`
	// Window says which runs these are; null when the caller chose them.
	Window     *Window `json:"window"`
	Runs       int64   `json:"runs"`
	Jobs       int64   `json:"jobs"`
	Unreadable int64   `json:"unreadable_events"`

	FillRate              Ratio             `json:"fill_rate"`
	DispatchLatencyMedian Number            `json:"median_dispatch_latency_ms"`
	DispatchLatencyP95    Number            `json:"p95_dispatch_latency_ms"`
	RunLatencyMedian      Number            `json:"median_run_latency_ms"`
	RunLatencyP95         Number            `json:"p95_run_latency_ms"`
	ReleasedMsats         int64             `json:"released_msats"`
	EffectiveCost         Number            `json:"effective_cost_msats"`
	ProviderBreadth       Number            `json:"provider_breadth"`
	ProvidersAnswered     Number            `json:"providers_that_answered"`
	PassRate              Ratio             `json:"verification_pass_rate"`
	PassRateByProvider    map[string]Ratio  `json:"verification_pass_rate_by_provider"`
	PassRateByEngine      map[string]Ratio  `json:"verification_pass_rate_by_engine"`
	PassRateByModel       map[string]Ratio  `json:"verification_pass_rate_by_model"`
	CostByProvider        map[string]Number `json:"effective_cost_msats_by_provider"`
	CostByEngine          map[string]Number `json:"effective_cost_msats_by_engine"`
	CostByModel           map[string]Number `json:"effective_cost_msats_by_model"`
	ReworkRate            Ratio             `json:"rework_rate"`
	CapsEnforced          Proof             `json:"caps_enforced"`
	ReplaysServed         Number            `json:"replays_served"`
	ConflictsRefused      Number            `json:"conflicts_refused"`
}

// Window is the part of an owner's runs that a report is about: the newest ones.
type Window struct {
	Limit int64  `json:"limit"` // runs at most
	Cut   bool   `json:"cut"`   // there are older runs that do not count
	From  string `json:"from"`  // when the first of them was made, "" without runs
	To    string `json:"to"`    // and the last
}

// Ratio is a share, with the counts that it comes from.
type Ratio struct {
	Count       int64  `json:"count"`
	Of          int64  `json:"of"`
	BasisPoints *int64 `json:"basis_points"` // of 10 000, rounded down; null when Of is 0
	Reason      string `json:"reason,omitempty"`
}

func ratio(count, of int64, without string) Ratio {
	r := Ratio{Count: count, Of: of}
	if of == 0 {
		r.Reason = without
		return r
	}
	r.BasisPoints = new(count * 10_000 / of)
	return r
}

// Number is a figure that may be unknown.
type Number struct {
	Value   *int64 `json:"value"`
	Samples int64  `json:"samples,omitempty"` // what it was computed from
	Reason  string `json:"reason,omitempty"`  // why it is null
}

func number(value, samples int64) Number { return Number{Value: &value, Samples: samples} }

func unknown(why string) Number { return Number{Reason: why} }

// Proof is a claim about every answered job.
type Proof struct {
	Holds   *bool    `json:"holds"`
	Proven  int64    `json:"proven"`
	Of      int64    `json:"of"`
	Lacking []string `json:"lacking,omitempty"` // "run/job: what is missing", at most 20
	Reason  string   `json:"reason,omitempty"`
}

// maxLacking bounds the list of a proof that fails: the first ones tell why.
const maxLacking = 20

// percentile returns the sample at percent of the way through the sorted ones.
func percentile(samples []int64, percent int, without string) Number {
	if len(samples) == 0 {
		return unknown(without)
	}
	sorted := slices.Sorted(slices.Values(samples))
	return number(sorted[(len(sorted)-1)*percent/100], int64(len(sorted)))
}

// Count fills in what a replica counted itself, when its log does not record
// repetitions. It leaves figures of the log alone.
func (r *Report) Count(replaysServed, conflictsRefused int64) {
	if r.ReplaysServed.Value == nil {
		r.ReplaysServed = number(replaysServed, 0)
	}
	if r.ConflictsRefused.Value == nil {
		r.ConflictsRefused = number(conflictsRefused, 0)
	}
}
