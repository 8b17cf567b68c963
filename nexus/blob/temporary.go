package blob

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// temporary makes a new file beside its later name. Its name is no blob's.
func (d *Dir) temporary(dir string) (*os.File, string, error) {
	for {
		name := filepath.Join(dir, "new-"+rand.Text())
		f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
	}
}
