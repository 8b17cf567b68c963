//test:plain-package One goroutine asks the store here; nexus/server runs the same code in many, with the detector.

package registry_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"remit/nexus/bridge"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
)

// ads are what the outbox of the mirror says of a provider, the newest first.
func (o office) ads(id string) (list []map[string]string) {
	o.Helper()
	for _, row := range get(o, func(tx *store.Tx) ([]store.BridgeRow, error) { return tx.BridgeEvents("alice", "", 1000) }) {
		var tags [][]string
		if err := json.Unmarshal(row.Tags, &tags); err != nil || row.Class != bridge.ClassAd || row.ProviderID != id {
			o.Fatalf("row %+v: %v", row, err)
		}
		ad := map[string]string{}
		for _, t := range tags {
			ad[t[0]] = t[1]
		}
		list = append(list, ad)
	}
	return list
}

// seal makes the newest ad one that may have been published.
func (o office) seal() {
	o.Helper()
	get(o, func(tx *store.Tx) (int, error) {
		rows, err := tx.UnsignedBridgeEvents(10)
		for _, row := range rows {
			if err = tx.SignBridgeEvent(row.ID, "event of "+row.ID, "sig"); err != nil {
				break
			}
		}
		return 0, err
	})
}

// TestAdsFollowTheState: each change of what the world may know is an ad, in
// the transaction of the change; heartbeats are none.
func TestAdsFollowTheState(t *testing.T) {
	each(t, func(o office) {
		p := get(o, enrol(alice, request("one")))
		get(o, beat(p, registry.HeartbeatRequest{Version: "1"}))
		if ads := o.ads(p.ID); len(ads) != 0 {
			o.Fatalf("a provider without caps is advertised: %v", ads)
		}
		count := 0
		step := func(what string, change func(tx *store.Tx) (registry.Provider, error), want map[string]string) {
			o.Helper()
			get(o, change)
			count++
			ads := o.ads(p.ID)
			if len(ads) != count {
				o.Fatalf("%s: %d ads, want %d: %v", what, len(ads), count, ads)
			}
			for tag, value := range want {
				if ads[0][tag] != value {
					o.Errorf("%s: %s is %q, want %q", what, tag, ads[0][tag], value)
				}
			}
			o.seal()
			o.clock.Advance(time.Minute)
		}
		quiet := func(what string, change func(tx *store.Tx) (registry.Provider, error)) {
			o.Helper()
			get(o, change)
			if n := len(o.ads(p.ID)); n != count {
				o.Fatalf("%s made an ad", what)
			}
		}
		setCaps := func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, alice, p.ID, caps, nil) }
		enable := func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, alice, p.ID, nil) }
		step("caps", setCaps, map[string]string{"d": "openagents:compute_provider:" + p.ID, "oa_availability": "unavailable",
			"oa_worker_status":   "stopped",
			"oa_heartbeat_state": "fresh", "price": "1000", "oa_pricing_stage": "fixed",
			"oa_pricing_band": `{"capability":"oa.sandbox_run.v1","max_price_msats":1000,"min_price_msats":1000}`,
			"oa_caps":         `{"concurrency":1,"cpu_millis":1000,"disk_mb":0,"gpus":0,"memory_mb":512,"network":"none","pids":0,"timeout_secs":60}`})
		quiet("the same caps", setCaps)
		step("enabled", enable, map[string]string{"oa_availability": "available", "oa_worker_status": "running"})
		quiet("enabled again", enable)
		quiet("a heartbeat", beat(p, registry.HeartbeatRequest{Version: "2", Observed: json.RawMessage(`{"load":1}`)}))
		dearer := request("one")
		dearer.PriceMsats, dearer.ProviderID = 1200, p.ID
		step("price", enrol(alice, dearer), map[string]string{"price": "1200", "oa_availability": "unavailable"})
		step("enabled at that price", enable, map[string]string{"price": "1200", "oa_availability": "available"})
		step("stopping", beat(p, registry.HeartbeatRequest{Version: "2", Status: registry.Stopping}),
			map[string]string{"oa_availability": "unavailable"})
		step("back", beat(p, registry.HeartbeatRequest{Version: "2"}), map[string]string{"oa_availability": "available"})
		step("disabled", func(tx *store.Tx) (registry.Provider, error) {
			off, _, err := registry.SwitchOff(tx, alice, p.ID, "a private reason")
			return off, err
		}, map[string]string{"oa_availability": "unavailable", "oa_worker_status": "stopped"})
		step("enabled anew", enable, nil)
		mark := func(n int) func(tx *store.Tx) (registry.Provider, error) {
			return func(tx *store.Tx) (registry.Provider, error) {
				m, err := registry.Mark(tx, p.ID, fmt.Sprint(n), registry.Violation, reason.ProviderViolations)
				return m.Provider, err
			}
		}
		get(o, beat(p, registry.HeartbeatRequest{Version: "2"}))
		o.seal()
		count = len(o.ads(p.ID))
		quiet("a strike", mark(1))
		quiet("another", mark(2))
		step("quarantine", mark(3), map[string]string{"oa_availability": "unavailable", "oa_worker_status": "failed"})
	})
}

// TestSilenceIsPublished: no command reports that a provider fell silent, and its ad says
// so all the same.
func TestSilenceIsPublished(t *testing.T) {
	each(t, func(o office) {
		p := get(o, enrol(alice, request("one")))
		get(o, enrol(alice, request("without caps")))
		get(o, func(tx *store.Tx) (registry.Provider, error) {
			if _, err := registry.SetCaps(tx, alice, p.ID, caps, nil); err != nil {
				return p, err
			}
			return registry.Enable(tx, alice, p.ID, nil)
		})
		get(o, beat(p, registry.HeartbeatRequest{Version: "1"}))
		o.seal()
		for i, want := range []int{0, 1, 0} {
			if n, err := registry.RefreshAds(o.Context(), o.s); err != nil || n != want {
				o.Errorf("look %d: %d stale, want %d: %v", i, n, want, err)
			}
			o.clock.Advance(registry.StaleAfter)
			if i == 0 {
				o.clock.Advance(time.Second)
			}
		}
		ads := o.ads(p.ID)
		if len(ads) != 2 || ads[0]["oa_availability"] != "unavailable" || ads[0]["oa_heartbeat_state"] != "stale" ||
			ads[1]["oa_availability"] != "available" {
			o.Errorf("ads %v", ads)
		}
	})
}
