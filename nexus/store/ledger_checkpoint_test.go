package store_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// checked runs the regular check and demands what it finds: a rule, or nothing.
func checked(t *testing.T, s *store.Store, when, rule string) {
	t.Helper()
	found, err := treasury.Check(t.Context(), s)
	if err != nil || (rule == "") != (len(found) == 0) || rule != "" && !strings.Contains("\n"+strings.Join(found, "\n"), "\n"+rule+": ") {
		t.Errorf("%s: found %q, %v, want %q", when, found, err, rule)
	}
}

func checkpoint(t *testing.T, s *store.Store) (c store.LedgerCheckpoint) {
	t.Helper()
	view(t, s, func(tx *store.Tx) (err error) { c, err = tx.LedgerCheckpoint(); return err })
	return c
}

// pastAllTransfers checks the books until the checkpoint is past every transfer:
// on PostgreSQL the transactions of other tests hold it back.
func pastAllTransfers(t *testing.T, s *store.Store) {
	t.Helper()
	for again := time.NewTicker(10 * time.Millisecond); ; {
		var newest int64
		view(t, s, func(tx *store.Tx) error { return tx.Row("SELECT MAX(place) FROM ledger_transfer").Scan(&newest) })
		if checkpoint(t, s).Horizon > newest {
			again.Stop()
			return
		}
		<-again.C
		checked(t, s, "books that stand still", "")
	}
}

// TestBooksFromACheckpoint: a regular check begins where the last one ended. What
// changes behind its back is found: a balance at once, what is behind the
// checkpoint at once, a checkpoint at once, and what lies below it in the night.
func TestBooksFromACheckpoint(t *testing.T) {
	t.Parallel()
	const budget = "kind = 'budget' AND owner = 'alice'"
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		checked(t, s, "no transfer", "")
		fillLedger(t, s)
		for range 2 {
			before := checkpoint(t, s).Horizon
			checked(t, s, "untouched books", "")
			if now := checkpoint(t, s); now.Horizon < before || now.WholeAt == 0 {
				t.Errorf("the checkpoint was at %d and is %+v", before, now)
			}
		}
		update(t, s, func(tx *store.Tx) error { // so that nothing runs out
			for _, owner := range []string{"alice", "bob"} {
				if _, _, err := treasury.Cancel(tx, treasury.ReservationID("held-"+owner), "x"); err != nil {
					return err
				}
			}
			return nil
		})
		checked(t, s, "after two refunds", "")
		pastAllTransfers(t, s)
		unlock(t, s)
		writable := func(want reason.Code) {
			t.Helper()
			if got := reason.CodeOf(s.Update(t.Context(), treasury.Writable)); got != want {
				t.Errorf("mutations get %q, want %q", got, want)
			}
		}
		for name, test := range map[string]struct {
			plant, repair, rule string
			atNight, freezes    bool
		}{
			"a balance": {"UPDATE ledger_account SET debits_posted = debits_posted + 1 WHERE " + budget,
				"UPDATE ledger_account SET debits_posted = debits_posted - 1 WHERE " + budget, "balance_is_fold", false, true},
			"an old transfer": {"UPDATE ledger_transfer SET amount = 901 WHERE id = 'fund-alice'",
				"UPDATE ledger_transfer SET amount = 900 WHERE id = 'fund-alice'", "balance_is_fold", true, true},
			"an old resolution": {"UPDATE ledger_transfer SET kind = 'void' WHERE pending_id = 'released-alice'",
				"UPDATE ledger_transfer SET kind = 'post' WHERE pending_id = 'released-alice'", "reservation_matches_transfers", true, true},
			"an old reservation": {"UPDATE ledger_reservation SET passed = 0 WHERE transfer_id = 'released-alice'",
				"UPDATE ledger_reservation SET passed = 1 WHERE transfer_id = 'released-alice'", "released_only_if_passed", true, true},
			"the checkpoint": {"UPDATE ledger_checkpoint_balance SET debits_posted = debits_posted + 1", "", store.RuleCheckpoint,
				false, false},
			"a checkpoint of no account": {"INSERT INTO ledger_checkpoint_balance VALUES ('acc_none', 1, 1, 1, 1)", "", store.RuleCheckpoint,
				true, false},
		} {
			if err := meddle(t, s, test.plant); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if test.atNight {
				checked(t, s, name+", by day", "")
				clock.Advance(24 * time.Hour)
			}
			checked(t, s, name, test.rule)
			if test.freezes {
				writable(reason.ReadOnlyMode)
				if err := meddle(t, s, test.repair); err != nil {
					t.Fatal(err)
				}
				if err := s.Update(t.Context(), treasury.Reopen); err != nil {
					t.Fatalf("%s: cannot reopen: %v", name, err)
				}
			}
			writable("")
			checked(t, s, name+", repaired", "")
		}
		// Both at once, alike: only what folds everything finds it.
		account := "(SELECT id FROM ledger_account WHERE " + budget + ")"
		for _, q := range []string{
			"UPDATE ledger_account SET debits_posted = debits_posted + 1, spend_limit = spend_limit + 1 WHERE kind IN ('budget') AND owner = 'alice'",
			"UPDATE ledger_account SET credits_posted = credits_posted + 1 WHERE kind = 'earnings' AND owner = 'alice'",
			"UPDATE ledger_checkpoint_balance SET debits_posted = debits_posted + 1 WHERE account = " + account,
			"UPDATE ledger_checkpoint_balance SET credits_posted = credits_posted + 1 WHERE account = (SELECT id FROM ledger_account WHERE kind = 'earnings' AND owner = 'alice')",
		} {
			if err := meddle(t, s, q); err != nil {
				t.Fatal(err)
			}
		}
		checked(t, s, "balances and checkpoint alike, by day", "")
		clock.Advance(24 * time.Hour)
		checked(t, s, "balances and checkpoint alike, at night", "balance_is_fold")
		writable(reason.ReadOnlyMode)
	})
}

