package store_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// fillLedger writes two owners' books: a held, a released and a withheld
// reservation each, and a refused one.
func fillLedger(t *testing.T, s *store.Store) {
	t.Helper()
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		for _, owner := range []string{"alice", "bob"} {
			budget, _, err := treasury.OpenAccount(tx, treasury.Account{Owner: owner, Unit: treasury.Msat, Kind: treasury.Budget, Limit: 1000})
			if err != nil {
				return err
			}
			earnings, _, err := treasury.OpenAccount(tx, treasury.Account{Owner: owner, Unit: treasury.Msat, Kind: treasury.Earnings})
			if err != nil {
				return err
			}
			if _, _, err := treasury.Fund(tx, treasury.Funding{TransferID: "fund-" + owner, Account: budget.ID, Amount: 900}); err != nil {
				return err
			}
			for _, what := range []string{"held", "released", "withheld"} {
				r, _, err := treasury.Reserve(tx, treasury.Reservation{TransferID: what + "-" + owner, Owner: owner, Payer: budget.ID,
					Payee: earnings.ID,
					RunID: "run-" + owner, JobID: what, AmountMsats: 100, TTL: time.Hour})
				if err != nil {
					return err
				}
				switch what {
				case "released":
					_, _, err = treasury.Resolve(tx, r.ID, treasury.Resolution{Release: true, Passed: true})
				case "withheld":
					_, _, err = treasury.Resolve(tx, r.ID, treasury.Resolution{Reason: "verification_failed", ExitCode: 1})
				}
				if err != nil {
					return err
				}
			}
			_, _, err = treasury.Reserve(tx, treasury.Reservation{TransferID: "refused-" + owner, Owner: owner, Payer: budget.ID, Payee: earnings.ID,
				RunID: "run-" + owner, JobID: "refused", AmountMsats: 701})
			if reason.CodeOf(err) != reason.InsufficientBudget {
				return fmt.Errorf("reserved more than there is: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// meddle runs a statement that no code of the ledger would.
func meddle(t *testing.T, s *store.Store, query string) error {
	t.Helper()
	return s.Update(t.Context(), func(tx *store.Tx) error {
		n, err := tx.Exec(query)
		if err == nil && n == 0 && !strings.HasPrefix(query, "DROP") && !strings.HasPrefix(query, "ALTER") {
			t.Fatalf("%s: no row", query)
		}
		return err
	})
}

// unlock takes the table's own protection away, as an operator with the password
// of the database could.
func unlock(t *testing.T, s *store.Store) {
	t.Helper()
	queries := []string{"DROP TRIGGER ledger_transfer_update", "DROP TRIGGER ledger_transfer_delete"}
	if s.Dialect() == "postgres" {
		queries = []string{"ALTER TABLE ledger_transfer DISABLE TRIGGER USER"}
	}
	for _, q := range queries {
		if err := meddle(t, s, q); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPlantedFaults changes the books by hand, each time in a way that the
// tables allow, and expects the audit to name the rule, to freeze the
// authority, and to open it again only when the fault is gone.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	const budget = "kind = 'budget' AND owner = 'alice'"
	tests := []struct{ rule, plant, repair string }{
		{"balance_is_fold", "UPDATE ledger_account SET debits_posted = debits_posted + 1 WHERE " + budget,
			"UPDATE ledger_account SET debits_posted = debits_posted - 1 WHERE " + budget},
		{"debits_equal_credits", "UPDATE ledger_account SET credits_posted = credits_posted + 1 WHERE " + budget,
			"UPDATE ledger_account SET credits_posted = credits_posted - 1 WHERE " + budget},
		{"balance_is_fold", "UPDATE ledger_account SET debits_pending = 0, credits_pending = 0",
			"UPDATE ledger_account SET debits_pending = CASE kind WHEN 'budget' THEN 100 ELSE 0 END, credits_pending = CASE kind WHEN 'earnings' THEN 100 ELSE 0 END"},
		{"one_unit_a_transfer", "UPDATE ledger_account SET unit = 'microusd' WHERE " + budget,
			"UPDATE ledger_account SET unit = 'msat' WHERE " + budget},
		{"limit_kept", "UPDATE ledger_account SET credits_posted = 10, flags = 0 WHERE " + budget,
			"UPDATE ledger_account SET credits_posted = 900, flags = 2 WHERE " + budget},
		{"reservation_matches_transfers", "UPDATE ledger_reservation SET amount = 99 WHERE transfer_id = 'held-alice'",
			"UPDATE ledger_reservation SET amount = 100 WHERE transfer_id = 'held-alice'"},
		{"reservation_matches_transfers", "UPDATE ledger_reservation SET status = 'released' WHERE transfer_id = 'withheld-alice'",
			"UPDATE ledger_reservation SET status = 'withheld' WHERE transfer_id = 'withheld-alice'"},
		{"released_only_if_passed", "UPDATE ledger_reservation SET passed = 0 WHERE transfer_id = 'released-alice'",
			"UPDATE ledger_reservation SET passed = 1 WHERE transfer_id = 'released-alice'"},
		{"balance_is_fold", "UPDATE ledger_transfer SET amount = 101 WHERE id = 'held-alice'",
			"UPDATE ledger_transfer SET amount = 100 WHERE id = 'held-alice'"},
		{"resolution_matches_pending", "UPDATE ledger_transfer SET amount = 101 WHERE id = 'released-alice'",
			"UPDATE ledger_transfer SET amount = 100 WHERE id = 'released-alice'"},
		{"reservation_matches_transfers", "UPDATE ledger_transfer SET kind = 'void' WHERE pending_id = 'released-alice'",
			"UPDATE ledger_transfer SET kind = 'post' WHERE pending_id = 'released-alice'"},
		{"reservation_has_transfer", "UPDATE ledger_reservation SET transfer_id = 'fund-alice' WHERE transfer_id = 'held-alice'",
			"UPDATE ledger_reservation SET transfer_id = 'held-alice' WHERE transfer_id = 'fund-alice'"},
	}
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		fillLedger(t, s)
		if found, err := treasury.Audit(t.Context(), s); err != nil || len(found) > 0 {
			t.Fatalf("untouched books: %q, %v", found, err)
		}
		unlock(t, s)
		for _, test := range tests {
			if err := meddle(t, s, test.plant); err != nil {
				t.Fatalf("%s: %v", test.plant, err)
			}
			found, err := treasury.Audit(t.Context(), s)
			if err != nil || !strings.Contains("\n"+strings.Join(found, "\n"), "\n"+test.rule+": ") {
				t.Errorf("%s: found %q, %v, want %s", test.plant, found, err, test.rule)
			}
			err = s.Update(t.Context(), treasury.Writable)
			if reason.CodeOf(err) != reason.ReadOnlyMode {
				t.Errorf("%s: mutations go on: %v", test.plant, err)
			}
			err = s.Update(t.Context(), treasury.Reopen)
			if reason.CodeOf(err) != reason.LedgerInvariant {
				t.Errorf("%s: reopened: %v", test.plant, err)
			}
			if err := meddle(t, s, test.repair); err != nil {
				t.Fatalf("%s: %v", test.repair, err)
			}
			if err := s.Update(t.Context(), treasury.Reopen); err != nil {
				t.Fatalf("%s: cannot reopen: %v", test.repair, err)
			}
		}
	})
}

// TestReadOnly: while frozen nothing moves, and repetitions still get their answer.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		fillLedger(t, s)
		budget, earnings := treasury.AccountID("alice", treasury.Msat, treasury.Budget), treasury.AccountID("alice", treasury.Msat,
			treasury.Earnings)
		held := treasury.Reservation{TransferID: "held-alice", Owner: "alice", Payer: budget, Payee: earnings, RunID: "run-alice",
			JobID: "held", AmountMsats: 100}
		fresh := held
		fresh.TransferID, fresh.JobID = "fresh", "fresh"
		if err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.FreezeLedger("a test") }); err != nil {
			t.Fatal(err)
		}
		for name, test := range map[string]struct {
			do   func(tx *store.Tx) error
			want reason.Code
		}{
			"reserve":       {func(tx *store.Tx) error { _, _, err := treasury.Reserve(tx, fresh); return err }, reason.ReadOnlyMode},
			"reserve again": {func(tx *store.Tx) error { _, _, err := treasury.Reserve(tx, held); return err }, ""},
			"resolve": {func(tx *store.Tx) error {
				_, _, err := treasury.Resolve(tx, treasury.ReservationID("held-alice"), treasury.Resolution{Release: true, Passed: true})
				return err
			}, reason.ReadOnlyMode},
			"resolve again": {func(tx *store.Tx) error {
				_, _, err := treasury.Resolve(tx, treasury.ReservationID("released-alice"), treasury.Resolution{Release: true, Passed: true})
				return err
			}, ""},
			"cancel": {func(tx *store.Tx) error {
				_, _, err := treasury.Cancel(tx, treasury.ReservationID("held-alice"), "x")
				return err
			}, reason.ReadOnlyMode},
			"reconcile": {func(tx *store.Tx) error { _, err := treasury.Reconcile(tx, tx.Now(), 0, 0); return err }, reason.ReadOnlyMode},
			"fund": {func(tx *store.Tx) error {
				_, _, err := treasury.Fund(tx, treasury.Funding{TransferID: "x", Account: budget, Amount: 1})
				return err
			}, reason.ReadOnlyMode},
			"fund again": {func(tx *store.Tx) error {
				_, _, err := treasury.Fund(tx, treasury.Funding{TransferID: "fund-alice", Account: budget, Amount: 900})
				return err
			}, ""},
			"limit": {func(tx *store.Tx) error { _, err := treasury.SetLimit(tx, budget, 5000); return err }, reason.ReadOnlyMode},
			"close": {func(tx *store.Tx) error { _, err := treasury.CloseAccount(tx, budget); return err }, reason.ReadOnlyMode},
			"open": {func(tx *store.Tx) error {
				_, _, err := treasury.OpenAccount(tx, treasury.Account{Owner: "carol", Unit: treasury.Msat, Kind: treasury.Earnings})
				return err
			}, reason.ReadOnlyMode},
		} {
			if err := s.Update(t.Context(), test.do); reason.CodeOf(err) != test.want || (test.want == "") != (err == nil) {
				t.Errorf("%s: %v, want code %q", name, err, test.want)
			}
		}
	})
}

