package tree

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Sync makes what was written below a directory durable, before its name is. It
// syncs the whole file system: one call for any number of files.
func Sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
