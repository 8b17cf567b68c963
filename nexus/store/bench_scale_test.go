package store_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/nexus/treasury"
)

// scaled is the size of a benchmark: the one that the goals name with
// REMIT_BENCH_SCALE=full, and one that takes seconds otherwise.
func scaled(small, full int) int {
	if os.Getenv("REMIT_BENCH_SCALE") == "full" {
		return full
	}
	return small
}

// onBoth runs a benchmark on an empty store of each kind.
func onBoth(b *testing.B, fn func(b *testing.B, s *store.Store)) {
	b.Helper()
	b.Run("sqlite", func(b *testing.B) { fn(b, storetest.Open(b, storetest.SQLite(b), store.Options{})) })
	b.Run("postgres", func(b *testing.B) { fn(b, storetest.Open(b, storetest.Postgres(b), store.Options{})) })
}

// median is in milliseconds.
func median(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)/2].Microseconds()) / 1000
}

// BenchmarkRuns reads pages of the many runs of one owner: the newest, and one in
// the middle.
func BenchmarkRuns(b *testing.B) {
	onBoth(b, func(b *testing.B, s *store.Store) {
		n := scaled(10_000, 100_000)
		fillRows(b, s, `INSERT INTO run (id, owner, state, repo_ref, issue_ref, policy_bundle_id, metadata, revision, created_at,
			started_at, finished_at)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < `+fmt.Sprint(n)+`)
			SELECT 'run_' || CAST(1000000 + i AS TEXT), 'alice', 'succeeded', 'r', '', 'p', '{}', 1, i, i, i FROM n`)
		var took []time.Duration
		for b.Loop() {
			for _, before := range []string{"", fmt.Sprintf("run_%d", 1_000_000+n/2)} {
				began := time.Now()
				if err := s.View(b.Context(), func(tx *store.Tx) error {
					list, err := tx.RunsOf("alice", before, 100)
					if len(list) != 100 {
						b.Errorf("%d runs", len(list))
					}
					return err
				}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
		}
		b.ReportMetric(float64(n), "runs")
		b.ReportMetric(median(took), "page-p50-ms")
	})
}

// bookRows makes transfers between a hundred budgets and a hundred providers: jobs
// that were reserved and paid.
func bookRows(jobs int) []string {
	numbers := func(to int) string {
		return fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)`, to)
	}
	transfer := `INSERT INTO ledger_transfer (id, kind, pending_id, debit_account, credit_account, amount, run_id, job_id, reason,
		timeout_ms, created_at, place) `
	return []string{
		`INSERT INTO ledger_account (id, owner, holder, unit, kind, flags, spend_limit, debits_pending, debits_posted, credits_pending,
			credits_posted, created_at) ` +
			numbers(100) + fmt.Sprintf(` SELECT 'b' || (i - 1), 'o' || (i - 1), 'o', 'msat', 'budget', 2, 1000000000, 0, %d, 0, 1000000000, 1
				FROM n`, jobs/100),
		`INSERT INTO ledger_account (id, owner, holder, unit, kind, flags, spend_limit, debits_pending, debits_posted, credits_pending,
			credits_posted, created_at) ` +
			numbers(100) + fmt.Sprintf(` SELECT 'e' || (i - 1), 'o' || (i - 1), 'p', 'msat', 'earnings', 0, 0, 0, 0, 0, %d, 1 FROM n`, jobs/100),
		`INSERT INTO ledger_account (id, owner, holder, unit, kind, flags, spend_limit, debits_pending, debits_posted, credits_pending,
			credits_posted, created_at)
			VALUES ('i', 'service', '', 'msat', 'issuance', 0, 9007199254740991, 0, 100000000000, 0, 0, 1)`,
		transfer + numbers(100) + ` SELECT 'f' || i, 'plain', NULL, 'i', 'b' || (i - 1), 1000000000, '', '', '', 0, 1, 1 FROM n`,
		transfer + numbers(jobs) + ` SELECT 'p' || i, 'pending', NULL, 'b' || (i % 100), 'e' || (i % 100), 1, 'r', 'j' || i, '', 1000, 1, 1
			FROM n`,
		transfer + numbers(jobs) + ` SELECT 'q' || i, 'post', 'p' || i, 'b' || (i % 100), 'e' || (i % 100), 1, 'r', 'j' || i, '', 0, 1, 1 FROM n`,
		`INSERT INTO ledger_reservation (id, transfer_id, owner, payer, payee, amount, run_id, job_id, status, reason, passed, exit_code,
			resolution_id, reserved_at, expires_at, settled_at) ` +
			numbers(jobs) + ` SELECT 'v' || i, 'p' || i, 'o' || (i % 100), 'b' || (i % 100), 'e' || (i % 100), 1, 'r', 'j' || i, 'released',
				'', 1, 0, 'q' || i, 1, 2, 2 FROM n`,
	}
}

// BenchmarkBooks checks large books: whole, and as every minute does it.
func BenchmarkBooks(b *testing.B) {
	onBoth(b, func(b *testing.B, s *store.Store) {
		n := scaled(20_000, 1_000_000)
		fillRows(b, s, bookRows(n/2)...)
		check := func() time.Duration {
			began := time.Now()
			if found, err := treasury.Check(b.Context(), s); err != nil || len(found) > 0 {
				b.Fatal(found, err)
			}
			return time.Since(began)
		}
		whole := check()
		var took []time.Duration
		for b.Loop() {
			took = append(took, check())
		}
		b.ReportMetric(float64(n), "transfers")
		b.ReportMetric(float64(whole.Milliseconds()), "whole-ms")
		b.ReportMetric(median(took), "check-p50-ms")
	})
}
