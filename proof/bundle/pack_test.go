package bundle

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remit/proof/reason"
)

// plant makes a file, and the directories to it.
func plant(t testing.TB, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func packOf(t testing.TB, dir string, required ...string) ([]byte, *Packed) {
	t.Helper()
	var out bytes.Buffer
	made, err := Pack{Dir: dir, Required: required}.Write(t.Context(), &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), made
}

// TestPack: the same names and contents give the same zip, whatever the modes, the
// times and the path are, and whatever a run has left behind; an audit passes it.
func TestPack(t *testing.T) {
	t.Parallel()
	tree := func(mode os.FileMode, dirty bool) string {
		dir := t.TempDir()
		plant(t, dir, "pkg/__init__.py", "", mode)
		plant(t, dir, "README with spaces.md", "hello\n", mode)
		plant(t, dir, "docs/größe.txt", "grün\n", mode)
		plant(t, dir, "run.sh", "exit 0\n", mode|0o100)
		if dirty {
			plant(t, dir, "pkg/__pycache__/a.cpython-312.pyc", "x", mode)
			plant(t, dir, "pkg/old.pyc", "x", mode)
			plant(t, dir, ".pytest_cache/v/x", "x", mode)
			plant(t, dir, ".git/config", "x", mode)
			plant(t, dir, "vendor/lib/.git", "gitdir: elsewhere\n", mode)
			plant(t, dir, "manifest.txt", "an older one\n", mode)
			if err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(dir, ".git", "link")), os.Mkdir(filepath.Join(dir, "empty"), 0o700)); err != nil {
				t.Fatal(err)
			}
			old := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
			if err := os.Chtimes(filepath.Join(dir, "run.sh"), old, old); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	clean, made := packOf(t, tree(0o644, false), "run.sh", "manifest.txt")
	again, dirty := packOf(t, tree(0o600, true))
	if !bytes.Equal(clean, again) {
		t.Error("the same content gives another zip")
	}
	if made.Files != 5 || len(made.LeftOut) != 0 || len(dirty.LeftOut) != 5 {
		t.Errorf("%+v\n%+v", made, dirty)
	}
	path := filepath.Join(t.TempDir(), "x.zip")
	if err := os.WriteFile(path, clean, 0o600); err != nil {
		t.Fatal(err)
	}
	extracted := filepath.Join(t.TempDir(), "content")
	rep, err := Audit(t.Context(), path, Options{Extract: extracted})
	if err != nil || rep.Status != Pass || rep.Profile != ProfilePortable {
		t.Fatalf("%+v, %v", rep, err)
	}
	if delivered, _ := packOf(t, extracted); !bytes.Equal(delivered, clean) {
		t.Error("what was extracted packs as another zip")
	}
	manifest, err := os.ReadFile(filepath.Join(extracted, ManifestName))
	if err != nil || strings.Count(string(manifest), "\n") != 4 || strings.Contains(string(manifest), ManifestName) {
		t.Errorf("%s\n%v", manifest, err)
	}
}

// TestPackLeavesTheDirectory: nothing is written to what is packed.
func TestPackLeavesTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plant(t, dir, "a.txt", "a", 0o644)
	plant(t, dir, "manifest.txt", "mine\n", 0o644)
	packOf(t, dir)
	if text, err := os.ReadFile(filepath.Join(dir, "manifest.txt")); err != nil || string(text) != "mine\n" {
		t.Errorf("%s %v", text, err)
	}
}

