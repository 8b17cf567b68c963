//test:plain-package It only computes: there is one goroutine.

package attest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"remit/proof/attest"
)

var payload = []byte(`{"_type":"https://in-toto.io/Statement/v1"}`)

func sealed(t testing.TB, seed byte) []byte {
	t.Helper()
	text, err := attest.SignEnvelope(seeded(t, seed), attest.PayloadInToto, payload)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestEnvelope: what is signed verifies for this key, payload and type only.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	text := sealed(t, 1)
	e, err := attest.ParseEnvelope(text)
	if err != nil || !bytes.Equal(e.Payload, payload) || e.PayloadType != attest.PayloadInToto || e.KeyID != seeded(t, 1).Public().Fingerprint() {
		t.Fatalf("%+v, %v", e, err)
	}
	if err := e.Verify(seeded(t, 1).Public()); err != nil {
		t.Error(err)
	}
	for name, key := range map[string]attest.PublicKey{"another key": seeded(t, 2).Public(), "no key": {}} {
		if e.Verify(key) == nil {
			t.Errorf("%s verifies it", name)
		}
	}
	if !bytes.Equal(text, sealed(t, 1)) {
		t.Error("the same payload has another envelope")
	}
	if _, err := attest.SignEnvelope(seeded(t, 1), attest.PayloadInToto, make([]byte, attest.MaxEnvelope)); err == nil {
		t.Error("an envelope is made that no reader accepts")
	}
}

// TestEnvelopesThatAreNone: one attack each, on a good envelope.
func TestEnvelopesThatAreNone(t *testing.T) {
	t.Parallel()
	good := sealed(t, 1)
	var form struct {
		Payload    string           `json:"payload"`
		Signatures []map[string]any `json:"signatures"`
	}
	if err := json.Unmarshal(good, &form); err != nil {
		t.Fatal(err)
	}
	keyid, sig := form.Signatures[0]["keyid"], form.Signatures[0]["sig"].(string)
	made := func(payload, kind string, signatures ...string) []byte {
		return fmt.Appendf(nil, "{\"payload\":%q,\"payloadType\":%q,\"signatures\":[%s]}\n", payload, kind, strings.Join(signatures, ","))
	}
	one := fmt.Sprintf("{\"keyid\":%q,\"sig\":%q}", keyid, sig)
	if !bytes.Equal(made(form.Payload, attest.PayloadInToto, one), good) {
		t.Fatal("the builder does not make the good one")
	}
	raw, err := base64.StdEncoding.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"empty":                  nil,
		"no LF":                  bytes.TrimSuffix(good, []byte("\n")),
		"two LF":                 append(bytes.Clone(good), '\n'),
		"two envelopes":          append(bytes.Clone(good), good...),
		"a space":                bytes.Replace(good, []byte(":"), []byte(": "), 1),
		"a key more":             bytes.Replace(good, []byte("{"), []byte(`{"a":1,`), 1),
		"a key twice":            bytes.Replace(good, []byte("{"), []byte(`{"payload":"",`), 1),
		"another letter case":    bytes.Replace(good, []byte(`"payload"`), []byte(`"Payload"`), 1),
		"no signature":           made(form.Payload, attest.PayloadInToto),
		"two signatures":         made(form.Payload, attest.PayloadInToto, one, one),
		"url-safe base64":        made(strings.NewReplacer("+", "-", "/", "_").Replace(base64.StdEncoding.EncodeToString([]byte("\xfb\xff"))), attest.PayloadInToto, one),
		"base64 without padding": made(strings.TrimRight(base64.StdEncoding.EncodeToString([]byte("a")), "="), attest.PayloadInToto, one),
		"a line break in base64": bytes.Replace(good, []byte(sig[:10]), []byte(sig[:10]+`\n`), 1),
		"an escape":              bytes.Replace(good, []byte(`"payload":`), []byte(`"p\u0061yload":`), 1),
		"endless":                bytes.Repeat([]byte("a"), attest.MaxEnvelope+1),
		"deep":                   bytes.Repeat([]byte("["), 1<<20),
	} {
		if _, err := attest.ParseEnvelope(text); err == nil {
			t.Errorf("%s: is read", name)
		}
	}
	for name, text := range map[string][]byte{
		"another type":      made(form.Payload, "application/json", one),
		"another payload":   made(base64.StdEncoding.EncodeToString([]byte("{}")), attest.PayloadInToto, one),
		"another key":       made(form.Payload, attest.PayloadInToto, fmt.Sprintf("{\"keyid\":%q,\"sig\":%q}", seeded(t, 2).Public().Fingerprint(), sig)),
		"no key":            made(form.Payload, attest.PayloadInToto, fmt.Sprintf("{\"keyid\":\"\",\"sig\":%q}", sig)),
		"a short signature": made(form.Payload, attest.PayloadInToto, fmt.Sprintf("{\"keyid\":%q,\"sig\":%q}", keyid, base64.StdEncoding.EncodeToString(raw[:63]))),
		"no bytes at all":   made(form.Payload, attest.PayloadInToto, fmt.Sprintf("{\"keyid\":%q,\"sig\":\"\"}", keyid)),
		// The boundary between type and payload is signed: its bytes cannot move over it.
		"the boundary moved": made(base64.StdEncoding.EncodeToString(append([]byte("n "), payload...)), strings.TrimSuffix(attest.PayloadInToto, "n"), one),
	} {
		e, err := attest.ParseEnvelope(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e.Verify(seeded(t, 1).Public()) == nil {
			t.Errorf("%s: verifies", name)
		}
	}
}

