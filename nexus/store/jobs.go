package store

import (
	"bytes"
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

const jobColumns = `id, run_id, owner, type, hash, request, payer, max_price_msats, pinned, state, attempt, provider_id, tier,
	fallback_from,
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
	j.Request, j.Response, j.Violations, j.Caps = json.RawMessage(request), json.RawMessage(response), json.RawMessage(violations),
		json.RawMessage(caps)
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
		j.ID, j.RunID, j.Owner, j.Type, j.Hash, j.Request, j.Payer, j.MaxPriceMsats, j.Pinned, j.State, j.Attempt, j.ProviderID, j.Tier,
		j.FallbackFrom,
		j.ReservationID, j.AmountMsats, j.Fence, j.OfferUntil, j.LeaseTTL, j.LeaseUntil, j.DeadlineAt, j.DispatchedAt, j.LeasedAt,
		j.SubmittedAt, j.VerifiedAt, j.ClosedAt, j.Response, j.ResponseSHA256, j.ResponseStatus, j.Outcome, j.ExitCode, j.Violations,
		j.Reason, j.Payment, j.ReceiptSHA256, j.Caps)
}

// UpdateJob writes a locked job over the revision that was read. What a job is
// (id, run, owner, request, payer) never changes.
func (tx *Tx) UpdateJob(j JobRow) error {
	return tx.write(deferredWrite{doing: "save job", none: fmt.Errorf("save job %s: %w", j.ID, ErrConflict)}, `UPDATE job SET state = ?,
		attempt = ?, provider_id = ?, tier = ?, fallback_from = ?,
		reservation_id = ?, amount_msats = ?, fence = ?, offer_until = ?, lease_ttl_ms = ?, lease_until = ?, deadline_at = ?,
		dispatched_at = ?, leased_at = ?, submitted_at = ?, verified_at = ?, closed_at = ?, response = ?, response_sha256 = ?,
		response_status = ?, outcome = ?, exit_code = ?, violations = ?, reason = ?, payment = ?, receipt_sha256 = ?, caps = ?,
		revision = revision + 1 WHERE id = ? AND revision = ?`,
		j.State, j.Attempt, j.ProviderID, j.Tier, j.FallbackFrom,
		j.ReservationID, j.AmountMsats, j.Fence, j.OfferUntil, j.LeaseTTL, j.LeaseUntil, j.DeadlineAt,
		j.DispatchedAt, j.LeasedAt, j.SubmittedAt, j.VerifiedAt, j.ClosedAt, j.Response, j.ResponseSHA256,
		j.ResponseStatus, j.Outcome, j.ExitCode, j.Violations, j.Reason, j.Payment, j.ReceiptSHA256, j.Caps, j.ID, j.Revision)
}

// What is kept beside a job: its attempts, its output, its artifacts.

// AttemptRow is one provider that a job was given to.
type AttemptRow struct {
	JobID         string
	Attempt       int64
	ProviderID    string
	ReservationID string
	AmountMsats   int64
	DispatchedAt  int64
	LeasedAt      int64
	EndedAt       int64  // 0: going on
	EndedAs       string // state of the job, or why the attempt ended
}

// PutAttempt writes what is known of an attempt.
func (tx *Tx) PutAttempt(a AttemptRow) error {
	return tx.write(deferredWrite{doing: "write an attempt"}, `INSERT INTO job_attempt (job_id, attempt, provider_id, reservation_id,
		amount_msats, dispatched_at, leased_at, ended_at, ended_as)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job_id, attempt) DO UPDATE SET
		leased_at = excluded.leased_at, ended_at = excluded.ended_at, ended_as = excluded.ended_as`,
		a.JobID, a.Attempt, a.ProviderID, a.ReservationID, a.AmountMsats, a.DispatchedAt, a.LeasedAt, a.EndedAt, a.EndedAs)
}

// Attempts lists the attempts of a job in order.
func (tx *Tx) Attempts(jobID string) ([]AttemptRow, error) {
	return list(tx, func(s scanner) (a AttemptRow, err error) {
		err = s.Scan(&a.JobID, &a.Attempt, &a.ProviderID, &a.ReservationID, &a.AmountMsats, &a.DispatchedAt, &a.LeasedAt, &a.EndedAt, &a.EndedAs)
		return a, err
	}, `SELECT job_id, attempt, provider_id, reservation_id, amount_msats, dispatched_at, leased_at, ended_at, ended_as
		FROM job_attempt WHERE job_id = ? ORDER BY attempt`, jobID)
}

// LogChunk is a piece of a job's output, for people who watch.
type LogChunk struct {
	JobID      string
	Fence      int64
	Stream     string
	Offset     int64 // bytes of this stream before it
	Body       []byte
	RecordedAt int64
}

// LogLength is how much of a stream has been logged under a fence, and how many
// bytes the whole job has.
func (tx *Tx) LogLength(jobID string, fence int64, stream string) (length, total int64, err error) {
	err = tx.row(`SELECT CAST(COALESCE(SUM(CASE WHEN fence = ? AND stream = ? THEN LENGTH(body) ELSE 0 END), 0) AS BIGINT),
		CAST(COALESCE(SUM(LENGTH(body)), 0) AS BIGINT) FROM job_log WHERE job_id = ?`, fence, stream, jobID).Scan(&length, &total)
	return length, total, err
}

// AppendLog writes a chunk. The same chunk again is no error, another one at
// its place is ErrConflict.
func (tx *Tx) AppendLog(c LogChunk) error {
	n, err := tx.exec(`INSERT INTO job_log (job_id, fence, position, stream, body, recorded_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, c.JobID, c.Fence, c.Offset, c.Stream, c.Body, tx.Now())
	if err != nil || n == 1 {
		return err
	}
	var body []byte
	err = tx.row(`SELECT body FROM job_log WHERE job_id = ? AND fence = ? AND stream = ? AND position = ?`,
		c.JobID, c.Fence, c.Stream, c.Offset).Scan(&body)
	if err == nil && !bytes.Equal(body, c.Body) {
		err = fmt.Errorf("%w: another chunk stands at offset %d", ErrConflict, c.Offset)
	}
	return err
}

