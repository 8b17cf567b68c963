package store

import "fmt"

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
	var list []RunArtifactRow
	err := tx.rows(`SELECT `+runArtifactColumns+` FROM run_artifact WHERE run_id = ? ORDER BY name LIMIT ?`, func(s scanner) error {
		a, err := scanRunArtifact(s)
		list = append(list, a)
		return err
	}, runID, limit)
	return list, err
}

// HasLeased reports whether a provider has, or had, the lease of a job of the run.
func (tx *Tx) HasLeased(runID, providerID string) (bool, error) {
	var n int64
	err := tx.row(`SELECT COUNT(*) FROM job_attempt a JOIN job j ON j.id = a.job_id
		WHERE j.run_id = ? AND a.provider_id = ? AND a.leased_at > 0`, runID, providerID).Scan(&n)
	return n > 0, err
}
