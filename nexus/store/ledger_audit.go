package store

import "fmt"

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
