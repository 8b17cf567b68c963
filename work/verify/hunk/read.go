package hunk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"remit/work/tree"
)

// state is what the base has at a path.
type state int

const (
	absent state = iota
	text         // a regular file that can be taken apart, but for its lines
	other        // a directory, a link, a binary or a large file
)

// before reads a file of the base. A directory on the way that is none means
// that there is no such file.
func (p *Patch) before(path string) ([]byte, state, error) {
	info, err := p.base.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, absent, nil
	case err != nil:
		return nil, 0, fmt.Errorf("looking at %q in the base: %w", path, err)
	case !info.Mode().IsRegular():
		return nil, other, nil
	}
	content, isText, err := read(func() (io.ReadCloser, error) { return p.base.Open(path) })
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("reading %q of the base: %w", path, err)
	case !isText:
		return nil, other, nil
	}
	return content, text, nil
}

// textOf reads the file that a change makes, if it is one with lines.
func textOf(c tree.Change) ([]byte, bool, error) {
	if c.Kind != tree.File || c.Open == nil {
		return nil, false, nil
	}
	content, isText, err := read(c.Open)
	if err != nil {
		return nil, false, fmt.Errorf("reading %q of the patch: %w", c.Path, err)
	}
	return content, isText, nil
}

// read returns a content of at most MaxBytes without a NUL byte; false for any
// other.
func read(open func() (io.ReadCloser, error)) ([]byte, bool, error) {
	f, err := open()
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil || len(content) > MaxBytes || bytes.IndexByte(content, 0) >= 0 {
		return nil, false, err
	}
	return content, true, nil
}

// sameMode says whether the change leaves the mode of a file as it is.
func (p *Patch) sameMode(c tree.Change) (bool, error) {
	info, err := p.base.Lstat(c.Path)
	if err != nil {
		return false, fmt.Errorf("looking at %q in the base: %w", c.Path, err)
	}
	return executable(info) == c.Executable, nil
}

func executable(info os.FileInfo) bool { return info.Mode().Perm()&0o100 != 0 }
