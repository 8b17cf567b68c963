package bundle

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// phase2 is a self-validating bundle of another project: no receipt, no
// journal, a manifest and tests.
var phase2 = map[string]string{
	"runtime/__init__.py":              "",
	"runtime/tests/test_journal.py":    "def test_chain():\n    assert True\n",
	"scripts/audit gate.py":            "print('ok')\n",
	"docs/Implementation_Plan v1.1.md": strings.Repeat("the plan\n", 500),
	"pytest.ini":                       "[pytest]\n",
}

// byGo zips with archive/zip as most programs do: Deflate, times, streaming.
func byGo(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range append([]string{ManifestName}, keys(phase2)...) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// byCommand runs a command in dir, with the help of a tool, that writes the
// zip to the path in $OUT.
func byCommand(tool string, argv ...string) func(t *testing.T, dir string) []byte {
	return func(t *testing.T, dir string) []byte {
		t.Helper()
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("WITHOUT %s: its zips are not tested here", tool)
		}
		out := filepath.Join(t.TempDir(), "out.zip")
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "OUT="+out)
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, text)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

const (
	pythonArchive = `import os, shutil; shutil.make_archive(os.environ["OUT"][:-4], "zip", ".")`
	pythonStream  = `
import os, zipfile
class Pipe:
    def __init__(self, f): self.f = f
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
with open(os.environ["OUT"], "wb") as f, zipfile.ZipFile(Pipe(f), "w", zipfile.ZIP_DEFLATED) as z:
    for d, _, names in os.walk("."):
        for n in names: z.write(os.path.join(d, n))
`
)

// TestZipsOfOtherTools: a self-validating zip is accepted from any tool.
func TestZipsOfOtherTools(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T, string) []byte{
		"archive/zip":        byGo,
		"zip":                byCommand("zip", "sh", "-c", `zip -q -r "$OUT" .`),
		"zip stored":         byCommand("zip", "sh", "-c", `zip -q -0 -X -D -r "$OUT" .`),
		"zip streamed":       byCommand("zip", "sh", "-c", `zip -q -r - . | cat > "$OUT"`),
		"python3 archive":    byCommand("python3", "python3", "-c", pythonArchive),
		"python3 unseekable": byCommand("python3", "python3", "-c", pythonStream),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := writeFiles(t, phase2)
			sealPortable(t, dir)
			src := make(t, dir)
			r := auditBytes(t, src, Options{})
			if r.Status != Pass || r.Profile != ProfilePortable || r.Entries != len(phase2)+1 {
				t.Errorf("%s", details(r))
			}
		})
	}
}

// sealPortable writes the manifest of a directory whose names Seal refuses.
func sealPortable(t *testing.T, dir string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found findings
	c := scanDirectory(root, defaultLimits, &found)
	if err := errors.Join(hashAll(t.Context(), c.files), root.Close()); err != nil || !found.empty() {
		t.Fatal(err, found.list)
	}
	put(t, dir, ManifestName, string(manifestOf(c.files).Bytes()))
}

// TestPortableDirectory: the extracted form passes as well.
func TestPortableDirectory(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, phase2)
	sealPortable(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, "empty", "nested"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := auditPath(t, dir, Options{}); r.Status != Pass || r.Profile != ProfilePortable {
		t.Errorf("%s", details(r))
	}
	put(t, dir, "by-product.pyc", "x")
	if r := auditPath(t, dir, Options{}); !slices.Equal(found(r), []string{"manifest.hashes manifest_file_unlisted"}) {
		t.Errorf("%s", details(r))
	}
}

// TestBombs lowers the limits instead of building gigabytes.
func TestBombs(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range []string{"a", "b", "c"} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(f, zeros{}, 3<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		limit func(*limits)
		want  string
	}{
		{"ratio", func(*limits) {}, "zip.portability zip_bomb"},
		{"entry", func(l *limits) { l.ratio, l.entryBytes = 1e6, 2<<20 }, "zip.portability zip_bomb"},
		{"total", func(l *limits) { l.ratio, l.totalBytes = 1e6, 8<<20 }, "zip.portability zip_bomb"},
		{"entries", func(l *limits) { l.ratio, l.entries = 1e6, 2 }, "zip.portability zip_too_many_entries"},
	} {
		a := newAudit("bomb.zip", Options{})
		tt.limit(&a.lim)
		r, err := a.zip(t.Context(), bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil || r.Status != Fail || !slices.Contains(found(r), tt.want) {
			t.Errorf("%s: %v %v", tt.name, found(r), err)
		}
	}
}

// TestLyingBomb: a header that declares less than the stream holds gains
// nothing; reading stops right after the declared size.
func TestLyingBomb(t *testing.T) {
	t.Parallel()
	src, err := buildZip("file a \"" + strings.Repeat("0", 3<<20) + "\"\ndeflate a\nset a both size 100")
	if err != nil {
		t.Fatal(err)
	}
	files := read(t, src)
	if !errors.Is(files[0].err, errTooLong) || files[0].hashed {
		t.Errorf("%v", files[0].err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
