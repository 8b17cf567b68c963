package registry_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// crowd makes providers of alice that are switched on and were heard of now.
func crowd(t *testing.T, s *store.Store, from, to int) {
	t.Helper()
	caps := json.RawMessage(`{"concurrency":1,"cpu_millis":1000,"disk_mb":100,"gpu":0,"memory_mb":512,"network":"none","pids":0,"timeout_secs":100}`)
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		for i := from; i < to; i++ {
			id := fmt.Sprintf("%05d", i)
			if err := tx.PutDevice(store.DeviceRow{ID: "dev_" + id, Owner: "alice", Name: id}); err != nil {
				return err
			}
			p := store.ProviderRow{ID: "prv_" + id, DeviceID: "dev_" + id, Owner: "alice", Name: id, Version: "1", Class: registry.SingleNode,
				Capabilities: []string{job.SandboxRun}, PriceMsats: int64(1 + i), Caps: caps, CapsRevision: 1}
			if err := tx.InsertProvider(p); err != nil {
				return err
			}
			p.Status, p.Enabled, p.HeartbeatAt, p.Observed = string(registry.Running), true, tx.Now(), json.RawMessage("{}")
			if err := tx.UpdateProvider(p); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestCrowd keeps more providers than one look reads: those that fell
// silent do not get in the way although they are cheaper, a refusal names some of
// them, a job that the first thousand cannot take finds the next, and a snapshot
// that has no room for all says so.
func TestCrowd(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		crowd(t, s, 0, registry.MaxCandidates+5)
		choose := func(needs job.Needs, want int, refused int) (first string) {
			t.Helper()
			if err := s.View(t.Context(), func(tx *store.Tx) error {
				candidates, err := registry.Candidates(tx, "alice", 0)
				if err != nil {
					return err
				}
				got, err := registry.Choose(tx, candidates, registry.Query{Owner: "alice", Needs: needs, Now: tx.Now()})
				if len(got.Choices) != want || refused >= 0 && len(got.Refused) != refused {
					t.Errorf("%d choices and %d refusals, want %d and %d", len(got.Choices), len(got.Refused), want, refused)
				}
				if len(got.Choices) > 0 {
					first = got.Choices[0].Provider.ID
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return first
		}
		choose(needs, registry.MaxCandidates, 0)
		huge := needs
		huge.MemoryMB = 1 << 30
		choose(huge, 0, registry.MaxCandidates+5)
		if err := s.View(t.Context(), func(tx *store.Tx) error {
			fleet, _, err := registry.Fleet(tx, "alice")
			if !fleet.Cut || len(fleet.Workers) != 1000 {
				t.Errorf("%d of %d workers, cut %v", len(fleet.Workers), registry.MaxCandidates+5, fleet.Cut)
			}
			other, _, err2 := registry.Fleet(tx, "bob")
			if other.Cut || err2 != nil {
				t.Error("an empty fleet is cut", err2)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		clock.Advance(registry.StaleAfter + time.Second)
		choose(needs, 0, 20)
		crowd(t, s, 9000, 9003) // dearer than all that are gone
		if got := choose(needs, 3, 0); got != "prv_09000" {
			t.Errorf("%s comes first", got)
		}
	})
}