// TestBooksWhileTheyMove checks again and again while many move money: a transfer
// that is committed late is missed by no check and counted by none twice.
func TestBooksWhileTheyMove(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		fillLedger(t, s)
		budget, earnings := treasury.AccountID("alice", treasury.Msat, treasury.Budget), treasury.AccountID("alice", treasury.Msat,
			treasury.Earnings)
		var movers sync.WaitGroup
		for m := range 4 {
			movers.Go(func() {
				for i := range 25 {
					id := fmt.Sprint("move-", m, "-", i)
					if err := s.Update(t.Context(), func(tx *store.Tx) error {
						r, _, err := treasury.Reserve(tx, treasury.Reservation{TransferID: id, Owner: "alice", Payer: budget, Payee: earnings,
							RunID: "run", JobID: id, AmountMsats: 1})
						if err == nil && i%2 == 0 {
							_, _, err = treasury.Resolve(tx, r.ID, treasury.Resolution{Release: true, Passed: true})
						}
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { movers.Wait(); close(done) }()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
			}
			if checked(t, s, "while money moves", ""); t.Failed() {
				over = true
			}
		}
		if found, err := treasury.Audit(t.Context(), s); err != nil || len(found) > 0 {
			t.Errorf("in the end: %q, %v", found, err)
		}
	})
}

// TestOneReplicaChecks: of all that want to, one checks the books.
func TestOneReplicaChecks(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		for range 3 {
			mine := make([]bool, 8)
			var all sync.WaitGroup
			for i := range mine {
				all.Go(func() {
					if err := s.Update(t.Context(), func(tx *store.Tx) (err error) { mine[i], err = tx.ClaimLedgerCheck(1000); return err }); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := len(slices.DeleteFunc(mine, func(won bool) bool { return !won })); n != 1 {
				t.Errorf("%d replicas check", n)
			}
			clock.Advance(time.Second)
		}
	})
}

// TestCheckpointStaysBehind: a backup has no checkpoint, and the restored books
// begin one of their own, in the order of their database.
func TestCheckpointStaysBehind(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		fillLedger(t, s)
		checked(t, s, "before", "")
		path := filepath.Join(t.TempDir(), "backup")
		if err := s.Backup(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		storetest.EachDSN(t, func(t *testing.T, dsn string) {
			if err := store.Restore(t.Context(), dsn, path); err != nil {
				t.Fatal(err)
			}
			restored := storetest.Open(t, dsn, store.Options{})
			if c := checkpoint(t, restored); c != (store.LedgerCheckpoint{}) {
				t.Errorf("restored %+v", c)
			}
			for range 2 {
				checked(t, restored, "restored", "")
			}
			if c := checkpoint(t, restored); c.Horizon == 0 {
				t.Errorf("%+v", c)
			}
		})
	})
}
