package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"

	"remit/proof/reason"
)

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