// TestLedgerTables tries what the tables themselves must refuse, should the
// code above them be wrong.
func TestLedgerTables(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, query string }{
		{"rewrite a transfer", "UPDATE ledger_transfer SET amount = 1 WHERE id = 'held-alice'"},
		{"delete a transfer", "DELETE FROM ledger_transfer WHERE pending_id = 'released-alice'"},
		{"resolve twice", "INSERT INTO ledger_transfer SELECT 'again', 'void', pending_id, debit_account, credit_account, amount, run_id, job_id, reason, 0, created_at, place FROM ledger_transfer WHERE pending_id = 'released-alice'"},
		{"a resolution of nothing", "INSERT INTO ledger_transfer SELECT 'again', 'post', NULL, debit_account, credit_account, amount, run_id, job_id, reason, 0, created_at, place FROM ledger_transfer WHERE pending_id = 'released-alice'"},
		{"a transfer to itself", "INSERT INTO ledger_transfer SELECT 'again', 'plain', NULL, debit_account, debit_account, amount, run_id, job_id, reason, 0, created_at, place FROM ledger_transfer WHERE pending_id = 'released-alice'"},
		{"a negative amount", "INSERT INTO ledger_transfer SELECT 'again', 'plain', NULL, debit_account, credit_account, -1, run_id, job_id, reason, 0, created_at, place FROM ledger_transfer WHERE pending_id = 'released-alice'"},
		{"an account that does not exist",
			"INSERT INTO ledger_transfer SELECT 'again', 'plain', NULL, 'acc_none', credit_account, 1, run_id, job_id, reason, 0, created_at, place FROM ledger_transfer WHERE pending_id = 'released-alice'"},
		{"overdraw", "UPDATE ledger_account SET debits_pending = 801 WHERE kind = 'budget' AND owner = 'alice'"},
		{"go beyond the limit", "UPDATE ledger_account SET credits_posted = 9000, debits_posted = 901 WHERE kind = 'budget' AND owner = 'alice'"},
		{"a negative balance", "UPDATE ledger_account SET credits_pending = credits_pending - 101 WHERE kind = 'earnings' AND owner = 'alice'"},
		{"pay a job twice", "UPDATE ledger_reservation SET job_id = 'released' WHERE transfer_id = 'held-alice'"},
		{"end without a resolution", "UPDATE ledger_reservation SET status = 'released', settled_at = 1 WHERE transfer_id = 'held-alice'"},
	}
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		fillLedger(t, s)
		for _, test := range tests {
			if err := meddle(t, s, test.query); err == nil {
				t.Errorf("%s: the tables allow it", test.name)
			}
		}
		if found, err := treasury.Audit(t.Context(), s); err != nil || len(found) > 0 {
			t.Errorf("after all that: %q, %v", found, err)
		}
	})
}

