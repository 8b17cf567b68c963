//test:plain-package It only computes: there is one goroutine.

package metrics_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/metrics"
	"remit/nexus/store"
)

// journal writes the events of one run.
type journal struct {
	t      *testing.T
	stream string
	events []store.Event
}

func newJournal(t *testing.T, run string) *journal {
	return &journal{t: t, stream: authority.RunStream(run)}
}

func (j *journal) event(at int64, eventType string, payload any) *journal {
	j.t.Helper()
	body, err := json.Marshal(payload)
	if err != nil {
		j.t.Fatal(err)
	}
	j.events = append(j.events, store.Event{Stream: j.stream, Seq: int64(len(j.events) + 1), Type: eventType, Payload: body, RecordedAt: at})
	return j
}

type fields map[string]any

func (j *journal) receipt(at int64, receiptType string, payload fields) *journal {
	j.t.Helper()
	return j.event(at, "receipt", fields{"receipt_type": receiptType, "payload": payload})
}

var (
	caps  = job.CapsApplied{CPUMillis: 1000, MemoryMB: 512, DiskMB: 10, TimeoutSecs: 60, Network: "none"}
	usage = job.Usage{CPUMillis: 400, PeakMemoryBytes: 1 << 20, WallMillis: 500}
)

// happy is a run of one job that is paid, from second start on.
func happy(t *testing.T, run, hash, provider string, start, latency, price int64) *journal {
	return newJournal(t, run).
		receipt(start, "RunCreated", fields{"run_id": run}).
		receipt(start+10, "JobDispatched", fields{"job_hash": hash, "provider_id": provider, "eligible_providers": 2, "engine": "codex",
			"model": "m1"}).
		receipt(start+10+latency, "JobCompleted", fields{"job_hash": hash, "provider_id": provider}).
		receipt(start+10+latency, "CapsEnforced", fields{"job_hash": hash, "caps": caps, "observed": usage}).
		receipt(start+20+latency, "VerificationPassed", fields{"job_hash": hash, "provider_id": provider}).
		receipt(start+20+latency, "PaymentReleased", fields{"job_hash": hash, "amount_msats": price}).
		event(start+1000, "run.finished", fields{"status": "succeeded"})
}

func value(n metrics.Number) int64 {
	if n.Value == nil {
		return math.MinInt64
	}
	return *n.Value
}

func points(r metrics.Ratio) int64 {
	if r.BasisPoints == nil {
		return math.MinInt64
	}
	return *r.BasisPoints
}

// TestHappyPath computes every figure of the vignette's good case.
func TestHappyPath(t *testing.T) {
	t.Parallel()
	r := metrics.Compute(happy(t, "r1", "h1", "prv_a", 1000, 70, 1000).events)
	for name, got := range map[string][2]int64{
		"runs": {r.Runs, 1}, "jobs": {r.Jobs, 1}, "unreadable": {r.Unreadable, 0}, "released": {r.ReleasedMsats, 1000},
		"fill": {points(r.FillRate), 10_000}, "dispatch": {value(r.DispatchLatencyMedian), 70}, "dispatch p95": {value(r.DispatchLatencyP95), 70},
		"run": {value(r.RunLatencyMedian), 1000}, "run p95": {value(r.RunLatencyP95), 1000}, "cost": {value(r.EffectiveCost), 1000},
		"breadth": {value(r.ProviderBreadth), 2}, "pass": {points(r.PassRate), 10_000}, "pass of a": {points(r.PassRateByProvider["prv_a"]),
			10_000},
		"pass of codex": {points(r.PassRateByEngine["codex"]), 10_000}, "pass of m1": {points(r.PassRateByModel["m1"]), 10_000},
		"rework": {points(r.ReworkRate), 0}, "caps": {r.CapsEnforced.Proven, 1},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %d, want %d", name, got[0], got[1])
		}
	}
	if r.CapsEnforced.Holds == nil || !*r.CapsEnforced.Holds {
		t.Errorf("caps: %+v", r.CapsEnforced)
	}
	if r.ReplaysServed.Value != nil || r.ReplaysServed.Reason == "" {
		t.Errorf("replays were not recorded, yet they are %+v", r.ReplaysServed)
	}
	r.Count(3, 0)
	if value(r.ReplaysServed) != 3 || value(r.ConflictsRefused) != 0 {
		t.Errorf("counted: %+v, %+v", r.ReplaysServed, r.ConflictsRefused)
	}
}

