package store

import (
	"encoding/json"
	"fmt"
)

// The rows of runs, claims and outcomes. What may happen to them is decided in
// remit/nexus/jobs.

// RunRow is a run as its log has made it.
type RunRow struct {
	ID, Owner, State     string
	RepoRef, IssueRef    string
	PolicyBundleID       string
	Metadata             json.RawMessage // object of strings
	Revision             int64           // grows with every change of this row
	CreatedAt, StartedAt int64
	FinishedAt           int64  // 0: open
	RequestKey           string // Idempotency-Key of the request that made it, "" when there was none
	ForgottenAt          int64  // when retention has removed its log, 0: it is there
	Silence              int64  // milliseconds until a silent run is ended, 0: the authority's own rule
	CreatedBy            string // the principal that made it, "" for runs of before
	Outcome              string // the last that was recorded
	JournalEntries       int64  // how many entries of its journal its log has
	JournalHead          string // entry_hash of the last of them
	RunFacts
}

// RunFacts are what lists of runs are filtered by; "" is not known.
type RunFacts struct {
	Verdict, Engine, Model, Blocker string
}

// ClaimRow says who works on an issue.
type ClaimRow struct {
	Owner, RepoRef, IssueID string
	Identity                string // the principal that claimed it
	RunID                   string // "" until a run is made for it
	ClaimedAt, ExpiresAt    int64
}

// OutcomeRow is what became of a run's result afterwards.
type OutcomeRow struct {
	RunID, Kind, Note, Principal string
	RecordedAt                   int64
}

const runColumns = `id, owner, state, repo_ref, issue_ref, policy_bundle_id, metadata, revision, created_at, started_at, finished_at,
	request_key, silence_ms, forgotten_at, created_by, outcome, journal_entries, journal_head, verdict, engine, model, blocker`

func scanRun(s scanner) (r RunRow, err error) {
	err = r.scan(s)
	return r, err
}

// scan reads the columns of a run, and what comes behind them in a row.
func (r *RunRow) scan(s scanner, more ...any) error {
	var metadata string
	err := s.Scan(append([]any{&r.ID, &r.Owner, &r.State, &r.RepoRef, &r.IssueRef, &r.PolicyBundleID, &metadata, &r.Revision,
		&r.CreatedAt, &r.StartedAt, &r.FinishedAt, &r.RequestKey, &r.Silence, &r.ForgottenAt, &r.CreatedBy, &r.Outcome, &r.JournalEntries,
		&r.JournalHead, &r.Verdict, &r.Engine, &r.Model, &r.Blocker}, more...)...)
	r.Metadata = json.RawMessage(metadata)
	return err
}

// Run reads a run; ErrNotFound when there is none.
func (tx *Tx) Run(id string) (RunRow, error) {
	return scanRun(tx.row(`SELECT `+runColumns+` FROM run WHERE id = ?`, id))
}

// LockRun reads a run for writing. A command that appends to a run's log takes
// this lock before those of its jobs.
func (tx *Tx) LockRun(id string) (RunRow, error) {
	var found *RunRow
	return present(&found, tx.send(tx.lockedRun(&found, id)))
}

func (tx *Tx) lockedRun(dst **RunRow, id string) *statement {
	return optional(dst, scanRun, `SELECT `+runColumns+` FROM run WHERE id = ?`+tx.lock(), id)
}

// RunsOf lists the runs of an owner, the newest first, before the given one:
// ids grow with time.
func (tx *Tx) RunsOf(owner, before string, limit int) ([]RunRow, error) {
	if before == "" {
		return tx.listRuns(`owner = ? ORDER BY id DESC LIMIT ?`, owner, limit)
	}
	return tx.listRuns(`owner = ? AND id < ? ORDER BY id DESC LIMIT ?`, owner, before, limit)
}

// SilentRuns lists open runs, by id, that have no open job and whose last event is
// older than they may be silent: their own time, or the default where they have
// none (0: such runs may be silent for ever). Time before since does not count:
// the authority could not be reached then.
func (tx *Tx) SilentRuns(now, fallback, since int64, limit int) ([]string, error) {
	return tx.listIDs(`SELECT run.id FROM run JOIN stream ON stream.name = 'run:' || run.id || ':events'
		JOIN event ON event.stream = stream.name AND event.seq = stream.head
		WHERE run.finished_at = 0 AND CASE WHEN run.silence_ms > 0 THEN run.silence_ms ELSE ? END > 0
			AND CASE WHEN event.recorded_at > ? THEN event.recorded_at ELSE ? END <= ? - CASE WHEN run.silence_ms > 0 THEN run.silence_ms ELSE ? END
			AND NOT EXISTS (SELECT 1 FROM job WHERE job.run_id = run.id AND job.closed_at = 0)
		ORDER BY run.id LIMIT ?`, fallback, since, since, now, fallback, limit)
}

func (tx *Tx) listRuns(where string, args ...any) ([]RunRow, error) {
	return list(tx, scanRun, `SELECT `+runColumns+` FROM run WHERE `+where, args...)
}

