package attest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
)

// The namespaces. A signature for another purpose, over the same bytes and by
// the same key, is none.
const (
	NamespaceReceipt  = "remit-receipt"  // over RECEIPT.json
	NamespaceRecord   = "remit-record"   // over a record that grants: an admission, a decision, a proof of the ladder
	NamespaceApproval = "remit-approval" // over the grant of an approval
)

// Namespaces returns all of them.
func Namespaces() []string { return []string{NamespaceReceipt, NamespaceRecord, NamespaceApproval} }

const (
	sigMagic   = "SSHSIG"
	sigVersion = 1
	sigHash    = "sha512"
	sigBegin   = "-----BEGIN SSH SIGNATURE-----\n"
	sigEnd     = "-----END SSH SIGNATURE-----\n"
	sigColumns = 70 // of base64 in a line, as ssh-keygen writes it
	// MaxSignature bounds an armored signature, in bytes.
	MaxSignature = 4 << 10
)

// Sign signs the message for a namespace and returns the armored signature. The
// same key, namespace and message give the same bytes.
func Sign(key *PrivateKey, namespace string, message []byte) []byte {
	return assemble(key.Public(), namespace, ed25519.Sign(key.key, signedData(namespace, message)))
}

// SignWith is [Sign] for a key that another program keeps, such as an ssh-agent:
// sign gets the data that the key signs and returns the 64 bytes of the signature.
// What sign returns is verified.
func SignWith(key PublicKey, namespace string, message []byte, sign func(data []byte) ([]byte, error)) ([]byte, error) {
	data := signedData(namespace, message)
	raw, err := sign(data)
	if err != nil {
		return nil, err
	}
	if len(key.key) != ed25519.PublicKeySize || !ed25519.Verify([]byte(key.key), data, raw) {
		return nil, fmt.Errorf("what came back is no signature of %s", key.Fingerprint())
	}
	return assemble(key, namespace, raw), nil
}

// assemble makes the armored signature of the raw one.
func assemble(key PublicKey, namespace string, raw []byte) []byte {
	blob := binary.BigEndian.AppendUint32([]byte(sigMagic), sigVersion)
	blob = appendField(blob, key.Blob())
	blob = appendField(blob, namespace)
	blob = appendField(blob, "") // reserved
	blob = appendField(blob, sigHash)
	blob = appendField(blob, appendField(appendField(nil, keyType), raw))
	return armor(blob)
}

// signedData is what the key signs: not the message, but its hash together with
// what it is signed for.
func signedData(namespace string, message []byte) []byte {
	sum := sha512.Sum512(message)
	data := appendField([]byte(sigMagic), namespace)
	data = appendField(data, "") // reserved
	data = appendField(data, sigHash)
	return appendField(data, sum[:])
}

func armor(blob []byte) []byte {
	text := base64.StdEncoding.EncodeToString(blob)
	out := []byte(sigBegin)
	for len(text) > 0 {
		n := min(len(text), sigColumns)
		out = append(append(out, text[:n]...), '\n')
		text = text[n:]
	}
	return append(out, sigEnd...)
}

// Verify checks an armored signature over the message for a namespace and
// returns the key that made it. Whether that key is to be trusted is another
// question: see [Signers.Find].
func Verify(armored []byte, namespace string, message []byte) (PublicKey, error) {
	s, err := parseSignature(armored)
	if err != nil {
		return PublicKey{}, err
	}
	if s.namespace != namespace {
		return PublicKey{}, fmt.Errorf("the signature is for %.40q, not for %q", s.namespace, namespace)
	}
	if !ed25519.Verify([]byte(s.key.key), signedData(namespace, message), s.raw) {
		return PublicKey{}, fmt.Errorf("the signature of %s does not verify", s.key.Fingerprint())
	}
	return s.key, nil
}

// signature is what an armored signature holds.
type signature struct {
	key       PublicKey
	namespace string
	raw       []byte
}

