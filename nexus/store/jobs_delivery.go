package store

import (
	"bytes"
	"fmt"
)

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
	return tx.write(deferredWrite{doing: "write an attempt"}, `INSERT INTO job_attempt (job_id, attempt, provider_id, reservation_id, amount_msats, dispatched_at, leased_at, ended_at, ended_as)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job_id, attempt) DO UPDATE SET
		leased_at = excluded.leased_at, ended_at = excluded.ended_at, ended_as = excluded.ended_as`,
		a.JobID, a.Attempt, a.ProviderID, a.ReservationID, a.AmountMsats, a.DispatchedAt, a.LeasedAt, a.EndedAt, a.EndedAs)
}

// Attempts lists the attempts of a job in order.
func (tx *Tx) Attempts(jobID string) ([]AttemptRow, error) {
	var list []AttemptRow
	err := tx.rows(`SELECT job_id, attempt, provider_id, reservation_id, amount_msats, dispatched_at, leased_at, ended_at, ended_as
		FROM job_attempt WHERE job_id = ? ORDER BY attempt`, func(s scanner) error {
		var a AttemptRow
		err := s.Scan(&a.JobID, &a.Attempt, &a.ProviderID, &a.ReservationID, &a.AmountMsats, &a.DispatchedAt, &a.LeasedAt, &a.EndedAt, &a.EndedAs)
		list = append(list, a)
		return err
	}, jobID)
	return list, err
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
	var list []LogChunk
	err := tx.rows(`SELECT job_id, fence, stream, position, body, recorded_at FROM job_log
		WHERE job_id = ? AND fence = ? AND stream = ? AND position >= ? ORDER BY position LIMIT ?`, func(s scanner) error {
		var c LogChunk
		err := s.Scan(&c.JobID, &c.Fence, &c.Stream, &c.Offset, &c.Body, &c.RecordedAt)
		list = append(list, c)
		return err
	}, jobID, fence, stream, from, limit)
	return list, err
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
	var list []ArtifactRow
	err := tx.rows(`SELECT job_id, fence, name, sha256, size_bytes, recorded_at FROM job_artifact
		WHERE job_id = ? ORDER BY fence, name LIMIT ?`, func(s scanner) error {
		var a ArtifactRow
		err := s.Scan(&a.JobID, &a.Fence, &a.Name, &a.SHA256, &a.SizeBytes, &a.RecordedAt)
		list = append(list, a)
		return err
	}, jobID, limit)
	return list, err
}

// ArtifactBytes is how much content a job has delivered.
func (tx *Tx) ArtifactBytes(jobID string) (count, total int64, err error) {
	err = tx.row(`SELECT COUNT(*), CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) FROM job_artifact WHERE job_id = ?`, jobID).Scan(&count, &total)
	return count, total, err
}
