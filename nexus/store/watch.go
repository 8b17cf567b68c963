package store

import "fmt"

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
	if err != nil {
		return WatchRow{}, fmt.Errorf("read when the authority was there: %w", err)
	}
	return w, nil
}

// PutWatch writes the row.
func (tx *Tx) PutWatch(w WatchRow) error {
	_, err := tx.exec(`INSERT INTO watch (id, seen_at, away_from, away_until) VALUES (1, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, away_from = excluded.away_from, away_until = excluded.away_until`,
		w.SeenAt, w.AwayFrom, w.AwayUntil)
	if err != nil {
		return fmt.Errorf("write when the authority was there: %w", err)
	}
	return nil
}
