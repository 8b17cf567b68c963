package identity

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
	"remit/proof/record"
)

// Ends and bounds of sessions.
const (
	// SessionLife is the longest that a session lasts, however busy it is: what
	// was left open in the evening is closed in the morning.
	SessionLife = 12 * time.Hour
	// SessionIdle is how long a session lasts without a request. A lane that is
	// open is no request: its reader may be away.
	SessionIdle = 30 * time.Minute
	// SessionTouch is how exactly requests are noted, so that not each of them
	// costs a commit. A session may end this much before SessionIdle is over.
	SessionTouch = time.Minute
	// MaxSessions bounds the open sessions of one principal.
	MaxSessions = 16
)

// kindSession is the kind in the text of a session's secret. No token has it.
const kindSession = "session"

// credentialSession begins the name of a session as a credential, which tokens
// and sessions share; the name of a token is its id.
const credentialSession = "session:"

// Session is the session of a browser. Times are unix milliseconds.
type Session struct {
	ID string
	// CSRF is what a page has to say beside the cookie. It is derived from the
	// secret, so it cannot be read from the database.
	CSRF                         string
	CreatedAt, SeenAt, ExpiresAt int64
	EndedAt                      int64 // 0: it was not ended
}

// IdleAt is when the session ends unless it is used.
func (s Session) IdleAt() int64 { return min(s.SeenAt+SessionIdle.Milliseconds(), s.ExpiresAt) }

// Due reports whether the use of the session should be noted (store.Tx.SeeSession).
func (s Session) Due(now int64) bool { return now-s.SeenAt >= SessionTouch.Milliseconds() }

// OpenSession makes a session for a client with the text of a token. It lasts no
// longer than the token. A principal that has MaxSessions loses the one that was
// used longest ago: of the same token if there is one, so that a token that
// leaked cannot push out the sessions of another. The secret is
// [SessionSecret].
func OpenSession(tx *store.Tx, token string) (Caller, error) {
	c, err := Verify(tx, token)
	if err != nil {
		return Caller{}, err
	}
	if err := MayOpenSession(c); err != nil {
		return Caller{}, err
	}
	if err := tx.LockSessions(c.ID); err != nil {
		return Caller{}, err
	}
	ended, err := makeRoom(tx, c)
	if err != nil {
		return Caller{}, err
	}
	var id [idBytes]byte
	_, _ = rand.Read(id[:]) // never fails
	row := store.SessionRow{ID: hex.EncodeToString(id[:]), TokenID: c.TokenID, Principal: c.ID, ExpiresAt: tx.Now() +
		SessionLife.Milliseconds()}
	if c.ExpiresAt != 0 {
		row.ExpiresAt = min(row.ExpiresAt, c.ExpiresAt)
	}
	secret := SessionSecret(token, row.ID)
	row.SHA256 = digest(secret)
	if err := tx.PutSession(row); err != nil {
		return Caller{}, err
	}
	// Receipts come last: they lock the journal of the account.
	for _, id := range ended {
		if err := sessionReceipt(tx, c, record.SessionEnded, id, map[string]any{"session_id": id, "reason": "too_many_sessions"}); err != nil {
			return Caller{}, err
		}
	}
	err = sessionReceipt(tx, c, record.SessionOpened, row.ID, map[string]any{
		"session_id": row.ID, "token_id": row.TokenID, "expires_at": row.ExpiresAt,
	})
	if err != nil {
		return Caller{}, err
	}
	return VerifySession(tx, secret)
}

// MayOpenSession refuses callers that no person with a browser is.
func MayOpenSession(c Caller) error {
	if c.Session != nil || c.OneTime || c.Kind != authority.User && c.Kind != authority.Panel {
		return reason.Errorf(reason.Forbidden, "a credential of kind %s opens no session", c.Kind)
	}
	return nil
}

