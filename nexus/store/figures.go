package store

import "time"

// Figures are counts for people who watch a nexus. All are read by indexes of
// what is open, so that they cost nothing for what has ended.
type Figures struct {
	Now           int64 // of the store, in unix milliseconds, as all times here
	Queues        []Queue
	LeasedMillis  int64 // ages of all leases together
	DueSince      int64 // since when the most overdue lease or offer waits; 0: none is due
	Reservations  int64
	ReservedMsats int64
	ReservedSince int64 // the oldest of them
	Providers     []ProviderCount
}

// Queue counts the jobs of a state.
type Queue struct {
	State  string
	Count  int64
	Oldest int64 // when the oldest came into it, 0 without one
}

// ProviderCount counts providers of the shared pool, or of single owners.
type ProviderCount struct {
	Pool  bool
	State string // ready, silent, off or quarantined
	Count int64
}

// queues names, for each open state of a job, since when it is in it.
var queues = []struct{ state, since string }{{"queued", "dispatched_at"}, {"leased", "leased_at"}, {"submitted", "submitted_at"}}

// Figures counts what is open. The class of the shared pool, and how long a sign
// of life counts in milliseconds, are the registry's.
func (tx *Tx) Figures(sharedClass string, staleAfter int64) (Figures, error) {
	f := Figures{Now: tx.Now()}
	for _, q := range queues {
		row := Queue{State: q.state}
		if err := tx.row(`SELECT COUNT(*), COALESCE(MIN(`+q.since+`), 0) FROM job WHERE state = '`+q.state+`'`).Scan(&row.Count,
			&row.Oldest); err != nil {
			return Figures{}, err
		}
		f.Queues = append(f.Queues, row)
	}
	var due int64
	if err := tx.row(`SELECT CAST(COALESCE(SUM(CAST(? AS BIGINT) - leased_at), 0) AS BIGINT), COALESCE(MIN(lease_until), 0) FROM job
		WHERE state = 'leased'`, f.Now).
		Scan(&f.LeasedMillis, &due); err != nil {
		return Figures{}, err
	}
	f.due(due)
	if err := tx.row(`SELECT COALESCE(MIN(offer_until), 0) FROM job WHERE state = 'queued'`).Scan(&due); err != nil {
		return Figures{}, err
	}
	f.due(due)
	if err := tx.row(`SELECT COUNT(*), CAST(COALESCE(SUM(amount), 0) AS BIGINT), COALESCE(MIN(reserved_at), 0) FROM ledger_reservation
		WHERE status = 'reserved'`).
		Scan(&f.Reservations, &f.ReservedMsats, &f.ReservedSince); err != nil {
		return Figures{}, err
	}
	err := tx.rows(`SELECT CASE WHEN class = ? THEN 1 ELSE 0 END AS pool, CASE WHEN quarantined_at > 0 THEN 'quarantined'
		WHEN enabled = 0 THEN 'off'
			WHEN heartbeat_at < ? OR status <> 'running' THEN 'silent' ELSE 'ready' END AS standing, COUNT(*)
		FROM provider GROUP BY 1, 2 ORDER BY 1, 2`, func(s scanner) error {
		var c ProviderCount
		var pool int64
		err := s.Scan(&pool, &c.State, &c.Count)
		c.Pool = pool == 1
		f.Providers = append(f.Providers, c)
		return err
	}, sharedClass, f.Now-staleAfter)
	return f, err
}

// due takes a time that something is due at, if it is past.
func (f *Figures) due(at int64) {
	if at != 0 && at <= f.Now && (f.DueSince == 0 || at < f.DueSince) {
		f.DueSince = at
	}
}

// Pool is how the connections to the database are used.
type Pool struct {
	Max, Open, InUse int
	Waits            int64 // for a connection; 0 in a SQLite store, whose readers queue without a count
	Waited           time.Duration
}

// Pool says how the connections are used now.
func (s *Store) Pool() Pool { return s.db.connections() }

func (s *postgresDB) connections() Pool {
	stat := s.pool.Stat()
	return Pool{
		Max: int(stat.MaxConns()), Open: int(stat.TotalConns()), InUse: int(stat.AcquiredConns()),
		Waits: stat.EmptyAcquireCount(), Waited: stat.EmptyAcquireWaitTime(),
	}
}

// connections counts the readers. The writer is one more, which works all the time.
func (s *sqliteDB) connections() Pool {
	return Pool{Max: cap(s.readers) + 1, Open: s.db.Stats().OpenConnections, InUse: cap(s.readers) - len(s.readers) + 1}
}
