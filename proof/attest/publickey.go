package attest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// keyType is the only type of keys that sign.
const keyType = "ssh-ed25519"

// PublicKey is an ed25519 key. The zero value is no key and verifies nothing.
type PublicKey struct{ key string } // 32 bytes; comparable

// Blob is the key in the SSH wire format.
func (k PublicKey) Blob() []byte {
	return appendField(appendField(nil, keyType), k.key)
}

// parseBlob reads a key in the SSH wire format.
func parseBlob(blob []byte) (PublicKey, error) {
	w := wire(blob)
	var kind, key []byte
	if err := w.fields(&kind); err != nil {
		return PublicKey{}, fmt.Errorf("reading a public key: %w", err)
	}
	if string(kind) != keyType {
		return PublicKey{}, fmt.Errorf("the key is of type %.40q, only %s is supported", kind, keyType)
	}
	if err := errors.Join(w.fields(&key), w.end()); err != nil {
		return PublicKey{}, fmt.Errorf("reading a public key: %w", err)
	}
	if len(key) != ed25519.PublicKeySize {
		return PublicKey{}, fmt.Errorf("an ed25519 key has %d bytes, this one %d", ed25519.PublicKeySize, len(key))
	}
	return PublicKey{string(key)}, nil
}

// Fingerprint is `SHA256:` and the unpadded base64 of the SHA-256 of the key, as
// `ssh-keygen -l` prints it.
func (k PublicKey) Fingerprint() string {
	sum := sha256.Sum256(k.Blob())
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// String is the key as a line of a .pub file, without comment and line end.
func (k PublicKey) String() string {
	return keyType + " " + base64.StdEncoding.EncodeToString(k.Blob())
}

// maxPublicKeyFile bounds a .pub file, in bytes.
const maxPublicKeyFile = 16 << 10

// ParsePublicKey reads a .pub file: one line `ssh-ed25519 BASE64 [COMMENT]`.
func ParsePublicKey(text []byte) (PublicKey, error) {
	if len(text) > maxPublicKeyFile {
		return PublicKey{}, fmt.Errorf("a public key file has at most %d bytes", maxPublicKeyFile)
	}
	line := bytes.TrimSpace(text)
	if bytes.ContainsAny(line, "\n\r") {
		return PublicKey{}, errors.New("a public key file has one line")
	}
	words := strings.Fields(string(line))
	if len(words) < 2 {
		return PublicKey{}, errors.New("a public key is a type and base64")
	}
	if words[0] != keyType {
		return PublicKey{}, fmt.Errorf("the key is of type %.40q, only %s is supported", words[0], keyType)
	}
	return parseEncoded(words[1])
}

// parseEncoded reads the base64 of a key.
func parseEncoded(text string) (PublicKey, error) {
	blob, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return PublicKey{}, fmt.Errorf("reading a public key: %w", err)
	}
	return parseBlob(blob)
}
