//go:build !race

package panel

import (
	"encoding/json"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/metrics"
)

// TestFigures: what is not known is no figure and says why, every figure leads to what
// it was computed from, and the page says whose runs these are.
func TestFigures(t *testing.T) {
	t.Parallel()
	empty := newWorld(t, nil, true)
	page := empty.login(empty.token("alice", authority.ScopeRead)).get("/figures").body
	for _, want := range []string{"of the runs of alice", "no job was dispatched", "no run has ended", `title="no job passed verification">–</b>`, "No verified job names an engine", "newest 200 runs of alice"} {
		if !strings.Contains(page, want) {
			t.Errorf("without runs the page lacks %q", want)
		}
	}
	ten, half, cost := int64(10), int64(5000), int64(70)
	report := metrics.Report{Runs: 10_000, FillRate: metrics.Ratio{Count: 1, Of: 2, BasisPoints: &half}, EffectiveCost: metrics.Number{Value: &ten, Samples: 3},
		PassRateByEngine: map[string]metrics.Ratio{hostile: {Count: 1, Of: 2, BasisPoints: &half}, "pi": {Of: 2}},
		CostByEngine:     map[string]metrics.Number{hostile: {Value: &cost}, "pi": {Reason: hostile}}, CapsEnforced: metrics.Proof{Holds: new(false), Proven: 1, Of: 3}}
	event := api.BridgeEvent{Class: "receipt_pointer", State: "refused", D: hostile, Error: new(hostile), RunID: new(hostile), ProviderID: hostile,
		Relays: []api.BridgeRelayState{{Relay: hostile, State: "pending", Attempts: 3, Error: new(hostile)}}}
	raw, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, nil, true, nil, func(o *Options) {
		o.API = answering{o.API, map[string]any{"/v1/metrics": json.RawMessage(raw), "/v1/bridge/events": api.BridgeEventPage{Items: []api.BridgeEvent{event}, Pubkey: new(hostile)}}}
	})
	b := w.login(w.token("alice", authority.ScopeRead))
	page = b.get("/figures").body
	for _, want := range []string{"50.0 %", "1 of 2", "10 msat", "a verified job, msat", "nothing converts", "from 3", "not shown for all", "1 of 3", "10,000 runs", "70", `href="/?engine=pi&amp;from=nexus"`, "evil"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	mirror := b.get("/bridge").body
	if !strings.Contains(mirror, "3 times not taken") || !strings.Contains(mirror, "refused") {
		t.Errorf("the outbox:\n%s", mirror)
	}
	if got := append(faults(t, page), faults(t, mirror)...); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if out := empty.login(empty.token("bob", authority.ScopeRead)).get("/bridge").body; !strings.Contains(out, "remit serve --relay") {
		t.Error("nothing teaches the next step")
	}
}
