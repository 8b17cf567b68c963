package store

import (
	"errors"
	"fmt"
)

// LedgerBreach is an invariant of the books that does not hold.
type LedgerBreach struct {
	Rule   string // name of the invariant
	Row    string // the account, transfer or reservation
	Detail string
}

// RuleOverdue is the one rule that a sweep repairs: it says that no sweep has
// run, not that the books are wrong.
const RuleOverdue = "reservation_overdue"

// maxBreaches bounds what one rule reports: the first rows tell the story.
const maxBreaches = 20

// A ledgerRule selects the rows that break it: the row's name and a detail.
// Each is one statement, so that it sees one state of the tables even while
// others commit.
type ledgerRule struct{ name, query string }

// ledgerRules fold the transfers again from the first row. They share no code
// with the writers: what the writers get wrong is what they are for.
var ledgerRules = []ledgerRule{
	{"debits_equal_credits", `
		SELECT unit, 'pending ' || SUM(debits_pending) || ' debit, ' || SUM(credits_pending) || ' credit; posted '
			|| SUM(debits_posted) || ' debit, ' || SUM(credits_posted) || ' credit'
		FROM ledger_account GROUP BY unit
		HAVING SUM(debits_pending) <> SUM(credits_pending) OR SUM(debits_posted) <> SUM(credits_posted)
		ORDER BY unit`},
	{"balance_is_fold", `
		WITH leg AS (
			SELECT t.debit_account AS account,
				CASE WHEN t.kind = 'pending' AND r.id IS NULL THEN t.amount ELSE 0 END AS dp,
				CASE WHEN t.kind IN ('plain', 'post') THEN t.amount ELSE 0 END AS dd, 0 AS cp, 0 AS cc
			FROM ledger_transfer t LEFT JOIN ledger_transfer r ON r.pending_id = t.id
			UNION ALL
			SELECT t.credit_account, 0, 0,
				CASE WHEN t.kind = 'pending' AND r.id IS NULL THEN t.amount ELSE 0 END,
				CASE WHEN t.kind IN ('plain', 'post') THEN t.amount ELSE 0 END
			FROM ledger_transfer t LEFT JOIN ledger_transfer r ON r.pending_id = t.id
		), fold AS (
			SELECT account, SUM(dp) AS dp, SUM(dd) AS dd, SUM(cp) AS cp, SUM(cc) AS cc FROM leg GROUP BY account
		)` + keptAgainstFold},
	{"limit_kept", `
		SELECT id, 'reserved ' || debits_pending || ' + spent ' || debits_posted || ', limit ' || spend_limit || ', funded ' || credits_posted
		FROM ledger_account
		WHERE debits_pending + debits_posted > spend_limit
			OR (kind <> 'issuance' AND debits_pending + debits_posted > credits_posted)
			OR debits_pending < 0 OR debits_posted < 0 OR credits_pending < 0 OR credits_posted < 0
		ORDER BY id`},
	{"one_unit_a_transfer", `
		SELECT t.id, d.unit || ' to ' || c.unit
		FROM ledger_transfer t JOIN ledger_account d ON d.id = t.debit_account JOIN ledger_account c ON c.id = t.credit_account
		WHERE d.unit <> c.unit OR d.id = c.id OR t.amount <= 0
		ORDER BY t.id`},
	{"resolution_matches_pending", `
		SELECT r.id, r.kind || ' of ' || r.pending_id
		FROM ledger_transfer r LEFT JOIN ledger_transfer p ON p.id = r.pending_id
		WHERE r.kind IN ('post', 'void', 'expire') AND (p.id IS NULL OR p.kind <> 'pending' OR p.amount <> r.amount
			OR p.debit_account <> r.debit_account OR p.credit_account <> r.credit_account)
		ORDER BY r.id`},
	{"resolved_once", `
		SELECT pending_id, 'resolved ' || COUNT(*) || ' times'
		FROM ledger_transfer WHERE pending_id IS NOT NULL GROUP BY pending_id HAVING COUNT(*) > 1
		ORDER BY pending_id`},
	{"reservation_matches_transfers", `
		SELECT COALESCE(v.id, p.id), 'reservation ' || COALESCE(v.status, 'missing') || ', resolution ' || COALESCE(r.kind, 'none')
		FROM ledger_transfer p
		LEFT JOIN ledger_reservation v ON v.transfer_id = p.id
		LEFT JOIN ledger_transfer r ON r.pending_id = p.id
		WHERE p.kind = 'pending' AND ` + reservationDiffers + `
		ORDER BY p.id`},
	{"reservation_has_transfer", `
		SELECT v.id, 'transfer ' || v.transfer_id
		FROM ledger_reservation v LEFT JOIN ledger_transfer p ON p.id = v.transfer_id
		WHERE p.id IS NULL OR p.kind <> 'pending'
		ORDER BY v.id`},
	{"released_only_if_passed", `
		SELECT id, 'released without a passed verdict'
		FROM ledger_reservation WHERE status = 'released' AND (COALESCE(passed, 0) <> 1 OR COALESCE(exit_code, 1) <> 0)
		ORDER BY id`},
}

