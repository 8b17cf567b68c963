package store

import (
	"encoding/json"
	"fmt"
)

// The rows of jobs. What may happen to them is decided in remit/nexus/jobs.

// JobRow is a job with its present attempt.
type JobRow struct {
	ID, RunID, Owner string
	Type, Hash       string
	Request          json.RawMessage // canonical, as hashed
	Payer            string          // account
	MaxPriceMsats    int64           // 0: no limit
	Pinned           bool            // to its first provider: no fallback
	State            string

	Attempt                 int64 // 1, 2 …
	ProviderID              string
	Tier, FallbackFrom      string
	ReservationID           string
	AmountMsats             int64
	Fence                   int64 // grows whenever the right to work on the job moves
	OfferUntil              int64
	LeaseTTL                int64 // milliseconds
	LeaseUntil, DeadlineAt  int64
	DispatchedAt, LeasedAt  int64
	SubmittedAt, VerifiedAt int64
	ClosedAt                int64
	Caps                    json.RawMessage // of the provider when it was leased; "" before
	Response                json.RawMessage // as received; "" until then
	ResponseSHA256          string
	ResponseStatus          string
	Outcome                 string // of the verdict; "" without one
	ExitCode                int64
	Violations              json.RawMessage
	Reason                  string // why it failed, was canceled or expired
	Payment                 string // "", released, withheld
	ReceiptSHA256           string // of the verification
	Revision                int64
}

const jobColumns = `id, run_id, owner, type, hash, request, payer, max_price_msats, pinned, state, attempt, provider_id, tier, fallback_from,
	reservation_id, amount_msats, fence, offer_until, lease_ttl_ms, lease_until, deadline_at, dispatched_at, leased_at,
	submitted_at, verified_at, closed_at, response, response_sha256, response_status, outcome, exit_code, violations,
	reason, payment, receipt_sha256, caps, revision`

func scanJob(s scanner) (j JobRow, err error) {
	var request, response, violations, caps string
	var pinned int64
	err = s.Scan(&j.ID, &j.RunID, &j.Owner, &j.Type, &j.Hash, &request, &j.Payer, &j.MaxPriceMsats, &pinned, &j.State, &j.Attempt,
		&j.ProviderID, &j.Tier, &j.FallbackFrom, &j.ReservationID, &j.AmountMsats, &j.Fence, &j.OfferUntil, &j.LeaseTTL,
		&j.LeaseUntil, &j.DeadlineAt, &j.DispatchedAt, &j.LeasedAt, &j.SubmittedAt, &j.VerifiedAt, &j.ClosedAt, &response,
		&j.ResponseSHA256, &j.ResponseStatus, &j.Outcome, &j.ExitCode, &violations, &j.Reason, &j.Payment, &j.ReceiptSHA256, &caps, &j.Revision)
	j.Pinned = pinned == 1
	j.Request, j.Response, j.Violations, j.Caps = json.RawMessage(request), json.RawMessage(response), json.RawMessage(violations), json.RawMessage(caps)
	return j, err
}

func (tx *Tx) listJobs(where string, args ...any) ([]JobRow, error) {
	return list(tx, scanJob, `SELECT `+jobColumns+` FROM job WHERE `+where, args...)
}

// Job reads a job; ErrNotFound when there is none.
func (tx *Tx) Job(id string) (JobRow, error) {
	return scanJob(tx.row(`SELECT `+jobColumns+` FROM job WHERE id = ?`, id))
}

// lockedJob reads a job for writing. The locks of its provider and of its run
// come first.
func (tx *Tx) lockedJob(dst **JobRow, id string) *statement {
	return optional(dst, scanJob, `SELECT `+jobColumns+` FROM job WHERE id = ?`+tx.lock(), id)
}

// JobOfHash finds the job of a run by its hash; ErrNotFound when there is none.
func (tx *Tx) JobOfHash(runID, hash string) (JobRow, error) {
	var found *JobRow
	return present(&found, tx.send(jobOfHash(&found, runID, hash)))
}

func jobOfHash(dst **JobRow, runID, hash string) *statement {
	return optional(dst, scanJob, `SELECT `+jobColumns+` FROM job WHERE run_id = ? AND hash = ?`, runID, hash)
}

// JobsOfRun lists the jobs of a run by id, after the given one.
func (tx *Tx) JobsOfRun(runID, after string, limit int) ([]JobRow, error) {
	return tx.listJobs(`run_id = ? AND id > ? ORDER BY id LIMIT ?`, runID, after, limit)
}

