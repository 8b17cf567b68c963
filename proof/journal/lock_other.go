//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package journal

import (
	"errors"
	"fmt"
	"os"
)

// Without flock(2) nothing keeps two writers apart, so journals can only be
// read here.
func lock(_ *os.File, path string) error {
	return fmt.Errorf("write journal %q: this system has no flock: %w", path, errors.ErrUnsupported)
}

func unlock(*os.File) error { return nil }

func setAppend(*os.File) error { return errors.ErrUnsupported }

// Busy reports whether a writer holds the journal at path. This system cannot
// tell; the error is an [errors.ErrUnsupported].
func Busy(path string) (bool, error) {
	return false, fmt.Errorf("probe the lock of journal %q: this system has no flock: %w", path, errors.ErrUnsupported)
}

// openRegular opens an existing regular file and not what a link points to.
func openRegular(path string, flag int) (*os.File, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if !before.Mode().IsRegular() {
		return nil, notRegular(path)
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return regular(f, path)
}
