package depend

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"remit/proof/reason"
	"remit/work/tree"
)

// openStore returns a store of its own.
func openStore(t testing.TB) *Store {
	t.Helper()
	s, err := OpenStore(filepath.Join(t.TempDir(), "environments"))
	must(t, err)
	return s
}

func textFile(path, content string, executable bool) tree.Change {
	return tree.Change{Path: path, Kind: tree.File, Size: int64(len(content)), Executable: executable, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

func link(path, target string) tree.Change {
	return tree.Change{Path: path, Kind: tree.Symlink, Target: target, Size: int64(len(target))}
}

// from are the contents of a list of changes.
func from(changes ...tree.Change) contents {
	return func(visit func(tree.Change) error) error {
		for _, c := range changes {
			if err := visit(c); err != nil {
				return err
			}
		}
		return nil
	}
}

func someManifest() Manifest {
	return Manifest{Recipe: Recipe{Format: recipeFormat, Ecosystem: "npm", Dir: ".", Paths: []string{"node_modules"}}, MadeAt: "2026-01-01T00:00:00Z",
		Deliveries: []Delivery{{Name: "left", Version: "1.0.0", Path: "/left", SHA256: "00", Bytes: 1}}}
}

// sealed puts a small layer into a store.
func sealed(t testing.TB, s *Store) *Layer {
	t.Helper()
	l, err := s.seal(context.Background(), someManifest(), from(textFile("node_modules/left/index.js", "left", false),
		textFile("node_modules/left/cli", "#!/bin/sh", true), link("node_modules/.bin/left", "../left/cli"), link("node_modules/app", "../packages/app"),
		textFile("package-lock.json", "not of the layer", false)))
	must(t, err)
	t.Cleanup(l.Release)
	return l
}

func TestLayerIsNormalised(t *testing.T) {
	t.Parallel()
	a, b := sealed(t, openStore(t)), sealed(t, openStore(t))
	text := contentOf(t, a.Tree)
	for _, line := range []string{`d 0755 "node_modules"`, `l "node_modules/.bin/left" "../left/cli"`, `l "node_modules/app" "../packages/app"`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the listing has no line %s:\n%s", line, text)
		}
	}
	if !strings.Contains(text, "f 0755 9 ") || !strings.Contains(text, "f 0644 4 ") {
		t.Errorf("the modes are others:\n%s", text)
	}
	if strings.Contains(text, "package-lock") || a.ContentSHA256 != b.ContentSHA256 || a.Key != b.Key || a.Entries != 8 {
		t.Errorf("%d entries, %s and %s:\n%s", a.Entries, a.ContentSHA256, b.ContentSHA256, text)
	}
	must(t, eachEntry(a.Tree, func(name string, d fs.DirEntry) error {
		info, err := d.Info()
		if err == nil && info.ModTime().Unix() != 0 {
			t.Errorf("%s has the time %s", name, info.ModTime())
		}
		return err
	}, nil))
}

func TestContentThatIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]tree.Change{
		"link to /etc":                   link("node_modules/x", "/etc"),
		"link to a host's file":          link("node_modules/x/y", "/usr/bin/python3"),
		"link out of the workspace":      link("node_modules/x", "../../etc"),
		"link out behind another name":   link("node_modules/x", "y/../../../etc"),
		"link in the place of the layer": link("node_modules", "packages"),
		"file in the place of the layer": textFile("node_modules", "x", false),
		"set-id file":                    {Path: "node_modules/x", Kind: tree.Special, Note: tree.NoteSetuid},
		"device":                         {Path: "node_modules/x", Kind: tree.Special, Note: tree.NoteDevice},
		"socket":                         {Path: "node_modules/x", Kind: tree.Special, Note: tree.NoteSocket},
		"FIFO":                           {Path: "node_modules/x", Kind: tree.Special, Note: tree.NoteFIFO},
		"repository":                     {Path: "node_modules/x/.git", Kind: tree.Special, Note: tree.NoteNestedGit},
	} {
		s := openStore(t)
		_, err := s.seal(context.Background(), someManifest(), from(textFile("node_modules/a", "a", false), c))
		if reason.CodeOf(err) != reason.LayerRefused {
			t.Errorf("%s: got %v", name, err)
		}
		if keys, _ := s.Keys(); len(keys) != 0 {
			t.Errorf("%s: the store has %v", name, keys)
		}
	}
}

