package store

import (
	"database/sql"
	"fmt"
	"time"
)

// States of a reservation. The last two are final.
const (
	ReservationReserved = "reserved" // the money is held
	ReservationReleased = "released" // it went to the payee
	ReservationWithheld = "withheld" // it went back to the payer
)

// LedgerReservation is a pending transfer with the job that it pays for.
type LedgerReservation struct {
	ID          string `json:"reservation_id"` // rsv_ and hex
	TransferID  string `json:"transfer_id"`    // the caller's id of the pending transfer, unique for ever
	Owner       string `json:"owner"`
	Payer       string `json:"payer"` // budget account
	Payee       string `json:"payee"` // the provider's account
	RunID       string `json:"run_id"`
	JobID       string `json:"job_id"`
	AmountMsats int64  `json:"amount_msats"`
	// TTL is how long the money is held at most; whole milliseconds.
	TTL time.Duration `json:"-"`

	Status       string `json:"status"`
	Reason       string `json:"reason,omitempty"`    // why it was withheld
	Passed       *bool  `json:"passed,omitempty"`    // the verdict it was settled with
	ExitCode     *int   `json:"exit_code,omitempty"` // same
	ResolutionID string `json:"resolution_id,omitempty"`
	ReservedAt   int64  `json:"reserved_at"`
	ExpiresAt    int64  `json:"expires_at"`
	SettledAt    int64  `json:"settled_at,omitempty"` // 0 while reserved
}

const reservationColumns = `id, transfer_id, owner, payer, payee, amount, run_id, job_id,
	status, reason, passed, exit_code, resolution_id, reserved_at, expires_at, settled_at`

func scanReservation(s scanner) (r LedgerReservation, err error) {
	var passed, exit sql.NullInt64
	var resolution sql.NullString
	err = s.Scan(&r.ID, &r.TransferID, &r.Owner, &r.Payer, &r.Payee, &r.AmountMsats, &r.RunID, &r.JobID,
		&r.Status, &r.Reason, &passed, &exit, &resolution, &r.ReservedAt, &r.ExpiresAt, &r.SettledAt)
	if err != nil {
		return r, err
	}
	if passed.Valid {
		r.Passed = new(passed.Int64 == 1)
	}
	if exit.Valid {
		r.ExitCode = new(int(exit.Int64))
	}
	r.ResolutionID = resolution.String
	r.TTL = time.Duration(r.ExpiresAt-r.ReservedAt) * time.Millisecond
	return r, nil
}

func (tx *Tx) oneReservation(where string, args ...any) (LedgerReservation, error) {
	r, err := scanReservation(tx.row(`SELECT `+reservationColumns+` FROM ledger_reservation WHERE `+where, args...))
	return r, during("read reservation", err)
}

// Reservation reads a reservation; ErrNotFound when there is none.
func (tx *Tx) Reservation(id string) (LedgerReservation, error) {
	return tx.oneReservation(`id = ?`, id)
}

// LockReservation reads a reservation for writing.
func (tx *Tx) LockReservation(id string) (LedgerReservation, error) {
	return tx.oneReservation(`id = ?`+tx.lock(), id)
}

// ReservationOfTransfer finds a reservation by the id of its pending transfer.
func (tx *Tx) ReservationOfTransfer(transferID string) (LedgerReservation, error) {
	return tx.oneReservation(`transfer_id = ?`, transferID)
}

// ReservationOfJob finds the reservation that holds or has earned money for a job.
func (tx *Tx) ReservationOfJob(runID, jobID string) (LedgerReservation, error) {
	return tx.oneReservation(`run_id = ? AND job_id = ? AND status <> 'withheld' AND job_id <> ''`, runID, jobID)
}

// InsertReservation writes a new reservation as it is given, without an ending.
// The command fails with taken when its id, transfer or job has one.
func (tx *Tx) InsertReservation(r LedgerReservation, taken error) error {
	return tx.write(deferredWrite{doing: "insert reservation", taken: taken}, `INSERT INTO ledger_reservation (`+reservationColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'reserved', '', NULL, NULL, NULL, ?, ?, 0)`,
		r.ID, r.TransferID, r.Owner, r.Payer, r.Payee, r.AmountMsats, r.RunID, r.JobID, r.ReservedAt, r.ExpiresAt)
}

// SettleReservation writes the ending of a locked reservation; ErrConflict when
// it has one.
func (tx *Tx) SettleReservation(r LedgerReservation) error {
	return tx.write(deferredWrite{doing: "settle reservation", none: fmt.Errorf("settle reservation %q: %w", r.ID, ErrConflict)},
		`UPDATE ledger_reservation SET status = ?, reason = ?, passed = ?, exit_code = ?,
		resolution_id = ?, settled_at = ? WHERE id = ? AND status = 'reserved'`,
		r.Status, r.Reason, r.Passed, r.ExitCode, r.ResolutionID, r.SettledAt, r.ID)
}

// LockDueReservations locks open reservations that expire by now, or were made
// by madeBy, oldest first.
func (tx *Tx) LockDueReservations(now, madeBy int64, limit int) ([]LedgerReservation, error) {
	return tx.listReservations(`status = 'reserved' AND (expires_at <= ? OR reserved_at <= ?)
		ORDER BY reserved_at, id LIMIT ?`+tx.lock(), now, madeBy, limit)
}

// ReservationsOf lists the newest reservations of an owner.
func (tx *Tx) ReservationsOf(owner string, limit int) ([]LedgerReservation, error) {
	return tx.listReservations(`owner = ? ORDER BY reserved_at DESC, id DESC LIMIT ?`, owner, limit)
}

func (tx *Tx) listReservations(where string, args ...any) ([]LedgerReservation, error) {
	found, err := list(tx, scanReservation, `SELECT `+reservationColumns+` FROM ledger_reservation WHERE `+where, args...)
	return found, during("list reservations", err)
}

// ReservationTotal counts the reservations of one status.
type ReservationTotal struct {
	Status      string `json:"status"`
	Count       int64  `json:"count"`
	AmountMsats int64  `json:"amount_msats"`
}

// ReservationTotals adds up what an owner has reserved, by status.
func (tx *Tx) ReservationTotals(owner string) ([]ReservationTotal, error) {
	found, err := list(tx, func(s scanner) (t ReservationTotal, err error) {
		err = s.Scan(&t.Status, &t.Count, &t.AmountMsats)
		return t, err
	}, `SELECT status, COUNT(*), CAST(SUM(amount) AS BIGINT) FROM ledger_reservation
		WHERE owner = ? GROUP BY status ORDER BY status`, owner)
	return found, during("total reservations", err)
}

// Earning is what one owner's jobs have paid to one account.
type Earning struct {
	Payee       string `json:"payee"`
	Holder      string `json:"holder"` // the provider
	Jobs        int64  `json:"jobs"`
	AmountMsats int64  `json:"amount_msats"`
}

// EarningsFrom lists who was paid by an owner, the highest sum first.
func (tx *Tx) EarningsFrom(owner string, limit int) ([]Earning, error) {
	found, err := list(tx, func(s scanner) (e Earning, err error) {
		err = s.Scan(&e.Payee, &e.Holder, &e.Jobs, &e.AmountMsats)
		return e, err
	}, `SELECT r.payee, a.holder, COUNT(*), CAST(SUM(r.amount) AS BIGINT) AS total
		FROM ledger_reservation r JOIN ledger_account a ON a.id = r.payee
		WHERE r.owner = ? AND r.status = 'released'
		GROUP BY r.payee, a.holder ORDER BY total DESC, r.payee LIMIT ?`, owner, limit)
	return found, during("list earnings", err)
}
