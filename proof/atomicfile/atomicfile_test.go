package atomicfile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"remit/proof/atomicfile"
)

func TestReplace(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(string, []byte, fs.FileMode) error{
		"at once": atomicfile.Replace, "durably": atomicfile.ReplaceDurably,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "a")
			for _, mode := range []fs.FileMode{0o600, 0o644} {
				content := []byte("content of " + mode.String())
				if err := replace(path, content, mode); err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(path)
				info, statErr := os.Stat(path)
				if err != nil || statErr != nil || !bytes.Equal(got, content) || info.Mode() != mode {
					t.Errorf("%s %v %v %v", got, info, err, statErr)
				}
			}
			alone(t, dir, "a")
		})
	}
}

// TestReplaceIsWhole: a reader sees one content or another, and never none.
func TestReplaceIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	contents := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<15)}
	if err := atomicfile.Replace(path, contents[0], 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for _, content := range contents {
		writers.Go(func() {
			for range 100 {
				if err := atomicfile.Replace(path, content, 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	writers.Wait()
	alone(t, dir, "a")
}

// TestReplaceFails: what was there stays, nothing is left beside it, and the error
// names the file that was to be written.
func TestReplaceFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := filepath.Join(dir, "directory")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{taken: fs.ErrExist, filepath.Join(dir, "not", "there"): fs.ErrNotExist} {
		err := atomicfile.ReplaceDurably(path, []byte("new"), 0o600)
		if err == nil || !strings.Contains(err.Error(), "writing "+path+": ") || path != taken && !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	alone(t, dir, "directory")
}

// alone fails the test where something lies in a directory besides one name.
func alone(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("%v, %v", entries, err)
	}
}
