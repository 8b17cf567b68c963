//test:plain-package It only computes: there is one goroutine.

package attest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"remit/proof/attest"
)

// seeded is a key that is the same in every run of the tests.
func seeded(t testing.TB, seed byte) *attest.PrivateKey {
	t.Helper()
	key, err := attest.NewPrivateKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

var message = []byte("{\"schema\":\"remit.receipt.v1\"}\n")

// TestSignature: what is signed verifies for this key, message and namespace.
func TestSignature(t *testing.T) {
	t.Parallel()
	key := seeded(t, 1)
	sig := attest.Sign(key, attest.NamespaceReceipt, message)
	got, err := attest.Verify(sig, attest.NamespaceReceipt, message)
	if err != nil || got != key.Public() {
		t.Fatalf("key %v, %v", got, err)
	}
	if again := attest.Sign(key, attest.NamespaceReceipt, message); !bytes.Equal(sig, again) {
		t.Error("the same question has another signature")
	}
	if got == seeded(t, 2).Public() {
		t.Error("two keys are equal")
	}
}

// sshsig builds a signature blob from parts, so that a test can put one wrong
// part among right ones. The raw signature is that of the right one.
type sshsig struct {
	magic, keyType, namespace, reserved, hash, algorithm string
	version                                              uint32
	trailing                                             string
}

func field(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

func (s sshsig) armored(t testing.TB) []byte {
	t.Helper()
	right := decoded(t, attest.Sign(seeded(t, 1), attest.NamespaceReceipt, message))
	public := right[14+4+11+4 : 14+4+11+4+32] // magic, version, length of the key; its type; its length
	raw := right[len(right)-64:]
	blob := s.magic + string(binary.BigEndian.AppendUint32(nil, s.version)) + field(field(s.keyType)+field(public)) +
		field(s.namespace) + field(s.reserved) + field(s.hash) + field(field(s.algorithm)+field(raw)) + s.trailing
	return []byte("-----BEGIN SSH SIGNATURE-----\n" + base64.StdEncoding.EncodeToString([]byte(blob)) + "\n-----END SSH SIGNATURE-----\n")
}

func decoded(t testing.TB, armored []byte) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(armored)), "\n")
	blob, err := base64.StdEncoding.DecodeString(strings.Join(lines[1:len(lines)-1], ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(blob)
}

// TestSignaturesThatAreNone: one attack each. The first row is the control: the
// same builder makes a signature that verifies.
func TestSignaturesThatAreNone(t *testing.T) {
	t.Parallel()
	right := sshsig{magic: "SSHSIG", version: 1, keyType: "ssh-ed25519", namespace: attest.NamespaceReceipt, hash: "sha512", algorithm: "ssh-ed25519"}
	with := func(edit func(*sshsig)) []byte {
		s := right
		edit(&s)
		return s.armored(t)
	}
	good := right.armored(t)
	tests := []struct {
		name    string
		sig     []byte
		message string // "" for the right one
		want    string // part of the error, "" for none
	}{
		{name: "control", sig: good},
		{name: "another message", sig: good, message: "{}\n", want: "does not verify"},
		{name: "made for another namespace", sig: attest.Sign(seeded(t, 1), "git", message), want: `is for "git"`},
		{name: "a namespace that was exchanged", sig: with(func(s *sshsig) { s.namespace = "file" }), want: `is for "file"`},
		{name: "another key type", sig: with(func(s *sshsig) { s.keyType = "ssh-rsa" }), want: "of type"},
		{name: "another algorithm", sig: with(func(s *sshsig) { s.algorithm = "ssh-rsa" }), want: "not a ssh-ed25519"},
		{name: "the wrong hash", sig: with(func(s *sshsig) { s.hash = "sha256" }), want: "only sha512"},
		{name: "no hash", sig: with(func(s *sshsig) { s.hash = "" }), want: "only sha512"},
		{name: "another version", sig: with(func(s *sshsig) { s.version = 2 }), want: "version 2"},
		{name: "another magic", sig: with(func(s *sshsig) { s.magic = "SSHSIX" }), want: "not an SSHSIG"},
		{name: "a reserved field in use", sig: with(func(s *sshsig) { s.reserved = "x" }), want: "reserved"},
		{name: "trailing bytes inside", sig: with(func(s *sshsig) { s.trailing = "x" }), want: "follow the end"},
		{name: "trailing bytes outside", sig: append(bytes.Clone(good), 'x'), want: "between its BEGIN and END"},
		{name: "two signatures", sig: append(bytes.Clone(good), good...), want: "reading the signature"},
		{name: "truncated armor", sig: good[:len(good)-10], want: "between its BEGIN and END"},
		{name: "truncated content", sig: bytes.Replace(good, []byte("\n-----END"), []byte("\n\n-----END"), 1)},
		{name: "leading bytes", sig: append([]byte("\n"), good...), want: "between its BEGIN and END"},
		{name: "carriage returns", sig: bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")), want: "BEGIN"},
		{name: "empty", sig: nil, want: "BEGIN"},
		{name: "empty armor", sig: []byte("-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----\n"), want: "not an SSHSIG"},
		{name: "endless", sig: bytes.Repeat([]byte("A"), attest.MaxSignature+1), want: "at most"},
	}
	for _, tt := range tests {
		text := message
		if tt.message != "" {
			text = []byte(tt.message)
		}
		key, err := attest.Verify(tt.sig, attest.NamespaceReceipt, text)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		case err != nil && key != (attest.PublicKey{}):
			t.Errorf("%s: a key comes with the error", tt.name)
		}
	}
	blob := decoded(t, good)
	for n := range len(blob) {
		cut := []byte("-----BEGIN SSH SIGNATURE-----\n" + base64.StdEncoding.EncodeToString([]byte(blob[:n])) + "\n-----END SSH SIGNATURE-----\n")
		if _, err := attest.Verify(cut, attest.NamespaceReceipt, message); err == nil {
			t.Errorf("a signature cut to %d of %d bytes verifies", n, len(blob))
		}
	}
}

// TestPrivateKey: a key comes back from its file, and no damaged one does.
func TestPrivateKey(t *testing.T) {
	t.Parallel()
	key := seeded(t, 3)
	file, err := key.MarshalOpenSSH("remit", bytes.NewReader(make([]byte, 4)))
	if err != nil {
		t.Fatal(err)
	}
	back, err := attest.ParsePrivateKey(file)
	if err != nil || back.Public() != key.Public() {
		t.Fatalf("%v, %v", back, err)
	}
	for _, bad := range [][]byte{nil, file[:len(file)/2], append(bytes.Clone(file), file...), append([]byte("x\n"), file...),
		bytes.Repeat([]byte("-"), 20<<10), []byte(key.Public().String())} {
		if _, err := attest.ParsePrivateKey(bad); err == nil {
			t.Errorf("%.60q is taken for a key", bad)
		}
	}
}

// TestPrivateKeyEveryByte: a file in which any byte of the structure is another
// is refused, or is the same key under another comment or check number.
func TestPrivateKeyEveryByte(t *testing.T) {
	t.Parallel()
	key := seeded(t, 3)
	file, err := key.MarshalOpenSSH("remit", bytes.NewReader(make([]byte, 4)))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	blob, err := base64.StdEncoding.DecodeString(strings.Join(lines[1:len(lines)-1], ""))
	if err != nil {
		t.Fatal(err)
	}
	for i := range blob {
		bad := bytes.Clone(blob)
		bad[i] ^= 1
		text := "-----BEGIN OPENSSH PRIVATE KEY-----\n" + base64.StdEncoding.EncodeToString(bad) + "\n-----END OPENSSH PRIVATE KEY-----\n"
		if got, err := attest.ParsePrivateKey([]byte(text)); err == nil && got.Public() != key.Public() {
			t.Errorf("byte %d changed gives another key", i)
		}
	}
}

// TestNoKeyInText: a private key that is printed by mistake prints its public
// half.
func TestNoKeyInText(t *testing.T) {
	t.Parallel()
	key := seeded(t, 4)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := sprint(verb, key); strings.Contains(text, strings.Repeat("4, ", 8)) || strings.Contains(text, strings.Repeat("\x04", 8)) ||
			!strings.HasPrefix(text, "ssh-ed25519 ") {
			t.Errorf("%s prints %q", verb, text)
		}
	}
}

