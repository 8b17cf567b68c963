package store

import (
	"errors"
	"fmt"
)

// A regular check of the books need not fold every transfer that there ever was.
// The checkpoint keeps what those below its horizon amount to; a check adds those
// behind it and compares the sum with the balances. Both were written by
// statements that share nothing with the commands that move money. A checkpoint
// is a short cut and no proof: a change of a balance and the checkpoint alike is
// found by [Tx.LedgerBreaches], which folds everything.

// LedgerCheckpoint is how far the books were checked.
type LedgerCheckpoint struct {
	Horizon int64 // every transfer with a smaller place is in it; 0: none
	NextAt  int64 // when the next check is due
	WholeAt int64 // when everything was folded last, 0: never
}

// LedgerCheckpoint reads the checkpoint; it is zero when there is none.
func (tx *Tx) LedgerCheckpoint() (c LedgerCheckpoint, err error) {
	err = tx.row(`SELECT horizon, next_at, whole_at FROM ledger_checkpoint WHERE id = 1`).Scan(&c.Horizon, &c.NextAt, &c.WholeAt)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return c, err
}

// ClaimLedgerCheck claims the next check when it is due: of all replicas one gets
// true, and none for pause milliseconds after it.
func (tx *Tx) ClaimLedgerCheck(pause int64) (bool, error) {
	if err := tx.beginLedgerCheckpoint(); err != nil {
		return false, err
	}
	n, err := tx.exec(`UPDATE ledger_checkpoint SET next_at = ? WHERE id = 1 AND next_at <= ?`, tx.Now()+pause, tx.Now())
	return n == 1, err
}

func (tx *Tx) beginLedgerCheckpoint() error {
	_, err := tx.exec(`INSERT INTO ledger_checkpoint (id, horizon, next_at, whole_at) VALUES (1, 0, 0, 0) ON CONFLICT DO NOTHING`)
	return err
}

// LedgerHorizon is the place below which no transfer will ever be added.
func (tx *Tx) LedgerHorizon() (horizon int64, err error) {
	query := `SELECT COALESCE(MAX(place), 0) + 1 FROM ledger_transfer`
	if tx.dialect == "postgres" {
		query = `SELECT txid_snapshot_xmin(txid_current_snapshot())`
	}
	err = tx.row(query).Scan(&horizon)
	return horizon, err
}

// place is the place of a transfer that is added now.
func (tx *Tx) place() string {
	if tx.dialect == "postgres" {
		return `txid_current()`
	}
	return `(SELECT COALESCE(MAX(place), 0) + 1 FROM ledger_transfer)`
}

// ledgerLegs are what single transfers add to the balances of their two accounts.
// A resolution takes back what its pending transfer has held.
func ledgerLegs(where string) string {
	const held = `CASE kind WHEN 'pending' THEN amount WHEN 'plain' THEN 0 ELSE -amount END`
	const moved = `CASE WHEN kind IN ('plain', 'post') THEN amount ELSE 0 END`
	return `SELECT debit_account AS account, ` + held + ` AS dp, ` + moved + ` AS dd, 0 AS cp, 0 AS cc FROM ledger_transfer WHERE ` + where + `
		UNION ALL SELECT credit_account, 0, 0, ` + held + `, ` + moved + ` FROM ledger_transfer WHERE ` + where
}

const sumOfLegs = `SELECT account, CAST(SUM(dp) AS BIGINT) AS dp, CAST(SUM(dd) AS BIGINT) AS dd, CAST(SUM(cp) AS BIGINT) AS cp, CAST(SUM(cc) AS BIGINT) AS cc FROM leg GROUP BY account`

// MoveLedgerCheckpoint adds the transfers from its horizon up to another one, both
// of a check that has found nothing. whole says that it has folded everything.
// ErrConflict says that another replica was faster.
func (tx *Tx) MoveLedgerCheckpoint(from, to int64, whole bool) error {
	if err := tx.beginLedgerCheckpoint(); err != nil {
		return err
	}
	query, args := `UPDATE ledger_checkpoint SET horizon = ? WHERE id = 1 AND horizon = ?`, []any{to, from}
	if whole {
		query, args = `UPDATE ledger_checkpoint SET horizon = ?, whole_at = ? WHERE id = 1 AND horizon = ?`, []any{to, tx.Now(), from}
	}
	n, err := tx.exec(query, args...)
	if err == nil && n != 1 {
		err = ErrConflict
	}
	if err == nil {
		_, err = tx.exec(`WITH leg AS (`+ledgerLegs(`place >= ? AND place < ?`)+`)
			INSERT INTO ledger_checkpoint_balance (account, debits_pending, debits_posted, credits_pending, credits_posted)
			SELECT account, dp, dd, cp, cc FROM (`+sumOfLegs+`) AS fold WHERE true
			ON CONFLICT (account) DO UPDATE SET
				debits_pending = ledger_checkpoint_balance.debits_pending + excluded.debits_pending,
				debits_posted = ledger_checkpoint_balance.debits_posted + excluded.debits_posted,
				credits_pending = ledger_checkpoint_balance.credits_pending + excluded.credits_pending,
				credits_posted = ledger_checkpoint_balance.credits_posted + excluded.credits_posted`, from, to, from, to)
	}
	if err != nil {
		return fmt.Errorf("move the checkpoint of the books: %w", err)
	}
	return nil
}

