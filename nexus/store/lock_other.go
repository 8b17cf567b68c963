//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import (
	"errors"
	"fmt"
	"os"
)

// Without flock(2) nothing keeps two processes off one SQLite file, so only
// PostgreSQL can be the store here.
func lockFile(path string) (*os.File, error) {
	return nil, fmt.Errorf("lock the store %q: this system has no flock: %w", path, errors.ErrUnsupported)
}