// TestNothingIsAssumed: without events every figure is null and says why.
func TestNothingIsAssumed(t *testing.T) {
	t.Parallel()
	r := metrics.Compute(nil)
	v := reflect.ValueOf(r)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i).Interface().(type) {
		case metrics.Number:
			if f.Value != nil || f.Reason == "" {
				t.Errorf("%s is %+v", name, f)
			}
		case metrics.Ratio:
			if f.BasisPoints != nil || f.Reason == "" {
				t.Errorf("%s is %+v", name, f)
			}
		case metrics.Proof:
			if f.Holds != nil || f.Reason == "" {
				t.Errorf("%s is %+v", name, f)
			}
		case map[string]metrics.Ratio:
			if f == nil || len(f) != 0 {
				t.Errorf("%s is %+v", name, f)
			}
		}
	}
}

// TestCases covers the failure cases one by one.
func TestCases(t *testing.T) {
	t.Parallel()
	dispatch := func(j *journal, at int64, provider string) *journal {
		return j.receipt(at, "JobDispatched", fields{"job_hash": "h", "provider_id": provider, "eligible_providers": int(provider[4] - '`')})
	}
	tests := []struct {
		name  string
		build func(j *journal)
		check func(r metrics.Report) (got, want int64)
	}{
		{"a lost provider answers nothing", func(j *journal) {
			dispatch(j, 10, "prv_a").receipt(20, "JobFailed", fields{"job_hash": "h", "reason": "offline_mid_run", "was": "leased",
				"response_sha256": ""})
		}, func(r metrics.Report) (int64, int64) { return points(r.FillRate), 0 }},
		{"the fallback answers", func(j *journal) {
			dispatch(j, 10, "prv_a").receipt(20, "JobFailed", fields{"job_hash": "h", "reason": "offline_mid_run", "was": "leased",
				"response_sha256": ""})
			dispatch(j, 30, "prv_b").receipt(45, "JobCompleted", fields{"job_hash": "h"})
		}, func(r metrics.Report) (int64, int64) { return points(r.FillRate), 5000 }},
		{"a fallback without a failure between", func(j *journal) {
			dispatch(dispatch(j, 10, "prv_a"), 30, "prv_b").receipt(45, "JobCompleted", fields{"job_hash": "h"})
		}, func(r metrics.Report) (int64, int64) { return points(r.FillRate), 5000 }},
		{"the fallback's latency is its own", func(j *journal) {
			dispatch(dispatch(j, 10, "prv_a"), 30, "prv_b").receipt(45, "JobCompleted", fields{"job_hash": "h"})
		}, func(r metrics.Report) (int64, int64) { return value(r.DispatchLatencyMedian), 15 }},
		{"breadth is that of the best dispatch", func(j *journal) { dispatch(dispatch(j, 10, "prv_a"), 30, "prv_b") },
			func(r metrics.Report) (int64, int64) { return value(r.ProviderBreadth), 2 }},
		{"breadth is unknown if one dispatch is silent", func(j *journal) {
			dispatch(j, 10, "prv_a").receipt(11, "JobDispatched", fields{"job_hash": "h2"})
		}, func(r metrics.Report) (int64, int64) { return value(r.ProviderBreadth), math.MinInt64 }},
		{"a failing test is an answer", func(j *journal) {
			dispatch(j, 10, "prv_a").receipt(20, "JobFailed", fields{"job_hash": "h", "reason": "command_failed", "response_sha256": "sha256:00"})
		}, func(r metrics.Report) (int64, int64) { return points(r.FillRate), 10_000 }},
		{"a rejected job was attempted", func(j *journal) { j.receipt(5, "JobRejected", fields{"job_hash": "h"}) },
			func(r metrics.Report) (int64, int64) { return r.FillRate.Of, 1 }},
		{"a rejected dispatch counts once", func(j *journal) { dispatch(j, 4, "prv_a").receipt(5, "JobRejected", fields{"job_hash": "h"}) },
			func(r metrics.Report) (int64, int64) { return r.FillRate.Of, 1 }},
		{"a canceled job is not answered", func(j *journal) {
			dispatch(j, 4, "prv_a").receipt(5, "JobFailed", fields{"job_hash": "h", "reason": "cancelled", "was": "leased"})
		}, func(r metrics.Report) (int64, int64) { return points(r.FillRate), 0 }},
		{"an answer to nothing", func(j *journal) { j.receipt(5, "JobCompleted", fields{"job_hash": "h"}) },
			func(r metrics.Report) (int64, int64) { return r.FillRate.Of + r.FillRate.Count, 0 }},
		{"a failed verification costs", func(j *journal) {
			dispatch(j, 1, "prv_a").receipt(2, "VerificationFailed", fields{"job_hash": "h"})
		}, func(r metrics.Report) (int64, int64) { return points(r.PassRateByProvider["prv_a"]), 0 }},
		{"nothing passed, so no cost", func(j *journal) { j.receipt(2, "VerificationFailed", fields{"job_hash": "h"}) },
			func(r metrics.Report) (int64, int64) { return value(r.EffectiveCost), math.MinInt64 }},
		{"a cost is rounded up", func(j *journal) {
			for _, h := range []string{"x", "y", "z"} {
				j.receipt(2, "VerificationPassed", fields{"job_hash": h})
			}
			j.receipt(3, "PaymentReleased", fields{"job_hash": "x", "amount_msats": 10})
		}, func(r metrics.Report) (int64, int64) { return value(r.EffectiveCost), 4 }},
		{"a provider that gave up gave no answer", func(j *journal) {
			dispatch(j, 10, "prv_a").receipt(20, "JobFailed", fields{"job_hash": "h", "was": "leased", "response_sha256": "sha256:00"})
		}, func(r metrics.Report) (int64, int64) { return points(r.FillRate), 0 }},
		{"repetitions of the log", func(j *journal) { j.event(1, metrics.ReplayServed, fields{}).event(2, metrics.ReplayServed, fields{}) },
			func(r metrics.Report) (int64, int64) {
				return value(r.ReplaysServed)*10 + value(r.ConflictsRefused), 20
			}},
		{"a payload of another shape is counted", func(j *journal) {
			j.receipt(1, "JobDispatched", fields{"job_hash": 7}).event(2,
				"receipt", "text")
		},
			func(r metrics.Report) (int64, int64) { return r.Unreadable, 2 }},
		{"a job without a hash is counted", func(j *journal) { j.receipt(1, "JobDispatched", fields{}) },
			func(r metrics.Report) (int64, int64) { return r.Unreadable, 1 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, "r")
			test.build(j)
			if got, want := test.check(metrics.Compute(j.events)); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
}

// TestRework reads outcomes from the journal of the account.
func TestRework(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]int64{"accepted": 0, "reverted": 5000, "failing": 5000} {
		account := &journal{t: t, stream: authority.AccountStream("alice")}
		account.receipt(1, "OutcomeRecorded", fields{"run_id": "r1", "kind": "accepted"}).
			receipt(9, "OutcomeRecorded", fields{"run_id": "r1", "kind": kind}).
			receipt(9, "OutcomeRecorded", fields{"run_id": "r9", "kind": "reverted"})
		events := slices.Concat(account.events, happy(t, "r1", "h", "prv_a", 0, 1, 1).events, happy(t, "r2", "h", "prv_a", 0, 1, 1).events)
		if r := metrics.Compute(events); points(r.ReworkRate) != want || r.Jobs != 2 {
			t.Errorf("%s: rework %+v of %d jobs, want %d", kind, r.ReworkRate, r.Jobs, want)
		}
	}
}

// TestPercentiles pins the rule: always a sample, the lower one of two.
func TestPercentiles(t *testing.T) {
	t.Parallel()
	var events []store.Event
	latencies := []int64{40, 10, 30, 20}
	for i, l := range latencies {
		events = append(events, happy(t, "r"+string(rune('a'+i)), "h", "prv_a", 0, l, 1).events...)
	}
	r := metrics.Compute(events)
	if value(r.DispatchLatencyMedian) != 20 || value(r.DispatchLatencyP95) != 30 || r.DispatchLatencyMedian.Samples != 4 {
		t.Errorf("median %+v, p95 %+v", r.DispatchLatencyMedian, r.DispatchLatencyP95)
	}
}

// TestCapsProof takes the proof apart: each row breaks one thing.
func TestCapsProof(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(c *job.CapsApplied, u *job.Usage)
		want   string // part of the complaint; "" = proven
	}{
		{"within", func(*job.CapsApplied, *job.Usage) {}, ""},
		{"memory and all that may be written", func(c *job.CapsApplied, u *job.Usage) { u.PeakMemoryBytes = c.MemoryBytes() }, ""},
		{"much more", func(c *job.CapsApplied, u *job.Usage) { u.PeakMemoryBytes = c.MemoryBytes() + 2<<20 }, "memory"},
		{"too long", func(_ *job.CapsApplied, u *job.Usage) { u.WallMillis = 70_001 }, "70001 ms"},
		{"more cpus", func(_ *job.CapsApplied, u *job.Usage) { u.CPUMillis = 1501 }, "cpu"},
		{"network", func(_ *job.CapsApplied, u *job.Usage) { u.NetworkBytes = 1 }, "network"},
		{"network that is allowed", func(c *job.CapsApplied, u *job.Usage) { c.Network, u.NetworkBytes = "full", 1 }, ""},
		{"no memory cap", func(c *job.CapsApplied, _ *job.Usage) { c.MemoryMB = 0 }, "not limited"},
		{"negative usage", func(_ *job.CapsApplied, u *job.Usage) { u.PeakMemoryBytes = -1 }, "out of range"},
		{"a cap that wraps around", func(c *job.CapsApplied, _ *job.Usage) { c.MemoryMB = math.MaxInt64 }, "out of range"},
		{"a time that wraps around", func(_ *job.CapsApplied, u *job.Usage) { u.CPUMillis = math.MaxInt64 }, "out of range"},
	}
	for _, test := range tests {
		c, u := caps, usage
		test.change(&c, &u)
		j := newJournal(t, "r").receipt(1, "JobDispatched", fields{"job_hash": "h"}).receipt(2, "JobCompleted", fields{"job_hash": "h"}).
			receipt(3, "CapsEnforced", fields{"job_hash": "h", "caps": c, "observed": u})
		p := metrics.Compute(j.events).CapsEnforced
		if *p.Holds != (test.want == "") || !strings.Contains(strings.Join(p.Lacking, "\n"), test.want) {
			t.Errorf("%s: %v %q, want a complaint with %q", test.name, *p.Holds, p.Lacking, test.want)
		}
	}
	said := newJournal(t, "r").receipt(1, "JobDispatched", fields{"job_hash": "h"}).receipt(2, "JobCompleted", fields{"job_hash": "h"}).
		receipt(3, "CapsEnforced", fields{"job_hash": "h", "caps": caps, "observed": usage, "within": false})
	if p := metrics.Compute(said.events).CapsEnforced; *p.Holds {
		t.Errorf("the receipt says that a cap was exceeded, yet %+v", p)
	}
	j := newJournal(t, "r").receipt(1, "JobDispatched", fields{"job_hash": "h"}).receipt(2, "JobCompleted", fields{"job_hash": "h"})
	if p := metrics.Compute(j.events).CapsEnforced; *p.Holds || len(p.Lacking) != 1 {
		t.Errorf("no receipt, yet %+v", p)
	}
}

