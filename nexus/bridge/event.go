package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"remit/nexus/store"
	"remit/proof/reason"
)

// Event is a Nostr event (NIP-01). ID and PubKey are 64, Sig is 128 lowercase
// hexadecimal digits; CreatedAt is in Unix seconds.
type Event struct {
	ID        string     `json:"id"`
	PubKey    string     `json:"pubkey"`
	CreatedAt int64      `json:"created_at"`
	Kind      int        `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   string     `json:"content"`
	Sig       string     `json:"sig"`
}

// Tag is the first value of the tag with this name.
func (e *Event) Tag(name string) string {
	for _, t := range e.Tags {
		if len(t) > 1 && t[0] == name {
			return t[1]
		}
	}
	return ""
}

// digest is the SHA-256 over the serialization of NIP-01.
func (e *Event) digest() ([sha256.Size]byte, error) {
	b := make([]byte, 0, 512+len(e.Content))
	b = append(b, `[0,"`...)
	b = append(b, e.PubKey...)
	b = append(b, `",`...)
	b = strconv.AppendInt(b, e.CreatedAt, 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(e.Kind), 10)
	b = append(b, ",["...)
	var err error
	for i, tag := range e.Tags {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, v := range tag {
			if j > 0 {
				b = append(b, ',')
			}
			if b, err = appendText(b, v); err != nil {
				return [sha256.Size]byte{}, err
			}
		}
		b = append(b, ']')
	}
	b = append(b, "],"...)
	if b, err = appendText(b, e.Content); err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(append(b, ']')), nil
}

// escapes are the only characters that NIP-01 writes as two.
var escapes = map[rune]string{'\n': `\n`, '"': `\"`, '\\': `\\`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

// appendText writes a JSON text as NIP-01 demands it. Implementations disagree
// on the control characters that it does not name, so they are refused.
func appendText(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, reason.Errorf(reason.BridgeInvalid, "a text of the event is not UTF-8")
	}
	b = append(b, '"')
	for _, r := range s {
		switch esc, ok := escapes[r]; {
		case ok:
			b = append(b, esc...)
		case r < ' ' || r == 0x7f:
			return nil, reason.Errorf(reason.BridgeInvalid, "a text of the event has the control character %U", r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"'), nil
}

// Verify checks the id and the signature.
func (e *Event) Verify() error {
	key, err := hexBytes("pubkey", e.PubKey, 32)
	if err != nil {
		return err
	}
	id, err := hexBytes("id", e.ID, sha256.Size)
	if err != nil {
		return err
	}
	sig, err := hexBytes("sig", e.Sig, schnorr.SignatureSize)
	if err != nil {
		return err
	}
	digest, err := e.digest()
	if err != nil {
		return err
	}
	if digest != [sha256.Size]byte(id) {
		return reason.Errorf(reason.BridgeInvalid, "the id of event %.16s… is not the digest of its content", e.ID)
	}
	pub, err := schnorr.ParsePubKey(key)
	if err != nil {
		return reason.Errorf(reason.BridgeInvalid, "pubkey: %w", err)
	}
	s, err := schnorr.ParseSignature(sig)
	if err != nil {
		return reason.Errorf(reason.BridgeInvalid, "sig: %w", err)
	}
	if !s.Verify(id, pub) {
		return reason.Errorf(reason.BridgeInvalid, "the signature of event %.16s… is not by its pubkey", e.ID)
	}
	return nil
}

func hexBytes(field, s string, size int) ([]byte, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != size || hex.EncodeToString(b) != s {
		return nil, reason.Errorf(reason.BridgeInvalid, "%s is not %d lowercase hexadecimal digits", field, 2*size)
	}
	return b, nil
}

// Key signs events. It is never printed.
type Key struct{ secret *btcec.PrivateKey }

// ParseKey reads a secret of 64 hexadecimal digits. The error never repeats it.
func ParseKey(s string) (Key, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 32 {
		return Key{}, reason.Errorf(reason.RequestInvalid, "the signing key is not 64 hexadecimal digits")
	}
	var scalar btcec.ModNScalar
	if overflow := scalar.SetByteSlice(b); overflow || scalar.IsZero() {
		return Key{}, reason.Errorf(reason.RequestInvalid, "the signing key is outside the curve's order")
	}
	return Key{btcec.PrivKeyFromScalar(&scalar)}, nil
}

// NewKey makes a random key and its text for a file of mode 0600.
func NewKey() (Key, string, error) {
	secret, err := btcec.NewPrivateKey()
	if err != nil {
		return Key{}, "", fmt.Errorf("making a signing key: %w", err)
	}
	return Key{secret}, hex.EncodeToString(secret.Serialize()), nil
}

// PubKey is the x-only public key in hexadecimal.
func (k Key) PubKey() string { return hex.EncodeToString(schnorr.SerializePubKey(k.secret.PubKey())) }

// String keeps the secret out of every log.
func (k Key) String() string { return "bridge key " + k.PubKey()[:16] }

// GoString is String: %#v must not print the secret either.
func (k Key) GoString() string { return k.String() }

// sign completes an event, which must be of a class that may leave.
func (k Key) sign(e Event) (Event, error) {
	e.PubKey, e.ID, e.Sig = k.PubKey(), "", ""
	if err := Allowed(&e); err != nil {
		return Event{}, err
	}
	digest, err := e.digest()
	if err != nil {
		return Event{}, err
	}
	// Zero auxiliary randomness: the same fact has the same signature.
	sig, err := schnorr.Sign(k.secret, digest[:], schnorr.CustomNonce([32]byte{}))
	if err != nil {
		return Event{}, fmt.Errorf("signing an event: %w", err)
	}
	e.ID, e.Sig = hex.EncodeToString(digest[:]), hex.EncodeToString(sig.Serialize())
	return e, nil
}

// sign signs rows until none is new, and makes them wait for the relays.
func (p *Publisher) sign(ctx context.Context) error {
	if err := p.nameRelays(ctx); err != nil {
		return err
	}
	waits := false
	err := p.store.View(ctx, func(tx *store.Tx) error { // looks before it writes
		rows, err := tx.UnsignedBridgeEvents(1)
		waits = len(rows) > 0
		return err
	})
	if err != nil || !waits {
		return err
	}
	for more := true; more; {
		var refusals []string
		err := p.store.Update(ctx, func(tx *store.Tx) (err error) {
			refusals, more, err = p.signSome(tx)
			return err
		})
		if err != nil {
			return fmt.Errorf("sign what is to be mirrored: %w", err)
		}
		for _, why := range refusals {
			p.refused.Add(1)
			p.log.Error("an event must not leave and was not signed", "reason", why)
		}
	}
	return nil
}

// nameRelays writes down, now and then, that the relays are served.
func (p *Publisher) nameRelays(ctx context.Context) error {
	p.naming.Lock()
	defer p.naming.Unlock()
	if time.Since(p.named) < namedEvery {
		return nil
	}
	err := p.store.Update(ctx, func(tx *store.Tx) error {
		if err := p.lockKey(tx); err != nil {
			return err
		}
		for _, relay := range p.relays {
			if err := tx.NameRelay(relay, tx.Now()-namedFor.Milliseconds()); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		p.named = time.Now()
	}
	return err
}

// lockKey checks that the store still has our key, and keeps other publishers out
// for the rest of the command.
func (p *Publisher) lockKey(tx *store.Tx) error {
	known, err := tx.BridgeKey()
	if err == nil && known != p.key.PubKey() {
		err = foreign("this nexus signs with the key %.16s…, and this process has %.16s…", known, p.key.PubKey())
	}
	return err
}

func (p *Publisher) signSome(tx *store.Tx) (refusals []string, more bool, err error) {
	if err := p.lockKey(tx); err != nil {
		return nil, false, err
	}
	rows, err := tx.UnsignedBridgeEvents(signBatch)
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		e, err := EventOf(row, "")
		if err == nil {
			e, err = p.key.sign(e)
		}
		switch code := reason.CodeOf(err); {
		case err == nil:
			if err := tx.SignBridgeEvent(row.ID, e.ID, e.Sig); err != nil {
				return nil, false, err
			}
			if err := tx.SpreadBridgeEvent(row.ID, tx.Now()-namedFor.Milliseconds()); err != nil {
				return nil, false, err
			}
		case code == reason.BridgeRefused || code == reason.BridgeInvalid:
			refusals = append(refusals, plain(err.Error()))
			if err := tx.RefuseBridgeEvent(row.ID, plain(err.Error())); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, err
		}
	}
	return refusals, len(rows) == signBatch, nil
}
