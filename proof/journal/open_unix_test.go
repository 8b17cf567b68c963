//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"remit/proof/journal"
)

func TestReadFileOpensOnlyRegularFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "real")
	if err := os.WriteFile(target, content(t), 0o600); err != nil {
		t.Fatal(err)
	}
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink(target, link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe, dir, filepath.Join(dir, "none")} {
		if _, err := journal.ReadFile(path); err == nil {
			t.Errorf("ReadFile(%s) succeeds", filepath.Base(path))
		}
		if w, err := journal.Continue(path); err == nil {
			w.Close()
			t.Errorf("Continue(%s) succeeds", filepath.Base(path))
		}
	}
}
