package evidence

import (
	"fmt"
	"os"
	"path/filepath"

	"remit/proof/atomicfile"
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
		if err := atomicfile.Replace(path, set[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}
