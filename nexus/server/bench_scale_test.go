package server

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// dead makes providers of alice that are on, cheaper than all others, and were
// never heard of again.
func (w *world) dead(n int) {
	w.t.Helper()
	if err := w.store.Update(w.t.Context(), func(tx *store.Tx) error {
		for i := range n {
			id := fmt.Sprintf("dead-%05d", i)
			if err := tx.PutDevice(store.DeviceRow{ID: "dev_" + id, Owner: "alice", Name: id}); err != nil {
				return err
			}
			p := store.ProviderRow{ID: "prv_" + id, DeviceID: "dev_" + id, Owner: "alice", Name: id, Version: "1", Class: registry.SingleNode,
				Capabilities: []string{job.SandboxRun}, PriceMsats: 1, Caps: json.RawMessage(caps), CapsRevision: 1}
			if err := tx.InsertProvider(p); err != nil {
				return err
			}
			p.Status, p.Enabled, p.HeartbeatAt, p.Observed = string(registry.Running), true, 1, json.RawMessage("{}")
			if err := tx.UpdateProvider(p); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// three is a fleet of three live providers, and a run.
func three(b *testing.B, w *world) (path string) {
	b.Helper()
	f := &flow{world: w}
	f.join()
	for i := range 2 {
		body := fmt.Sprintf(`{"name":"box-%d","version":"1.0","capabilities":["oa.sandbox_run.v1"],"price_msats":1000}`, i)
		registered := f.post("/v1/providers", f.alice, body, 201)
		var out struct {
			Token    string `json:"token"`
			Provider struct {
				ID string `json:"provider_id"`
			} `json:"provider"`
		}
		if err := json.Unmarshal([]byte(registered.body), &out); err != nil {
			b.Fatal(err)
		}
		f.say(call{method: "PUT", path: "/v1/providers/" + out.Provider.ID + "/caps", token: f.alice, contentType: "application/json", body: caps}, 200)
		f.post("/v1/providers/"+out.Provider.ID+"/enable", f.alice, "", 200)
		f.post("/v1/providers/"+out.Provider.ID+"/heartbeat", out.Token, `{"version":"1.0"}`, 200)
	}
	return "/v1/runs/" + f.post("/v1/runs", f.alice, `{"repo_ref":"r"}`, 201).field(b, "run_id") + "/jobs"
}

// BenchmarkCrowd dispatches to three live providers, alone and among a thousand
// dead ones that are cheaper. Both take turns.
func BenchmarkCrowd(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		b.Run(kind, func(b *testing.B) {
			dsn := storetest.SQLite
			if kind == "postgres" {
				dsn = storetest.Postgres
			}
			dispatch := func(dead int) func(client int, n int64) error {
				w := newWorld(b, storetest.Open(b, dsn(b), store.Options{}), Options{})
				path := three(b, w)
				w.dead(dead)
				c := w.dial(b)
				return func(_ int, n int64) error {
					return c.post(path, w.alice, fmt.Sprint("j", n), fmt.Sprintf(`{"job_type":"oa.sandbox_run.v1","request":{"sandbox":{"image_digest":"host"},"repo":{"source":"/r","git_ref":"abc"},"commands":[{"cmd":"go test %d"}]}}`, n), 201)
				}
			}
			alone, among := dispatch(0), dispatch(1000)
			var one, other load
			b.ResetTimer()
			for left := min(b.N, 400); left > 0 && !b.Failed(); {
				n := min(left, 25)
				one.turn(b, 1, n, alone)
				other.turn(b, 1, n, among)
				left -= n
			}
			b.StopTimer()
			b.ReportMetric(quantile(one.took, 0.5), "alone-p50-µs")
			b.ReportMetric(quantile(other.took, 0.5), "crowd-p50-µs")
			b.ReportMetric(100*quantile(other.took, 0.5)/quantile(one.took, 0.5), "%-of-alone")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIdleFleet lets providers say for ten minutes of the store's clock that
// they are there, and counts the answers that are kept. 5,000 of them with
// REMIT_BENCH_SCALE=full.
func BenchmarkIdleFleet(b *testing.B) {
	clock := storetest.NewClock()
	w := newWorld(b, storetest.Open(b, storetest.SQLite(b), store.Options{Clock: clock.Now}), Options{})
	f := &flow{world: w}
	f.join()
	fleet := 100
	if os.Getenv("REMIT_BENCH_SCALE") == "full" {
		fleet = 5000
	}
	const clients = 16
	wires := make([]*wire, clients)
	for i := range wires {
		wires[i] = w.dial(b)
	}
	var l load
	var kept []int64
	for range 10 {
		for range 6 { // a heartbeat every 30 seconds, a sixth of a minute at a time
			l.turn(b, clients, fleet/3, func(client int, n int64) error {
				// One provider stands for all: a key of its own makes a row of its own.
				return wires[client].post("/v1/providers/"+f.provider+"/heartbeat", f.token, fmt.Sprint("beat-", n), `{"version":"1.0"}`, 200)
			})
			clock.Advance(10 * time.Second)
			if err := w.server.Sweep(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		kept = append(kept, w.kept())
	}
	b.ReportMetric(float64(fleet), "providers")
	b.ReportMetric(float64(kept[1]), "rows-after-2-min")
	b.ReportMetric(float64(kept[9]), "rows-after-10-min")
	b.ReportMetric(0, "ns/op")
}