// keptAgainstFold compares the balances with a fold of the transfers.
const keptAgainstFold = `
		SELECT a.id, 'kept ' || a.debits_pending || '/' || a.debits_posted || '/' || a.credits_pending || '/' || a.credits_posted
			|| ', transfers say ' || COALESCE(f.dp, 0) || '/' || COALESCE(f.dd, 0) || '/' || COALESCE(f.cp, 0) || '/' || COALESCE(f.cc, 0)
		FROM ledger_account a LEFT JOIN fold f ON f.account = a.id
		WHERE a.debits_pending <> COALESCE(f.dp, 0) OR a.debits_posted <> COALESCE(f.dd, 0)
			OR a.credits_pending <> COALESCE(f.cp, 0) OR a.credits_posted <> COALESCE(f.cc, 0)
		ORDER BY a.id`

// reservationDiffers says that reservation v is not what the pending transfer p
// and its resolution r say.
const reservationDiffers = `(v.id IS NULL OR v.amount <> p.amount OR v.payer <> p.debit_account OR v.payee <> p.credit_account
			OR v.run_id <> p.run_id OR v.job_id <> p.job_id OR COALESCE(v.resolution_id, '') <> COALESCE(r.id, '')
			OR v.status <> CASE COALESCE(r.kind, '') WHEN '' THEN 'reserved' WHEN 'post' THEN 'released' ELSE 'withheld' END)`

// ofAccounts are the rules that read accounts alone, of which there are few.
func (r ledgerRule) ofAccounts() bool {
	return r.name == "debits_equal_credits" || r.name == "limit_kept"
}

// overdueRule has the time of the oldest expiry that is not overdue.
var overdueRule = ledgerRule{RuleOverdue, `SELECT id, 'held since ' || reserved_at || ', expired at ' || expires_at
	FROM ledger_reservation WHERE status = 'reserved' AND expires_at < ? ORDER BY expires_at, id`}

// breachList collects what rules find.
type breachList []LedgerBreach

func (l *breachList) collect(tx *Tx, rule ledgerRule, args ...any) error {
	err := tx.rows(rule.query+` LIMIT ?`, func(s scanner) error {
		b := LedgerBreach{Rule: rule.name}
		err := s.Scan(&b.Row, &b.Detail)
		*l = append(*l, b)
		return err
	}, append(args, maxBreaches)...)
	if err != nil {
		return fmt.Errorf("ledger invariant %s: %w", rule.name, err)
	}
	return nil
}

// LedgerBreaches audits the books in SQL, from the first row, and the checkpoint
// with them. A reservation is overdue when it expired before overdueBefore and is
// still held.
func (tx *Tx) LedgerBreaches(overdueBefore int64) ([]LedgerBreach, error) {
	var found breachList
	for _, rule := range ledgerRules {
		if err := found.collect(tx, rule); err != nil {
			return found, err
		}
	}
	c, err := tx.LedgerCheckpoint()
	if err == nil {
		err = found.collect(tx, checkpointRule, c.Horizon, c.Horizon)
	}
	if err != nil {
		return found, err
	}
	return found, found.collect(tx, overdueRule, overdueBefore)
}

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

// planForValues has PostgreSQL plan the statements that follow in this transaction
// for their arguments. A horizon is near the end of the table; a plan for any
// horizon expects a third of the table behind it, and reads all of it.
func (tx *Tx) planForValues() error {
	if tx.dialect != "postgres" {
		return nil
	}
	_, err := tx.exec(`SET LOCAL plan_cache_mode = force_custom_plan`)
	return err
}

// ledgerLegs are what single transfers add to the balances of their two accounts.
// A resolution takes back what its pending transfer has held.
func ledgerLegs(where string) string {
	const held = `CASE kind WHEN 'pending' THEN amount WHEN 'plain' THEN 0 ELSE -amount END`
	const moved = `CASE WHEN kind IN ('plain', 'post') THEN amount ELSE 0 END`
	return `SELECT debit_account AS account, ` + held + ` AS dp, ` + moved + ` AS dd, 0 AS cp, 0 AS cc FROM ledger_transfer WHERE ` + where + `
		UNION ALL SELECT credit_account, 0, 0, ` + held + `, ` + moved + ` FROM ledger_transfer WHERE ` + where
}

const sumOfLegs = `SELECT account, CAST(SUM(dp) AS BIGINT) AS dp, CAST(SUM(dd) AS BIGINT) AS dd, CAST(SUM(cp) AS BIGINT) AS cp,
	CAST(SUM(cc) AS BIGINT) AS cc FROM leg GROUP BY account`

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
		err = tx.planForValues()
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
	return during("move the checkpoint of the books", err)
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
	SELECT n.account, 'kept ' || COALESCE(b.debits_pending, 0) || '/' || COALESCE(b.debits_posted,
	0) || '/' || COALESCE(b.credits_pending, 0) || '/' || COALESCE(b.credits_posted, 0)
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
	if err := tx.planForValues(); err != nil {
		return nil, err
	}
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
