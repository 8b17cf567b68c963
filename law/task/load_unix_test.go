//go:build unix

package task

import (
	"path/filepath"
	"syscall"
	"testing"

	"remit/proof/reason"
)

// A FIFO in the place of a task file would hang the program that opens it.
func TestLoadDoesNotWaitForFIFO(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "task.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); reason.CodeOf(err) != reason.ContractUnreadable {
		t.Errorf("got %v", err)
	}
}
