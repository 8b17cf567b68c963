package store

import (
	"database/sql"
	"errors"
	"fmt"
)

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
	if err != nil {
		return fmt.Errorf("record failed transfer: %w", err)
	}
	return nil
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
	if err != nil {
		return fmt.Errorf("freeze ledger: %w", err)
	}
	return nil
}

// ThawLedger switches mutations on again.
func (tx *Tx) ThawLedger() error {
	tx.freeze, tx.freezeKnown = nil, false
	if _, err := tx.exec(`DELETE FROM ledger_freeze WHERE id = 1`); err != nil {
		return fmt.Errorf("thaw ledger: %w", err)
	}
	return nil
}