func parseSignature(armored []byte) (*signature, error) {
	blob, err := unarmor(armored)
	if err != nil {
		return nil, err
	}
	after, ok := bytes.CutPrefix(blob, []byte(sigMagic))
	if !ok {
		return nil, errors.New("the signature is not an SSHSIG")
	}
	w := wire(after)
	version, err := w.uint32()
	if err == nil && version != sigVersion {
		return nil, fmt.Errorf("the signature has version %d, only %d is supported", version, sigVersion)
	}
	var public, namespace, reserved, hash, raw []byte
	if err := errors.Join(err, w.fields(&public, &namespace, &reserved, &hash, &raw), w.end()); err != nil {
		return nil, fmt.Errorf("reading the signature: %w", err)
	}
	key, err := parseBlob(public)
	switch {
	case err != nil:
		return nil, err
	case len(reserved) > 0:
		return nil, errors.New("the signature uses a field that is reserved")
	case string(hash) != sigHash:
		return nil, fmt.Errorf("the signature is over a %.20q, only %s is supported", hash, sigHash)
	}
	s := &signature{key: key, namespace: string(namespace)}
	s.raw, err = parseRaw(raw)
	return s, err
}

// parseRaw reads the signature proper, behind the name of its algorithm.
func parseRaw(field []byte) ([]byte, error) {
	w := wire(field)
	var kind, raw []byte
	if err := errors.Join(w.fields(&kind, &raw), w.end()); err != nil {
		return nil, fmt.Errorf("reading the signature: %w", err)
	}
	if string(kind) != keyType || len(raw) != ed25519.SignatureSize {
		return nil, fmt.Errorf("the signature is a %.40q of %d bytes, not a %s of %d", kind, len(raw), keyType, ed25519.SignatureSize)
	}
	return raw, nil
}

// unarmor takes the base64 out of its armor. Only what [Sign] and ssh-keygen
// write is accepted: one signature, nothing before and nothing behind it.
func unarmor(text []byte) ([]byte, error) {
	if len(text) > MaxSignature {
		return nil, fmt.Errorf("a signature has at most %d bytes", MaxSignature)
	}
	body, began := bytes.CutPrefix(text, []byte(sigBegin))
	body, ended := bytes.CutSuffix(body, []byte(sigEnd))
	if !began || !ended {
		return nil, errors.New("the signature is not between its BEGIN and END lines")
	}
	if bytes.ContainsRune(body, '\r') {
		return nil, errors.New("the signature has a carriage return")
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(string(body)) // passes over LF
	if err != nil {
		return nil, fmt.Errorf("reading the signature: %w", err)
	}
	return blob, nil
}

// maxField bounds one field of a key or signature, in bytes. An ed25519 key file
// with its comment needs a few hundred.
const maxField = 16 << 10

// errCut is the error of a structure that ends before its fields do.
var errCut = errors.New("the data is cut off")

// wire reads fields of the SSH wire format (RFC 4251, section 5) from the front
// of its bytes.
type wire []byte

// uint32 reads four bytes, the most significant first.
func (w *wire) uint32() (uint32, error) {
	if len(*w) < 4 {
		return 0, errCut
	}
	n := binary.BigEndian.Uint32(*w)
	*w = (*w)[4:]
	return n, nil
}

// field reads a length and as many bytes.
func (w *wire) field() ([]byte, error) {
	n, err := w.uint32()
	if err != nil {
		return nil, err
	}
	if n > maxField {
		return nil, errors.New("a field is too long")
	}
	if uint32(len(*w)) < n {
		return nil, errCut
	}
	out := (*w)[:n]
	*w = (*w)[n:]
	return out, nil
}

// fields reads one field into each of the given places.
func (w *wire) fields(into ...*[]byte) (err error) {
	for _, place := range into {
		if *place, err = w.field(); err != nil {
			return err
		}
	}
	return nil
}

// end is an error when something follows.
func (w *wire) end() error {
	if len(*w) > 0 {
		return errors.New("bytes follow the end")
	}
	return nil
}

// appendField writes a length and the bytes.
func appendField[T string | []byte](to []byte, field T) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(field)))
	return append(to, field...)
}
