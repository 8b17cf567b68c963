package attest_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/proof/attest"
)

func sprint(verb string, v any) string { return fmt.Sprintf(verb, v) }

// keygen runs ssh-keygen, the oracle, in a directory.
func keygen(t *testing.T, dir string, stdin []byte, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ssh-keygen", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func needKeygen(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("ssh-keygen is not installed: nothing compares our signatures with those of OpenSSH")
		}
		t.Skip("SSH-KEYGEN IS NOT INSTALLED: our signatures were not compared with those of OpenSSH")
	}
}

func write(t *testing.T, dir, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOpenSSHReadsOurs: ssh-keygen reads our key files, prints the fingerprint
// that we print, and verifies what we sign, under a line that we write.
func TestOpenSSHReadsOurs(t *testing.T) {
	t.Parallel()
	needKeygen(t)
	dir := t.TempDir()
	key, err := attest.NewPrivateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file, err := key.MarshalOpenSSH("remit", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "key", file)
	if out, err := keygen(t, dir, nil, "-y", "-f", "key"); err != nil || !strings.HasPrefix(out, key.Public().String()) {
		t.Errorf("ssh-keygen reads the key as %q (%v), want %q", out, err, key.Public())
	}
	write(t, dir, "key.pub", []byte(key.Public().String()+" remit\n"))
	if out, err := keygen(t, dir, nil, "-l", "-f", "key.pub"); err != nil || !strings.Contains(out, " "+key.Public().Fingerprint()+" ") {
		t.Errorf("ssh-keygen -l: %q (%v), want %s", out, err, key.Public().Fingerprint())
	}
	line, err := attest.Line("alice@example.com", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "allowed", []byte(line+"\n"))
	write(t, dir, "sig", attest.Sign(key, attest.NamespaceReceipt, message))
	verify := []string{"-Y", "verify", "-f", "allowed", "-I", "alice@example.com", "-n", attest.NamespaceReceipt, "-s", "sig"}
	if out, err := keygen(t, dir, message, verify...); err != nil {
		t.Errorf("ssh-keygen -Y verify: %v\n%s", err, out)
	}
	if out, err := keygen(t, dir, append(message, 'x'), verify...); err == nil {
		t.Errorf("ssh-keygen verifies another message: the comparison proves nothing\n%s", out)
	}
	// Signing is deterministic, so the two programs write the same bytes.
	write(t, dir, "message", message)
	if out, err := keygen(t, dir, nil, "-Y", "sign", "-f", "key", "-n", attest.NamespaceReceipt, "message"); err != nil {
		t.Fatalf("ssh-keygen -Y sign: %v\n%s", err, out)
	}
	if theirs, ours := read(t, dir, "message.sig"), read(t, dir, "sig"); !bytes.Equal(theirs, ours) {
		t.Errorf("ssh-keygen writes\n%s\nwe write\n%s", theirs, ours)
	}
}

// TestWeReadOpenSSHs: we read keys of ssh-keygen and verify its signatures, and
// refuse what is out of reach by name.
func TestWeReadOpenSSHs(t *testing.T) {
	t.Parallel()
	needKeygen(t)
	dir := t.TempDir()
	for _, args := range [][]string{{"-t", "ed25519", "-f", "key", "-N", ""}, {"-t", "ed25519", "-f", "locked", "-N", "secret"}, {"-t", "ecdsa", "-f", "other", "-N", ""}} {
		if out, err := keygen(t, dir, nil, append([]string{"-q", "-C", "a comment"}, args...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	key, err := attest.ParsePrivateKey(read(t, dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := attest.ParsePublicKey(read(t, dir, "key.pub"))
	if err != nil || public != key.Public() {
		t.Fatalf("%v, %v; want %v", public, err, key.Public())
	}
	for name, want := range map[string]string{"locked": "encrypted", "other": "of type"} {
		if _, err := attest.ParsePrivateKey(read(t, dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	sign := func(key, namespace string, more ...string) []byte {
		t.Helper()
		name := key + "-" + namespace + "-message"
		write(t, dir, name, message)
		if out, err := keygen(t, dir, nil, append(append([]string{"-Y", "sign", "-f", key, "-n", namespace}, more...), name)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		defer func() { _ = os.Remove(filepath.Join(dir, name+".sig")) }()
		return read(t, dir, name+".sig")
	}
	if got, err := attest.Verify(sign("key", attest.NamespaceReceipt), attest.NamespaceReceipt, message); err != nil || got != public {
		t.Errorf("a signature of ssh-keygen: %v, %v", got, err)
	}
	for want, sig := range map[string][]byte{
		`is for "git"`: sign("key", "git"),
		"of type":      sign("other", attest.NamespaceReceipt),
		"only sha512":  sign("key", attest.NamespaceReceipt, "-Ohashalg=sha256"),
	} {
		if _, err := attest.Verify(sig, attest.NamespaceReceipt, message); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestSignersAgree: for the same file, signature and time, ssh-keygen and we
// trust the same keys.
func TestSignersAgree(t *testing.T) {
	t.Parallel()
	needKeygen(t)
	dir := t.TempDir()
	key := seeded(t, 7)
	line := key.Public().String()
	write(t, dir, "sig", attest.Sign(key, attest.NamespaceReceipt, message))
	for i, text := range []string{
		"alice " + line,
		`alice namespaces="remit-*" ` + line,
		`alice namespaces="git" ` + line,
		`alice namespaces="*,!remit-receipt" ` + line,
		`alice namespaces="!git" ` + line,
		`alice namespaces="remit?receipt" ` + line,
		`alice valid-after="20260101Z",valid-before="20270101Z" ` + line,
		`alice valid-before="20260101Z" ` + line,
		`alice valid-after="20270101Z" ` + line,
		`alice namespaces="a b" ` + line,
		"alice " + line + " a comment",
	} {
		name := fmt.Sprintf("allowed%d", i)
		write(t, dir, name, []byte(text+"\n"))
		_, err := keygen(t, dir, message, "-Y", "verify", "-f", name, "-I", "alice", "-n", attest.NamespaceReceipt, "-s", "sig", "-Overify-time=20260201120000Z")
		signers, parseErr := attest.ParseSigners([]byte(text))
		if parseErr != nil {
			t.Errorf("%s: %v", text, parseErr)
			continue
		}
		at := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
		if _, ok := signers.Find(key.Public(), attest.NamespaceReceipt, at); ok != (err == nil) {
			t.Errorf("%s: we say %t, ssh-keygen says %v", text, ok, err)
		}
	}
}
