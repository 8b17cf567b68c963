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
	err := row.Scan(&t.ID, &t.Kind, &t.Principal, &t.Owner, &t.SHA256, &scopes, &t.ExpiresAt, &t.RevokedAt, &t.CreatedAt, (*intBool)(&t.OneTime), &t.UsedAt)
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
	var out []Token
	err := tx.rows("SELECT "+tokenColumns+" FROM token WHERE "+where+" ORDER BY created_at DESC, id LIMIT ?",
		func(row scanner) error {
			t, err := scanToken(row)
			out = append(out, t)
			return err
		}, append(args, limit)...)
	return out, err
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