// TestPoisonedLayer: whatever is done to a layer on the disk, it is not used.
func TestPoisonedLayer(t *testing.T) {
	t.Parallel()
	file := func(l *Layer) string { return filepath.Join(l.Tree, "node_modules/left/index.js") }
	for name, poison := range map[string]func(t *testing.T, l *Layer){
		"written": func(t *testing.T, l *Layer) { must(t, os.WriteFile(file(l), []byte("LEFT"), 0o644)) },
		"written, with its old times": func(t *testing.T, l *Layer) {
			must(t, os.WriteFile(file(l), []byte("LEFT"), 0o644))
			must(t, os.Chtimes(file(l), time.Unix(0, 0), time.Unix(0, 0)))
		},
		"added":       func(t *testing.T, l *Layer) { must(t, os.WriteFile(l.Tree+"/node_modules/evil.js", nil, 0o644)) },
		"added above": func(t *testing.T, l *Layer) { must(t, os.WriteFile(l.Tree+"/index.js", nil, 0o644)) },
		"removed":     func(t *testing.T, l *Layer) { must(t, os.Remove(file(l))) },
		"executable":  func(t *testing.T, l *Layer) { must(t, os.Chmod(file(l), 0o755)) },
		"set-id":      func(t *testing.T, l *Layer) { must(t, os.Chmod(file(l), 0o755|os.ModeSetuid)) },
		"link": func(t *testing.T, l *Layer) {
			must(t, os.Remove(file(l)))
			must(t, os.Symlink("/etc/passwd", file(l)))
		},
		"FIFO": func(t *testing.T, l *Layer) {
			must(t, os.Remove(file(l)))
			must(t, unix.Mkfifo(file(l), 0o644))
		},
		"another tree": func(t *testing.T, l *Layer) {
			must(t, os.RemoveAll(l.Tree))
			must(t, os.Symlink("/etc", l.Tree))
		},
		"manifest of another": func(t *testing.T, l *Layer) {
			m := l.Manifest
			m.Recipe.Dir = "elsewhere"
			writeManifest(t, l, m)
		},
		"manifest with other packages": func(t *testing.T, l *Layer) {
			m := l.Manifest
			m.Deliveries = nil
			writeManifest(t, l, m)
		},
		"manifest with another content": func(t *testing.T, l *Layer) {
			m := l.Manifest
			m.ContentSHA256 = "sha256:" + strings.Repeat("0", 64)
			writeManifest(t, l, m)
			must(t, os.Remove(filepath.Join(l.dir, indexFile)))
		},
		"manifest that is none": func(t *testing.T, l *Layer) { must(t, os.WriteFile(l.dir+"/"+manifestFile, []byte("{}"), 0o600)) },
		"manifest that is a link": func(t *testing.T, l *Layer) {
			must(t, os.Rename(l.dir+"/"+manifestFile, l.dir+"/m"))
			must(t, os.Symlink("m", l.dir+"/"+manifestFile))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			l := sealed(t, s)
			poison(t, l)
			again, err := s.Find(l.Key)
			if reason.CodeOf(err) != reason.LayerChanged {
				again.Release()
				t.Errorf("got %v", err)
			}
			l.Release()
			if r, err := s.Remove(l.Key); err != nil || r.Why != "" {
				t.Errorf("it cannot be removed: %+v, %v", r, err)
			}
		})
	}
}

func writeManifest(t *testing.T, l *Layer, m Manifest) {
	t.Helper()
	text, err := json.Marshal(m)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(l.dir, manifestFile), text, 0o600))
}

