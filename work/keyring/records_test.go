package keyring_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/proof/attest"
	"remit/proof/reason"
	"remit/work/keyring"
)

var noTime time.Time

// TestSignedRecord: a record counts with the signature of this machine or of a key that is trusted for
// records, and for these bytes and this purpose alone.
func TestSignedRecord(t *testing.T) {
	t.Parallel()
	home, other := t.TempDir(), t.TempDir()
	text := []byte("a record\n")
	sign := func(home string, text []byte) []byte {
		t.Helper()
		sig, err := keyring.SignRecord(home, attest.NamespaceRecord, text)
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
	mine, foreign := sign(home, text), sign(other, text)
	if by, err := keyring.VerifyRecord(home, attest.NamespaceRecord, text, mine); err != nil || by.Name != keyring.ThisMachine || by.Fingerprint == "" {
		t.Errorf("%+v, %v", by, err)
	}
	ring := keyring.Ring{Dir: filepath.Join(home, "keys")}
	key, err := ring.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text, sig []byte
		want      reason.Code
	}{
		"none":            {text, nil, reason.SignatureMissing},
		"another text":    {[]byte("a record.\n"), mine, reason.SignatureInvalid},
		"one byte":        {text, []byte(strings.Replace(string(mine), "B", "C", 1)), reason.SignatureInvalid},
		"another purpose": {text, attest.Sign(key, attest.NamespaceReceipt, text), reason.SignatureInvalid},
		"another machine": {text, foreign, reason.SignerUnknown},
	} {
		if _, err := keyring.VerifyRecord(home, attest.NamespaceRecord, test.text, test.sig); reason.CodeOf(err) != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	there, err := keyring.Ring{Dir: filepath.Join(other, "keys")}.Load()
	if err != nil {
		t.Fatal(err)
	}
	// Trust in receipts is none in records.
	if _, err := ring.Trust("colleague", there.Public()); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.VerifyRecord(home, attest.NamespaceRecord, text, foreign); reason.CodeOf(err) != reason.SignerUnknown {
		t.Error(err)
	}
	if before, err := ring.Trust("colleague", there.Public(), attest.NamespaceReceipt, attest.NamespaceRecord); err != nil || before != "" {
		t.Fatal(before, err)
	}
	if by, err := keyring.VerifyRecord(home, attest.NamespaceRecord, text, foreign); err != nil || by.Name != "colleague" {
		t.Errorf("%+v, %v", by, err)
	}
	if _, err := keyring.SignRecord(home, attest.NamespaceApproval, text); err == nil {
		t.Error("the key that works unattended grants")
	}
}

// TestApprovalKey: an approval is signed by the key under its passphrase, and never by the machine's key,
// even where a list trusts that for everything.
func TestApprovalKey(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	r := keyring.Ring{Dir: filepath.Join(home, "keys")}
	text, passphrase := []byte("a grant"), []byte("correct horse battery")
	words := func(w []byte) func() ([]byte, error) { return func() ([]byte, error) { return w, nil } }
	if _, err := r.SignApproval(t.Context(), text, words(passphrase)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a key: %v", err)
	}
	if _, err := r.NewApprovalKey([]byte("short")); err == nil {
		t.Error("a short passphrase is taken")
	}
	public, err := r.NewApprovalKey(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.NewApprovalKey(passphrase); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second key: %v", err)
	}
	file := filepath.Join(r.Dir, keyring.ApprovalPrivateFile)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	sig, err := r.SignApproval(t.Context(), text, words(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	by, err := r.VerifyRecord(attest.NamespaceApproval, text, sig, noTime)
	if err != nil || by.Name != keyring.ThisMachine || by.Fingerprint != public.Fingerprint() {
		t.Errorf("%+v, %v", by, err)
	}
	for name, ask := range map[string]func() ([]byte, error){"wrong": words([]byte("correct horse batterY")), "no terminal": nil} {
		if _, err := r.SignApproval(t.Context(), text, ask); reason.CodeOf(err) != reason.AuthUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	machine, err := r.Key()
	if err != nil {
		t.Fatal(err)
	}
	list := "me " + machine.Public().String() + "\n"
	if err := os.WriteFile(r.SignersPath(), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.VerifyRecord(attest.NamespaceApproval, text, attest.Sign(machine, attest.NamespaceApproval, text), noTime); reason.CodeOf(err) != reason.SignerUnknown {
		t.Errorf("the unattended key grants: %v", err)
	}
	opened, err := exec.CommandContext(t.Context(), "openssl", "pkey", "-in", file, "-passin", "pass:"+string(passphrase), "-noout", "-text").CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("OPENSSL IS NOT INSTALLED: nothing else read the sealed key")
	}
	if err != nil || !strings.Contains(strings.ToUpper(string(opened)), "ED25519") {
		t.Errorf("openssl: %v\n%s", err, opened)
	}
}

// TestAgentKey: an ssh-agent that holds the approval key signs, and one that does not is no way around it.
func TestAgentKey(t *testing.T) {
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "SSH_AUTH_SOCK="+filepath.Join(dir, "agent"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	if _, err := exec.LookPath("ssh-agent"); err != nil {
		t.Skip("SSH-AGENT IS NOT INSTALLED: no agent was asked")
	}
	ctx, stop := context.WithCancel(t.Context())
	agent := exec.CommandContext(ctx, "ssh-agent", "-D", "-a", "agent")
	agent.Dir = dir
	out, err := agent.StdoutPipe()
	if err == nil {
		err = agent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { stop(); _ = agent.Wait() }()
	if _, err := out.Read(make([]byte, 100)); err != nil { // it listens when it has said so
		t.Fatal(err)
	}
	run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "mine")
	run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "away")
	run("ssh-add", "-q", "mine")
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(dir, "agent"))
	public := func(name string) attest.PublicKey {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		key, err := attest.ParsePublicKey(text)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	r := ring(t)
	if err := r.UseAgentKey(t.Context(), public("away.pub")); err == nil {
		t.Error("a key that the agent does not hold")
	}
	if err := r.UseAgentKey(t.Context(), public("mine.pub")); err != nil {
		t.Fatal(err)
	}
	sig, err := r.SignApproval(t.Context(), []byte("a grant"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if by, err := r.VerifyRecord(attest.NamespaceApproval, []byte("a grant"), sig, noTime); err != nil || by.Name != keyring.ThisMachine {
		t.Errorf("%+v, %v", by, err)
	}
	run("ssh-add", "-q", "-D")
	if _, err := r.SignApproval(t.Context(), []byte("a grant"), nil); reason.CodeOf(err) != reason.AuthUnavailable {
		t.Errorf("an empty agent: %v", err)
	}
}
