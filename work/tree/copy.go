package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"remit/proof/reason"
)

// Owner is given to every copied entry; nil leaves the copying process as owner.
type Owner struct{ UID, GID int }

// Copy copies the regular files, links and directories below src into the
// empty directory dst with their permission bits (setuid, setgid and sticky
// stripped) and returns the number of bytes. Anything else is an error.
func Copy(ctx context.Context, dst, src *os.Root, owner *Owner) (int64, error) {
	c := &copier{ctx: ctx, owner: owner, budget: newBudget()}
	err := c.dir(dst, src, 0)
	return c.bytes, err
}

type copier struct {
	ctx    context.Context
	owner  *Owner
	budget *budget
	bytes  int64
}

func (c *copier) dir(dst, src *os.Root, depth int) error {
	if depth > MaxDepth {
		return reason.Errorf(reason.ResourceLimit, "copy: directories deeper than %d", MaxDepth)
	}
	names, err := readNames(src, c.budget)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	for _, name := range names {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		if err := c.entry(dst, src, name, depth); err != nil {
			return fmt.Errorf("copy %q: %w", name, err)
		}
	}
	return nil
}

func (c *copier) entry(dst, src *os.Root, name string, depth int) error {
	info, err := src.Lstat(name)
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return c.subdir(dst, src, name, info, depth)
	case mode.IsRegular():
		err = c.file(dst, src, name, info)
	case mode&fs.ModeSymlink != 0:
		var target string
		if target, err = src.Readlink(name); err == nil {
			err = dst.Symlink(target, name)
		}
	default:
		return errors.New("neither file, link nor directory")
	}
	if err != nil {
		return err
	}
	return c.chown(dst, name)
}

func (c *copier) subdir(dst, src *os.Root, name string, info fs.FileInfo, depth int) error {
	if err := dst.Mkdir(name, 0o700); err != nil {
		return err
	}
	from, err := openDir(src, name, info)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := dst.OpenRoot(name)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := c.dir(to, from, depth+1); err != nil {
		return err
	}
	if err := c.chown(dst, name); err != nil {
		return err
	}
	return dst.Chmod(name, info.Mode().Perm())
}

func (c *copier) file(dst, src *os.Root, name string, info fs.FileInfo) (err error) {
	from, err := openFile(src, name, info)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := dst.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := to.Close(); err == nil {
			err = cerr
		}
	}()
	n, err := io.Copy(to, from)
	c.bytes += n
	if err != nil {
		return err
	}
	return to.Chmod(info.Mode().Perm())
}

func (c *copier) chown(dst *os.Root, name string) error {
	if c.owner == nil {
		return nil
	}
	return dst.Lchown(name, c.owner.UID, c.owner.GID)
}
