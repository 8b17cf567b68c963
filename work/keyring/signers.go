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
	_, signers, err := r.readSigners()
	return signers, err
}

func (r Ring) readSigners() ([]byte, *attest.Signers, error) {
	text, err := readOwn(r.SignersPath(), 0o022, maxSigners)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
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
		return nil, nil, e.WithHint("repair the file, or move it away: without it no signer is known")
	}
	return text, signers, nil
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
	text, signers, err := r.readSigners()
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
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return "", fmt.Errorf("making the directory of keys: %w", err)
	}
	f, err := os.OpenFile(r.SignersPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("writing the list of allowed signers: %w", err)
	}
	_, err = f.WriteString(line + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("writing the list of allowed signers: %w", err)
	}
	return "", nil
}
