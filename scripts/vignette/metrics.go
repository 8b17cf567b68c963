package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
)

// share is a part of a whole, in counts.
type share struct {
	Count int64 `json:"count"`
	Of    int64 `json:"of"`
}

// figures are the metrics of Gate L. The vignette folds them out of the logs
// itself, by the definitions in the package remit/nexus/metrics, and holds the
// authority's against its own.
type figures struct {
	FillRate           share            `json:"fill_rate"`
	MedianLatencyMS    int64            `json:"median_dispatch_latency_ms"`
	MedianRunLatencyMS int64            `json:"median_run_latency_ms"`
	ReleasedMsats      int64            `json:"released_msats"`
	EffectiveCostMsats int64            `json:"effective_cost_msats"`
	ProviderBreadth    int64            `json:"provider_breadth"`
	PassRate           share            `json:"verification_pass_rate"`
	PassRateByProvider map[string]share `json:"verification_pass_rate_by_provider"`
	ReworkRate         share            `json:"rework_rate"`
	CapsEnforced       share            `json:"caps_enforced"` // answered jobs with the proof, of all
}

// jobFacts is what a log says of one job.
type jobFacts struct {
	open, answered bool
	dispatchedAt   int64
	released       bool
	caps           receipt
}

// fold computes the figures from the logs of runs; reworked are the runs whose
// change did not last.
func fold(logs map[string][]event, reworked map[string]bool) figures {
	f := figures{PassRateByProvider: map[string]share{}}
	var latencies, runLatencies []int64
	for id, events := range logs {
		jobs := map[string]*jobFacts{}
		var created int64
		for _, e := range events {
			if e.Type == "run.finished" && created > 0 {
				runLatencies = append(runLatencies, e.at().UnixMilli()-created)
			}
			r, ok := e.receipt()
			if !ok {
				continue
			}
			if r.Type == "RunCreated" {
				created = r.At.UnixMilli()
			}
			if hash := text(r.Payload, "job_hash"); hash != "" {
				if jobs[hash] == nil {
					jobs[hash] = &jobFacts{}
				}
				latencies = f.take(jobs[hash], r, latencies)
			}
		}
		for _, j := range jobs {
			f.close(j, reworked[id])
		}
	}
	f.MedianLatencyMS, f.MedianRunLatencyMS = median(latencies), median(runLatencies)
	if f.PassRate.Count > 0 { // rounded up: a cost is never understated
		f.EffectiveCostMsats = (f.ReleasedMsats + f.PassRate.Count - 1) / f.PassRate.Count
	}
	return f
}

// take adds one receipt about a job.
func (f *figures) take(j *jobFacts, r receipt, latencies []int64) []int64 {
	switch r.Type {
	case "JobDispatched":
		f.FillRate.Of++
		j.open, j.dispatchedAt = true, r.At.UnixMilli()
		f.ProviderBreadth = max(f.ProviderBreadth, number(r.Payload, "eligible_providers"))
	case "JobRejected":
		if !j.open {
			f.FillRate.Of++
		}
		j.open = false
	case "JobCompleted", "JobFailed":
		// A failure that the authority recorded is no answer of a provider.
		if j.open && text(r.Payload, "response_sha256") != "" && text(r.Payload, "was") == "" {
			f.FillRate.Count++
			j.answered = true
			latencies = append(latencies, r.At.UnixMilli()-j.dispatchedAt)
		}
		j.open = false
	case "VerificationPassed", "VerificationFailed":
		by := f.PassRateByProvider[text(r.Payload, "provider_id")]
		by.Of, f.PassRate.Of = by.Of+1, f.PassRate.Of+1
		if r.Type == "VerificationPassed" {
			by.Count, f.PassRate.Count = by.Count+1, f.PassRate.Count+1
		}
		f.PassRateByProvider[text(r.Payload, "provider_id")] = by
	case "PaymentReleased":
		j.released = true
		f.ReleasedMsats += number(r.Payload, "amount_msats")
	case "CapsEnforced":
		j.caps = r
	}
	return latencies
}

// close counts a job whose log is complete.
func (f *figures) close(j *jobFacts, reworked bool) {
	if j.released {
		f.ReworkRate.Of++
		if reworked {
			f.ReworkRate.Count++
		}
	}
	if j.answered {
		f.CapsEnforced.Of++
		if len(overCap(j.caps)) == 0 {
			f.CapsEnforced.Count++
		}
	}
}

// overCap lists what the proof of a job's caps lacks: each cap has to be there,
// and what was observed within it. CPU time may run ahead of its share for the
// period of a quota, and a job may be seen alive while it is being killed.
func overCap(r receipt) (list []string) {
	const cpuGraceMS, killGraceMS = 1_000, 10_000
	limit := func(name string) int64 { return number(r.Payload, "caps", name) }
	used := func(name string) int64 { return number(r.Payload, "observed", name) }
	if r.Type == "" || min(limit("cpu_millis"), limit("memory_mb"), limit("disk_mb"), limit("pids"), limit("timeout_secs")) <= 0 ||
		text(r.Payload, "caps", "network") != "none" {
		return []string{"a cap is missing or not enforced"}
	}
	if at(r.Payload, "within") != true || used("wall_ms") <= 0 || used("peak_memory_bytes") <= 0 {
		list = append(list, "nothing observed, or the receipt itself says that it was too much")
	}
	// What is written is kept in memory, and so is a /dev/shm of 16 MB.
	if used("peak_memory_bytes") > (limit("memory_mb")+limit("disk_mb")+16+1)<<20 {
		list = append(list, "memory")
	}
	if used("wall_ms") > limit("timeout_secs")*1000+killGraceMS {
		list = append(list, "time")
	}
	if used("cpu_time_ms")*1000 > limit("cpu_millis")*(used("wall_ms")+cpuGraceMS) {
		list = append(list, "cpu")
	}
	if used("network_bytes") != 0 {
		list = append(list, "network")
	}
	return list
}

