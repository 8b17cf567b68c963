package storetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"remit/nexus/store"
)

// migrated is a SQLite store without rows, as a file. Under the race detector
// half of what a small test takes would be its migrations, which are the same
// each time; that they work is what the tests of remit/nexus/store are about.
var migrated = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "remit-template-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "store.db")
	s, err := store.Open(context.Background(), path, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil { // which leaves nothing in the log
		return nil, err
	}
	return os.ReadFile(path)
})

// copyTemplate puts a migrated store where a new one is about to be opened, if there is
// a directory for it: without one, it is the opening that is tested.
func copyTemplate(dsn string) error {
	if strings.Contains(dsn, "://") {
		return nil
	}
	path := strings.TrimPrefix(dsn, "sqlite:")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil //nolint:nilerr // see above
	}
	content, err := migrated()
	if err != nil {
		return fmt.Errorf("make a template: %w", err)
	}
	return os.WriteFile(path, content, 0o600)
}
