package evidence

import (
	"fmt"
	"os"
	"path/filepath"
)

// Write puts the projections into a session directory, each through a
// temporary file and a rename, so that a reader never sees half a document.
// The first failure is returned with the name of the file.
func Write(dir string, set Set) error {
	for _, name := range set.Names() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if err := replaceFile(path, set[name]); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // best effort: the write error is what matters
	}
	return err
}
