package attest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

const (
	// PayloadInToto is the payload type of an in-toto statement.
	PayloadInToto = "application/vnd.in-toto+json"
	// MaxEnvelope bounds an envelope, in bytes.
	MaxEnvelope = 8 << 20
)

// Envelope is a DSSE envelope (secure-systems-lab/dsse, version 1.0.2) with one
// signature. Its bytes are its canonical JSON and LF and nothing else, so that an
// envelope has one form: whatever is changed in it makes it another one.
type Envelope struct {
	PayloadType string
	Payload     []byte
	KeyID       string // fingerprint of the key, which is a hint: [Envelope.Verify] decides
	signature   []byte
}

// envelope is the JSON form, with its keys in canonical order.
type envelope struct {
	Payload     string              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// SignEnvelope signs a payload and returns the envelope. The same key and payload
// give the same bytes.
func SignEnvelope(key *PrivateKey, payloadType string, payload []byte) ([]byte, error) {
	e := Envelope{PayloadType: payloadType, Payload: payload, KeyID: key.Public().Fingerprint()}
	e.signature = ed25519.Sign(key.key, e.signed())
	text, err := e.text()
	if err == nil && len(text) > MaxEnvelope {
		err = fmt.Errorf("an envelope has at most %d bytes, this one %d", MaxEnvelope, len(text))
	}
	return text, err
}

// signed is what the key signs: the pre-authentication encoding of DSSE. It begins
// in another way than what an SSHSIG signs, so that neither can be taken for the other.
func (e *Envelope) signed() []byte {
	out := []byte("DSSEv1 " + strconv.Itoa(len(e.PayloadType)) + " " + e.PayloadType + " " + strconv.Itoa(len(e.Payload)) + " ")
	return append(out, e.Payload...)
}

func (e *Envelope) text() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as canonical JSON has it; the encoder ends the line
	err := enc.Encode(envelope{Payload: base64.StdEncoding.EncodeToString(e.Payload), PayloadType: e.PayloadType,
		Signatures: []envelopeSignature{{KeyID: e.KeyID, Sig: base64.StdEncoding.EncodeToString(e.signature)}}})
	return b.Bytes(), err
}

// ParseEnvelope reads an envelope. That it can be read says nothing about its signature.
func ParseEnvelope(text []byte) (*Envelope, error) {
	if len(text) > MaxEnvelope {
		return nil, fmt.Errorf("an envelope has at most %d bytes", MaxEnvelope)
	}
	var form envelope
	if err := json.Unmarshal(text, &form); err != nil {
		return nil, fmt.Errorf("reading an envelope: %w", err)
	}
	if len(form.Signatures) != 1 {
		return nil, fmt.Errorf("the envelope has %d signatures, only one is supported", len(form.Signatures))
	}
	e := &Envelope{PayloadType: form.PayloadType, KeyID: form.Signatures[0].KeyID}
	var err error
	if e.Payload, err = base64.StdEncoding.Strict().DecodeString(form.Payload); err == nil {
		e.signature, err = base64.StdEncoding.Strict().DecodeString(form.Signatures[0].Sig)
	}
	if err != nil {
		return nil, fmt.Errorf("reading an envelope: %w", err)
	}
	again, err := e.text()
	if err != nil || !bytes.Equal(again, text) {
		return nil, errors.New("the envelope is not in its canonical form, with one LF behind it")
	}
	return e, nil
}

// Verify checks the signature of the envelope with a key.
func (e *Envelope) Verify(key PublicKey) error {
	if e.KeyID != key.Fingerprint() {
		return fmt.Errorf("the envelope names the key %.60q, not %s", e.KeyID, key.Fingerprint())
	}
	if len(key.key) != ed25519.PublicKeySize || !ed25519.Verify([]byte(key.key), e.signed(), e.signature) {
		return fmt.Errorf("the signature of %s does not verify", key.Fingerprint())
	}
	return nil
}
