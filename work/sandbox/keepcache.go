//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/tree"
)

// cacheEntry matches the names that the go command gives to entries of its
// build cache: an action, an output, and an executable, which lies in a
// directory.
var cacheEntry = form.Lazy(`^[0-9a-f]{2}/[0-9a-f]{64}-(a|d|d/[A-Za-z0-9_][A-Za-z0-9._+-]{0,127})$`)

// isCacheEntry reports whether the path can be one of an entry, which lies in
// the directory that its first byte names. Nothing else is kept.
func isCacheEntry(path string) bool {
	return cacheEntry().MatchString(path) && path[:2] == path[3:5]
}

// openKept makes the directory of Spec.KeepCache, or checks that it is empty
// and the caller's. It returns nil if path is "".
func openKept(path string) (*os.Root, error) {
	if path == "" {
		return nil, nil
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("sandbox: directory for the Go build cache %q: not an absolute path", path)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("sandbox: directory for the Go build cache: %w", err)
	}
	named, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("sandbox: directory for the Go build cache: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("sandbox: directory for the Go build cache: %w", err)
	}
	if err := checkKept(root, named); err != nil {
		root.Close()
		return nil, fmt.Errorf("sandbox: directory for the Go build cache %q: %w", path, err)
	}
	return root, nil
}

func checkKept(root *os.Root, named fs.FileInfo) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if !os.SameFile(info, named) || !isOurs(info) {
		return errors.New("a symbolic link, or of another user")
	}
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if names, err := dir.Readdirnames(1); len(names) > 0 || !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("not empty"), err)
	}
	return root.Chmod(".", 0o700)
}

// keepCache fills the directory when every process of the run is dead, all or
// nothing. runErr is why the commands did not come to their end.
func (r *run) keepCache(ctx context.Context, runErr error) {
	c := &r.result.GoCache
	var err error
	if runErr != nil {
		err = fmt.Errorf("the run did not come to its end: %w", runErr)
	} else {
		c.Files, c.Bytes, err = r.session.keep(ctx, r.kept, r.conf.Keep, r.collect)
	}
	if err != nil {
		c.Files, c.Bytes, c.NotKept = 0, 0, errors.Join(err, empty(r.kept)).Error()
	}
}

// empty removes everything in a directory.
func empty(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, root.RemoveAll(name))
	}
	return err
}

// keep receives what was added to the build cache into a directory. A
// cancellation ends it: nothing is lost that a later run does not make again.
func (s *session) keep(ctx context.Context, into *os.Root, bounds keepBounds, within time.Duration) (files int, bytes int64, err error) {
	err = s.control.SetReadDeadline(time.Now().Add(within))
	if err == nil {
		err = s.send(request{Op: opKeep})
	}
	if err != nil {
		return 0, 0, s.lost(err)
	}
	release := context.AfterFunc(ctx, func() { _ = s.control.SetReadDeadline(time.Now()) })
	defer release()
	files, bytes, err = receiveEntries(s.in, into, bounds)
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = collectLate(within)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = s.lost(err)
	}
	return files, bytes, err
}

// receiveEntries writes the files of a stream, which is believed only within
// the names and bounds of a build cache.
func receiveEntries(from *bufio.Reader, into *os.Root, bounds keepBounds) (files int, bytes int64, err error) {
	d := tree.NewDecoderOf(from, bounds.Bytes)
	for {
		c, err := d.Next()
		if errors.Is(err, io.EOF) {
			return files, bytes, nil
		}
		if err == nil && (c.Kind != tree.File || !isCacheEntry(c.Path)) {
			err = fmt.Errorf("sandbox: %s %q is no entry of a Go build cache", c.Kind, c.Path)
		}
		if err == nil && files == bounds.Files {
			err = tooManyFiles(bounds)
		}
		if err == nil {
			err = putEntry(into, c)
		}
		if err != nil {
			return 0, 0, err
		}
		files, bytes = files+1, bytes+c.Size
	}
}

func tooManyFiles(bounds keepBounds) error {
	return reason.Errorf(reason.ResourceLimit, "sandbox: the commands added more than %d files to the Go build cache", bounds.Files)
}

// putEntry writes one file, which must not be there yet.
func putEntry(into *os.Root, c tree.Change) error {
	if err := into.MkdirAll(path.Dir(c.Path), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if c.Executable {
		mode = 0o755
	}
	content, err := c.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	f, err := into.OpenFile(c.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// keepCache streams what the commands added to the build cache. It is read
// through the merged view, in which an entry is whole: the upper layer has
// only the new time of one that was lent and used.
func (k *keeper) keepCache() error {
	out := tree.NewEncoder(k.control)
	if err := k.eachAdded(out.Encode); err != nil {
		return out.Fail(err)
	}
	return out.Close()
}

// eachAdded visits the entries that no layer below has: what was lent wins over
// what a command put in its place.
func (k *keeper) eachAdded(visit func(tree.Change) error) error {
	head, err := os.OpenRoot(k.cache)
	if err != nil {
		return err
	}
	defer head.Close()
	walk := tree.Comparison{Head: head, Whole: replaces, Bytes: k.setup.Keep.Bytes}
	if k.added != "" {
		if walk.Upper, err = os.OpenRoot(k.added); err != nil {
			return err
		}
		defer walk.Upper.Close()
	}
	files := 0
	return walk.Walk(context.Background(), func(c tree.Change) error {
		if c.Kind != tree.File || !isCacheEntry(c.Path) || k.wasLent(c.Path) {
			return nil
		}
		if files++; files > k.setup.Keep.Files {
			return tooManyFiles(k.setup.Keep)
		}
		return visit(c)
	})
}

// wasLent reports whether a layer below has the entry, be it as a file or as the
// directory of an executable.
func (k *keeper) wasLent(path string) bool {
	entry := path[:len("00/")+64+len("-d")]
	for _, layer := range k.lower {
		if _, err := os.Lstat(filepath.Join(layer, entry)); err == nil {
			return true
		}
	}
	return false
}