// TestOrderAndCopies: order, repetition and copies in other streams change nothing.
func TestOrderAndCopies(t *testing.T) {
	t.Parallel()
	events := slices.Concat(happy(t, "r1", "h1", "prv_a", 0, 70, 1000).events, happy(t, "r2", "h1", "prv_b", 50, 90, 1500).events)
	want := metrics.Compute(events)
	if want.Jobs != 2 || want.ReleasedMsats != 2500 {
		t.Fatalf("two runs with one job hash are two jobs: %+v", want)
	}
	mixed := slices.Concat(events, events)
	for _, e := range events {
		e.Stream = "user:alice:receipts"
		mixed = append(mixed, e)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	if got := metrics.Compute(mixed); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// FuzzCompute feeds payloads from an untrusted writer.
func FuzzCompute(f *testing.F) {
	f.Add([]byte(`{"receipt_type":"CapsEnforced","payload":{"job_hash":"h","caps":{"cpu_millis":9223372036854775807},"usage":{}}}`))
	f.Add([]byte(`{"receipt_type":"PaymentReleased","payload":{"job_hash":"h","amount_msats":9007199254740991}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var events []store.Event
		for seq := range int64(3) {
			events = append(events, store.Event{Stream: "run:r:events", Seq: seq + 1, Type: "receipt", Payload: payload, RecordedAt: seq})
		}
		r := metrics.Compute(events)
		if r.FillRate.Count > r.FillRate.Of || r.PassRate.Count > r.PassRate.Of || r.ReleasedMsats < 0 {
			t.Errorf("%+v", r)
		}
	})
}
