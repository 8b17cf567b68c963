package attest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	privateArmor = "OPENSSH PRIVATE KEY"
	privateMagic = "openssh-key-v1\x00"
	unencrypted  = "none"
	cipherBlock  = 8 // bytes that the private part of an unencrypted file is padded to
	// maxPrivateKeyFile bounds the file, in bytes.
	maxPrivateKeyFile = 16 << 10
)

// PrivateKey signs. It is never printed: its String is that of its public key.
type PrivateKey struct{ key ed25519.PrivateKey }

// NewPrivateKey makes a key from 32 bytes of random.
func NewPrivateKey(random io.Reader) (*PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return &PrivateKey{ed25519.NewKeyFromSeed(seed)}, nil
}

// Public is the key that verifies.
func (k *PrivateKey) Public() PublicKey {
	return PublicKey{string(k.key[ed25519.SeedSize:])}
}

// String is the public key, so that a key in a log line gives nothing away.
func (k *PrivateKey) String() string { return k.Public().String() }

// GoString is [PrivateKey.String] for %#v.
func (k *PrivateKey) GoString() string { return k.String() }

// MarshalOpenSSH is the key as an unencrypted OpenSSH private key file.
func (k *PrivateKey) MarshalOpenSSH(comment string, random io.Reader) ([]byte, error) {
	var check [4]byte
	if _, err := io.ReadFull(random, check[:]); err != nil {
		return nil, fmt.Errorf("writing a key: %w", err)
	}
	public := k.Public()
	private := append(check[:], check[:]...)
	private = appendField(private, keyType)
	private = appendField(private, public.key)
	private = appendField(private, []byte(k.key))
	private = appendField(private, comment)
	for pad := byte(1); len(private)%cipherBlock != 0; pad++ {
		private = append(private, pad)
	}
	file := []byte(privateMagic)
	file = appendField(file, unencrypted) // cipher
	file = appendField(file, unencrypted) // key derivation
	file = appendField(file, "")          // its options
	file = binary.BigEndian.AppendUint32(file, 1)
	file = appendField(file, public.Blob())
	file = appendField(file, private)
	return pem.EncodeToMemory(&pem.Block{Type: privateArmor, Bytes: file}), nil
}

// ParsePrivateKey reads an unencrypted OpenSSH private key file that holds one
// ed25519 key and nothing else. No error repeats a part of the key.
func ParsePrivateKey(text []byte) (*PrivateKey, error) {
	if len(text) > maxPrivateKeyFile {
		return nil, fmt.Errorf("a private key file has at most %d bytes", maxPrivateKeyFile)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != privateArmor || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 ||
		!bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN "+privateArmor+"-----")) {
		return nil, errors.New("the file is not one OpenSSH private key")
	}
	private, outside, err := openPrivate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading a private key: %w", err)
	}
	return parsePrivate(private, outside)
}

// openPrivate reads what surrounds the private part: the private part and the
// public key that stands outside of it.
func openPrivate(file []byte) (private []byte, outside PublicKey, err error) {
	after, ok := bytes.CutPrefix(file, []byte(privateMagic))
	if !ok {
		return nil, outside, errors.New("the file is not of the form openssh-key-v1")
	}
	w := wire(after)
	var cipher, derivation, options, blob []byte
	if err := w.fields(&cipher, &derivation, &options); err != nil {
		return nil, outside, err
	}
	if string(cipher) != unencrypted || string(derivation) != unencrypted || len(options) > 0 {
		return nil, outside, errors.New("the key is encrypted: only keys without a passphrase are supported")
	}
	if n, err := w.uint32(); err != nil || n != 1 {
		return nil, outside, errors.Join(errors.New("the file does not hold exactly one key"), err)
	}
	if err := errors.Join(w.fields(&blob, &private), w.end()); err != nil {
		return nil, outside, err
	}
	outside, err = parseBlob(blob)
	return private, outside, err
}

// parsePrivate reads the private part, whose three copies of the public key must
// be one.
func parsePrivate(private []byte, outside PublicKey) (*PrivateKey, error) {
	w := wire(private)
	first, err := w.uint32()
	second, secondErr := w.uint32()
	var kind, public, key, comment []byte
	if err := errors.Join(err, secondErr, w.fields(&kind, &public, &key, &comment)); err != nil {
		return nil, fmt.Errorf("reading a private key: %w", err)
	}
	if first != second || string(kind) != keyType || len(key) != ed25519.PrivateKeySize || len(private)%cipherBlock != 0 || len(w) >= cipherBlock {
		return nil, errors.New("the private key is damaged")
	}
	for i, pad := range w {
		if int(pad) != i+1 {
			return nil, errors.New("the private key is damaged")
		}
	}
	whole := ed25519.NewKeyFromSeed(key[:ed25519.SeedSize])
	if !bytes.Equal(whole, key) || string(public) != outside.key || !bytes.Equal(whole[ed25519.SeedSize:], public) {
		return nil, errors.New("the private key and its public key do not belong together")
	}
	return &PrivateKey{whole}, nil
}

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