// JobsOffered lists the jobs that a provider may lease, the oldest offer first.
func (tx *Tx) JobsOffered(providerID string, limit int) (found []JobRow, err error) {
	err = tx.send(jobsOffered(&found, providerID, limit))
	return found, err
}

func jobsOffered(dst *[]JobRow, providerID string, limit int) *statement {
	return all(dst, scanJob, `SELECT `+jobColumns+` FROM job WHERE provider_id = ? AND state = 'queued' ORDER BY dispatched_at, id LIMIT ?`,
		providerID, limit)
}

// JobsHeld lists the jobs that a provider has leased.
func (tx *Tx) JobsHeld(providerID string, limit int) ([]JobRow, error) {
	return tx.listJobs(`provider_id = ? AND state = 'leased' ORDER BY id LIMIT ?`, providerID, limit)
}

// JobsOverdue lists ids of jobs whose offer or lease is over by now.
func (tx *Tx) JobsOverdue(now int64, limit int) ([]string, error) {
	return tx.listIDs(`SELECT id FROM (
		SELECT id, lease_until AS due FROM job WHERE state = 'leased' AND lease_until <= ?
		UNION ALL SELECT id, offer_until AS due FROM job WHERE state = 'queued' AND offer_until <= ?) AS overdue
		ORDER BY due, id LIMIT ?`, now, now, limit)
}

// JobsUnsettled lists ids of jobs that were submitted by a time and not settled.
func (tx *Tx) JobsUnsettled(by int64, limit int) ([]string, error) {
	return tx.listIDs(`SELECT id FROM job WHERE state = 'submitted' AND submitted_at <= ? ORDER BY submitted_at, id LIMIT ?`, by, limit)
}

func (tx *Tx) listIDs(query string, args ...any) ([]string, error) {
	return list(tx, scanText, query, args...)
}

// InsertJob writes a new job and returns it as it is then. The command fails with
// taken when its run has one with this hash.
func (tx *Tx) InsertJob(j JobRow, taken error) (JobRow, error) {
	j.Revision = 1
	return j, tx.write(deferredWrite{doing: "insert job", taken: taken}, `INSERT INTO job (`+jobColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)`,
		j.ID, j.RunID, j.Owner, j.Type, j.Hash, j.Request, j.Payer, j.MaxPriceMsats, j.Pinned, j.State, j.Attempt, j.ProviderID, j.Tier, j.FallbackFrom,
		j.ReservationID, j.AmountMsats, j.Fence, j.OfferUntil, j.LeaseTTL, j.LeaseUntil, j.DeadlineAt, j.DispatchedAt, j.LeasedAt,
		j.SubmittedAt, j.VerifiedAt, j.ClosedAt, j.Response, j.ResponseSHA256, j.ResponseStatus, j.Outcome, j.ExitCode, j.Violations,
		j.Reason, j.Payment, j.ReceiptSHA256, j.Caps)
}

// UpdateJob writes a locked job over the revision that was read. What a job is
// (id, run, owner, request, payer) never changes.
func (tx *Tx) UpdateJob(j JobRow) error {
	return tx.write(deferredWrite{doing: "save job", none: fmt.Errorf("save job %s: %w", j.ID, ErrConflict)}, `UPDATE job SET state = ?, attempt = ?, provider_id = ?, tier = ?, fallback_from = ?,
		reservation_id = ?, amount_msats = ?, fence = ?, offer_until = ?, lease_ttl_ms = ?, lease_until = ?, deadline_at = ?,
		dispatched_at = ?, leased_at = ?, submitted_at = ?, verified_at = ?, closed_at = ?, response = ?, response_sha256 = ?,
		response_status = ?, outcome = ?, exit_code = ?, violations = ?, reason = ?, payment = ?, receipt_sha256 = ?, caps = ?,
		revision = revision + 1 WHERE id = ? AND revision = ?`,
		j.State, j.Attempt, j.ProviderID, j.Tier, j.FallbackFrom,
		j.ReservationID, j.AmountMsats, j.Fence, j.OfferUntil, j.LeaseTTL, j.LeaseUntil, j.DeadlineAt,
		j.DispatchedAt, j.LeasedAt, j.SubmittedAt, j.VerifiedAt, j.ClosedAt, j.Response, j.ResponseSHA256,
		j.ResponseStatus, j.Outcome, j.ExitCode, j.Violations, j.Reason, j.Payment, j.ReceiptSHA256, j.Caps, j.ID, j.Revision)
}
