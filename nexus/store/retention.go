package store

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
