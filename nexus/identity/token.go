package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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
