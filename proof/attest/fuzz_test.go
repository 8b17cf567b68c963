package attest_test

import (
	"bytes"
	"testing"
	"time"

	"remit/proof/attest"
)

// FuzzVerify: only one text is a signature of this message, whatever else is
// tried, up to line breaks in its base64.
func FuzzVerify(f *testing.F) {
	good := attest.Sign(seeded(f, 1), attest.NamespaceReceipt, message)
	f.Add(good)
	f.Add(good[:100])
	f.Add([]byte("-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n"))
	flat := func(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\n"), nil) }
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := attest.Verify(text, attest.NamespaceReceipt, message); (err == nil) != bytes.Equal(flat(text), flat(good)) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// FuzzPrivateKey: what is read can be written and is read as the same key.
func FuzzPrivateKey(f *testing.F) {
	file, err := seeded(f, 1).MarshalOpenSSH("remit", bytes.NewReader(make([]byte, 4)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(file[:len(file)-40])
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := attest.ParsePrivateKey(text)
		if err != nil {
			return
		}
		again, err := key.MarshalOpenSSH("", bytes.NewReader(make([]byte, 4)))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := attest.ParsePrivateKey(again); err != nil || back.Public() != key.Public() {
			t.Errorf("%v, %v", back, err)
		}
	})
}

// FuzzSigners: a file is refused, or answers for every key and namespace; a
// public key is refused, or is written as it is read.
func FuzzSigners(f *testing.F) {
	key := seeded(f, 1).Public()
	f.Add(`alice namespaces="a*,!b",valid-after="20260101Z" ` + key.String() + " comment")
	f.Add(`"a b" cert-authority ssh-ed25519 AAAA`)
	f.Add(`* namespaces="***?*?" ` + key.String())
	f.Fuzz(func(t *testing.T, text string) {
		if public, err := attest.ParsePublicKey([]byte(text)); err == nil {
			if back, err := attest.ParsePublicKey([]byte(public.String())); err != nil || back != public {
				t.Errorf("%v, %v", back, err)
			}
		}
		signers, err := attest.ParseSigners([]byte(text))
		if err != nil {
			return
		}
		if name, ok := signers.Find(key, attest.NamespaceReceipt, time.Unix(1<<30, 0)); ok && (name == "" || !bytes.Contains([]byte(text), []byte(name))) {
			t.Errorf("%q trusts the key for %q", text, name)
		}
		if _, ok := signers.Find(attest.PublicKey{}, attest.NamespaceReceipt, time.Time{}); ok {
			t.Errorf("%q trusts no key", text)
		}
	})
}

// FuzzEnvelope: an envelope that verifies is the one that was signed, byte for byte.
func FuzzEnvelope(f *testing.F) {
	good := sealed(f, 1)
	key := seeded(f, 1).Public()
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"payload":"","payloadType":"","signatures":[{"keyid":"","sig":""}]}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := attest.ParseEnvelope(text)
		if err == nil && (e.Verify(key) == nil) != bytes.Equal(text, good) {
			t.Errorf("%q verifies", text)
		}
	})
}

// FuzzRevoked: a list is read, or it is an error; a key of it is found.
func FuzzRevoked(f *testing.F) {
	f.Add([]byte(seeded(f, 1).Public().String() + " x\n# y\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if list, err := attest.ParseRevoked(text); (err == nil) == (list == nil) {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	})
}