// median is the lower one of the two in the middle: always a sample.
func median(samples []int64) int64 {
	if len(samples) == 0 {
		return 0
	}
	slices.Sort(samples)
	return samples[(len(samples)-1)/2]
}

// said reads the authority's metrics into the same form.
func said(raw []byte) figures {
	type value struct {
		Value *int64 `json:"value"`
	}
	var m struct {
		FillRate   share            `json:"fill_rate"`
		Latency    value            `json:"median_dispatch_latency_ms"`
		RunLatency value            `json:"median_run_latency_ms"`
		Released   int64            `json:"released_msats"`
		Cost       value            `json:"effective_cost_msats"`
		Breadth    value            `json:"provider_breadth"`
		Pass       share            `json:"verification_pass_rate"`
		ByProvider map[string]share `json:"verification_pass_rate_by_provider"`
		Rework     share            `json:"rework_rate"`
		Caps       struct {
			Holds  *bool `json:"holds"`
			Proven int64 `json:"proven"`
			Of     int64 `json:"of"`
		} `json:"caps_enforced"`
		Unreadable int64 `json:"unreadable_events"`
	}
	must(json.Unmarshal(raw, &m))
	if m.Latency.Value == nil || m.RunLatency.Value == nil || m.Cost.Value == nil || m.Breadth.Value == nil || m.Caps.Holds == nil ||
		m.Unreadable != 0 {
		giveUp("a figure is missing, or events could not be read: %s", raw)
	}
	return figures{m.FillRate, *m.Latency.Value, *m.RunLatency.Value, m.Released, *m.Cost.Value, *m.Breadth.Value, m.Pass, m.ByProvider,
		m.Rework, share{m.Caps.Proven, m.Caps.Of}}
}

// measure is section E: the figures, from the logs and from the authority.
func (v *vignette) measure(ctx context.Context, s *step, logs map[string][]event) {
	reworked := v.judgeLater(ctx, s)
	v.figures = fold(logs, reworked)
	mine, got := fields(v.figures), fields(said(v.nexus.get(ctx, v.alice, "/v1/metrics", nil).raw))
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		s.ok(reflect.DeepEqual(mine[name], got[name]), fmt.Sprintf("%s is %s, from the logs and from the authority", name, mine[name]),
			"the authority says", got[name])
	}
	f, t := v.figures, v.tally
	s.ok(f.PassRate == share{total(t.passed), total(t.verified)} && f.ReleasedMsats == total(t.released), "they agree with the settlements",
		f, t)
	for _, p := range []*provider{v.a, v.b} {
		s.equal(p.name+"'s pass rate agrees with the settlements", f.PassRateByProvider[p.id], share{t.passed[p.id], t.verified[p.id]})
	}
	s.equal("two providers were eligible", f.ProviderBreadth, int64(2))
	s.ok(f.CapsEnforced.Count == f.CapsEnforced.Of && f.CapsEnforced.Of > 0,
		"the caps of every answered job are proven, by what was observed", f.CapsEnforced)
	s.ok(f.FillRate.Count > 0 && f.FillRate.Count < f.FillRate.Of, "refused and lost dispatches lower the fill rate", f.FillRate)
	s.ok(f.MedianLatencyMS > 0 && f.MedianRunLatencyMS >= f.MedianLatencyMS, "latencies were measured", f.MedianLatencyMS,
		f.MedianRunLatencyMS)
}

// fields are the members of a document, each as JSON.
func fields(v any) map[string]string {
	var raw map[string]json.RawMessage
	must(json.Unmarshal(need(json.Marshal(v)), &raw))
	out := map[string]string{}
	for name, text := range raw {
		out[name] = string(text)
	}
	return out
}

// judgeLater says what became of two changes: the is kept, the one of
// the retry is taken back.
func (v *vignette) judgeLater(ctx context.Context, s *step) (reworked map[string]bool) {
	outcome := func(run, kind string) {
		ask := v.alice.post("/v1/runs/"+run+"/outcome", "outcome-"+kind, object{"kind": kind})
		v.nexus.repeated(ctx, s, "that the change is "+kind+" is recorded once", ask, http.StatusOK, nil)
	}
	outcome(v.happy.runID, "accepted")
	reverted := v.named("retry").id
	outcome(reverted, "reverted")
	return map[string]bool{reverted: true}
}

// named is the run with a name.
func (v *vignette) named(name string) *run {
	return v.runs[slices.IndexFunc(v.runs, func(r *run) bool { return r.name == name })]
}