// DropLedgerCheckpoint forgets the checkpoint: the next check folds everything.
func (tx *Tx) DropLedgerCheckpoint() error {
	if _, err := tx.exec(`DELETE FROM ledger_checkpoint_balance`); err != nil {
		return err
	}
	_, err := tx.exec(`UPDATE ledger_checkpoint SET horizon = 0, whole_at = 0 WHERE id = 1`)
	return err
}

// RuleCheckpoint says that the checkpoint is not what the transfers below its
// horizon amount to. The books may be right all the same.
const RuleCheckpoint = "checkpoint_is_fold"

// checkpointRule folds the transfers below the horizon.
var checkpointRule = ledgerRule{RuleCheckpoint, `
	WITH leg AS (` + ledgerLegs(`place < ?`) + `), fold AS (` + sumOfLegs + `), name AS (
		SELECT account FROM fold UNION SELECT account FROM ledger_checkpoint_balance)
	SELECT n.account, 'kept ' || COALESCE(b.debits_pending, 0) || '/' || COALESCE(b.debits_posted, 0) || '/' || COALESCE(b.credits_pending, 0) || '/' || COALESCE(b.credits_posted, 0)
		|| ', transfers say ' || COALESCE(f.dp, 0) || '/' || COALESCE(f.dd, 0) || '/' || COALESCE(f.cp, 0) || '/' || COALESCE(f.cc, 0)
	FROM name n LEFT JOIN fold f ON f.account = n.account LEFT JOIN ledger_checkpoint_balance b ON b.account = n.account
	WHERE COALESCE(b.debits_pending, 0) <> COALESCE(f.dp, 0) OR COALESCE(b.debits_posted, 0) <> COALESCE(f.dd, 0)
		OR COALESCE(b.credits_pending, 0) <> COALESCE(f.cp, 0) OR COALESCE(b.credits_posted, 0) <> COALESCE(f.cc, 0)
	ORDER BY n.account`}

// recentRules are the ledgerRules for what lies behind a horizon, which is each of
// their arguments. Those that read accounts alone are the same. They have no order:
// with one, and a limit, PostgreSQL likes to read the whole table in it.
var recentRules = []ledgerRule{
	{"balance_is_fold", `
		WITH leg AS (` + ledgerLegs(`place >= ?`) + `
			UNION ALL SELECT account, debits_pending, debits_posted, credits_pending, credits_posted FROM ledger_checkpoint_balance
		), fold AS (` + sumOfLegs + `)` + keptAgainstFold},
	{"one_unit_a_transfer", `
		SELECT t.id, d.unit || ' to ' || c.unit
		FROM ledger_transfer t JOIN ledger_account d ON d.id = t.debit_account JOIN ledger_account c ON c.id = t.credit_account
		WHERE t.place >= ? AND (d.unit <> c.unit OR d.id = c.id OR t.amount <= 0)`},
	{"resolution_matches_pending", `
		SELECT r.id, r.kind || ' of ' || r.pending_id
		FROM ledger_transfer r LEFT JOIN ledger_transfer p ON p.id = r.pending_id
		WHERE r.place >= ? AND r.kind IN ('post', 'void', 'expire') AND (p.id IS NULL OR p.kind <> 'pending' OR p.amount <> r.amount
			OR p.debit_account <> r.debit_account OR p.credit_account <> r.credit_account)`},
	{"reservation_matches_transfers", `
		SELECT COALESCE(v.id, p.id), 'reservation ' || COALESCE(v.status, 'missing') || ', resolution ' || COALESCE(r.kind, 'none')
		FROM (SELECT DISTINCT COALESCE(pending_id, id) AS id FROM ledger_transfer WHERE place >= ? AND kind <> 'plain') AS recent
		JOIN ledger_transfer p ON p.id = recent.id
		LEFT JOIN ledger_reservation v ON v.transfer_id = p.id
		LEFT JOIN ledger_transfer r ON r.pending_id = p.id
		WHERE ` + reservationDiffers + ``},
	{"released_only_if_passed", `
		SELECT v.id, 'released without a passed verdict'
		FROM ledger_transfer r JOIN ledger_reservation v ON v.resolution_id = r.id
		WHERE r.place >= ? AND v.status = 'released' AND (COALESCE(v.passed, 0) <> 1 OR COALESCE(v.exit_code, 1) <> 0)`},
}

// RecentLedgerBreaches audits what lies behind a checkpoint, and the balances
// against the checkpoint and what lies behind it.
func (tx *Tx) RecentLedgerBreaches(c LedgerCheckpoint, overdueBefore int64) ([]LedgerBreach, error) {
	var found breachList
	for _, rule := range ledgerRules {
		if rule.ofAccounts() {
			if err := found.collect(tx, rule); err != nil {
				return found, err
			}
		}
	}
	for _, rule := range recentRules {
		args := []any{c.Horizon}
		if rule.name == "balance_is_fold" {
			args = append(args, c.Horizon)
		}
		if err := found.collect(tx, rule, args...); err != nil {
			return found, err
		}
	}
	return found, found.collect(tx, overdueRule, overdueBefore)
}