// TestPackRefuses: each way in which a directory is spoilt has its own code.
func TestPackRefuses(t *testing.T) {
	t.Parallel()
	at := filepath.Join
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		spoil    func(t *testing.T, dir string)
		required []string
		code     reason.Code
	}{
		"a link":               {spoil: func(t *testing.T, d string) { must(t, os.Symlink("a.txt", at(d, "l"))) }, code: reason.EntrySymlink},
		"a link to outside":    {spoil: func(t *testing.T, d string) { must(t, os.Symlink("/etc", at(d, "etc"))) }, code: reason.EntrySymlink},
		"a pipe":               {spoil: func(t *testing.T, d string) { must(t, syscall.Mkfifo(at(d, "p"), 0o600)) }, code: reason.EntrySpecial},
		"a setuid file":        {spoil: func(t *testing.T, d string) { must(t, os.Chmod(at(d, "a.txt"), 0o755|os.ModeSetuid)) }, code: reason.EntrySetuid},
		"a control character":  {spoil: func(t *testing.T, d string) { plant(t, d, "a\x1b[2J", "", 0o644) }, code: reason.PathControl},
		"a line break":         {spoil: func(t *testing.T, d string) { plant(t, d, "a\nb", "", 0o644) }, code: reason.PathControl},
		"a direction mark":     {spoil: func(t *testing.T, d string) { plant(t, d, "a\u202egnp.exe", "", 0o644) }, code: reason.PathControl},
		"a backslash":          {spoil: func(t *testing.T, d string) { plant(t, d, `a\b`, "", 0o644) }, code: reason.PathBackslash},
		"a drive":              {spoil: func(t *testing.T, d string) { plant(t, d, "c:x", "", 0o644) }, code: reason.PathDrive},
		"a device of Windows":  {spoil: func(t *testing.T, d string) { plant(t, d, "sub/aux.txt", "", 0o644) }, code: reason.PathReserved},
		"a trailing dot":       {spoil: func(t *testing.T, d string) { plant(t, d, "a.", "", 0o644) }, code: reason.PathReserved},
		"names in two cases":   {spoil: func(t *testing.T, d string) { plant(t, d, "A.TXT", "", 0o644) }, code: reason.PathCaseClash},
		"a manifest in case":   {spoil: func(t *testing.T, d string) { plant(t, d, "Manifest.txt", "", 0o644) }, code: reason.PathCaseClash},
		"a file and directory": {spoil: func(t *testing.T, d string) { plant(t, d, "A.txt/b", "", 0o644) }, code: reason.PathFileDirClash},
		"a name that is no text": {spoil: func(t *testing.T, d string) {
			plant(t, d, "a\xff", "", 0o644)
		}, code: reason.PathInvalid},
		"a long path": {spoil: func(t *testing.T, d string) {
			plant(t, d, strings.Repeat(strings.Repeat("d", 200)+"/", 5)+"f", "", 0o644)
		}, code: reason.PathTooLong},
		"a deep path":     {spoil: func(t *testing.T, d string) { plant(t, d, strings.Repeat("d/", MaxDepth)+"f", "", 0o644) }, code: reason.PathTooLong},
		"a huge file":     {spoil: func(t *testing.T, d string) { must(t, os.Truncate(at(d, "a.txt"), MaxEntryBytes+1)) }, code: reason.ZipBomb},
		"a missing file":  {spoil: func(*testing.T, string) {}, required: []string{"a.txt", "pytest.ini"}, code: reason.LayoutMissing},
		"a cache in need": {spoil: func(t *testing.T, d string) { plant(t, d, "x.pyc", "", 0o644) }, required: []string{"x.pyc"}, code: reason.LayoutMissing},
		"nothing":         {spoil: func(t *testing.T, d string) { must(t, os.Remove(at(d, "a.txt"))) }, code: reason.WorkspaceEmpty},
		"only caches": {spoil: func(t *testing.T, d string) {
			must(t, os.Remove(at(d, "a.txt")))
			plant(t, d, "__pycache__/x", "", 0o644)
		}, code: reason.WorkspaceEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			plant(t, dir, "a.txt", "a", 0o644)
			tt.spoil(t, dir)
			var out bytes.Buffer
			_, err := Pack{Dir: dir, Required: tt.required}.Write(t.Context(), &out)
			refused, ok := errors.AsType[*Refused](err)
			if !ok || !slices.ContainsFunc(refused.Findings, func(f reason.Finding) bool { return f.Code == tt.code && f.Gate == GateWorkspace }) {
				t.Errorf("%v, want %s", err, tt.code)
			}
			if out.Len() > 0 {
				t.Errorf("%d bytes of a zip that is refused", out.Len())
			}
		})
	}
}

// TestLayout: the layout that is shipped is read, and a bad one is refused where it is bad.
func TestLayout(t *testing.T) {
	t.Parallel()
	for _, name := range Layouts() {
		if list, ok := Layout(name); !ok || len(list) < 10 {
			t.Errorf("%s: %q", name, list)
		}
	}
	if _, ok := Layout("../pack"); ok {
		t.Error("a layout from outside")
	}
	for text, want := range map[string]reason.Code{"a\n\n# c\n b/c \n": "", "": reason.SchemaInvalid, "# nothing\n": reason.SchemaInvalid, "a\n../b\n": reason.PathTraversal,
		"/a\n": reason.PathAbsolute, `a\b`: reason.PathBackslash, strings.Repeat("a\n", maxLayout): "long"} {
		list, err := ParseLayout([]byte(text))
		switch {
		case want == "" && (err != nil || !slices.Equal(list, []string{"a", "b/c"})):
			t.Errorf("%q: %q, %v", text, list, err)
		case want == "long" && err == nil, want != "" && want != "long" && reason.CodeOf(err) != want:
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

// FuzzLayout: whatever a layout names is a name that a bundle can have.
func FuzzLayout(f *testing.F) {
	f.Add([]byte("a/b.py\n# c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := ParseLayout(text)
		for _, name := range list {
			if found := CheckName(ProfilePortable, name); err == nil && len(found) > 0 {
				t.Errorf("%q: %v", name, found)
			}
		}
	})
}