// makeRoom ends what is too many, and names it.
func makeRoom(tx *store.Tx, c Caller) (ended []string, err error) {
	open, err := tx.OpenSessions(c.ID)
	if err != nil || len(open) < MaxSessions {
		return nil, err
	}
	rank := func(s store.SessionRow) int {
		if s.TokenID == c.TokenID {
			return 0
		}
		return 1
	}
	// Stable: of the same rank, the one that was seen longest ago stays first.
	slices.SortStableFunc(open, func(a, b store.SessionRow) int { return rank(a) - rank(b) })
	for _, s := range open[:len(open)-MaxSessions+1] {
		was, err := tx.EndSession(s.ID)
		if err != nil {
			return nil, err
		}
		if was {
			ended = append(ended, s.ID)
		}
	}
	return ended, nil
}

// SessionSecret is the secret of a session that was opened with a token. It
// follows from the token and the id, so that the authority can repeat its answer
// to a login without having kept the secret in any form but its digest.
func SessionSecret(token, id string) string {
	mac := derive(token, "remit session secret v1 "+id)
	return strings.Join([]string{prefix, kindSession, id, base64.RawURLEncoding.EncodeToString(mac[:])}, "_")
}

// VerifySession finds out whom the secret of a session stands for: the principal
// of its token, with the scopes that the token has now. The errors are
// unauthenticated and token_expired. A session that was ended by request, or
// because there were too many, still says who asks, as Caller.Used.
func VerifySession(tx *store.Tx, text string) (Caller, error) {
	kind, id, err := parse(text)
	if err != nil || kind != kindSession {
		return Caller{}, errRefused
	}
	s, err := tx.Session(id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Caller{}, err
	}
	if subtle.ConstantTimeCompare([]byte(digest(text)), []byte(s.SHA256)) != 1 {
		return Caller{}, errRefused
	}
	t, err := tx.Token(s.TokenID)
	if err != nil {
		return Caller{}, err
	}
	now := tx.Now()
	if err := ended(t, now); err != nil {
		return Caller{}, err
	}
	if err := sessionOver(s, now); err != nil {
		return Caller{}, err
	}
	csrf := derive(text, "remit csrf token v1")
	return Caller{
		Principal: authority.Principal{ID: t.Principal, Owner: t.Owner, Kind: authority.Panel, Scopes: t.Scopes},
		TokenID:   t.ID, ExpiresAt: s.ExpiresAt, Used: s.EndedAt != 0, sealing: derive(text, sealLabel),
		Session: &Session{ID: s.ID, CSRF: base64.RawURLEncoding.EncodeToString(csrf[:]),
			CreatedAt: s.CreatedAt, SeenAt: s.SeenAt, ExpiresAt: s.ExpiresAt, EndedAt: s.EndedAt},
	}, nil
}

// sessionOver is the end of a session by time.
func sessionOver(s store.SessionRow, now int64) error {
	switch {
	case now >= s.ExpiresAt:
		return reason.Errorf(reason.TokenExpired, "the session is past its end")
	case now-s.SeenAt >= SessionIdle.Milliseconds():
		return reason.Errorf(reason.TokenExpired, "the session was not used for %s", SessionIdle)
	}
	return nil
}

// EndSession ends the caller's session, and says when.
func EndSession(tx *store.Tx, c Caller) (at int64, err error) {
	if c.Session == nil {
		return 0, reason.Errorf(reason.NotFound, "the request came without a session")
	}
	was, err := tx.EndSession(c.Session.ID)
	if err != nil {
		return 0, err
	}
	if was {
		id := c.Session.ID
		if err := sessionReceipt(tx, c, record.SessionEnded, id, map[string]any{"session_id": id, "reason": "asked_for"}); err != nil {
			return 0, err
		}
	}
	s, err := tx.Session(c.Session.ID)
	return s.EndedAt, err
}

func sessionReceipt(tx *store.Tx, c Caller, receiptType, id string, payload map[string]any) error {
	_, _, err := authority.Write(tx, authority.AccountStream(c.Owner), c.Principal, receiptType, receiptType+":"+id, payload)
	return err
}

// liveSession is Live for a session.
func liveSession(tx *store.Tx, id string) error {
	s, err := tx.Session(id)
	if errors.Is(err, store.ErrNotFound) {
		return errRefused
	}
	if err != nil {
		return err
	}
	if s.EndedAt != 0 {
		return reason.Errorf(reason.TokenExpired, "the session was ended")
	}
	if err := sessionOver(s, tx.Now()); err != nil {
		return err
	}
	return Live(tx, s.TokenID)
}
