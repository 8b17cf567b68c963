package blob_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/nexus/blob"
	"remit/proof/canon"
	"remit/proof/reason"
)

func open(t *testing.T) (*blob.Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blobs")
	d, err := blob.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, path
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestPutAndOpen writes the same blob from many sides.
func TestPutAndOpen(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	content := bytes.Repeat([]byte("x"), 100_000)
	digest := canon.Digest(content)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if n, err := d.Put(t.Context(), digest, bytes.NewReader(content)); err != nil || n != int64(len(content)) {
				t.Errorf("%d %v", n, err)
			}
		})
	}
	all.Wait()
	r, size, err := d.Open(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, content) || size != int64(len(content)) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	if list := files(t, path); len(list) != 1 {
		t.Errorf("files %v", list)
	}
	for range 2 {
		if err := d.Delete(t.Context(), digest); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := d.Open(t.Context(), digest); reason.CodeOf(err) != reason.NotFound {
		t.Errorf("got %v", err)
	}
}

// TestNothingIsLeftOfAFailure breaks an upload in several ways.
func TestNothingIsLeftOfAFailure(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	digest := canon.Digest([]byte("right"))
	broken := errors.New("the line is cut")
	for name, test := range map[string]struct {
		r    io.Reader
		code reason.Code
	}{
		"other content": {strings.NewReader("wrong"), reason.DigestMismatch},
		"more content":  {strings.NewReader("right!"), reason.DigestMismatch},
		"cut":           {io.MultiReader(strings.NewReader("rig"), errorReader{broken}), ""},
	} {
		_, err := d.Put(t.Context(), digest, test.r)
		if err == nil || reason.CodeOf(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list := files(t, path); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
}

type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) { return 0, e.err }

// TestNamesStayInside asks for what is no digest.
func TestNamesStayInside(t *testing.T) {
	t.Parallel()
	d, _ := open(t)
	for _, digest := range []string{"", "sha256:", "../../etc/passwd", "sha256:../" + strings.Repeat("0", 61), "sha256:" +
		strings.Repeat("A", 64), strings.Repeat("0", 64)} {
		_, err := d.Put(t.Context(), digest, strings.NewReader("x"))
		_, _, err2 := d.Open(t.Context(), digest)
		if reason.CodeOf(err) != reason.RequestInvalid || reason.CodeOf(err2) != reason.RequestInvalid ||
			reason.CodeOf(d.Delete(t.Context(), digest)) != reason.RequestInvalid {
			t.Errorf("%q: %v %v", digest, err, err2)
		}
	}
}

// TestAChangedFileIsNoticed changes a blob on the disk.
func TestAChangedFileIsNoticed(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	digest := canon.Digest([]byte("right"))
	if _, err := d.Put(t.Context(), digest, strings.NewReader("right")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files(t, path)[0], []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, _, err := d.Open(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadAll(r); reason.CodeOf(err) != reason.DigestMismatch {
		t.Errorf("got %v", err)
	}
}

// TestFullDisk: a full disk is not a bad upload, and the upload may be tried again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	digest := canon.Digest([]byte("x"))
	if err := os.WriteFile(filepath.Join(path, digest[len("sha256:"):][:2]), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := d.Put(t.Context(), digest, strings.NewReader("x"))
	if reason.CodeOf(err) != reason.StoreUnavailable {
		t.Errorf("got %v", err)
	}
	var coded *reason.Error
	if !errors.As(err, &coded) || strings.Contains(coded.Message, path) {
		t.Errorf("the message names files of the machine: %v", coded)
	}
}

// TestPrune removes what a writer left behind that was killed, and not what is
// being written.
func TestPrune(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	content := []byte("whole")
	if _, err := d.Put(t.Context(), canon.Digest(content), bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	blob := files(t, path)[0]
	dead, live := filepath.Join(filepath.Dir(blob), "new-DEAD"), filepath.Join(filepath.Dir(blob), "new-LIVE")
	for _, name := range []string{dead, live} {
		if err := os.WriteFile(name, []byte("par"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{dead, blob} {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{1, 0} {
		if n, err := d.Prune(t.Context(), time.Hour); n != want || err != nil {
			t.Errorf("%d removed, want %d: %v", n, want, err)
		}
	}
	if left := files(t, path); len(left) != 2 || slices.Contains(left, dead) {
		t.Errorf("left are %q", left)
	}
}