// A store that was copied has other inodes and times, and the same content.
func TestIndexIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	l := sealed(t, s)
	before, err := os.ReadFile(filepath.Join(l.dir, indexFile))
	must(t, err)
	must(t, os.Chmod(filepath.Join(l.Tree, "node_modules"), 0o755)) // another time of change
	again, err := s.Find(l.Key)
	must(t, err)
	defer again.Release()
	if after, err := os.ReadFile(filepath.Join(l.dir, indexFile)); err != nil || bytes.Equal(before, after) {
		t.Errorf("the index is as it was: %v", err)
	}
}

func TestTwoBuildersAtOnce(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			l, err := s.seal(context.Background(), someManifest(), from(textFile("node_modules/a", "a", false)))
			if err != nil {
				t.Error(err)
			}
			l.Release()
		})
	}
	all.Wait()
	keys, err := s.Keys()
	if left, _ := os.ReadDir(s.staging()); err != nil || len(keys) != 1 || len(left) != 0 {
		t.Errorf("%v, %v, left behind: %v", keys, err, left)
	}
}

// A build that stops in the middle leaves nothing that is found.
func TestInterruptedBuild(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := s.seal(ctx, someManifest(), func(visit func(tree.Change) error) error {
		must(t, visit(textFile("node_modules/a", "a", false)))
		cancel()
		return visit(textFile("node_modules/b", "b", false))
	})
	if err == nil {
		t.Fatal("no error")
	}
	must(t, os.Mkdir(filepath.Join(s.staging(), "killed"), 0o700)) // as a killed one would leave it
	old := time.Now().Add(-2 * stagingLife)
	must(t, os.Chtimes(filepath.Join(s.staging(), "killed"), old, old))
	if l, err := s.Find("sha256:" + strings.Repeat("0", 64)); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := s.Collect(time.Now(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(s.staging()); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	l := sealed(t, s)
	now := time.Now()
	removed, err := s.Collect(now, now.Add(-time.Hour))
	if err != nil || len(removed) != 0 {
		t.Errorf("used a moment ago: %v, %v", removed, err)
	}
	removed, err = s.Collect(now, now.Add(time.Hour))
	if err != nil || len(removed) != 1 || removed[0].Why == "" {
		t.Errorf("in use: %v, %v", removed, err)
	}
	l.Release()
	removed, err = s.Collect(now, now.Add(time.Hour))
	if err != nil || len(removed) != 1 || removed[0].Why != "" || removed[0].Bytes != l.Bytes {
		t.Errorf("unused: %v, %v", removed, err)
	}
	if l, err := s.Find(l.Key); l != nil || err != nil {
		t.Errorf("it is still there: %v, %v", l, err)
	}
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	l := sealed(t, openStore(t))
	var a, b bytes.Buffer
	must(t, l.Export(context.Background(), &a))
	must(t, sealed(t, openStore(t)).Export(context.Background(), &b))
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same layer is exported in two ways")
	}
	s := openStore(t)
	got, err := s.Import(context.Background(), &a)
	must(t, err)
	defer got.Release()
	if got.ContentSHA256 != l.ContentSHA256 || !got.Imported || got.Key != l.Key || contentOf(t, got.Tree) != contentOf(t, l.Tree) {
		t.Errorf("imported: %+v", got.Manifest)
	}
}

// member is an entry of a tar that is imported.
type member struct {
	tar.Header
	text string
}

func packed(t testing.TB, manifest any, members ...member) io.Reader {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	must(t, err)
	w := tar.NewWriter(z)
	text, err := json.Marshal(manifest)
	must(t, err)
	for _, m := range append([]member{{tar.Header{Name: manifestFile, Typeflag: tar.TypeReg, Mode: 0o644}, string(text)}}, members...) {
		m.Size = int64(len(m.text))
		must(t, w.WriteHeader(&m.Header))
		_, err := w.Write([]byte(m.text))
		must(t, err)
	}
	must(t, w.Close())
	must(t, z.Close())
	return &out
}

func TestImportOfHostileFiles(t *testing.T) {
	t.Parallel()
	l, err := openStore(t).seal(context.Background(), someManifest(), from(textFile("node_modules/a", "a", false)))
	must(t, err)
	l.Release()
	good := member{tar.Header{Name: "tree/node_modules/a", Typeflag: tar.TypeReg, Mode: 0o644}, "a"}
	with := func(m member) []member { return []member{good, m} }
	other := l.Manifest
	other.Recipe.Dir = "web"
	noContent := l.Manifest
	noContent.ContentSHA256 = ""
	outside := l.Manifest
	outside.Recipe.Paths = []string{"../../etc"}
	outside.Key, _ = outside.Recipe.Key()
	for name, c := range map[string]struct {
		code     reason.Code
		manifest any
		members  []member
	}{
		"another content":        {reason.LayerInvalid, l.Manifest, []member{{good.Header, "b"}}},
		"less than the manifest": {reason.LayerInvalid, l.Manifest, nil},
		"more than the manifest": {reason.LayerInvalid, l.Manifest, with(member{tar.Header{Name: "tree/node_modules/b", Typeflag: tar.TypeReg, Mode: 0o644}, "b"})},
		"executable":             {reason.LayerInvalid, l.Manifest, []member{{tar.Header{Name: "tree/node_modules/a", Typeflag: tar.TypeReg, Mode: 0o755}, "a"}}},
		"recipe of another key":  {reason.LayerInvalid, other, []member{good}},
		"no digest":              {reason.LayerInvalid, noContent, []member{good}},
		"paths outside":          {reason.LayerInvalid, outside, []member{good}},
		"no manifest":            {reason.LayerInvalid, "x", []member{good}},
		"beside its paths":       {reason.LayerInvalid, l.Manifest, with(member{tar.Header{Name: "tree/index.js", Typeflag: tar.TypeReg, Mode: 0o644}, "b"})},
		"beside the tree":        {reason.LayerInvalid, l.Manifest, with(member{tar.Header{Name: "lock", Typeflag: tar.TypeReg, Mode: 0o644}, "b"})},
		"path that goes up":      {reason.LayerInvalid, l.Manifest, with(member{tar.Header{Name: "tree/node_modules/../../x", Typeflag: tar.TypeReg, Mode: 0o644}, "b"})},
		"absolute path":          {reason.LayerInvalid, l.Manifest, with(member{tar.Header{Name: "/etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644}, "b"})},
		"twice":                  {reason.LayerInvalid, l.Manifest, with(good)},
		"link out":               {reason.LayerRefused, l.Manifest, with(member{tar.Header{Name: "tree/node_modules/b", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, ""})},
		"hard link":              {reason.LayerRefused, l.Manifest, with(member{tar.Header{Name: "tree/node_modules/b", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, ""})},
		"device":                 {reason.LayerRefused, l.Manifest, with(member{tar.Header{Name: "tree/node_modules/b", Typeflag: tar.TypeChar}, ""})},
		"set-id":                 {reason.LayerRefused, l.Manifest, with(member{tar.Header{Name: "tree/node_modules/b", Typeflag: tar.TypeReg, Mode: 0o4755}, "b"})},
	} {
		s := openStore(t)
		if _, err := s.Import(context.Background(), packed(t, c.manifest, c.members...)); reason.CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
		if keys, _ := s.Keys(); len(keys) != 0 {
			t.Errorf("%s: the store has %v", name, keys)
		}
	}
	for name, raw := range map[string]string{"nothing": "", "text": "no zstd at all"} {
		if _, err := openStore(t).Import(context.Background(), strings.NewReader(raw)); reason.CodeOf(err) != reason.LayerInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestNamesOfLayers(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	l := sealed(t, s)
	for name, want := range map[string]bool{l.Key: true, Short(l.Key): true, l.Key[:len("sha256:")+4]: true, "": false, "sha256:": false, "../..": false, "zzzz": false} {
		found, err := s.Look(name)
		if (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
		found.Release()
	}
	if _, err := s.Find("sha256:../../etc"); err == nil {
		t.Error("a path is a key")
	}
}
