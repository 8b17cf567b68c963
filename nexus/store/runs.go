package store

import "encoding/json"

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
	FinishedAt           int64 // 0: open
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

const runColumns = `id, owner, state, repo_ref, issue_ref, policy_bundle_id, metadata, revision, created_at, started_at, finished_at`

func scanRun(s scanner) (r RunRow, err error) {
	var metadata string
	err = s.Scan(&r.ID, &r.Owner, &r.State, &r.RepoRef, &r.IssueRef, &r.PolicyBundleID, &metadata, &r.Revision,
		&r.CreatedAt, &r.StartedAt, &r.FinishedAt)
	r.Metadata = json.RawMessage(metadata)
	return r, err
}

// Run reads a run; ErrNotFound when there is none.
func (tx *Tx) Run(id string) (RunRow, error) { return tx.AskRun(id)() }

// AskRun asks for what Run returns.
func (tx *Tx) AskRun(id string) Answer[RunRow] {
	return ask(tx, scanRun, `SELECT `+runColumns+` FROM run WHERE id = ?`, id)
}

// LockRun reads a run for writing. Whoever appends to a run's log takes this
// lock before those of its jobs.
func (tx *Tx) LockRun(id string) (RunRow, error) { return tx.AskLockedRun(id)() }

// AskLockedRun asks for what LockRun returns.
func (tx *Tx) AskLockedRun(id string) Answer[RunRow] {
	return ask(tx, scanRun, `SELECT `+runColumns+` FROM run WHERE id = ?`+tx.lock(), id)
}

// RunsOf lists the runs of an owner, the newest first, before the given one:
// ids grow with time.
func (tx *Tx) RunsOf(owner, before string, limit int) ([]RunRow, error) {
	var list []RunRow
	err := tx.rows(`SELECT `+runColumns+` FROM run WHERE owner = ? AND (? = '' OR id < ?) ORDER BY id DESC LIMIT ?`,
		func(s scanner) error {
			r, err := scanRun(s)
			list = append(list, r)
			return err
		}, owner, before, before, limit)
	return list, err
}

// InsertRun writes a new run and returns it as it is then.
func (tx *Tx) InsertRun(r RunRow) (RunRow, error) {
	r.Revision, r.CreatedAt, r.StartedAt, r.FinishedAt = 1, tx.Now(), 0, 0
	return r, tx.later(change{doing: "insert run"}, `INSERT INTO run (`+runColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.Owner, r.State, r.RepoRef, r.IssueRef, r.PolicyBundleID, r.Metadata, r.Revision, r.CreatedAt, r.StartedAt, r.FinishedAt)
}

// SetRunState writes the state of a locked run.
func (tx *Tx) SetRunState(id, state string, startedAt, finishedAt int64) error {
	return tx.later(missing("move run", id), `UPDATE run SET state = ?, started_at = ?, finished_at = ?, revision = revision + 1 WHERE id = ?`,
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
	return n == 1, err
}

// Outcomes lists what became of a run's result.
func (tx *Tx) Outcomes(runID string) ([]OutcomeRow, error) {
	var list []OutcomeRow
	err := tx.rows(`SELECT run_id, kind, note, principal, recorded_at FROM run_outcome WHERE run_id = ? ORDER BY kind`,
		func(s scanner) error {
			var o OutcomeRow
			err := s.Scan(&o.RunID, &o.Kind, &o.Note, &o.Principal, &o.RecordedAt)
			list = append(list, o)
			return err
		}, runID)
	return list, err
}
