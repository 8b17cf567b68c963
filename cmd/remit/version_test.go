package main

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"remit/work/verify"
)

// TestVersion: the schemas are those that are published, and the digest is the one
// that evidence names.
func TestVersion(t *testing.T) {
	t.Parallel()
	var d versionDocument
	if code, out := inProcess(t, "version"); code != 0 || json.Unmarshal(out, &d) != nil {
		t.Fatalf("exit code %d: %s", code, out)
	}
	published, err := filepath.Glob("../../schemas/*.json")
	if err != nil || len(published) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	for i, file := range published {
		published[i] = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	if !slices.Equal(d.Schemas, published) {
		t.Errorf("schemas %q, published %q", d.Schemas, published)
	}
	if d.Version != version || d.Commit != commit || d.Go != runtime.Version() || d.VerifierSHA256 != verify.Digest() || !slices.Equal(d.Engines, engineNames()) {
		t.Errorf("%+v", d)
	}
	var text strings.Builder
	if err := printVersion(&text, d); err != nil || !strings.Contains(text.String(), d.VerifierSHA256) || strings.Count(text.String(), "\n") != 6 {
		t.Errorf("%v: %s", err, text.String())
	}
}
