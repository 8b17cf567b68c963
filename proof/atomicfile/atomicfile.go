// Package atomicfile replaces a file as a whole. The content is written to a
// temporary file in the same directory, which is then renamed: a reader sees the old
// content or the new one, never half of either, and after an error the old file is
// still there.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Prefix begins the names of the temporary files. A process that is killed while it
// writes leaves one behind.
const Prefix = ".new-"

// Replace writes content to the file at path, with the given permissions. It does not
// wait for the disk: after a power failure the file may be the old one, or empty. Use
// it for what can be made again.
func Replace(path string, content []byte, mode fs.FileMode) error {
	return replace(path, content, mode, false)
}

// ReplaceDurably is [Replace] for what must not be lost: when it returns, the content
// and the name are on disk, as far as the file system can say so.
func ReplaceDurably(path string, content []byte, mode fs.FileMode) error {
	if err := replace(path, content, mode, true); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func replace(path string, content []byte, mode fs.FileMode, durable bool) error {
	f, err := os.CreateTemp(filepath.Dir(path), Prefix+"*") // with mode 0600
	if err != nil {
		return writing(path, err)
	}
	_, err = f.Write(content)
	if err == nil && mode != 0o600 {
		err = f.Chmod(mode)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(writing(path, err), os.Remove(f.Name()))
	}
	return nil
}

// writing says which file an error is about: an error of the system names the
// temporary one.
func writing(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = fmt.Errorf("%s: %w", at.Op, at.Err)
	}
	return fmt.Errorf("writing %s: %w", path, err)
}

// SyncDir waits until the names in a directory are on disk. Not every file system can
// do that; one that cannot is no error.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	defer d.Close() // it was only read
	if err := d.Sync(); err != nil && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	return nil
}
