package store

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// The rows of the ledger, shaped like TigerBeetle's: accounts with four
// balances, an append-only table of transfers, and a reservation for every
// pending transfer. The functions here read and write rows; what may be written
// is decided in remit/nexus/treasury.
//
// Every writer takes locks in one order, or PostgreSQL finds deadlocks:
// reservations by age, then accounts in the order of [Tx.LockLedgerAccounts],
// which leaves the rows that most commands touch to the end.

// MaxAmount bounds every amount, balance and limit: the largest whole number
// that canonical JSON carries.
const MaxAmount int64 = 1<<53 - 1

// Units of money. An account has one for ever.
const (
	UnitMsat     = "msat"     // thousandths of a satoshi
	UnitMicroUSD = "microusd" // millionths of a US dollar
)

// Kinds of account.
const (
	AccountBudget   = "budget"   // pays: funded, limited, never overdrawn
	AccountEarnings = "earnings" // is paid
	AccountIssuance = "issuance" // where funding comes from: one a unit
)

// Flags of an account.
const (
	FlagClosed      int64 = 1 << iota // takes no transfers
	FlagNoOverdraft                   // debits must not exceed posted credits
)

// LedgerAccount is an account with its balances. Pending figures are held by
// reservations, posted ones are final.
type LedgerAccount struct {
	ID     string `json:"id"`     // acc_ and hex
	Owner  string `json:"owner"`  // principal whose account it is
	Holder string `json:"holder"` // what it stands for: a user, a provider id
	Unit   string `json:"unit"`
	Kind   string `json:"kind"`
	Flags  int64  `json:"flags"`
	Limit  int64  `json:"limit"` // cap on reserved + spent over the account's life

	DebitsPending  int64 `json:"debits_pending"`
	DebitsPosted   int64 `json:"debits_posted"`
	CreditsPending int64 `json:"credits_pending"`
	CreditsPosted  int64 `json:"credits_posted"`
	CreatedAt      int64 `json:"created_at"`
}

// Closed reports whether the account takes no more transfers.
func (a LedgerAccount) Closed() bool { return a.Flags&FlagClosed != 0 }

// Remaining is what the account can still reserve or spend, never below zero.
func (a LedgerAccount) Remaining() int64 {
	ceiling := a.Limit
	if a.Flags&FlagNoOverdraft != 0 {
		ceiling = min(ceiling, a.CreditsPosted)
	}
	return max(0, ceiling-a.DebitsPending-a.DebitsPosted)
}

// LedgerDelta is what a command adds to the four balances of an account.
type LedgerDelta struct {
	DebitsPending, DebitsPosted, CreditsPending, CreditsPosted int64
}

// Plus adds up two deltas.
func (d LedgerDelta) Plus(e LedgerDelta) LedgerDelta {
	return LedgerDelta{
		d.DebitsPending + e.DebitsPending, d.DebitsPosted + e.DebitsPosted,
		d.CreditsPending + e.CreditsPending, d.CreditsPosted + e.CreditsPosted,
	}
}

const accountColumns = `id, owner, holder, unit, kind, flags, spend_limit,
	debits_pending, debits_posted, credits_pending, credits_posted, created_at`

func scanAccount(s scanner) (a LedgerAccount, err error) {
	err = s.Scan(&a.ID, &a.Owner, &a.Holder, &a.Unit, &a.Kind, &a.Flags, &a.Limit,
		&a.DebitsPending, &a.DebitsPosted, &a.CreditsPending, &a.CreditsPosted, &a.CreatedAt)
	return a, err
}

