//test:both-package It tries every byte in one goroutine; an audit has several.

package bundle

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// session is a complete set of files as a run leaves them. To this package
// their content is opaque.
var session = map[string]string{
	"RECEIPT.json":                  `{"schema":"remit.receipt.v1"}`,
	"REPLAY.jsonl":                  "{\"event\":\"ReplayHeader\"}\n",
	"PR_SUMMARY.md":                 "# Changes Made\n",
	"journal.jsonl":                 "{\"seq\":0}\n{\"seq\":1}\n",
	"report.json":                   "{}",
	"patch.diff":                    "", // nothing changed
	"proofs/workspace-clean.json":   `{"clean":true}`,
	"attestations/run.intoto.jsonl": "{\"payload\":\"\"}\n",
}

// writeFiles makes a directory with these files.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sealed makes and seals a directory.
func sealed(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := writeFiles(t, files)
	if err := Seal(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sealedZip is the zip of a sealed directory.
func sealedZip(t testing.TB, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteZip(&b, dir); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writeTemp puts a zip into a file of its own.
func writeTemp(t testing.TB, zip []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.zip")
	if err := os.WriteFile(path, zip, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// auditPath audits a file or directory.
func auditPath(t testing.TB, path string, opt Options) *Report {
	t.Helper()
	r, err := Audit(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// overwrite changes a file in place: some file systems flush a file that is
// written anew, and this test does so thousands of times.
func overwrite(t *testing.T, path string, text []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(text, 0)
	if err := errors.Join(err, f.Truncate(int64(len(text))), f.Close()); err != nil {
		t.Fatal(err)
	}
}
