package store

// SessionRow is the session of a browser. What it allows is what its token
// allows; see remit/nexus/identity. Times are unix milliseconds.
type SessionRow struct {
	ID        string
	TokenID   string
	Principal string // of the token
	SHA256    string // of the secret
	CreatedAt int64  // set by PutSession
	SeenAt    int64  // the last request, roughly; set by PutSession and SeeSession
	ExpiresAt int64
	EndedAt   int64 // 0: it was not ended
}

// PutSession stores a new session. An id that exists is ErrConflict.
func (tx *Tx) PutSession(s SessionRow) error {
	now := tx.Now()
	_, err := tx.exec(`INSERT INTO session (id, token_id, principal, sha256, created_at, seen_at, expires_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0)`, s.ID, s.TokenID, s.Principal, s.SHA256, now, now, s.ExpiresAt)
	return err
}

const sessionColumns = "id, token_id, principal, sha256, created_at, seen_at, expires_at, ended_at"

func scanSession(row scanner) (s SessionRow, err error) {
	err = row.Scan(&s.ID, &s.TokenID, &s.Principal, &s.SHA256, &s.CreatedAt, &s.SeenAt, &s.ExpiresAt, &s.EndedAt)
	return s, err
}

// Session returns a session, open or not, or ErrNotFound.
func (tx *Tx) Session(id string) (SessionRow, error) {
	return scanSession(tx.row("SELECT "+sessionColumns+" FROM session WHERE id = ?", id))
}

// LockSessions makes commands that open a session for the same principal wait
// for each other, so that each sees the sessions of those before it.
func (tx *Tx) LockSessions(principal string) error {
	if tx.dialect != "postgres" {
		return nil // one writer
	}
	_, err := tx.exec("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", "sessions\n"+principal)
	return err
}

// OpenSessions lists the sessions of a principal that were neither ended nor have
// expired, the one that was seen longest ago first.
func (tx *Tx) OpenSessions(principal string) ([]SessionRow, error) {
	var list []SessionRow
	err := tx.rows("SELECT "+sessionColumns+" FROM session WHERE principal = ? AND ended_at = 0 AND expires_at > ? ORDER BY seen_at, id",
		func(row scanner) error {
			s, err := scanSession(row)
			list = append(list, s)
			return err
		}, principal, tx.Now())
	return list, err
}

// SeeSession notes that an open session is in use. The time only goes forward.
func (tx *Tx) SeeSession(id string) error {
	now := tx.Now()
	_, err := tx.exec("UPDATE session SET seen_at = ? WHERE id = ? AND seen_at < ? AND ended_at = 0", now, id, now)
	return err
}

// EndSession ends a session; false when it had ended already.
func (tx *Tx) EndSession(id string) (bool, error) {
	n, err := tx.exec("UPDATE session SET ended_at = ? WHERE id = ? AND ended_at = 0", tx.Now(), id)
	return n == 1, err
}

// PruneSessions forgets up to limit sessions that were past their end at a time.
func (tx *Tx) PruneSessions(before int64, limit int) (removed int64, err error) {
	return tx.exec(`DELETE FROM session WHERE id IN (SELECT id FROM session WHERE expires_at < ? ORDER BY expires_at LIMIT ?)`, before, limit)
}