// TestSignaturesDoNotMix: a signature over a file is none over an envelope with the
// same bytes, and the other way round.
func TestSignaturesDoNotMix(t *testing.T) {
	t.Parallel()
	key := seeded(t, 1)
	armored := decoded(t, attest.Sign(key, attest.NamespaceReceipt, payload))
	text := fmt.Appendf(nil, "{\"payload\":%q,\"payloadType\":%q,\"signatures\":[{\"keyid\":%q,\"sig\":%q}]}\n", base64.StdEncoding.EncodeToString(payload),
		attest.PayloadInToto, key.Public().Fingerprint(), base64.StdEncoding.EncodeToString([]byte(armored[len(armored)-64:])))
	e, err := attest.ParseEnvelope(text)
	if err != nil {
		t.Fatal(err)
	}
	if e.Verify(key.Public()) == nil {
		t.Error("the signature of a file verifies in an envelope")
	}
}

// TestRevoked reads lists of revoked keys.
func TestRevoked(t *testing.T) {
	t.Parallel()
	key := seeded(t, 1).Public()
	for _, tt := range []struct {
		name, text, fails string
		has               bool
	}{
		{name: "nothing"},
		{name: "a key", text: key.String() + "\n", has: true},
		{name: "a comment behind it", text: key.String() + " laptop of alice", has: true},
		{name: "comments and other types", text: "# lost\r\n\nssh-rsa AAAA old\n\t" + key.String() + "\r\n", has: true},
		{name: "another key", text: seeded(t, 2).Public().String()},
		{name: "a name before it", text: "alice " + key.String(), fails: "line 1: unknown key type"},
		{name: "a fingerprint", text: key.Fingerprint(), fails: "a public key is"},
		{name: "a damaged key", text: key.String()[:40], fails: "public key"},
		{name: "a long line", text: key.String() + strings.Repeat(" x", 8<<10), fails: "at most"},
		{name: "a long file", text: strings.Repeat("#\n", 1<<20), fails: "at most"},
	} {
		list, err := attest.ParseRevoked([]byte(tt.text))
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.fails)
			}
			continue
		}
		if err != nil || list.Has(key) != tt.has {
			t.Errorf("%s: %t, %v", tt.name, list.Has(key), err)
		}
	}
	if (*attest.Revoked)(nil).Has(key) {
		t.Error("no list revokes a key")
	}
}
