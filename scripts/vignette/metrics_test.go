package main

import (
	"encoding/json"
	"testing"
)

// TestFold computes the figures of a story that is small enough to count by hand.
func TestFold(t *testing.T) {
	t.Parallel()
	n := func(i int) json.Number { b, _ := json.Marshal(i); return json.Number(b) }
	dispatched := func(hash string) object {
		return receiptOf("JobDispatched", object{"job_hash": hash, "eligible_providers": n(2)})
	}
	completed := func(hash string) object {
		return receiptOf("JobCompleted", object{"job_hash": hash, "response_sha256": "r"})
	}
	verdict := func(kind, hash, provider string) object {
		return receiptOf(kind, object{"job_hash": hash, "provider_id": provider})
	}
	within := object{"job_hash": "x", "within": true, "caps": object{"cpu_millis": n(1000), "memory_mb": n(512), "disk_mb": n(64), "pids": n(64), "timeout_secs": n(60), "network": "none"},
		"observed": object{"peak_memory_bytes": n(1 << 20), "wall_ms": n(900), "cpu_time_ms": n(100)}}
	logs := map[string][]event{
		// Events are a second apart: the answer comes 1 s after the dispatch, the end 7 s after the beginning.
		"good": append(logOf(t, receiptOf("RunCreated", object{}), dispatched("x"), completed("x"), receiptOf("CapsEnforced", within),
			verdict("VerificationPassed", "x", "A"), receiptOf("PaymentReleased", object{"job_hash": "x", "amount_msats": n(1001)})), finishedAt(7)),
		// The first provider was lost, the second took 2 s; the verdict was no.
		"bad": append(logOf(t, receiptOf("RunCreated", object{}), dispatched("y"), receiptOf("JobFailed", object{"job_hash": "y", "was": "leased"}),
			dispatched("y"), object{"text": "pause"}, completed("y"), verdict("VerificationFailed", "y", "B")), finishedAt(9)),
		"refused": logOf(t, receiptOf("JobRejected", object{"job_hash": "z"})),
	}
	got := fields(fold(logs, map[string]bool{"good": true}))
	for name, want := range map[string]string{
		"fill_rate": `{"count":2,"of":4}`, "median_dispatch_latency_ms": "1000", "median_run_latency_ms": "7000", "released_msats": "1001",
		"effective_cost_msats": "1001", "provider_breadth": "2", "verification_pass_rate": `{"count":1,"of":2}`,
		"verification_pass_rate_by_provider": `{"A":{"count":1,"of":1},"B":{"count":0,"of":1}}`, "rework_rate": `{"count":1,"of":1}`,
		"caps_enforced": `{"count":1,"of":2}`,
	} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
}

func finishedAt(second int) event {
	return event{Type: "run.finished", Payload: json.RawMessage(`{}`), RecordedAt: "2026-03-01T12:00:0" + string(rune('0'+second)) + ".000Z"}
}

func TestOverCapCanFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, caps, observed, within, want string }{
		{"within", `"memory_mb":512`, `"peak_memory_bytes":1000`, "true", ""},
		{"memory and what is written", `"memory_mb":1`, `"peak_memory_bytes":19922944`, "true", ""},
		{"memory", `"memory_mb":1`, `"peak_memory_bytes":19922945`, "true", "memory"},
		{"a cap that is not enforced", `"memory_mb":0`, `"peak_memory_bytes":1000`, "true", "a cap is missing or not enforced"},
		{"nothing observed", `"memory_mb":512`, `"peak_memory_bytes":0`, "true", "nothing observed, or the receipt itself says that it was too much"},
		{"the receipt says so", `"memory_mb":512`, `"peak_memory_bytes":1000`, "false", "nothing observed, or the receipt itself says that it was too much"},
		{"network", `"memory_mb":512`, `"peak_memory_bytes":1000,"network_bytes":1`, "true", "network"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			v, err := parse([]byte(`{"caps":{"cpu_millis":1000,"disk_mb":1,"pids":64,"timeout_secs":60,"network":"none",` + test.caps +
				`},"observed":{"wall_ms":500,"cpu_time_ms":100,` + test.observed + `},"within":` + test.within + `}`))
			if err != nil {
				t.Fatal(err)
			}
			payload, _ := v.(object)
			got := overCap(receipt{Type: "CapsEnforced", Payload: payload})
			if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || got[0] != test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if len(overCap(receipt{})) == 0 {
		t.Error("a job without a receipt has no proof")
	}
}
