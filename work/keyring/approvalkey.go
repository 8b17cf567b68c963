package keyring

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"remit/proof/attest"
	"remit/proof/reason"
)

// File names of the key that signs approvals.
const (
	ApprovalPrivateFile = "approval_ed25519"
	ApprovalPublicFile  = "approval_ed25519.pub"
)

// MinPassphrase is the shortest passphrase of an approval key, in bytes.
const MinPassphrase = 8

// NewApprovalKey makes the key that signs approvals and keeps it under a
// passphrase. The error wraps [fs.ErrExist] when there is one.
func (r Ring) NewApprovalKey(passphrase []byte) (attest.PublicKey, error) {
	if len(passphrase) < MinPassphrase {
		return attest.PublicKey{}, fmt.Errorf("a passphrase has at least %d bytes", MinPassphrase)
	}
	var seed [ed25519.SeedSize]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return attest.PublicKey{}, err
	}
	key, err := attest.NewPrivateKey(bytes.NewReader(seed[:]))
	if err != nil {
		return attest.PublicKey{}, err
	}
	sealed, err := sealSeed(seed[:], passphrase, rand.Reader)
	if err != nil {
		return attest.PublicKey{}, err
	}
	if err := r.placeApprovalKey(key.Public(), sealed); err != nil {
		return attest.PublicKey{}, err
	}
	return key.Public(), nil
}

// UseAgentKey makes a key that the user's ssh-agent holds the one that signs
// approvals. The error wraps [fs.ErrExist] when there is one.
func (r Ring) UseAgentKey(ctx context.Context, key attest.PublicKey) error {
	held, err := agentHolds(ctx, key)
	if err == nil && !held {
		err = fmt.Errorf("the ssh-agent does not hold the key %s", key.Fingerprint())
	}
	if err != nil {
		return err
	}
	machine, err := r.publicKey(PublicFile)
	if err != nil {
		return err
	}
	if key == machine {
		return errors.New("the key that seals unattended cannot be the key that approves")
	}
	return r.placeApprovalKey(key, nil)
}

// placeApprovalKey writes the files of the key. The public half comes first:
// it is what two processes at the same time compete for.
func (r Ring) placeApprovalKey(key attest.PublicKey, sealed []byte) error {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return r.fault(err)
	}
	if err := r.checkDir(); err != nil {
		return err
	}
	if err := r.place(ApprovalPublicFile, []byte(key.String()+" "+comment+"\n"), 0o644); err != nil {
		return err
	}
	if sealed == nil {
		return nil
	}
	return r.place(ApprovalPrivateFile, sealed, 0o600)
}

// ApprovalKey is the public half of the key that signs approvals. The error wraps
// [fs.ErrNotExist] when there is none.
func (r Ring) ApprovalKey() (attest.PublicKey, error) {
	key, err := r.publicKey(ApprovalPublicFile)
	if err == nil && key == (attest.PublicKey{}) {
		err = fmt.Errorf("reading the approval key: %w", fs.ErrNotExist)
	}
	return key, err
}

// SignApproval signs the grant of an approval. The user's ssh-agent signs if it
// holds the approval key; otherwise passphrase is asked and opens the file of
// the key. A nil passphrase stands for a user who cannot be asked.
func (r Ring) SignApproval(ctx context.Context, text []byte, passphrase func() ([]byte, error)) ([]byte, error) {
	key, err := r.ApprovalKey()
	if err != nil {
		return nil, err
	}
	held, agentErr := agentHolds(ctx, key)
	if held {
		return attest.SignWith(key, attest.NamespaceApproval, text, func(data []byte) ([]byte, error) { return agentSign(ctx, key, data) })
	}
	sealed, err := readOwn(filepath.Join(r.Dir, ApprovalPrivateFile), 0o077, maxKeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, locked(errors.Join(fmt.Errorf("the approval key %s is held by an ssh-agent, and none that holds it answers", key.Fingerprint()), agentErr))
	case err != nil:
		return nil, r.fault(err)
	case passphrase == nil:
		return nil, locked(errors.New("the approval key has a passphrase, and there is no terminal to ask for it"))
	}
	words, err := passphrase()
	if err != nil {
		return nil, err
	}
	seed, err := openSeed(sealed, words)
	if err != nil {
		return nil, locked(err)
	}
	private, err := attest.NewPrivateKey(bytes.NewReader(seed))
	if err != nil {
		return nil, err
	}
	if private.Public() != key {
		return nil, locked(errors.New("the passphrase does not open the approval key"))
	}
	return attest.Sign(private, attest.NamespaceApproval, text), nil
}

// locked is the error of an approval key that cannot be used now.
func locked(err error) error {
	return reason.Errorf(reason.AuthUnavailable, "the approval is not signed: %w", err).
		WithHint("type the passphrase at a terminal, give --passphrase-file, or add the key to your ssh-agent (SSH_AUTH_SOCK)")
}
