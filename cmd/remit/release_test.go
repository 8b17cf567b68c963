package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/attest"
	"remit/proof/reason"
	"remit/work/session"
)

// TestAuditBinary: a binary proves where it is from, by the signature of a key that the
// reader trusts; another byte of it or of the envelope, another key, a revoked one and none
// are refused, each with its code.
func TestAuditBinary(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	self, err := os.Executable() // Go has built it
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "remit_v1")
	if err := os.Link(self, binary); err != nil {
		if err := os.Symlink(self, binary); err != nil {
			t.Fatal(err)
		}
	}
	made := []string{"keys", "attest", binary, "--version", "v1", "--commit", strings.Repeat("a", 40), "--out", dir}
	for range 2 { // the same files again
		if code, out := inProcessAt(t, home, made...); code != 0 {
			t.Fatalf("exit %d: %s", code, out)
		}
	}
	key, err := session.Home{Dir: home}.Keys().Key()
	if err != nil {
		t.Fatal(err)
	}
	other, err := session.Home{Dir: t.TempDir()}.Keys().Key()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	line := func(name string, k *attest.PrivateKey) string {
		return name + " " + k.Public().String() + "\n"
	}
	envelope := binary + ".intoto.jsonl"
	text, err := os.ReadFile(envelope)
	if err != nil {
		t.Fatal(err)
	}
	altered := filepath.Join(dir, "altered")
	for from, to := range map[string]string{self: altered, envelope: altered + ".intoto.jsonl"} {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	write("altered.cdx.json", `{"bomFormat":"CycloneDX"}`)
	text[len(text)/2] ^= 1
	signers := write("signers", line("maker", key))
	for _, tt := range []struct {
		name string
		args []string
		code int // of the program
		want string
	}{
		{"trusted", []string{binary, "--provenance", envelope, "--allowed-signers", signers}, 0, "signed by maker: v1"},
		{"by the files beside it", []string{binary, "--allowed-signers", signers}, 0, "signed by maker: v1"},
		{"without its provenance", []string{self, "--allowed-signers", signers}, 1, "is not beside it: download that file"},
		{"another bill of materials", []string{altered, "--allowed-signers", signers}, 2, string(reason.StatementMismatch)},
		{"another binary", []string{"/bin/sh", "--provenance", envelope, "--allowed-signers", signers}, 1, "is no binary that Go has built"},
		{"another byte", []string{binary, "--provenance", write("spoilt", string(text)), "--allowed-signers", signers}, 2, string(reason.SignatureInvalid)},
		{"a foreign key", []string{binary, "--provenance", envelope, "--allowed-signers", write("others", line("other", other))}, 3, string(reason.SignatureUnchecked)},
		{"no key is trusted", []string{binary, "--provenance", envelope}, 3, string(reason.SignatureUnchecked)},
		{"a revoked key", []string{binary, "--provenance", envelope, "--allowed-signers", signers, "--revoked-keys", write("revoked", key.Public().String()+"\n")}, 2, string(reason.SignerRevoked)},
		{"a list beside the binary is no matter, one that is the binary is", []string{binary, "--provenance", envelope, "--allowed-signers", binary}, 1, "lies in what is being audited"},
	} {
		if code, out := inProcess(t, append([]string{"audit"}, tt.args...)...); (code == 0) != (tt.code == 0) || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: exit %d: %s", tt.name, code, out)
		}
	}
}
