package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// errSwapped means that a name no longer is what Lstat saw a moment before.
var errSwapped = errors.New("entry changed while it was being read")

// lstat returns nil when name does not exist or the directory is nil.
func lstat(dir *os.Root, name string) (fs.FileInfo, error) {
	if dir == nil {
		return nil, nil
	}
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// openDir descends into the directory that seen describes. os.Root follows
// links that stay inside the root, so the opened directory is compared with
// what Lstat saw.
func openDir(parent *os.Root, name string, seen fs.FileInfo) (*os.Root, error) {
	if !seen.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = errSwapped
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// openFile opens the regular file that seen describes, for reading.
func openFile(parent *os.Root, name string, seen fs.FileInfo) (*os.File, error) {
	if !seen.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", name)
	}
	// Without O_NONBLOCK the open of a FIFO that took the place of the file
	// would wait for a writer forever.
	f, err := parent.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && (!opened.Mode().IsRegular() || !os.SameFile(seen, opened)) {
		err = errSwapped
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readNames returns the sorted names in a directory, charging them to b.
func readNames(dir *os.Root, b *budget) ([]string, error) {
	if dir == nil {
		return nil, nil
	}
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for {
		batch, err := f.Readdirnames(1024)
		names = append(names, batch...)
		for range batch {
			if err := b.entry(); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}

func closeRoots(roots ...*os.Root) {
	for _, r := range roots {
		if r != nil {
			r.Close()
		}
	}
}
