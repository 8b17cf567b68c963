package tree

import (
	"bufio"
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
	"time"

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
	if err := f.Chmod(mode); err != nil || !c.Old { // the umask took part before
		return err
	}
	return parent.Chtimes(name, Past, Past)
}

// Past is the time of an old file: older than any checkout, and one that every archive
// can hold.
var Past = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// Spool keeps the content of changed files, one after the other, in a single
// file. That is cheaper than a file each, and no name chosen by the hostile
// side ever reaches the file system.
type Spool struct {
	file *os.File
	path string
	size int64
}

// NewSpool creates the file in dir, readable by the owner only.
func NewSpool(dir string) (*Spool, error) {
	f, err := os.CreateTemp(dir, "changes-*.spool")
	if err != nil {
		return nil, fmt.Errorf("create spool: %w", err)
	}
	return &Spool{file: f, path: f.Name()}, nil
}

// Add copies the content of c and returns c with an Open that reads the copy.
// Changes without content are returned as they are.
func (s *Spool) Add(c Change) (Change, error) {
	if c.Kind != File {
		return c, nil
	}
	r, err := c.Open()
	if err != nil {
		return Change{}, fmt.Errorf("spool %q: %w", c.Path, err)
	}
	defer r.Close()
	n, err := io.Copy(s.file, io.LimitReader(r, c.Size+1))
	if err == nil && n != c.Size {
		err = errSwapped
	}
	if err != nil {
		return Change{}, fmt.Errorf("spool %q: %w", c.Path, err)
	}
	c.Open = section(s.path, s.size, n)
	s.size += n
	return c, nil
}

// Close ends writing. The file stays until its directory is removed.
func (s *Spool) Close() error { return s.file.Close() }

// Discard closes and removes the file.
func (s *Spool) Discard() {
	s.file.Close()
	_ = os.Remove(s.path) // its directory goes anyway
}

// Incomplete reports changes that were not all read: the disk was full, the
// stream was cut off, or a bound was hit. What was read is no change of
// anything, since it is not known what is missing; only its number is reported.
type Incomplete struct {
	Seen int // changes that were read whole
	Err  error
}

func (e *Incomplete) Error() string {
	return fmt.Sprintf("after %d changed path(s): %v", e.Seen, e.Err)
}

// Unwrap returns the cause.
func (e *Incomplete) Unwrap() error { return e.Err }

// ReadInto decodes a whole stream, keeping contents in s. Its error is an
// Incomplete.
func (s *Spool) ReadInto(r *bufio.Reader) ([]Change, error) {
	d := NewDecoder(r)
	var changes []Change
	for {
		c, err := d.Next()
		if errors.Is(err, io.EOF) {
			return changes, nil
		}
		if err == nil {
			c, err = s.Add(c)
		}
		if err != nil {
			return nil, &Incomplete{len(changes), err}
		}
		changes = append(changes, c)
	}
}

type sectionFile struct {
	*io.SectionReader
	io.Closer
}

func section(path string, offset, size int64) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return sectionFile{io.NewSectionReader(f, offset, size), f}, nil
	}
}
