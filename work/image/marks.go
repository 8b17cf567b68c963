package image

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// mark writes whiteouts in the form that an overlay reads: a device 0/0 hides a
// name of the layers below, an attribute on a directory all of its names there.
// What the layer itself has under the name stays: as a file it covers what is
// below anyway, and as a directory it must not be merged with it.
func (u *unpacker) mark() error {
	for _, at := range slices.Sorted(maps.Keys(u.hidden)) {
		info, err := u.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := u.inDir(path.Dir(at), func(dir *os.File) error {
				return unix.Mknodat(int(dir.Fd()), path.Base(at), unix.S_IFCHR|0o600, 0)
			}); err != nil {
				return unfit("make the device that hides a file", err)
			}
		case err != nil:
			return unusable(err)
		case info.IsDir():
			u.emptied[at] = true
		}
	}
	for _, at := range slices.Sorted(maps.Keys(u.emptied)) {
		if at == "." {
			u.meta.OpaqueRoot = true // an overlay merges roots whatever they are marked with
			continue
		}
		if err := u.inDir(at, func(dir *os.File) error {
			return unix.Fsetxattr(int(dir.Fd()), "user.overlay.opaque", []byte("y"), 0)
		}); err != nil {
			return unfit("mark a directory as emptied", err)
		}
	}
	return nil
}

func (u *unpacker) inDir(at string, do func(*os.File) error) error {
	dir, err := u.root.Open(at)
	if err != nil {
		return err
	}
	return errors.Join(do(dir), dir.Close())
}

func unfit(what string, err error) error {
	return reason.Errorf(reason.ImageStoreUnfit, "the file system of the store does not let Remit %s: %w", what, err)
}

// touch sets the time of modification of an open file.
func touch(f *os.File, t time.Time) error {
	tv := []unix.Timeval{unix.NsecToTimeval(t.UnixNano()), unix.NsecToTimeval(t.UnixNano())}
	return unix.Futimes(int(f.Fd()), tv)
}
