package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Caller is an authenticated principal.
type Caller struct {
	authority.Principal // Kind is the token's
	TokenID             string
	Session             *Session // of a browser; nil when the request brought the token itself
	ExpiresAt           int64    // unix milliseconds, 0 = never
	OneTime             bool
	// Used says that the token was good for one use and that use is over, or
	// that the session was ended. Such a caller may be answered from what is
	// stored, and do nothing else.
	Used bool

	sealing [sha256.Size]byte // derived from the secret
}

// Verify finds out whom a token text stands for. The errors are unauthenticated
// and token_expired.
func Verify(tx *store.Tx, text string) (Caller, error) {
	kind, id, err := parse(text)
	if err != nil {
		return Caller{}, err
	}
	t, err := tx.Token(id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Caller{}, err
	}
	// An unknown id takes the same way: a digest never equals "".
	same := subtle.ConstantTimeCompare([]byte(digest(text)), []byte(t.SHA256))
	if same != 1 || t.Kind != kind {
		return Caller{}, errRefused
	}
	if err := ended(t, tx.Now()); err != nil {
		return Caller{}, err
	}
	return Caller{
		Principal: authority.Principal{ID: t.Principal, Owner: t.Owner, Kind: authority.Kind(t.Kind), Scopes: t.Scopes},
		TokenID:   t.ID, ExpiresAt: t.ExpiresAt, OneTime: t.OneTime, Used: t.UsedAt != 0, sealing: derive(text, sealLabel),
	}, nil
}

// derive makes a key, or another secret, that only the holder of a secret text
// can make. Each purpose has its own label.
func derive(text, label string) (key [sha256.Size]byte) {
	mac := hmac.New(sha256.New, []byte(text))
	mac.Write([]byte(label))
	mac.Sum(key[:0])
	return key
}

// Credential names what the caller has shown, for [Live]: a token, or a session.
func (c Caller) Credential() string {
	if c.Session != nil {
		return credentialSession + c.Session.ID
	}
	return c.TokenID
}

// Live reports whether a credential may still be used, with the error of Verify.
func Live(tx *store.Tx, credential string) error {
	if id, ok := strings.CutPrefix(credential, credentialSession); ok {
		return liveSession(tx, id)
	}
	t, err := tx.Token(credential)
	if errors.Is(err, store.ErrNotFound) {
		return errRefused
	}
	if err != nil {
		return err
	}
	return ended(t, tx.Now())
}

func ended(t store.Token, now int64) error {
	switch {
	case t.RevokedAt != 0:
		return reason.Errorf(reason.TokenExpired, "the token was revoked")
	case t.ExpiresAt != 0 && now >= t.ExpiresAt:
		return reason.Errorf(reason.TokenExpired, "the token is past its end")
	}
	return nil
}