// InsertRun writes a new run and returns it as it is then.
func (tx *Tx) InsertRun(r RunRow) (RunRow, error) {
	r.Revision, r.CreatedAt, r.StartedAt, r.FinishedAt = 1, tx.Now(), 0, 0
	return r, tx.write(deferredWrite{doing: "insert run"}, `INSERT INTO run (`+runColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, '', 0, '', '', ?, ?, '')`,
		r.ID, r.Owner, r.State, r.RepoRef, r.IssueRef, r.PolicyBundleID, r.Metadata, r.Revision, r.CreatedAt, r.StartedAt, r.FinishedAt,
		r.RequestKey, r.Silence, r.CreatedBy, r.Engine, r.Model)
}

// SetRunState writes the state of a locked run.
func (tx *Tx) SetRunState(id, state string, startedAt, finishedAt int64) error {
	return tx.write(missing("move run", id), `UPDATE run SET state = ?, started_at = ?, finished_at = ?, revision = revision + 1 WHERE id = ?`,
		state, startedAt, finishedAt, id)
}

// Claim reads and locks a claim; ErrNotFound when there is none.
func (tx *Tx) Claim(owner, repoRef, issueID string) (ClaimRow, error) {
	c := ClaimRow{Owner: owner, RepoRef: repoRef, IssueID: issueID}
	err := tx.row(`SELECT claim_identity, run_id, claimed_at, expires_at FROM issue_claim
		WHERE owner = ? AND repo_ref = ? AND issue_id = ?`+tx.lock(), owner, repoRef, issueID).
		Scan(&c.Identity, &c.RunID, &c.ClaimedAt, &c.ExpiresAt)
	return c, err
}

// PutClaim writes a claim over what was there, if that has not changed since
// it was read: of two that claim at once, one gets false.
func (tx *Tx) PutClaim(c ClaimRow, was ClaimRow) (bool, error) {
	n, err := tx.exec(`INSERT INTO issue_claim (owner, repo_ref, issue_id, claim_identity, run_id, claimed_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (owner, repo_ref, issue_id) DO UPDATE SET claim_identity = excluded.claim_identity,
			run_id = excluded.run_id, claimed_at = excluded.claimed_at, expires_at = excluded.expires_at
		WHERE issue_claim.claim_identity = ? AND issue_claim.run_id = ? AND issue_claim.claimed_at = ?`,
		c.Owner, c.RepoRef, c.IssueID, c.Identity, c.RunID, c.ClaimedAt, c.ExpiresAt, was.Identity, was.RunID, was.ClaimedAt)
	return n == 1, err
}

// ReleaseClaims ends the claims of a run.
func (tx *Tx) ReleaseClaims(runID string) error {
	_, err := tx.exec(`DELETE FROM issue_claim WHERE run_id = ? AND run_id <> ''`, runID)
	return err
}

// PutOutcome records an outcome; false when the run has this one already.
func (tx *Tx) PutOutcome(o OutcomeRow) (bool, error) {
	n, err := tx.exec(`INSERT INTO run_outcome (run_id, kind, note, principal, recorded_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, o.RunID, o.Kind, o.Note, o.Principal, tx.Now())
	if err != nil || n != 1 {
		return false, err
	}
	return true, tx.write(missing("record the outcome of run", o.RunID), `UPDATE run SET outcome = ?, revision = revision + 1 WHERE id = ?`,
		o.Kind, o.RunID)
}

// Outcomes lists what became of a run's result.
func (tx *Tx) Outcomes(runID string) ([]OutcomeRow, error) {
	return list(tx, func(s scanner) (o OutcomeRow, err error) {
		err = s.Scan(&o.RunID, &o.Kind, &o.Note, &o.Principal, &o.RecordedAt)
		return o, err
	}, `SELECT run_id, kind, note, principal, recorded_at FROM run_outcome WHERE run_id = ? ORDER BY kind`, runID)
}

// RunArtifactRow is content that was received for a run.
type RunArtifactRow struct {
	RunID      string
	Name       string
	SHA256     string
	SizeBytes  int64
	RecordedAt int64
}

const runArtifactColumns = `run_id, name, sha256, size_bytes, recorded_at`

func scanRunArtifact(s scanner) (a RunArtifactRow, err error) {
	err = s.Scan(&a.RunID, &a.Name, &a.SHA256, &a.SizeBytes, &a.RecordedAt)
	return a, err
}

// PutRunArtifact records received content. The same again is no error, other
// content under the name is ErrConflict.
func (tx *Tx) PutRunArtifact(a RunArtifactRow) error {
	n, err := tx.exec(`INSERT INTO run_artifact (`+runArtifactColumns+`) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		a.RunID, a.Name, a.SHA256, a.SizeBytes, tx.Now())
	if err != nil || n == 1 {
		return err
	}
	old, err := tx.RunArtifact(a.RunID, a.Name)
	if err == nil && (old.SHA256 != a.SHA256 || old.SizeBytes != a.SizeBytes) {
		err = fmt.Errorf("%w: artifact %q was received with other content", ErrConflict, a.Name)
	}
	return err
}

// RunArtifact reads what a run has under a name; ErrNotFound when there is nothing.
func (tx *Tx) RunArtifact(runID, name string) (RunArtifactRow, error) {
	return scanRunArtifact(tx.row(`SELECT `+runArtifactColumns+` FROM run_artifact WHERE run_id = ? AND name = ?`, runID, name))
}

// RunArtifacts lists what was received for a run, by name.
func (tx *Tx) RunArtifacts(runID string, limit int) ([]RunArtifactRow, error) {
	return list(tx, scanRunArtifact, `SELECT `+runArtifactColumns+` FROM run_artifact WHERE run_id = ? ORDER BY name LIMIT ?`, runID, limit)
}

// HasLeased reports whether a provider has, or had, the lease of a job of the run.
func (tx *Tx) HasLeased(runID, providerID string) (bool, error) {
	var n int64
	err := tx.row(`SELECT COUNT(*) FROM job_attempt a JOIN job j ON j.id = a.job_id
		WHERE j.run_id = ? AND a.provider_id = ? AND a.leased_at > 0`, runID, providerID).Scan(&n)
	return n > 0, err
}

// Retention removes what a run has left behind when it ended long ago: its log,
// its jobs with their output, and the records of its artifacts, but for those that
// hold its sealed bundle. The run stays, and nothing of the ledger is ever touched.

// RunsToForget lists runs that ended before a time and still have all that, those
// that ended first before others.
func (tx *Tx) RunsToForget(endedBefore int64, limit int) ([]string, error) {
	return tx.listIDs(`SELECT id FROM run WHERE finished_at > 0 AND forgotten_at = 0 AND finished_at < ? ORDER BY finished_at, id
		LIMIT ?`, endedBefore, limit)
}

// ForgetRun removes what a locked run that has ended has left behind. It returns
// the digests of content that the run had and does not have any more.
func (tx *Tx) ForgetRun(id string, isBundle func(name string) bool) (digests []string, err error) {
	artifacts, err := tx.RunArtifacts(id, MaxEvents)
	if err != nil {
		return nil, err
	}
	for _, a := range artifacts {
		if isBundle(a.Name) {
			continue
		}
		digests = append(digests, a.SHA256)
		if _, err := tx.exec(`DELETE FROM run_artifact WHERE run_id = ? AND name = ?`, id, a.Name); err != nil {
			return nil, err
		}
	}
	const ofRun = `job_id IN (SELECT id FROM job WHERE run_id = ?)`
	more, err := tx.listIDs(`SELECT DISTINCT sha256 FROM job_artifact WHERE `+ofRun, id)
	if err != nil {
		return nil, err
	}
	for _, table := range []string{"job_artifact", "job_log", "job_attempt"} {
		if _, err := tx.exec(`DELETE FROM `+table+` WHERE `+ofRun, id); err != nil {
			return nil, err
		}
	}
	if _, err := tx.exec(`DELETE FROM job WHERE run_id = ?`, id); err != nil {
		return nil, err
	}
	stream := "run:" + id + ":events"
	head, _, err := tx.Head(stream)
	if err == nil {
		err = tx.Trim(stream, head)
	}
	if err == nil {
		err = tx.changeOne(`UPDATE run SET forgotten_at = ?, revision = revision + 1 WHERE id = ? AND finished_at > 0`, tx.Now(), id)
	}
	return append(digests, more...), err
}

// HasContent reports whether any artifact has this content.
func (tx *Tx) HasContent(digest string) (has bool, err error) {
	err = tx.row(`SELECT EXISTS (SELECT 1 FROM run_artifact WHERE sha256 = ?) OR EXISTS (SELECT 1 FROM job_artifact WHERE sha256 = ?)`,
		digest, digest).Scan(&has)
	return has, err
}

// WatchRow tells when the authority was there, whatever replica it was. Times
// are unix milliseconds.
type WatchRow struct {
	SeenAt              int64 // the last sign of it
	AwayFrom, AwayUntil int64 // its last absence; 0: none is known
}

// Watch reads the row; ErrNotFound before the first PutWatch.
func (tx *Tx) Watch() (WatchRow, error) { return tx.watch("") }

// LockWatch reads the row for writing.
func (tx *Tx) LockWatch() (WatchRow, error) { return tx.watch(tx.lock()) }

func (tx *Tx) watch(lock string) (w WatchRow, err error) {
	err = tx.row("SELECT seen_at, away_from, away_until FROM watch WHERE id = 1"+lock).Scan(&w.SeenAt, &w.AwayFrom, &w.AwayUntil)
	return w, during("read when the authority was there", err)
}

// PutWatch writes the row.
func (tx *Tx) PutWatch(w WatchRow) error {
	_, err := tx.exec(`INSERT INTO watch (id, seen_at, away_from, away_until) VALUES (1, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, away_from = excluded.away_from, away_until = excluded.away_until`,
		w.SeenAt, w.AwayFrom, w.AwayUntil)
	return during("write when the authority was there", err)
}
