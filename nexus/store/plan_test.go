package store_test

import (
	"fmt"
	"strings"
	"testing"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// fleetRows makes providers: so many dead ones, and three that live.
func fleetRows(dead int) []string {
	provider := func(from, to int, owner, class, heartbeat string) []string {
		numbers := fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)`, from, to)
		return []string{
			`INSERT INTO device (id, owner, name, roles, fingerprint, created_at, updated_at) ` + numbers +
				` SELECT 'dev_' || i, '` + owner + `', 'd' || i, 'provider', '', 1, 1 FROM n`,
			`INSERT INTO provider (id, device_id, owner, name, version, class, capabilities, price_msats, caps, caps_revision, status, enabled,
				heartbeat_at,
				observed, successes, unverified, failures, violations, quarantined_at, quarantine_reason, revision, created_at, updated_at) ` +
				numbers +
				` SELECT 'prv_' || i, 'dev_' || i, '` + owner + `', 'p' || i, '1', '` + class + `', 'oa.sandbox_run.v1', 1 + i, '{}', 0,
					'running', 1, ` + heartbeat +
				`, '{}', 0, 0, 0, 0, 0, '', 1, 1, 1 FROM n`,
		}
	}
	return append(append(provider(1, dead, "alice", "single_node", "5"), provider(dead+1, 2*dead, "bob", "reserve_pool", "5")...),
		provider(2*dead+1, 2*dead+3, "alice", "single_node", "1000")...)
}

func runRows(n int) string {
	return fmt.Sprintf(`INSERT INTO run (id, owner, state, repo_ref, issue_ref, policy_bundle_id, metadata, revision, created_at,
		started_at, finished_at, request_key)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 'run_' || CAST(1000000 + i AS TEXT), CASE WHEN i %% 50 = 0 THEN 'alice' ELSE 'other' END, 'succeeded', 'r', '', 'p', '{}', 1,
		i, i, i, 'key-' || i FROM n`, n)
}

// fillRows runs statements that make rows, and lets the planner know of them.
func fillRows(t testing.TB, s *store.Store, statements ...string) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		for _, q := range append(statements, "ANALYZE") {
			if _, err := tx.Exec(q); err != nil {
				return fmt.Errorf("%.80s: %w", q, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestPlansUseTheIndexes asks both databases how they would answer what callers
// ask again and again: by the index that has the order of the question, and
// without sorting or reading a whole table.
func TestPlansUseTheIndexes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		fillRows(t, s, append(fleetRows(300), runRows(30000))...)
		for name, q := range map[string]struct {
			ask   func(tx *store.Tx) error
			index []string
			never []string
		}{
			"runs": {func(tx *store.Tx) error { _, err := tx.RunsOf("alice", "", 20); return err }, []string{"run_newest"},
				[]string{"Sort", "TEMP B-TREE", "Seq Scan on run"}},
			"runs further": {func(tx *store.Tx) error { _, err := tx.RunsOf("alice", "run_1015000", 20); return err }, []string{"run_newest"},
				[]string{"Sort", "TEMP B-TREE", "Seq Scan on run"}},
			"run of a key": {func(tx *store.Tx) error { _, err := tx.RunsOfKey("alice", "key-7", 10); return err },
				[]string{"run_request_key"}, []string{"Seq Scan on run", "SCAN run"}},
			"candidates": {func(tx *store.Tx) error {
				list, err := tx.LiveProviders(store.LiveProviders{Owner: "alice", SharedClass: "reserve_pool", Since: 100, Limit: 1000})
				if len(list) != 3 {
					t.Errorf("%d candidates, want the 3 that live", len(list))
				}
				return err
			}, []string{"provider_live", "provider_pool"}, []string{"Seq Scan on provider"}},
			"totals": {func(tx *store.Tx) error { _, err := tx.ReservationTotals("alice"); return err }, []string{"ledger_reservation_sums"}, nil},
		} {
			plan := ""
			if err := s.View(t.Context(), func(tx *store.Tx) (err error) {
				plan, err = tx.PlanOf(q.ask)
				return err
			}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, index := range q.index {
				if !strings.Contains(plan, index) && (name != "totals" || s.Dialect() == "sqlite") { // an empty table is read as a whole
					t.Errorf("%s does not use %s:\n%s", name, index, plan)
				}
			}
			for _, bad := range q.never {
				if strings.Contains(plan, bad) {
					t.Errorf("%s: %q in\n%s", name, bad, plan)
				}
			}
		}
	})
}