// TestSigners reads allowed_signers files.
func TestSigners(t *testing.T) {
	t.Parallel()
	key := seeded(t, 1).Public()
	line := key.String()
	at := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name, text string
		want       string // principals, "" when the key is not trusted
		fails      string // part of the error
	}{
		{name: "a name", text: "alice@example.com " + line, want: "alice@example.com"},
		{name: "a comment and empty lines", text: "# who\n\n  \nalice " + line + " laptop of alice\n", want: "alice"},
		{name: "carriage returns at line ends", text: "alice " + line + "\r\n", want: "alice"},
		{name: "several names", text: "alice,bob " + line, want: "alice,bob"},
		{name: "quoted names", text: `"alice,bob" ` + line, want: "alice,bob"},
		{name: "tabs", text: "alice\t" + line, want: "alice"},
		{name: "the first line counts", text: "alice " + line + "\nbob " + line, want: "alice"},
		{name: "another key", text: "alice " + seeded(t, 2).Public().String()},
		{name: "nothing", text: ""},
		{name: "our namespace", text: `alice namespaces="remit-receipt" ` + line, want: "alice"},
		{name: "among others", text: `alice namespaces="git,remit-*" ` + line, want: "alice"},
		{name: "another namespace", text: `alice namespaces="git" ` + line},
		{name: "every other namespace", text: `alice namespaces="*,!remit-receipt" ` + line},
		{name: "only a negation", text: `alice namespaces="!git" ` + line},
		{name: "upper case of an option", text: `alice NAMESPACES="remit-receipt" ` + line, want: "alice"},
		{name: "valid", text: `alice valid-after="20260101Z",valid-before="20270101Z" ` + line, want: "alice"},
		{name: "not yet valid", text: `alice valid-after="20260201120001Z" ` + line},
		{name: "valid from this second", text: `alice valid-after="20260201120000Z" ` + line, want: "alice"},
		{name: "no more valid", text: `alice valid-before="202602011200Z" ` + line},
		{name: "an expired line and a good one", text: `old valid-before="20250101Z" ` + line + "\nnew " + line, want: "new"},
		{name: "keys for git", text: "bob ssh-rsa AAAA\nbob sk-ssh-ed25519@openssh.com AAAA\nalice " + line, want: "alice"},
		{name: "an authority", text: "alice cert-authority " + line, fails: "line 1: cert-authority is not supported"},
		{name: "an authority among options", text: `alice namespaces="git",cert-authority ` + line, fails: "cert-authority is not supported"},
		{name: "an unknown option", text: `alice touch-required ` + line, fails: "not NAME="},
		{name: "an unknown option with a value", text: `alice verify="no" ` + line, fails: "is not known"},
		{name: "an option twice", text: `alice namespaces="git",namespaces="remit-receipt" ` + line, fails: "there twice"},
		{name: "an empty list", text: `alice namespaces="" ` + line, fails: "is empty"},
		{name: "local time", text: `alice valid-before="20270101" ` + line, fails: "must end in Z"},
		{name: "no time", text: `alice valid-before="soonZ" ` + line, fails: "YYYYMMDD"},
		{name: "no day", text: `alice valid-before="20270231Z" ` + line, fails: "valid-before"},
		{name: "never valid", text: `alice valid-after="20270101Z",valid-before="20260101Z" ` + line, fails: "not behind"},
		{name: "a quote that is open", text: `alice namespaces="git ` + line, fails: "not closed"},
		{name: "no principals", text: `"" ` + line, fails: "no principals"},
		{name: "no name", text: "!mallory " + line, fails: "allow no name"},
		{name: "no name twice", text: `"!mallory,!*" ` + line, fails: "allow no name"},
		{name: "empty names", text: `",," ` + line, fails: "allow no name"},
		{name: "all but one", text: `"!mallory,*" ` + line, want: "!mallory,*"},
		{name: "no names", text: line, fails: "line 1"},
		{name: "no key", text: "alice", fails: "no key"},
		{name: "an unknown type", text: "alice ssh-none AAAA", fails: "not NAME="},
		{name: "a type behind options", text: `alice namespaces="git" ssh-none AAAA`, fails: "unknown key type"},
		{name: "a damaged key", text: "alice " + line[:len(line)-4], fails: "public key"},
		{name: "a control character", text: "alice\x1b[31m " + line, fails: "control character"},
		{name: "a long line", text: "alice " + line + strings.Repeat(" x", 8<<10), fails: "at most"},
		{name: "a long file", text: strings.Repeat("#\n", 1<<20), fails: "at most"},
		{name: "many keys", text: strings.Repeat("a "+line+"\n", 10_001), fails: "at most"},
	}
	for _, tt := range tests {
		signers, err := attest.ParseSigners([]byte(tt.text))
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got, ok := signers.Find(key, attest.NamespaceReceipt, at); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %t; want %q", tt.name, got, ok, tt.want)
		}
	}
}

