//go:build linux

package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// overlayMarks are the attributes by which an overlay says that a directory of
// the upper layer hides the one below (opaque) or stands for another one
// (redirect, the trace of a rename). Mounts inside a user namespace use the
// user prefix.
var overlayMarks = []string{
	"trusted.overlay.opaque", "trusted.overlay.redirect",
	"user.overlay.opaque", "user.overlay.redirect",
}

// replaces reports whether an upper directory does more than merge with the
// directory below it. Deletions need no look: what is gone is missing in the
// merged view.
func replaces(dir *os.File) (bool, error) {
	for _, name := range overlayMarks {
		var value [1]byte
		_, err := unix.Fgetxattr(int(dir.Fd()), name, value[:])
		switch {
		case err == nil, errors.Is(err, unix.ERANGE): // ERANGE: longer than the buffer
			return true, nil
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPERM):
		default:
			return false, &os.PathError{Op: "getxattr", Path: name, Err: err}
		}
	}
	return false, nil
}

// mountOverlay lays an upper layer over lower, which is one directory or
// several with colons between them, the highest first. All of them are ours; rootOwner becomes the owner of the merged root.
func mountOverlay(lower, upper, work, target string, root, metaCopy bool) error {
	options := "lowerdir=" + lower + ",upperdir=" + upper + ",workdir=" + work
	switch {
	case !root:
		options += ",userxattr"
	case metaCopy:
		// go build refreshes the time stamps of the cache entries it uses:
		// without this each of them would be copied whole.
		options += ",redirect_dir=on,metacopy=on,index=off"
	default:
		options += ",redirect_dir=on,metacopy=off,index=off" // rename(2) of a directory works
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return &os.PathError{Op: "mount overlay", Path: target, Err: err}
	}
	return nil
}

// userXattrs reports whether the file system of dir keeps user attributes,
// which an overlay inside a user namespace needs to replace a directory.
func userXattrs(dir string) bool {
	const probe = "user.remit.probe"
	if unix.Setxattr(dir, probe, []byte("y"), 0) != nil {
		return false
	}
	return unix.Removexattr(dir, probe) == nil
}
