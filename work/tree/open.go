package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"remit/proof/reason"
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

// Sockets returns the paths of the unix sockets below root. A socket in a
// directory that is lent to a sandbox is a way out: neither a network
// namespace nor a read-only mount stops a connect to it.
func Sockets(ctx context.Context, root *os.Root) ([]string, error) {
	var found []string
	err := sockets(ctx, root, "", 0, newBudget(), &found)
	return found, err
}

func sockets(ctx context.Context, dir *os.Root, prefix string, depth int, b *budget, found *[]string) error {
	if depth > MaxDepth {
		return reason.Errorf(reason.ResourceLimit, "directories deeper than %d at %q", MaxDepth, prefix)
	}
	f, err := dir.Open(".")
	if err != nil {
		return fmt.Errorf("look for sockets in %q: %w", prefix, err)
	}
	defer f.Close()
	for {
		// ReadDir takes the type from the directory: no stat an entry.
		entries, err := f.ReadDir(512)
		for _, e := range entries {
			if err := b.entry(); err != nil {
				return err
			}
			if e.Type()&fs.ModeSocket != 0 {
				*found = append(*found, prefix+e.Name())
			}
			if e.IsDir() {
				if err := socketsBelow(ctx, dir, prefix, e.Name(), depth, b, found); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("look for sockets in %q: %w", prefix, err)
		}
	}
}

func socketsBelow(ctx context.Context, dir *os.Root, prefix, name string, depth int, b *budget, found *[]string) error {
	sub, err := dir.OpenRoot(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil // then the sandbox, which has no more rights, cannot enter it either
	}
	if err != nil {
		return fmt.Errorf("look for sockets in %q: %w", prefix+name, err)
	}
	defer sub.Close()
	return sockets(ctx, sub, prefix+name+"/", depth+1, b, found)
}
