//test:plain-package It only computes: there is one goroutine.

package route

import (
	"os"
	"path/filepath"
	"testing"

	"remit/law/admission"
	"remit/proof/attest"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/keyring"
)

// TestSpoiledSignatureIsVoid: a signature that lies beside a record and is not good
// makes it void, also where none is asked for. One without a signature may go.
func TestSpoiledSignatureIsVoid(t *testing.T) {
	t.Parallel()
	build := evidence.EngineIdentity{Name: "pi", Version: "0.73.1", SHA256: canon.Digest(nil)}
	rec, err := admission.NextSource(nil, admission.SourceDecision{Ruling: ruling, Engine: build.Name, Version: build.Version, SHA256: build.SHA256})
	if err != nil {
		t.Fatal(err)
	}
	text, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	of := func(signed string) func(home, sig string) error {
		return func(home, sig string) error {
			signature, err := keyring.SignRecord(home, attest.NamespaceRecord, []byte(signed))
			if err != nil {
				return err
			}
			return os.WriteFile(sig, signature, 0o600)
		}
	}
	for name, test := range map[string]struct {
		sign func(home, sig string) error
		want reason.Code
	}{
		"none":            {func(string, string) error { return nil }, ""},
		"good":            {of(string(text)), ""},
		"of another text": {of("another"), reason.SignatureInvalid},
		"garbage":         {func(_, sig string) error { return os.WriteFile(sig, []byte("x"), 0o600) }, reason.SignatureInvalid},
		"empty":           {func(_, sig string) error { return os.WriteFile(sig, nil, 0o600) }, reason.SignatureInvalid},
		"a link":          {func(_, sig string) error { return os.Symlink("elsewhere", sig) }, reason.SignatureInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			file := admission.SourceFile(build.Name)
			put(t, home, file, text, nil)
			if err := test.sign(home, filepath.Join(home, filepath.FromSlash(admission.SignatureFile(file)))); err != nil {
				t.Fatal(err)
			}
			_, result := Admission(Records(home, false, nil), build)
			if result.Admitted() != (test.want == "") {
				t.Errorf("%+v", result)
			}
			all, err := Records(home, false, nil).Load()
			if err != nil || (len(all.Damaged) == 1) != (test.want != "") || len(all.Damaged) == 1 && all.Damaged[0].Code != test.want {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}