// TestSignersTrustNothing: no file and no key are never trusted, and a line with
// a validity needs a time.
func TestSignersTrustNothing(t *testing.T) {
	t.Parallel()
	key := seeded(t, 1).Public()
	var none *attest.Signers
	if _, ok := none.Find(key, attest.NamespaceReceipt, time.Time{}); ok {
		t.Error("no file trusts a key")
	}
	limited, err := attest.ParseSigners([]byte(`alice valid-before="20990101Z" ` + key.String()))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := limited.Find(key, attest.NamespaceReceipt, time.Time{}); ok {
		t.Error("a line with a validity counts without a time")
	}
	if _, ok := limited.Find(attest.PublicKey{}, attest.NamespaceReceipt, time.Now()); ok {
		t.Error("no key is trusted")
	}
}

// TestLine: a line that is written is read back for the same name and purpose,
// and a name cannot be more than a name.
func TestLine(t *testing.T) {
	t.Parallel()
	key := seeded(t, 1).Public()
	line, err := attest.Line("alice@example.com", key)
	if err != nil {
		t.Fatal(err)
	}
	signers, err := attest.ParseSigners([]byte(line + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := signers.Find(key, attest.NamespaceReceipt, time.Time{}); !ok || got != "alice@example.com" {
		t.Errorf("%q, %t", got, ok)
	}
	if _, ok := signers.Find(key, "git", time.Time{}); ok {
		t.Error("the key is trusted for git, too")
	}
	for _, bad := range []string{"", "a b", "a\nb", `a"`, "a,b", "*", "!a", "#a", "a?", `a\`, "é", strings.Repeat("a", 201)} {
		if line, err := attest.Line(bad, key); err == nil {
			t.Errorf("%q is a name: %q", bad, line)
		}
	}
}
