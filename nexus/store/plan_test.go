package store_test

import (
	"fmt"
	"slices"
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
		started_at, finished_at, request_key, verdict, engine, model, blocker, outcome)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 'run_' || CAST(1000000 + i AS TEXT), CASE WHEN i %% 50 = 0 THEN 'alice' ELSE 'other' END, 'succeeded', 'r', '', 'p', '{}', 1,
		i, i, i, 'key-' || i, 'pass', 'codex', CASE WHEN i %% 1000 = 0 THEN 'rare' ELSE 'gpt' END, CASE WHEN i %% 100 = 0 THEN 'no_diff' ELSE '' END,
		CASE WHEN i %% 100 = 0 THEN 'accepted' ELSE '' END FROM n`, n)
}

// summaryRows gives each of these runs a summary, and words to be found by.
func summaryRows() []string {
	return []string{
		`INSERT INTO run_summary (run_id, body, source, findings, updated_at) SELECT id, '{}', 'told', '[]', 1 FROM run`,
		`INSERT INTO run_word (run_id, word, owner) SELECT id, 'retry' || (created_at % 977), owner FROM run`,
		`INSERT INTO run_word (run_id, word, owner) SELECT id, 'common', owner FROM run`,
	}
}

// listing asks for the first page of alice's runs.
func listing(f store.RunFilter) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		f.Limit = 20
		_, err := tx.ListRuns("alice", f)
		return err
	}
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
		fillRows(t, s, slices.Concat(fleetRows(300), []string{runRows(30000)}, summaryRows())...)
		sorted := []string{"Sort", "TEMP B-TREE", "Seq Scan on run "}
		for name, q := range map[string]struct {
			ask   func(tx *store.Tx) error
			index []string
			never []string
		}{
			"runs": {func(tx *store.Tx) error { _, err := tx.RunsOf("alice", "", 20); return err }, []string{"run_newest"},
				[]string{"Sort", "TEMP B-TREE", "Seq Scan on run "}},
			"runs further": {func(tx *store.Tx) error { _, err := tx.RunsOf("alice", "run_1015000", 20); return err }, []string{"run_newest"},
				[]string{"Sort", "TEMP B-TREE", "Seq Scan on run "}},
			"run of a key": {func(tx *store.Tx) error {
				_, err := tx.ListRuns("alice", store.RunFilter{Key: "key-7", Limit: 10})
				return err
			},
				[]string{"run_request_key"}, []string{"Seq Scan on run ", "SCAN run "}},
			"listed":          {listing(store.RunFilter{}), []string{"run_newest"}, sorted},
			"listed further":  {listing(store.RunFilter{Before: "run_1015000"}), []string{"run_newest"}, sorted},
			"by state":        {listing(store.RunFilter{State: "running"}), []string{"run_by_state"}, sorted},
			"by verdict":      {listing(store.RunFilter{RunFacts: store.RunFacts{Verdict: "fail"}}), []string{"run_by_verdict"}, sorted},
			"by engine":       {listing(store.RunFilter{RunFacts: store.RunFacts{Engine: "claude"}}), []string{"run_by_engine"}, sorted},
			"by model":        {listing(store.RunFilter{RunFacts: store.RunFacts{Model: "rare"}}), []string{"run_by_model"}, sorted},
			"by blocker":      {listing(store.RunFilter{RunFacts: store.RunFacts{Blocker: "timeout"}}), []string{"run_by_blocker"}, sorted},
			"by outcome":      {listing(store.RunFilter{Outcome: "rejected"}), []string{"run_by_outcome"}, sorted},
			"by repository":   {listing(store.RunFilter{RepoRef: "elsewhere"}), []string{"run_by_repo"}, sorted},
			"by time":         {listing(store.RunFilter{Since: 29000, Until: 29900}), []string{"run_by_time"}, sorted},
			"by time further": {listing(store.RunFilter{Since: 29000, Before: "run_1029500"}), []string{"run_by_time"}, sorted},
			"by word":         {listing(store.RunFilter{Words: []string{"retry50"}}), []string{"run_word_search"}, []string{"Seq Scan on run ", "SCAN run "}},
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