// LogChunks lists what was logged under a fence, in the order of a stream.
func (tx *Tx) LogChunks(jobID string, fence int64, stream string, from int64, limit int) ([]LogChunk, error) {
	return list(tx, func(s scanner) (c LogChunk, err error) {
		err = s.Scan(&c.JobID, &c.Fence, &c.Stream, &c.Offset, &c.Body, &c.RecordedAt)
		return c, err
	}, `SELECT job_id, fence, stream, position, body, recorded_at FROM job_log
		WHERE job_id = ? AND fence = ? AND stream = ? AND position >= ? ORDER BY position LIMIT ?`, jobID, fence, stream, from, limit)
}

// ArtifactRow is content that was received for a job.
type ArtifactRow struct {
	JobID      string
	Fence      int64
	Name       string
	SHA256     string
	SizeBytes  int64
	RecordedAt int64
}

// PutArtifact records received content. The same again is no error, other
// content under the name is ErrConflict.
func (tx *Tx) PutArtifact(a ArtifactRow) error {
	n, err := tx.exec(`INSERT INTO job_artifact (job_id, fence, name, sha256, size_bytes, recorded_at)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, a.JobID, a.Fence, a.Name, a.SHA256, a.SizeBytes, tx.Now())
	if err != nil || n == 1 {
		return err
	}
	old, err := tx.Artifact(a.JobID, a.Fence, a.Name)
	if err == nil && (old.SHA256 != a.SHA256 || old.SizeBytes != a.SizeBytes) {
		err = fmt.Errorf("%w: artifact %q was received with other content", ErrConflict, a.Name)
	}
	return err
}

// Artifact reads one record; ErrNotFound when there is none.
func (tx *Tx) Artifact(jobID string, fence int64, name string) (ArtifactRow, error) {
	a := ArtifactRow{JobID: jobID, Fence: fence, Name: name}
	err := tx.row(`SELECT sha256, size_bytes, recorded_at FROM job_artifact WHERE job_id = ? AND fence = ? AND name = ?`,
		jobID, fence, name).Scan(&a.SHA256, &a.SizeBytes, &a.RecordedAt)
	return a, err
}

// Artifacts lists what was received for a job under all fences.
func (tx *Tx) Artifacts(jobID string, limit int) ([]ArtifactRow, error) {
	return list(tx, func(s scanner) (a ArtifactRow, err error) {
		err = s.Scan(&a.JobID, &a.Fence, &a.Name, &a.SHA256, &a.SizeBytes, &a.RecordedAt)
		return a, err
	}, `SELECT job_id, fence, name, sha256, size_bytes, recorded_at FROM job_artifact
		WHERE job_id = ? ORDER BY fence, name LIMIT ?`, jobID, limit)
}

// ArtifactBytes is how much content a job has delivered.
func (tx *Tx) ArtifactBytes(jobID string) (count, total int64, err error) {
	err = tx.row(`SELECT COUNT(*), CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) FROM job_artifact WHERE job_id = ?`, jobID).Scan(&count,
		&total)
	return count, total, err
}

// Reads that commands make together, each in one round trip, with their locks in
// the order that all commands keep: provider, run, job, accounts.

// RunAndProviders reads a run and the providers of a selection, without a lock.
func (tx *Tx) RunAndProviders(runID string, q LiveProviders) (RunRow, []ProviderRow, error) {
	var run *RunRow
	var live []ProviderRow
	err := tx.send(optional(&run, scanRun, `SELECT `+runColumns+` FROM run WHERE id = ?`, runID), liveProviders(&live, q))
	found, err := present(&run, err)
	return found, live, err
}

// StandingKeys names the device of a provider and the receipts that it stands by,
// events of its owner's stream.
type StandingKeys struct {
	DeviceID, Stream string
	Enrolments       string // prefix of the keys of the device's enrolments
	Limit            int    // of enrolments
	Caps             string // key
}

// StandingRows is what [Tx.Standing] finds.
type StandingRows struct {
	Device     *DeviceRow
	Enrolments []Event
	Caps       *Event
}

// Standing reads what a provider stands by.
func (tx *Tx) Standing(k StandingKeys) (found StandingRows, err error) {
	err = tx.send(standing(&found, k)...)
	return found, err
}

func standing(dst *StandingRows, k StandingKeys) []*statement {
	return []*statement{
		deviceRow(&dst.Device, k.DeviceID), eventsByKeys(&dst.Enrolments, k.Stream, k.Enrolments, k.Limit), eventByKey(&dst.Caps, k.Stream,
			k.Caps),
	}
}

// DispatchKeys names what a dispatch to a provider depends on.
type DispatchKeys struct {
	ProviderID, RunID, JobHash string
	Reservation                *ReservationKeys // nil: none
	Standing                   StandingKeys
}

// DispatchRows is what a dispatch depends on.
type DispatchRows struct {
	Provider    ProviderRow // locked
	Run         RunRow      // locked
	Earlier     *JobRow     // the job of the run with the same hash
	Reservation ReservationBasis
	Standing    StandingRows
}

// LockDispatch locks the provider, the run and the accounts of a dispatch, and
// reads what else it depends on.
func (tx *Tx) LockDispatch(k DispatchKeys) (found DispatchRows, err error) {
	var provider *ProviderRow
	var run *RunRow
	var basis basisRows
	list := append(tx.lockedProvider(&provider, k.ProviderID), tx.lockedRun(&run, k.RunID), jobOfHash(&found.Earlier, k.RunID, k.JobHash))
	if k.Reservation != nil {
		list = append(list, tx.reservationBasis(&basis, *k.Reservation)...)
	}
	err = tx.send(append(list, standing(&found.Standing, k.Standing)...)...)
	if found.Provider, err = present(&provider, err); err == nil {
		found.Run, err = present(&run, err)
	}
	found.Reservation = basis.basis()
	return found, err
}

// LockJob locks the provider, the run and the row of a job that was read without
// a lock, and returns the row. Its provider may have changed meanwhile.
func (tx *Tx) LockJob(seen JobRow) (JobRow, error) {
	var provider *ProviderRow
	var run *RunRow
	var job *JobRow
	if err := tx.send(append(tx.lockedProvider(&provider, seen.ProviderID), tx.lockedRun(&run, seen.RunID), tx.lockedJob(&job,
		seen.ID))...); err != nil {
		return JobRow{}, err
	}
	switch {
	case provider == nil:
		return JobRow{}, fmt.Errorf("lock the provider of job %s: %w", seen.ID, ErrNotFound)
	case run == nil:
		return JobRow{}, fmt.Errorf("lock the run of job %s: %w", seen.ID, ErrNotFound)
	}
	return present(&job, nil)
}

// LockOffer locks the run and the row of a job whose provider is locked.
func (tx *Tx) LockOffer(offered JobRow) (JobRow, error) {
	var run *RunRow
	var job *JobRow
	err := tx.send(tx.lockedRun(&run, offered.RunID), tx.lockedJob(&job, offered.ID))
	if err == nil && run == nil {
		err = ErrNotFound
	}
	return present(&job, err)
}

// LockProviderAndOffers locks a provider and lists the jobs that it may lease,
// the oldest offer first.
func (tx *Tx) LockProviderAndOffers(id string, limit int) (ProviderRow, []JobRow, error) {
	var provider *ProviderRow
	var offers []JobRow
	found, err := present(&provider, tx.send(append(tx.lockedProvider(&provider, id), jobsOffered(&offers, id, limit))...))
	return found, offers, err
}
