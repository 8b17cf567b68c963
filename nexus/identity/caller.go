package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Caller is an authenticated principal.
type Caller struct {
	authority.Principal // Kind is the token's
	TokenID             string
	ExpiresAt           int64 // unix milliseconds, 0 = never
	OneTime             bool
	// Used says that the token was good for one use and that use is over. Such
	// a caller may be answered from what is stored, and do nothing else.
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
	c := Caller{
		Principal: authority.Principal{ID: t.Principal, Owner: t.Owner, Kind: authority.Kind(t.Kind), Scopes: t.Scopes},
		TokenID:   t.ID, ExpiresAt: t.ExpiresAt, OneTime: t.OneTime, Used: t.UsedAt != 0,
	}
	mac := hmac.New(sha256.New, []byte(text))
	mac.Write([]byte("remit sealed answer v1"))
	mac.Sum(c.sealing[:0])
	return c, nil
}

// Live reports whether the token of an id may still be used, with the error of
// Verify.
func Live(tx *store.Tx, id string) error {
	t, err := tx.Token(id)
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