// TestOverdueDoesNotFreeze: a sweep that is late is reported, and can still run.
func TestOverdueDoesNotFreeze(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		fillLedger(t, s)
		clock.Advance(time.Hour + treasury.SweepGrace + time.Millisecond)
		found, err := treasury.Audit(t.Context(), s)
		if err != nil || len(found) != 2 || !strings.HasPrefix(found[0], store.RuleOverdue+": ") {
			t.Fatalf("found %q, %v", found, err)
		}
		err = s.Update(t.Context(), func(tx *store.Tx) error {
			list, err := treasury.Reconcile(tx, tx.Now(), 0, 0)
			if err == nil && len(list) != 2 {
				err = fmt.Errorf("swept %d", len(list))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := treasury.Audit(t.Context(), s); err != nil || len(found) > 0 {
			t.Errorf("after the sweep: %q, %v", found, err)
		}
	})
}

// TestLedgerBackup carries the books through a backup and a restore.
func TestLedgerBackup(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		fillLedger(t, s)
		path := filepath.Join(t.TempDir(), "backup")
		if err := s.Backup(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		dsn := storetest.SQLite(t)
		if err := store.Restore(t.Context(), dsn, path); err != nil {
			t.Fatal(err)
		}
		restored := storetest.Open(t, dsn, store.Options{})
		if found, err := treasury.Audit(t.Context(), restored); err != nil || len(found) > 0 {
			t.Errorf("restored books: %q, %v", found, err)
		}
		err := restored.View(t.Context(), func(tx *store.Tx) error {
			a, err := tx.LedgerAccount(treasury.AccountID("alice", treasury.Msat, treasury.Budget))
			if err == nil && (a.DebitsPending != 100 || a.DebitsPosted != 100 || a.CreditsPosted != 900) {
				t.Errorf("restored account %+v", a)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
