package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"remit/proof/attest"
	"remit/proof/reason"
)

// SignatureSuffix follows the name of a signed record in the name of its
// signature's file.
const SignatureSuffix = ".sig"

// Signer is whose signature a record has.
type Signer struct {
	Name        string // of the list of trusted keys, [ThisMachine] for the keys of the ring
	Fingerprint string
}

// ThisMachine is the name of the signer whose key lies in the ring itself.
const ThisMachine = "this machine"

// SignRecord signs a record of the home with [Ring.SignRecord].
func SignRecord(home, namespace string, text []byte) ([]byte, error) {
	return Ring{Dir: filepath.Join(home, "keys")}.SignRecord(namespace, text)
}

// VerifyRecord checks the signature of a record of the home with
// [Ring.VerifyRecord], as of now.
func VerifyRecord(home, namespace string, text, signature []byte) (Signer, error) {
	return Ring{Dir: filepath.Join(home, "keys")}.VerifyRecord(namespace, text, signature, time.Now())
}

// RecordVerifier checks the signatures of records of the home. Where they are asked
// for, each record needs one that is good and trusted. Where they are not, a record
// may go without; a signature that is there and is not good makes it void all the
// same, since one of the two was changed. Whose it is counts only where it is
// asked for.
func RecordVerifier(home string, signed bool) func(text, signature []byte) error {
	return func(text, signature []byte) error {
		if signed {
			_, err := VerifyRecord(home, attest.NamespaceRecord, text, signature)
			return err
		}
		if len(signature) == 0 {
			return nil
		}
		_, err := keyOf(attest.NamespaceRecord, text, signature)
		return err
	}
}

// keyOf is the key that made a good signature, trusted or not.
func keyOf(namespace string, text, signature []byte) (attest.PublicKey, error) {
	key, err := attest.Verify(signature, namespace, text)
	if err != nil {
		return key, reason.Errorf(reason.SignatureInvalid, "the signature of the record is not good: %w", err)
	}
	return key, nil
}

// SignRecord returns the armored signature of a record with the signing key of
// this machine, which is made if there is none. It signs no approval: the key
// that works unattended never grants ([Ring.SignApproval]).
func (r Ring) SignRecord(namespace string, text []byte) ([]byte, error) {
	if namespace != attest.NamespaceRecord {
		return nil, fmt.Errorf("the signing key of this machine signs no record for %q", namespace)
	}
	key, err := r.Key()
	if err != nil {
		return nil, err
	}
	return attest.Sign(key, namespace, text), nil
}

// VerifyRecord returns whose signature a record has, for a namespace and at a
// time. It counts the ring's own key of the namespace and the keys that the
// operator trusts for it. Every other signature is a *reason.Error:
// signature_missing for an empty one, signature_invalid, or signer_unknown.
func (r Ring) VerifyRecord(namespace string, text, signature []byte, at time.Time) (Signer, error) {
	if len(signature) == 0 {
		return Signer{}, reason.Errorf(reason.SignatureMissing, "the record is not signed")
	}
	key, err := keyOf(namespace, text, signature)
	if err != nil {
		return Signer{}, err
	}
	machine, err := r.publicKey(PublicFile)
	if err != nil {
		return Signer{}, err
	}
	own := machine
	if namespace == attest.NamespaceApproval {
		if key == machine {
			return Signer{}, reason.Errorf(reason.SignerUnknown, "the approval is signed with the key that seals unattended, which never grants")
		}
		if own, err = r.publicKey(ApprovalPublicFile); err != nil {
			return Signer{}, err
		}
	}
	if key == own {
		return Signer{Name: ThisMachine, Fingerprint: key.Fingerprint()}, nil
	}
	signers, err := r.Signers()
	if err != nil {
		return Signer{}, err
	}
	if name, ok := signers.Find(key, namespace, at); ok {
		return Signer{Name: name, Fingerprint: key.Fingerprint()}, nil
	}
	return Signer{}, reason.Errorf(reason.SignerUnknown, "the record is signed by %s, whose signature for %s is not trusted here", key.Fingerprint(), namespace)
}

// publicKey reads the public half of a key of the ring; the zero key, which
// verifies nothing, when there is none.
func (r Ring) publicKey(name string) (attest.PublicKey, error) {
	text, err := readOwn(filepath.Join(r.Dir, name), 0o022, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return attest.PublicKey{}, nil
	}
	if err == nil {
		err = r.checkDir()
	}
	var key attest.PublicKey
	if err == nil {
		key, err = attest.ParsePublicKey(text)
	}
	if err != nil {
		return key, r.fault(err)
	}
	return key, nil
}
