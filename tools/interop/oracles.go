package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	pbundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	pcommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	pdsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
)

// signed is an envelope in parts, with what it is held against.
type signed struct {
	patch, payload, signature, key []byte
	payloadType, keyID             string
}

// oracle says the predicate type of what it accepts.
type oracle func(signed) (string, error)

// oracles are the libraries that verify each envelope.
var oracles = map[string]oracle{"go-securesystemslib": securesystems, "sigstore-go": sigstore}

// securesystems verifies the envelope, and reads the statement with in-toto's types.
func securesystems(s signed) (string, error) {
	verifier, err := dsse.NewEnvelopeVerifier(key{ed25519.PublicKey(s.key), s.keyID})
	if err != nil {
		return "", err
	}
	e := &dsse.Envelope{PayloadType: s.payloadType, Payload: base64.StdEncoding.EncodeToString(s.payload),
		Signatures: []dsse.Signature{{KeyID: s.keyID, Sig: base64.StdEncoding.EncodeToString(s.signature)}}}
	if _, err := verifier.Verify(context.Background(), e); err != nil {
		return "", err
	}
	sum := sha256.Sum256(s.patch)
	return statement(s.payload, hex.EncodeToString(sum[:]))
}

// sigstore verifies the envelope in a bundle with a public key, as cosign does with --key:
// the artifact is the patch. No certificate and no log vouches for a time.
func sigstore(s signed) (string, error) {
	b, err := bundle.NewBundle(&pbundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
		VerificationMaterial: &pbundle.VerificationMaterial{
			Content: &pbundle.VerificationMaterial_PublicKey{PublicKey: &pcommon.PublicKeyIdentifier{Hint: s.keyID}}},
		Content: &pbundle.Bundle_DsseEnvelope{DsseEnvelope: &pdsse.Envelope{Payload: s.payload, PayloadType: s.payloadType,
			Signatures: []*pdsse.Signature{{Sig: s.signature, Keyid: s.keyID}}}},
	})
	if err != nil {
		return "", err
	}
	public, err := signature.LoadVerifier(ed25519.PublicKey(s.key), crypto.SHA256)
	if err != nil {
		return "", err
	}
	trusted := root.NewTrustedPublicKeyMaterialFromMapping(map[string]*root.ExpiringKey{s.keyID: root.NewExpiringKey(public, time.Time{}, time.Time{})})
	verifier, err := verify.NewVerifier(trusted, verify.WithNoObserverTimestamps())
	if err != nil {
		return "", err
	}
	result, err := verifier.Verify(b, verify.NewPolicy(verify.WithArtifact(bytes.NewReader(s.patch)), verify.WithKey()))
	if err != nil {
		return "", err
	}
	if result.Statement == nil {
		return "", errors.New("it is read without a statement")
	}
	return result.Statement.GetPredicateType(), nil
}

// refused changes every byte of each part.
func (s signed) refused(by oracle) error {
	for part, bytes := range map[string][]byte{"patch": s.patch, "payload": s.payload, "signature": s.signature, "key": s.key} {
		for i := range bytes {
			bytes[i] ^= 1
			_, err := by(s)
			bytes[i] ^= 1
			if err == nil {
				return fmt.Errorf("byte %d of the %s is another, and it verifies", i, part)
			}
		}
	}
	return nil
}
