package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Ticket is the kind of token that opens one live lane. The other kinds are
// those of a principal.
const Ticket authority.Kind = "ticket"

const (
	prefix      = "rmt"
	idBytes     = 12
	secretBytes = 32
	maxText     = 256
)

// Grant is what a new token is to stand for.
type Grant struct {
	Kind      authority.Kind
	Principal string // its ID; "": the kind and the id of the token
	Owner     string
	Scopes    []string
	TTL       time.Duration // 0: no end
	OneTime   bool
}

// Mint makes a token in the command tx. The text is the only copy of its secret.
func Mint(tx *store.Tx, g Grant) (text string, t store.Token, err error) {
	var id [idBytes]byte
	var secret [secretBytes]byte
	_, _ = rand.Read(id[:]) // never fails
	_, _ = rand.Read(secret[:])
	t = store.Token{
		ID: hex.EncodeToString(id[:]), Kind: string(g.Kind), Principal: g.Principal, Owner: g.Owner,
		Scopes: g.Scopes, OneTime: g.OneTime, CreatedAt: tx.Now(),
	}
	if t.Principal == "" {
		t.Principal = t.Kind + ":" + t.ID
	}
	if g.TTL > 0 {
		t.ExpiresAt = t.CreatedAt + g.TTL.Milliseconds()
	}
	text = strings.Join([]string{prefix, t.Kind, t.ID, base64.RawURLEncoding.EncodeToString(secret[:])}, "_")
	t.SHA256 = digest(text)
	return text, t, tx.PutToken(t)
}

// MaxOwner bounds the name of an owner.
const MaxOwner = 64

// ValidOwner reports whether a name can own things: it becomes part of lane and
// account names.
func ValidOwner(owner string) bool {
	if owner == "" || len(owner) > MaxOwner || owner[0] == '.' || owner[0] == '-' {
		return false
	}
	for _, c := range []byte(owner) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// parse takes a token text apart, without looking anything up.
func parse(text string) (kind, id string, err error) {
	if len(text) > maxText {
		return "", "", errRefused
	}
	parts := strings.SplitN(text, "_", 4)
	if len(parts) != 4 || parts[0] != prefix || len(parts[2]) != 2*idBytes ||
		len(parts[3]) != base64.RawURLEncoding.EncodedLen(secretBytes) {
		return "", "", errRefused
	}
	return parts[1], parts[2], nil
}

// errRefused does not say what is wrong with a credential: that would only help to
// guess one.
var errRefused = &reason.Error{Code: reason.Unauthenticated, Message: "the credential is not valid"}

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

// sealLabel is the purpose of the key behind Seal.
const sealLabel = "remit sealed answer v1"

// Seal encrypts an answer so that only a caller with the same credential can read
// it back. Name binds it to its place: an answer that is moved to another
// row does not open.
func (c Caller) Seal(name string, plain []byte) ([]byte, error) {
	aead, err := c.aead()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(nonce, nonce, plain, []byte(name)), nil
}

// Open reads what Seal wrote. Another token of the same principal cannot: the
// error is forbidden.
func (c Caller) Open(name string, sealed []byte) ([]byte, error) {
	aead, err := c.aead()
	if err != nil {
		return nil, err
	}
	if len(sealed) >= aead.NonceSize() {
		n := aead.NonceSize()
		if plain, err := aead.Open(nil, sealed[:n], sealed[n:], []byte(name)); err == nil {
			return plain, nil
		}
	}
	return nil, reason.Errorf(reason.Forbidden, "the answer to this key holds a secret and is sealed to the token that asked first").
		WithHint("repeat the request with that token, or use a new key")
}

func (c Caller) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(c.sealing[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
