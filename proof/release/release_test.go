//test:plain-package It only computes: there is one goroutine.

package release_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/release"
)

// TestProvenance: the statement of a binary is that of its bytes, its modules and its
// maker's words, and of no other.
func TestProvenance(t *testing.T) {
	t.Parallel()
	self, err := os.Executable() // Go has built it
	if err != nil {
		t.Fatal(err)
	}
	b, err := release.Read(self)
	if err != nil || len(b.SHA256) != 64 || !strings.Contains(b.Target, "/") || !strings.HasPrefix(b.Go, "go") {
		t.Fatalf("%+v %v", b, err)
	}
	b.Version, b.Commit = "v1.2.3", strings.Repeat("a", 40)
	payload, err := b.Statement()
	if err != nil {
		t.Fatal(err)
	}
	read, err := release.Read(self)
	if err != nil {
		t.Fatal(err)
	}
	read.Name = "called-otherwise"
	if got, err := release.Check(payload, read); err != nil || got.Version != "v1.2.3" || got.Commit != b.Commit || got.Name != b.Name {
		t.Errorf("%+v %v", got, err)
	}
	for name, change := range map[string]func(b *release.Build){
		"other bytes":  func(b *release.Build) { b.SHA256 = strings.Repeat("0", 64) },
		"other target": func(b *release.Build) { b.Target = "plan9/mips" },
		"other go":     func(b *release.Build) { b.Go += "x" },
		"other modules": func(b *release.Build) {
			b.Modules = append(b.Modules, release.Module{Path: "evil", Version: "v1", Sum: "h1:x"})
		},
	} {
		other := read
		change(&other)
		if _, err := release.Check(payload, other); !errors.Is(err, release.ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "{}", "null", string(payload) + " ", strings.Replace(string(payload), `{"_type"`, `{"_more":1,"_type"`, 1)} {
		if _, err := release.Check([]byte(bad), read); !errors.Is(err, release.ErrOther) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
	var bom struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Purl string }
	}
	if text, err := b.Materials(); err != nil || json.Unmarshal(text, &bom) != nil || bom.Format != "CycloneDX" || len(bom.Components) != len(b.Modules) || !bytes.Contains(text, []byte(b.SHA256)) {
		t.Errorf("%v: %s", err, text)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := release.Read(text); err == nil {
		t.Error("a text is read as a binary")
	}
}
