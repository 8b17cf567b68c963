package session

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"remit/proof/attest"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/keyring"
	"remit/work/sandbox"
)

// Keys is where this machine keeps its signing key and the operator the list of
// keys that they trust.
func (h Home) Keys() keyring.Ring {
	return keyring.Ring{Dir: cmp.Or(h.KeyDir, filepath.Join(h.Dir, "keys"))}
}

// owns reports whether a session lies where this home keeps its sessions. Only
// what was made here is signed with the key of this home: a session that came
// from elsewhere has facts that nothing here has seen.
func (h Home) owns(dir string) bool {
	sessions, err := filepath.EvalSymlinks(h.Sessions())
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(dir)
	return err == nil && filepath.Dir(real) == sessions
}

// session is the session of an id and a directory that is there.
func (h Home) session(id, dir string) Session {
	s := Session{ID: id, Dir: dir}
	if h.owns(dir) {
		s.home = &h
	}
	return s
}

// sign writes the detached signature over the receipt, or takes away the one of
// an earlier seal where none can be made. That there is none is no failure:
// [Session.Signature] says why. It returns the error of a write only.
func (s Session) sign(entries []journal.Entry, receipt []byte) error {
	key, unsigned := s.signer(entries)
	if unsigned != nil {
		err := os.Remove(filepath.Join(s.Dir, evidence.SignatureFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the signature of an earlier seal: %w", err)
		}
		return nil
	}
	return evidence.Write(s.Dir, evidence.Set{evidence.SignatureFile: attest.Sign(key, attest.NamespaceReceipt, receipt)})
}

// signer is the key that signs a session, or why none does.
func (s Session) signer(entries []journal.Entry) (*attest.PrivateKey, error) {
	elsewhere := errors.New("the run was not made in this REMIT_HOME, and its key signs nothing else")
	if s.home == nil {
		return nil, elsewhere
	}
	local, err := s.home.LoadLocal(s.ID)
	if err != nil {
		return nil, fmt.Errorf("reading what this machine knows of the session: %w", err)
	}
	if local.Contract == nil {
		return nil, elsewhere
	}
	opened, err := evidence.OpenedOf(entries)
	if err != nil {
		return nil, errors.New("the journal does not say how the run began")
	}
	if local.Unconfined || opened.Host.Sandbox.Driver == sandbox.DriverNone {
		return nil, errors.New("processes of the run had no sandbox (--sandbox none), so that they could read the key")
	}
	return s.home.Keys().Key()
}

// Signature is the fingerprint of the key that has signed the bundle. The error
// says why there is no good signature.
func (s Session) Signature() (fingerprint string, err error) {
	receipt, err := s.Read(evidence.ReceiptFile)
	if err != nil {
		return "", fmt.Errorf("reading the receipt: %w", err)
	}
	key, err := evidence.SignerOf(os.DirFS(s.Dir), receipt)
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return "", err
		}
		return key.Fingerprint(), nil
	}
	log, err := journal.ReadFile(s.Journal())
	if err != nil {
		return "", err
	}
	if _, err := s.signer(log.Entries); err != nil {
		return "", err
	}
	return "", errors.New("it was sealed without a signature")
}
