package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"remit/proof/attest"
	"remit/proof/reason"
)

// maxSigners bounds the list, in bytes.
const maxSigners = 1 << 20

// SignersPath is where the list of trusted keys lies.
func (r Ring) SignersPath() string { return filepath.Join(r.Dir, SignersFile) }

// Signers are the keys that the operator trusts; nil when they have no list.
func (r Ring) Signers() (*attest.Signers, error) {
	text, err := readOwn(r.SignersPath(), 0o022, maxSigners)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = r.checkHome()
	}
	var signers *attest.Signers
	if err == nil {
		signers, err = attest.ParseSigners(text)
	}
	if err != nil {
		e := reason.Errorf(reason.GateUnavailable, "the list of allowed signers cannot be used: %w", err)
		e.File = r.SignersPath()
		return nil, e.WithHint("repair the file, or move it away: without it no signer is known")
	}
	return signers, nil
}

// RevokedPath is where the list of revoked keys lies.
func (r Ring) RevokedPath() string { return filepath.Join(r.Dir, RevokedFile) }

// Revoked are the keys whose signatures the operator believes no more; nil when they
// have no list.
func (r Ring) Revoked() (*attest.Revoked, error) {
	text, err := readOwn(r.RevokedPath(), 0o022, maxSigners)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = r.checkHome()
	}
	var revoked *attest.Revoked
	if err == nil {
		revoked, err = attest.ParseRevoked(text)
	}
	if err != nil {
		e := reason.Errorf(reason.GateUnavailable, "the list of revoked keys cannot be used: %w", err)
		e.File = r.RevokedPath()
		return nil, e.WithHint("repair the file; moved away, it would let the revoked keys count again")
	}
	return revoked, nil
}

// Revoke adds a key to the list of those whose signatures count no more. added says
// that it was not there before.
func (r Ring) Revoke(key attest.PublicKey) (added bool, err error) {
	revoked, err := r.Revoked()
	if err != nil || revoked.Has(key) {
		return false, err
	}
	return true, r.appendLine(r.RevokedPath(), key.String())
}

// appendLine adds a line to a file of the directory, which is made where there is none.
func (r Ring) appendLine(path, line string) error {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of keys: %w", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if info, statErr := f.Stat(); statErr == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, info.Size()-1); last[0] != '\n' {
			line = "\n" + line // the line before was written by hand, and not ended
		}
	}
	if err == nil {
		_, err = f.WriteString(line + "\n")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Trust adds a key to the list under a name, for the given namespaces or, without
// any, for receipts. It returns the name under which the key was trusted for all
// of them before; then nothing is added. It is "" otherwise.
func (r Ring) Trust(name string, key attest.PublicKey, namespaces ...string) (before string, err error) {
	if len(namespaces) == 0 {
		namespaces = []string{attest.NamespaceReceipt}
	}
	line, err := attest.Line(name, key, namespaces...)
	if err != nil {
		return "", err
	}
	signers, err := r.Signers()
	if err != nil {
		return "", err
	}
	trusted := true
	for _, n := range namespaces {
		known, ok := signers.Find(key, n, time.Time{})
		before, trusted = known, trusted && ok
	}
	if trusted {
		return before, nil
	}
	return "", r.appendLine(r.SignersPath(), line)
}
