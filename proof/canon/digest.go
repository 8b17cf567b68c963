package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"
)

// DigestPrefix names the hash in the text of a digest.
const DigestPrefix = "sha256:"

// Digest returns the digest text of b.
func Digest(b []byte) string { return DigestText(sha256.Sum256(b)) }

// DigestOf returns the digest text of the canonical bytes of v.
func DigestOf(v any) (string, error) {
	b, err := Marshal(v)
	if err != nil {
		return "", err
	}
	return Digest(b), nil
}

// DigestReader reads r to its end and returns the digest text and the number
// of bytes. Bounding r is the caller's business.
func DigestReader(r io.Reader) (digest string, size int64, err error) {
	h := sha256.New()
	size, err = io.Copy(h, r)
	if err != nil {
		return "", size, fmt.Errorf("hash stream after %d bytes: %w", size, err)
	}
	return DigestSum(h), size, nil
}

// DigestSum returns the digest text of what a SHA-256 has been fed so far.
func DigestSum(h hash.Hash) string { return DigestText([sha256.Size]byte(h.Sum(nil))) }

// DigestText writes a SHA-256 sum as digest text.
func DigestText(sum [sha256.Size]byte) string {
	return DigestPrefix + hex.EncodeToString(sum[:])
}

// ValidDigest reports whether s has the form of digest text.
func ValidDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, DigestPrefix)
	if !ok || len(digits) != hex.EncodedLen(sha256.Size) {
		return false
	}
	return !strings.ContainsFunc(digits, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	})
}
