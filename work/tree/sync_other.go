//go:build !linux

package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Sync makes what was written below a directory durable, before its name is.
func Sync(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
