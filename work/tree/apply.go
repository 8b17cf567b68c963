package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"remit/proof/reason"
)

// Sorted returns a copy of changes in the order in which they must be applied:
// what is gone first, so that a path can turn from a file into a directory.
func Sorted(changes []Change) []Change {
	sorted := slices.Clone(changes)
	slices.SortStableFunc(sorted, func(a, b Change) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Path, b.Path))
	})
	return sorted
}

func rank(c Change) int {
	if c.Kind == Delete {
		return 0
	}
	return 1
}

// Apply writes changes below root, in the order of Sorted. Missing parents are
// created; a symbolic link in the way is never followed but an error
// (symlink_refused). Special changes are an error.
func Apply(ctx context.Context, root *os.Root, changes []Change) error {
	for _, c := range Sorted(changes) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := applyOne(root, c); err != nil {
			return err
		}
	}
	return nil
}

// ApplyStream writes the changes of a stream, which must come in the order of
// Sorted, and returns their number.
func ApplyStream(ctx context.Context, root *os.Root, d *Decoder) (int, error) {
	for n := 0; ; n++ {
		c, err := d.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = applyOne(root, c)
		}
		if err != nil {
			return n, err
		}
	}
}

func applyOne(root *os.Root, c Change) error {
	if !ValidPath(c.Path) {
		return reason.Errorf(reason.PathTraversal, "apply: invalid path %q", c.Path)
	}
	parent, err := descend(root, path.Dir(c.Path), c.Kind != Delete)
	if parent == nil && err == nil {
		return nil // nothing there to delete
	}
	if err == nil {
		defer parent.Close()
		err = put(parent, path.Base(c.Path), c)
	}
	if err != nil {
		return fmt.Errorf("apply %q: %w", c.Path, err)
	}
	return nil
}

// descend opens a directory below root, component by component. Without
// create it returns nil when there is no such directory.
func descend(root *os.Root, dir string, create bool) (*os.Root, error) {
	at, err := root.OpenRoot(".")
	if err != nil || dir == "." {
		return at, err
	}
	for part := range strings.SplitSeq(dir, "/") {
		next, err := step(at, part, create)
		at.Close()
		if next == nil || err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func step(at *os.Root, name string, create bool) (*os.Root, error) {
	info, err := lstat(at, name)
	if err != nil {
		return nil, err
	}
	if info == nil && create {
		if err := at.Mkdir(name, 0o755); err != nil {
			return nil, err
		}
		if info, err = at.Lstat(name); err != nil {
			return nil, err
		}
	}
	switch {
	case info != nil && info.IsDir():
		return openDir(at, name, info)
	case !create:
		return nil, nil
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, reason.Errorf(reason.SymlinkRefused, "parent %q is a symbolic link", name)
	}
	return nil, fmt.Errorf("parent %q is not a directory", name)
}

func put(parent *os.Root, name string, c Change) error {
	if c.Kind != File && c.Kind != Symlink && c.Kind != Delete {
		return fmt.Errorf("cannot write a change of kind %q", c.Kind)
	}
	if err := parent.RemoveAll(name); err != nil {
		return err
	}
	switch c.Kind {
	case File:
		return putFile(parent, name, c)
	case Symlink:
		return parent.Symlink(c.Target, name)
	}
	return nil
}

func putFile(parent *os.Root, name string, c Change) (err error) {
	if c.Open == nil {
		return errors.New("no content")
	}
	content, err := c.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	mode := fs.FileMode(0o644)
	if c.Executable {
		mode = 0o755
	}
	f, err := parent.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	n, err := io.Copy(f, io.LimitReader(content, c.Size+1))
	if err != nil {
		return err
	}
	if n != c.Size {
		return fmt.Errorf("content has not the announced %d bytes", c.Size)
	}
	return f.Chmod(mode) // the umask took part before
}
