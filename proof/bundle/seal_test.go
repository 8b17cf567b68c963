package bundle

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remit/proof/reason"
)

// TestSeal keeps the promise that sealing lists every other file, and that
// sealing again changes nothing.
func TestSeal(t *testing.T) {
	t.Parallel()
	dir := sealed(t, session)
	first, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	m, found := ParseManifest(ProfileBundle, first)
	if len(found) > 0 || len(m) != len(session) {
		t.Fatalf("%d lines, findings %v", len(m), found)
	}
	for _, l := range m {
		if l.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(session[l.Path]))) {
			t.Errorf("%s has digest %s", l.Path, l.SHA256)
		}
	}
	put(t, dir, manifestTemp, "the rest of a crash")
	if err := Seal(dir); err != nil {
		t.Fatal(err)
	}
	second, _ := os.ReadFile(filepath.Join(dir, ManifestName))
	if !bytes.Equal(first, second) {
		t.Error("sealing again gives another manifest")
	}
}

// spoil is one way to make a directory that cannot be bundled.
var spoil = []struct {
	name string
	do   func(t *testing.T, dir string)
	want reason.Code
}{
	{"symbolic link", func(t *testing.T, dir string) { link(t, "/etc/passwd", dir, "z") }, reason.EntrySymlink},
	{"linked directory", func(t *testing.T, dir string) { link(t, ".", dir, "z") }, reason.EntrySymlink},
	{"linked manifest", func(t *testing.T, dir string) {
		_ = os.Remove(filepath.Join(dir, ManifestName))
		link(t, "RECEIPT.json", dir, ManifestName)
	}, reason.EntrySymlink},
	{"pipe", func(t *testing.T, dir string) {
		if err := exec.Command("mkfifo", filepath.Join(dir, "z")).Run(); err != nil {
			t.Skip(err)
		}
	}, reason.EntrySpecial},
	{"setuid", func(t *testing.T, dir string) {
		if err := os.Chmod(filepath.Join(dir, "RECEIPT.json"), 0o755|os.ModeSetuid); err != nil {
			t.Skip(err)
		}
	}, reason.EntrySetuid},
	{"space", func(t *testing.T, dir string) { put(t, dir, "a b", "x") }, reason.PathInvalid},
	{"backslash", func(t *testing.T, dir string) { put(t, dir, `a\b`, "x") }, reason.PathBackslash},
	{"newline", func(t *testing.T, dir string) { put(t, dir, "a\nb", "x") }, reason.PathControl},
	{"device", func(t *testing.T, dir string) { put(t, dir, "backend/aux.log", "x") }, reason.PathReserved},
	{"case", func(t *testing.T, dir string) { put(t, dir, "receipt.JSON", "x") }, reason.PathCaseClash},
	{"case of the manifest", func(t *testing.T, dir string) { put(t, dir, "Manifest.TXT", "x") }, reason.PathCaseClash},
	{"long", func(t *testing.T, dir string) {
		put(t, dir, strings.Repeat("a", 150)+"/"+strings.Repeat("b", 50), "x")
	}, reason.PathTooLong},
}

func link(t *testing.T, target, dir, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		t.Skip(err)
	}
}

// TestWhatIsRefused: sealing, writing and auditing refuse the same directories
// for the same reason.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range spoil {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := sealed(t, session)
			tt.do(t, dir)
			for what, err := range map[string]error{"Seal": Seal(dir), "WriteZip": WriteZip(io.Discard, dir)} {
				var refused *Refused
				if !errors.As(err, &refused) || !slices.Contains(codes(refused.Findings), tt.want) || reason.CodeOf(err) == "" {
					t.Errorf("%s: %v, want %s", what, err, tt.want)
				}
			}
			r := auditPath(t, dir, Options{Gates: passing()})
			if r.Status != Fail || !slices.Contains(found(r), GatePortability+" "+string(tt.want)) {
				t.Errorf("Audit: %s %v, want %s", r.Status, found(r), tt.want)
			}
		})
	}
}

func TestSealRefusesAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	if err := Seal(t.TempDir()); reason.CodeOf(err) != reason.ManifestFormat {
		t.Errorf("%v", err)
	}
	if err := Seal(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestWriteZipIsDeterministic: modes, times and the order of creation leave no
// trace, and the archive is the one that the auditor calls canonical.
func TestWriteZipIsDeterministic(t *testing.T) {
	t.Parallel()
	one := sealed(t, session)
	two := sealed(t, session)
	for name := range session {
		if err := os.Chmod(filepath.Join(two, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a, b := sealedZip(t, one), sealedZip(t, two)
	if !bytes.Equal(a, b) {
		t.Error("the same files give two zips")
	}
	if r := auditBytes(t, a, Options{Gates: passing()}); r.Status != Pass || r.Entries != len(session)+1 {
		t.Errorf("%s", details(r))
	}
}

// TestWriteZipGivesTheVector: the zip in vectors/zip/ok-bundle, which other
// languages hold their writers against, comes from another piece of code.
func TestWriteZipGivesTheVector(t *testing.T) {
	t.Parallel()
	v := readVector(t, vectorDir+"/ok-bundle.txtar")
	files := map[string]string{}
	for _, f := range read(t, v.zip) {
		text, err := f.read()
		if err != nil {
			t.Fatal(err)
		}
		if f.name != ManifestName {
			files[f.name] = string(text)
		}
	}
	if !bytes.Equal(sealedZip(t, sealed(t, files)), v.zip) {
		t.Error("sealing its files gives another zip: the format changed")
	}
}

// TestWriteZipWantsTheSealedFiles: what changed since Seal is an error.
func TestWriteZipWantsTheSealedFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(dir string)
		want reason.Code
	}{
		{"changed", func(dir string) { put(t, dir, "report.json", "[]") }, reason.ManifestHash},
		{"added", func(dir string) { put(t, dir, "new.json", "[]") }, reason.ManifestUnlisted},
		{"removed", func(dir string) { _ = os.Remove(filepath.Join(dir, "report.json")) }, reason.ManifestFileMissing},
		{"no manifest", func(dir string) { _ = os.Remove(filepath.Join(dir, ManifestName)) }, reason.ManifestMissing},
		{"bad manifest", func(dir string) { put(t, dir, ManifestName, "x\n") }, reason.ManifestFormat},
	} {
		dir := sealed(t, session)
		tt.do(dir)
		if err := WriteZip(io.Discard, dir); reason.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// changing rewrites a file after the first byte of the zip was written.
type changing struct{ change func() }

func (c *changing) Write(p []byte) (int, error) {
	if c.change != nil {
		c.change()
		c.change = nil
	}
	return len(p), nil
}

// TestWriteZipNoticesAChangeWhileItWrites: the second pass trusts nothing.
func TestWriteZipNoticesAChangeWhileItWrites(t *testing.T) {
	t.Parallel()
	dir := sealed(t, session)
	path := filepath.Join(dir, "journal.jsonl")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	w := &changing{change: func() {
		// Same size, same inode, same time: only the content tells.
		overwrite(t, path, []byte(strings.Replace(session["journal.jsonl"], "1", "2", 1)))
		_ = os.Chtimes(path, info.ModTime(), info.ModTime())
	}}
	if err := WriteZip(w, dir); !errors.Is(err, errChanged) {
		t.Errorf("%v", err)
	}
}

// broken is a disk that is full.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestWriteZipReportsAFullDisk(t *testing.T) {
	t.Parallel()
	if err := WriteZip(broken{}, sealed(t, session)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
}

// TestHollowDirectories: a directory without a file is in no bundle. Seal removes
// what a step that was cut off has left; an audit finds what was added later.
func TestHollowDirectories(t *testing.T) {
	t.Parallel()
	dir := sealed(t, session)
	for _, deep := range []string{"backend/cut/off", "zz/empty"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(deep)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := auditPath(t, dir, Options{Profile: ProfileBundle})
	want := "manifest.hashes manifest_file_unlisted"
	if got := found(r); len(got) == 0 || slices.ContainsFunc(got, func(f string) bool { return f != want }) {
		t.Errorf("an audit finds %q", got)
	}
	if r := auditPath(t, dir, Options{Profile: ProfilePortable}); slices.Contains(found(r), want) {
		t.Error("an author's empty directory is a finding")
	}
	if err := Seal(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "zz")); !os.IsNotExist(err) {
		t.Errorf("after Seal: %v", err)
	}
	if r := auditPath(t, dir, Options{Profile: ProfileBundle}); slices.Contains(found(r), want) {
		t.Errorf("after Seal: %q", found(r))
	}
}
