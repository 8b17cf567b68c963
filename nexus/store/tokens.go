package store

import (
	"strings"

	"remit/proof/reason"
)

// Token is a credential. Only the digest of its secret is stored. Times are
// unix milliseconds, 0 = never.
type Token struct {
	ID, Kind, Principal, Owner string
	SHA256                     string
	Scopes                     []string // no spaces
	ExpiresAt, RevokedAt       int64
	CreatedAt                  int64 // set by PutToken
	OneTime                    bool
	UsedAt                     int64 // set by ConsumeToken
}

// Live reports whether the token may be used at a time.
func (t Token) Live(now int64) bool {
	return t.RevokedAt == 0 && (t.ExpiresAt == 0 || now < t.ExpiresAt) && (!t.OneTime || t.UsedAt == 0)
}

// PutToken stores a new token. An id that exists is ErrConflict.
func (tx *Tx) PutToken(t Token) error {
	for _, scope := range t.Scopes {
		if scope == "" || strings.ContainsAny(scope, " \t\r\n") {
			return reason.Errorf(reason.RequestInvalid, "scope %.40q is empty or has a space", scope)
		}
	}
	_, err := tx.exec(`INSERT INTO token
		(id, kind, principal, owner, sha256, scopes, expires_at, revoked_at, created_at, one_time, used_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
		t.ID, t.Kind, t.Principal, t.Owner, t.SHA256, strings.Join(t.Scopes, " "), t.ExpiresAt, t.RevokedAt, tx.Now(), t.OneTime)
	return err
}

const tokenColumns = "id, kind, principal, owner, sha256, scopes, expires_at, revoked_at, created_at, one_time, used_at" //nolint:gosec // names of columns

func scanToken(row scanner) (Token, error) {
	var t Token
	var scopes string
	err := row.Scan(&t.ID, &t.Kind, &t.Principal, &t.Owner, &t.SHA256, &scopes, &t.ExpiresAt, &t.RevokedAt, &t.CreatedAt,
		(*intBool)(&t.OneTime), &t.UsedAt)
	t.Scopes = strings.Fields(scopes)
	return t, err
}

// Token returns a token, live or not, or ErrNotFound.
func (tx *Tx) Token(id string) (Token, error) {
	return scanToken(tx.row("SELECT "+tokenColumns+" FROM token WHERE id = ?", id))
}

// TokensAfter is the last token that a list has shown.
type TokensAfter struct {
	CreatedAt int64 // 0: nothing was shown yet
	ID        string
}

// TokensOf lists the tokens of an owner, newest first, without those of one kind.
func (tx *Tx) TokensOf(owner, without string, after TokensAfter, limit int) ([]Token, error) {
	where, args := "owner = ? AND kind <> ?", []any{owner, without}
	if after.CreatedAt > 0 {
		where += " AND (created_at < ? OR (created_at = ? AND id > ?))"
		args = append(args, after.CreatedAt, after.CreatedAt, after.ID)
	}
	return list(tx, scanToken, "SELECT "+tokenColumns+" FROM token WHERE "+where+" ORDER BY created_at DESC, id LIMIT ?", append(args,
		limit)...)
}

// RevokeToken ends a token. A second revocation keeps the time of the first.
func (tx *Tx) RevokeToken(id string) error {
	n, err := tx.exec("UPDATE token SET revoked_at = CASE revoked_at WHEN 0 THEN ? ELSE revoked_at END WHERE id = ?", tx.Now(), id)
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

// RevokeTokens ends every token of a principal, and says how many those were.
func (tx *Tx) RevokeTokens(principal string) (int64, error) {
	return tx.exec("UPDATE token SET revoked_at = ? WHERE principal = ? AND revoked_at = 0", tx.Now(), principal)
}

// PruneTokens forgets at most limit tokens of a kind ("" is any) that expired or
// were revoked before a time, and says how many. A token stays while there is a
// session of it.
func (tx *Tx) PruneTokens(kind string, before int64, limit int) (int64, error) {
	var pruned int64
	for _, end := range []string{"expires_at", "revoked_at"} {
		n, err := tx.exec(`DELETE FROM token WHERE id IN (
			SELECT id FROM token WHERE `+end+` > 0 AND `+end+` < ? AND (CAST(? AS TEXT) = '' OR kind = ?)
				AND NOT EXISTS (SELECT 1 FROM session WHERE session.token_id = token.id)
			ORDER BY `+end+` LIMIT ?)`, before, kind, kind, limit)
		if err != nil {
			return pruned, err
		}
		pruned += n
	}
	return pruned, nil
}

// ConsumeToken uses a one-time token up: of all who try, one succeeds. The
// others, and tokens that are expired or revoked, get token_expired.
func (tx *Tx) ConsumeToken(id string) (Token, error) {
	now := tx.Now()
	n, err := tx.exec(`UPDATE token SET used_at = ? WHERE id = ? AND one_time = 1 AND used_at = 0 AND revoked_at = 0
		AND (expires_at = 0 OR expires_at > ?)`, now, id, now)
	if err != nil {
		return Token{}, err
	}
	t, err := tx.Token(id)
	if err != nil {
		return Token{}, err
	}
	if n == 0 {
		return Token{}, reason.Errorf(reason.TokenExpired, "token %q is past its end, used up, revoked, or not for one use", id)
	}
	return t, nil
}

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
	return list(tx, scanSession, "SELECT "+sessionColumns+
		" FROM session WHERE principal = ? AND ended_at = 0 AND expires_at > ? ORDER BY seen_at, id", principal, tx.Now())
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
