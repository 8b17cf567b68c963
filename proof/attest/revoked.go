package attest

import (
	"errors"
	"fmt"
	"strings"
)

// Revoked are keys whose signatures count no more, whatever they were made for
// and whenever they say that they were. The zero value has none.
type Revoked struct{ keys map[PublicKey]bool }

// ParseRevoked reads a list of revoked keys as `ssh-keygen -Y verify -r` takes it: one
// public key a line, with or without a comment; empty lines and lines that begin with
// # say nothing. Keys of other types are passed over, since they sign nothing here. A
// line that is not understood is an error: it could be the one that takes trust away.
func ParseRevoked(text []byte) (*Revoked, error) {
	if len(text) > maxSignersFile {
		return nil, fmt.Errorf("a list of revoked keys has at most %d bytes", maxSignersFile)
	}
	out := &Revoked{keys: map[PublicKey]bool{}}
	if err := eachLine(text, out.add); err != nil {
		return nil, err
	}
	return out, nil
}

func (r *Revoked) add(line []byte) error {
	words := strings.Fields(string(line))
	switch {
	case len(line) > maxSignersLine || len(r.keys) >= maxSigners:
		return fmt.Errorf("a line has at most %d bytes, and a list %d keys", maxSignersLine, maxSigners)
	case len(words) < 2:
		return errors.New("a public key is a type and base64")
	}
	key, ok, err := parseTyped(words)
	if ok {
		r.keys[key] = true
	}
	return err
}

// Has reports whether a key is revoked.
func (r *Revoked) Has(key PublicKey) bool { return r != nil && r.keys[key] }
