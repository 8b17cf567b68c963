// Package release says where a released binary is from: an in-toto statement with SLSA
// provenance, and a bill of materials as CycloneDX has it. Both are functions of the
// bytes of the binary, which hold the modules that it was made of (debug/buildinfo), and
// of the version and commit that its maker names. Who believes the maker's key can hold a
// binary against its statement; the modules are read from the binary again.
package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"remit/proof/attest"
	"remit/proof/canon"
)

// MaxBinary bounds a binary, in bytes.
const MaxBinary = 1 << 30

// Build is a binary as its bytes tell it, with the words of its maker.
type Build struct {
	Name, SHA256    string
	Version, Commit string // the maker's words
	Go, Target      string
	Main            string
	Modules         []Module
	Bytes           int64
}

// Module is one that the binary was made of. Sum is that of go.sum.
type Module struct{ Path, Version, Sum string }

// Read reads a binary that Go has built.
func Read(path string) (Build, error) {
	f, err := os.Open(path)
	if err != nil {
		return Build{}, fmt.Errorf("reading the binary: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, MaxBinary+1))
	if err != nil {
		return Build{}, fmt.Errorf("reading the binary: %w", err)
	}
	if n > MaxBinary {
		return Build{}, fmt.Errorf("%s has more than %d bytes", path, MaxBinary)
	}
	info, err := buildinfo.Read(f)
	if err != nil {
		return Build{}, fmt.Errorf("%s is no binary that Go has built: %w", path, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	b := Build{Name: filepath.Base(path), SHA256: hex.EncodeToString(h.Sum(nil)), Go: info.GoVersion, Main: info.Path,
		Bytes: n, Target: settings["GOOS"] + "/" + settings["GOARCH"]}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Modules = append(b.Modules, Module{m.Path, m.Version, m.Sum})
	}
	return b, nil
}

type object = map[string]any

// purl names a module as package URLs do.
func (m Module) purl() string { return "pkg:golang/" + m.Path + "@" + m.Version }

// Statement is the provenance of the binary as an in-toto statement, in canonical form.
func (b Build) Statement() ([]byte, error) {
	deps := []object{{"uri": "urn:remit:source", "digest": object{"gitCommit": b.Commit}}}
	for _, m := range b.Modules {
		deps = append(deps, object{"uri": m.purl(), "annotations": object{"go.sum": m.Sum}})
	}
	return canon.Marshal(object{"_type": "https://in-toto.io/Statement/v1",
		"subject":       []object{{"name": b.Name, "digest": object{"sha256": b.SHA256}}},
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{"buildType": "urn:remit:release:v1",
				"externalParameters":   object{"version": b.Version, "commit": b.Commit, "target": b.Target, "package": b.Main},
				"internalParameters":   object{"go": b.Go},
				"resolvedDependencies": deps},
			"runDetails": object{"builder": object{"id": "urn:remit:release-script:v1"}}}})
}

// Materials is the bill of materials of the binary, in CycloneDX 1.5.
func (b Build) Materials() ([]byte, error) {
	parts := []object{}
	for _, m := range b.Modules {
		parts = append(parts, object{"type": "library", "bom-ref": m.purl(), "name": m.Path, "version": m.Version, "purl": m.purl(),
			"properties": []object{{"name": "go.sum", "value": m.Sum}}})
	}
	text, err := canon.Marshal(object{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": object{"component": object{"type": "application", "bom-ref": b.Name, "name": b.Name, "version": b.Version,
			"hashes":     []object{{"alg": "SHA-256", "content": b.SHA256}},
			"properties": []object{{"name": "commit", "value": b.Commit}, {"name": "go", "value": b.Go}, {"name": "target", "value": b.Target}}}},
		"components": parts})
	return append(text, '\n'), err
}

// ErrOther is the provenance of another binary.
var ErrOther = errors.New("the provenance is not that of this binary")

// Check holds a binary against a payload whose signature was verified, and returns the
// binary with the version and commit that its maker names.
func Check(payload []byte, b Build) (Build, error) {
	var s struct {
		Subject []struct {
			Name string `json:"name"`
		} `json:"subject"`
		Predicate struct {
			Definition struct {
				External struct {
					Version string `json:"version"`
					Commit  string `json:"commit"`
				} `json:"externalParameters"`
			} `json:"buildDefinition"`
		} `json:"predicate"`
	}
	if err := json.Unmarshal(payload, &s); err != nil || len(s.Subject) != 1 {
		return b, ErrOther
	}
	// The name is that of the release; a downloaded file may have another one.
	b.Name, b.Version, b.Commit = s.Subject[0].Name, s.Predicate.Definition.External.Version, s.Predicate.Definition.External.Commit
	want, err := b.Statement()
	if err != nil || !bytes.Equal(want, payload) {
		return b, ErrOther
	}
	return b, nil
}

// Sign is the statement in an envelope that a key has signed.
func (b Build) Sign(key *attest.PrivateKey) ([]byte, error) {
	payload, err := b.Statement()
	if err != nil {
		return nil, err
	}
	return attest.SignEnvelope(key, attest.PayloadInToto, payload)
}
