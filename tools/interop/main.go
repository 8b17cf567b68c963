// Command interop reads what Remit attests with the libraries of others: it verifies
// DSSE envelopes with go-securesystemslib, reading their statements with in-toto's own
// types, and with sigstore-go; and each export with a library of others that reads its form. It is a module of
// its own, so that the product depends on none of them.
//
//	interop ALLOWED_SIGNERS PATCH ENVELOPE…
//	interop otlp|junit|sarif|cloudevents FILE
//	interop nostr RELAY PUBKEY
//
// Each envelope must verify with the first key of the file, be about the patch, and be refused by each
// library after any one byte of patch, payload, signature or key is another. An export as OTLP-JSON must be
// a message of OpenTelemetry's own types, without a field that they do not have. What an
// export has published at a relay must verify with go-nostr, and read as what it is.
package main

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	prov "github.com/in-toto/attestation/go/predicates/provenance/v1"
	test "github.com/in-toto/attestation/go/predicates/test_result/v0"
	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	ita "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func main() {
	if len(os.Args) == 3 && formats[os.Args[1]] != nil {
		said, err := formats[os.Args[1]](os.Args[2])
		if err != nil {
			fmt.Fprintf(os.Stderr, "interop: %s: %v\n", os.Args[2], err)
			os.Exit(2)
		}
		fmt.Printf("ok %s: %s\n", os.Args[2], said)
		return
	}
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "nostr":
		err = changes(os.Args[2], os.Args[3])
	case len(os.Args) > 3:
		err = run(os.Args[1], os.Args[2], os.Args[3:])
	default:
		fmt.Fprintln(os.Stderr, "usage: interop ALLOWED_SIGNERS PATCH ENVELOPE… | otlp|junit|sarif|cloudevents FILE | nostr RELAY PUBKEY")
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(2)
	}
}

// traces reads an export with OpenTelemetry's types. Ids are hexadecimal in OTLP-JSON,
// where protojson reads base64; they are decoded all the same, and are no concern here.
func traces(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	data := new(trace.TracesData)
	if err := protojson.Unmarshal(text, data); err != nil {
		return "", err
	}
	spans := data.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
	if len(spans) < 5 || spans[0].GetName() != "remit run" {
		return "", fmt.Errorf("%d spans", len(spans))
	}
	return fmt.Sprintf("%d spans", len(spans)), nil
}

// key is an ed25519 key as a verifier of securesystemslib.
type key struct {
	public ed25519.PublicKey
	id     string
}

func (k key) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(k.public, data, sig) {
		return errors.New("the signature does not verify")
	}
	return nil
}
func (k key) KeyID() (string, error)   { return k.id, nil }
func (k key) Public() crypto.PublicKey { return k.public }

func readKey(name string) (key, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return key{}, err
	}
	words := strings.Fields(string(text))
	for i, w := range words {
		if w != "ssh-ed25519" || i+1 == len(words) {
			continue
		}
		blob, err := base64.StdEncoding.DecodeString(words[i+1])
		if err != nil || len(blob) != 4+len("ssh-ed25519")+4+ed25519.PublicKeySize {
			return key{}, fmt.Errorf("%s: no ed25519 key: %w", name, err)
		}
		sum := sha256.Sum256(blob)
		return key{ed25519.PublicKey(blob[len(blob)-ed25519.PublicKeySize:]), "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])}, nil
	}
	return key{}, fmt.Errorf("%s: no ed25519 key", name)
}

func run(signers, patch string, envelopes []string) error {
	k, err := readKey(signers)
	if err != nil {
		return err
	}
	diff, err := os.ReadFile(patch)
	if err != nil {
		return err
	}
	for _, name := range envelopes {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var e dsse.Envelope
		if err := json.Unmarshal(text, &e); err != nil || len(e.Signatures) != 1 {
			return fmt.Errorf("%s: no envelope with one signature: %w", name, err)
		}
		s := signed{patch: diff, key: k.public, payloadType: e.PayloadType, keyID: e.Signatures[0].KeyID}
		if s.payload, err = base64.StdEncoding.DecodeString(e.Payload); err == nil {
			s.signature, err = base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
		}
		if err == nil && s.keyID != k.id {
			err = fmt.Errorf("is signed by %s", s.keyID)
		}
		for by, accepts := range oracles {
			kind := ""
			if err == nil {
				kind, err = accepts(s)
			}
			if err == nil {
				err = s.refused(accepts)
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, by, err)
			}
			fmt.Printf("ok %s: %s: %s\n", name, by, kind)
		}
	}
	return nil
}

// statement reads a payload with in-toto's types.
func statement(payload []byte, patch string) (string, error) {
	s := new(ita.Statement)
	if err := protojson.Unmarshal(payload, s); err != nil {
		return "", err
	}
	if err := s.Validate(); err != nil {
		return "", err
	}
	if len(s.Subject) != 1 || s.Subject[0].Digest["sha256"] != patch {
		return "", errors.New("it is about another patch")
	}
	predicate, err := protojson.Marshal(s.Predicate)
	if err != nil {
		return "", err
	}
	var typed proto.Message
	switch s.PredicateType {
	case "https://slsa.dev/provenance/v1":
		typed = new(prov.Provenance)
	case "https://in-toto.io/attestation/test-result/v0.1":
		typed = new(test.TestResult)
	case "https://in-toto.io/attestation/svr/v0.2":
		return s.PredicateType, nil // the library knows v0.1 only
	case "https://slsa.dev/verification_summary/v1":
		typed = new(vsa.VerificationSummary)
	default:
		return "", fmt.Errorf("predicate type %q", s.PredicateType)
	}
	// Unknown fields are the producer's extensions, which in-toto has consumers pass over.
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(predicate, typed); err != nil {
		return "", err
	}
	if p, ok := typed.(interface{ Validate() error }); ok {
		return s.PredicateType, p.Validate()
	}
	return s.PredicateType, nil
}
