//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"remit/proof/reason"
)

// lockFile takes the exclusive lock that keeps a second store off the same
// SQLite file. The kernel gives it back when the process ends, however it ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the store: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, reason.Errorf(reason.StoreUnavailable, "%w, which holds %q", ErrInUse, path).
			WithHint("one process at a time opens a SQLite store; ask the running `remit serve` over HTTP, or use PostgreSQL for several")
	}
	return nil, fmt.Errorf("lock the store %q: %w", path, err)
}
