package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"remit/proof/reason"
)

// contents are the regular files of a zip or directory.
type contents struct {
	files    []*member
	hashable []*member    // files, and directory entries of a zip
	names    []namedEntry // of everything
	hollow   []string     // directories with no file below them
	complete bool         // false: it could not be listed, so nothing else can be checked
}

// scanDirectory lists every file below root. Symbolic links, devices, sockets
// and pipes are findings, never followed or opened. Names are not checked
// here: the profile depends on them.
func scanDirectory(root *os.Root, lim limits, found *findings) *contents {
	return scanTree(root, lim, func(string) bool { return false }, found)
}

// scanTree is scanDirectory without what leave says, and what lies below it.
func scanTree(root *os.Root, lim limits, leave func(name string) bool, found *findings) *contents {
	c := &contents{complete: true}
	var total int64
	seen := 0 // directories as well: a tree of empty ones must end somewhere
	var dirs []string
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			found.add(reason.ZipUnreadable, name, "%v", err)
			c.complete = false
			return nil
		}
		if name != "." && leave(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if seen++; len(c.names) == lim.entries && !d.IsDir() || seen > 2*lim.entries+1 {
			found.add(reason.ZipTooMany, "", "there are more than %d files, or directories", lim.entries)
			c.complete = false
			return fs.SkipAll
		}
		if d.IsDir() {
			if name != "." {
				dirs = append(dirs, name)
			}
			return nil
		}
		c.names = append(c.names, namedEntry{name: name})
		info, err := root.Lstat(name)
		if err != nil {
			found.add(reason.ZipUnreadable, name, "%v", err)
			c.complete = false
			return nil
		}
		mode := info.Mode()
		switch {
		case mode.Type() == fs.ModeSymlink:
			found.add(reason.EntrySymlink, name, "the file is a symbolic link")
			return nil
		case !mode.IsRegular():
			found.add(reason.EntrySpecial, name, "the file is not regular: %s", mode.Type())
			return nil
		case mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0:
			found.add(reason.EntrySetuid, name, "the file has mode %s", mode)
		}
		f := fileMember(root, name, info)
		total += f.size
		if f.size > lim.entryBytes || total > lim.totalBytes {
			found.add(reason.ZipBomb, name, "%d bytes, %d in all: over the limit", f.size, total)
			f.err = errNotRead
		}
		c.files = append(c.files, f)
		return nil
	})
	if err != nil {
		found.add(reason.ZipUnreadable, ".", "%v", err)
		c.complete = false
	}
	c.hashable = c.files
	used := make(map[string]bool)
	for _, f := range c.names {
		for dir := path.Dir(f.name); dir != "." && !used[dir]; dir = path.Dir(dir) {
			used[dir] = true
		}
	}
	c.hollow = slices.DeleteFunc(dirs, func(dir string) bool { return used[dir] })
	return c
}

// fileMember is a file of a directory as it was when it was listed. Opening
// it later fails when another file, or another size or time, has taken its
// place: what is read is what was hashed.
func fileMember(root *os.Root, name string, listed fs.FileInfo) *member {
	return &member{
		name: name,
		size: listed.Size(),
		exec: listed.Mode()&0o100 != 0,
		open: func() (io.ReadCloser, error) {
			// O_NONBLOCK: a pipe that replaced the file must not hang us.
			f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				return nil, err
			}
			info, err := f.Stat()
			if err == nil && !unchanged(listed, info) {
				err = fmt.Errorf("%q changed while it was being audited", name)
			}
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return f, nil
		},
	}
}

func unchanged(before, after fs.FileInfo) bool {
	return after.Mode().IsRegular() && os.SameFile(before, after) &&
		before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}