// InsertLedgerAccount writes a new account without balances; false when the id is taken.
func (tx *Tx) InsertLedgerAccount(a LedgerAccount) (bool, error) {
	n, err := tx.exec(`INSERT INTO ledger_account (`+accountColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, ?) ON CONFLICT DO NOTHING`,
		a.ID, a.Owner, a.Holder, a.Unit, a.Kind, a.Flags, a.Limit, tx.Now())
	return n == 1, during("insert ledger account", err)
}

// LedgerAccount reads an account; ErrNotFound when there is none.
func (tx *Tx) LedgerAccount(id string) (LedgerAccount, error) {
	a, err := scanAccount(tx.row(`SELECT `+accountColumns+` FROM ledger_account WHERE id = ?`, id))
	if err != nil {
		return LedgerAccount{}, fmt.Errorf("read ledger account %q: %w", id, err)
	}
	return a, nil
}

// LockLedgerAccounts reads accounts for writing, by id. Budgets are locked
// first, then earnings, then issuance, each by id: one payer's commands meet at
// its own budget before they queue at a provider that many share. An id that
// does not exist is not in the answer.
func (tx *Tx) LockLedgerAccounts(ids ...string) (map[string]LedgerAccount, error) {
	if len(ids) == 0 {
		return map[string]LedgerAccount{}, nil
	}
	var list []LedgerAccount
	if err := tx.send(tx.lockedAccounts(&list, ids...)); err != nil {
		return nil, fmt.Errorf("lock ledger accounts: %w", err)
	}
	return accountsByID(list), nil
}

func (tx *Tx) lockedAccounts(dst *[]LedgerAccount, ids ...string) *statement {
	// The list is padded with its last id, so that sweeps of every size make a
	// dozen different statements, which connections remember.
	places := 2
	for places < len(ids) {
		places *= 2
	}
	args := make([]any, places)
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)]
	}
	return all(dst, scanAccount, `SELECT `+accountColumns+` FROM ledger_account
		WHERE id IN (?`+strings.Repeat(`, ?`, places-1)+`)
		ORDER BY CASE kind WHEN 'budget' THEN 0 WHEN 'earnings' THEN 1 ELSE 2 END, id`+tx.lock(), args...)
}

func accountsByID(list []LedgerAccount) map[string]LedgerAccount {
	found := make(map[string]LedgerAccount, len(list))
	for _, a := range list {
		found[a.ID] = a
	}
	return found
}

// ReservationKeys names what a new reservation depends on.
type ReservationKeys struct{ Payer, Payee, TransferID, RunID, JobID string }

// ReservationBasis is what a new reservation depends on.
type ReservationBasis struct {
	Accounts map[string]LedgerAccount // payer and payee, locked
	// Traced reports that something is known of the transfer or its job: the
	// transfer, its refusal, or a reservation that holds or has earned money.
	Traced bool
}

// LockReservationBasis locks the accounts of a new reservation and then reads
// what is known of it, so that what another replica has reserved is seen.
func (tx *Tx) LockReservationBasis(k ReservationKeys) (ReservationBasis, error) {
	var read basisRows
	if err := tx.send(tx.reservationBasis(&read, k)...); err != nil {
		return ReservationBasis{}, fmt.Errorf("lock ledger accounts: %w", err)
	}
	return read.basis(), nil
}

type basisRows struct {
	accounts []LedgerAccount
	traced   *bool
}

func (b basisRows) basis() ReservationBasis {
	return ReservationBasis{Accounts: accountsByID(b.accounts), Traced: b.traced != nil && *b.traced}
}

func (tx *Tx) reservationBasis(dst *basisRows, k ReservationKeys) []*statement {
	stmts := []*statement{
		tx.lockedAccounts(&dst.accounts, k.Payer, k.Payee),
		optional(&dst.traced, scanBool, `SELECT EXISTS (SELECT 1 FROM ledger_transfer WHERE id = ?)
			OR EXISTS (SELECT 1 FROM ledger_failure WHERE transfer_id = ?)
			OR EXISTS (SELECT 1 FROM ledger_reservation WHERE run_id = ? AND job_id = ? AND status <> 'withheld' AND job_id <> '')`,
			k.TransferID, k.TransferID, k.RunID, k.JobID),
	}
	if !tx.freezeKnown {
		stmts = append(stmts, tx.freezeRow())
	}
	return stmts
}

// LedgerAccountsOf lists the accounts of an owner by id, at most limit.
func (tx *Tx) LedgerAccountsOf(owner string, limit int) ([]LedgerAccount, error) {
	found, err := list(tx, scanAccount, `SELECT `+accountColumns+` FROM ledger_account WHERE owner = ? ORDER BY kind, id LIMIT ?`, owner,
		limit)
	return found, during("list ledger accounts", err)
}

// SetLedgerAccount writes limit and flags of a locked account.
func (tx *Tx) SetLedgerAccount(id string, limit, flags int64) error {
	n, err := tx.exec(`UPDATE ledger_account SET spend_limit = ?, flags = ? WHERE id = ?`, limit, flags, id)
	if err == nil && n != 1 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("set ledger account %q: %w", id, err)
	}
	return nil
}

// MoveLedgerBalance adds to the balances of a locked account. The table's own
// checks refuse what would overdraw it.
func (tx *Tx) MoveLedgerBalance(id string, d LedgerDelta) error {
	return tx.write(missing("move balance of ledger account", id), `UPDATE ledger_account SET
		debits_pending = debits_pending + ?, debits_posted = debits_posted + ?,
		credits_pending = credits_pending + ?, credits_posted = credits_posted + ? WHERE id = ?`,
		d.DebitsPending, d.DebitsPosted, d.CreditsPending, d.CreditsPosted, id)
}

// Kinds of transfer.
const (
	TransferPlain   = "plain"   // moves money at once
	TransferPending = "pending" // holds money until it is resolved
	TransferPost    = "post"    // resolves: the money moves
	TransferVoid    = "void"    // resolves: the money goes back
	TransferExpire  = "expire"  // resolves: the timeout gave it back
)

// LedgerTransfer is one row of the journal of money. Rows are never changed.
type LedgerTransfer struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	PendingID string `json:"pending_id,omitempty"` // of a resolution: what it resolves
	Debit     string `json:"debit_account"`        // account that gives
	Credit    string `json:"credit_account"`       // account that gets
	Amount    int64  `json:"amount"`
	RunID     string `json:"run_id,omitempty"`
	JobID     string `json:"job_id,omitempty"`
	Reason    string `json:"reason,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"` // of a pending transfer
	CreatedAt int64  `json:"created_at"`
}

const transferColumns = `id, kind, pending_id, debit_account, credit_account, amount,
	run_id, job_id, reason, timeout_ms, created_at`

// InsertLedgerTransfer appends a transfer at the time of the command, which fails
// with taken when the id, or a resolution of the same pending transfer, is there.
func (tx *Tx) InsertLedgerTransfer(t LedgerTransfer, taken error) error {
	var pending *string
	if t.PendingID != "" {
		pending = &t.PendingID
	}
	return tx.write(deferredWrite{doing: "insert ledger transfer", taken: taken}, `INSERT INTO ledger_transfer (`+transferColumns+`, place)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, `+tx.place()+`)`,
		t.ID, t.Kind, pending, t.Debit, t.Credit, t.Amount, t.RunID, t.JobID, t.Reason, t.TimeoutMS, tx.Now())
}

// LedgerTransfer reads a transfer; ErrNotFound when there is none.
func (tx *Tx) LedgerTransfer(id string) (LedgerTransfer, error) {
	var t LedgerTransfer
	var pending sql.NullString
	err := tx.row(`SELECT `+transferColumns+` FROM ledger_transfer WHERE id = ?`, id).Scan(
		&t.ID, &t.Kind, &pending, &t.Debit, &t.Credit, &t.Amount, &t.RunID, &t.JobID, &t.Reason, &t.TimeoutMS, &t.CreatedAt)
	if err != nil {
		return LedgerTransfer{}, fmt.Errorf("read ledger transfer %q: %w", id, err)
	}
	t.PendingID = pending.String
	return t, nil
}

// LedgerFailure is a transfer id that was refused.
type LedgerFailure struct {
	TransferID, Code, Message string
	FailedAt                  int64
}

// PutLedgerFailure records that a transfer id was refused. The first record of
// an id stays, and an id that names a transfer cannot fail any more.
func (tx *Tx) PutLedgerFailure(f LedgerFailure) error {
	_, err := tx.exec(`INSERT INTO ledger_failure (transfer_id, code, message, failed_at)
		SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BIGINT)
		WHERE NOT EXISTS (SELECT 1 FROM ledger_transfer WHERE id = ?)
		ON CONFLICT DO NOTHING`, f.TransferID, f.Code, f.Message, tx.Now(), f.TransferID)
	return during("record failed transfer", err)
}

// LedgerFailure reads the refusal of a transfer id; nil when it was not refused.
func (tx *Tx) LedgerFailure(transferID string) (*LedgerFailure, error) {
	f := LedgerFailure{TransferID: transferID}
	err := tx.row(`SELECT code, message, failed_at FROM ledger_failure WHERE transfer_id = ?`, transferID).
		Scan(&f.Code, &f.Message, &f.FailedAt)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read failed transfer: %w", err)
	}
	return &f, nil
}

// LedgerFreeze says why and since when the authority takes no mutations.
type LedgerFreeze struct {
	Reason   string `json:"reason"`
	FrozenAt int64  `json:"frozen_at"`
}

// LedgerFreeze returns nil while mutations are welcome. It is read once a command.
func (tx *Tx) LedgerFreeze() (*LedgerFreeze, error) {
	if tx.freezeKnown {
		return tx.freeze, nil
	}
	if err := tx.send(tx.freezeRow()); err != nil {
		return nil, fmt.Errorf("read ledger mode: %w", err)
	}
	return tx.freeze, nil
}

func (tx *Tx) freezeRow() *statement {
	s := optional(&tx.freeze, scanFreeze, `SELECT reason, frozen_at FROM ledger_freeze WHERE id = 1`)
	read := s.read
	s.read = func(r rows) error {
		tx.freezeKnown = true
		return read(r)
	}
	return s
}

func scanFreeze(s scanner) (f LedgerFreeze, err error) {
	err = s.Scan(&f.Reason, &f.FrozenAt)
	return f, err
}

// FreezeLedger switches mutations off; the first reason stays.
func (tx *Tx) FreezeLedger(reason string) error {
	tx.freeze, tx.freezeKnown = nil, false
	_, err := tx.exec(`INSERT INTO ledger_freeze (id, reason, frozen_at) VALUES (1, ?, ?) ON CONFLICT DO NOTHING`, reason, tx.Now())
	return during("freeze ledger", err)
}

// ThawLedger switches mutations on again.
func (tx *Tx) ThawLedger() error {
	tx.freeze, tx.freezeKnown = nil, false
	if _, err := tx.exec(`DELETE FROM ledger_freeze WHERE id = 1`); err != nil {
		return fmt.Errorf("thaw ledger: %w", err)
	}
	return nil
}
