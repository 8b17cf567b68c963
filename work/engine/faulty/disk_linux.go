//go:build linux

package faulty

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrNoMount says that this process may not mount anything.
var ErrNoMount = errors.New("mounting a file system needs root with CAP_SYS_ADMIN")

// PrivateMounts runs f where no other process sees the mounts, and disappear with
// it, whatever happens to this process.
//
// A mount namespace belongs to a thread: f runs on one of its own, which ends
// with it. Code that f calls sees the mounts; goroutines that it starts see
// them only through files that f has opened.
func PrivateMounts(f func() error) error {
	done := make(chan error, 1)
	go onThreadOfItsOwn(func() {
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err != nil {
			done <- fmt.Errorf("%w: %w", ErrNoMount, err)
			return
		}
		done <- f()
	})
	return <-done
}

// onThreadOfItsOwn runs f, in a goroutine that then ends, on a thread that ends
// with it. The main thread cannot end: it is kept busy while f runs elsewhere.
func onThreadOfItsOwn(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // locked, so the thread is not used again
	}
	defer runtime.UnlockOSThread()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		onThreadOfItsOwn(f)
	}()
	<-ended
}

// FullDisk mounts a tmpfs of so many bytes at a directory, which is made if it
// is not there. It must be called inside PrivateMounts.
func FullDisk(dir string, bytes int) error { return mountTmpfs(dir, bytes, 0) }

// ReadOnlyDisk mounts a read-only tmpfs at a directory, likewise.
func ReadOnlyDisk(dir string) error { return mountTmpfs(dir, 4096, unix.MS_RDONLY) }

func mountTmpfs(dir string, bytes int, flags uintptr) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the mount point: %w", err)
	}
	flags |= unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err := unix.Mount("remit-matrix", dir, "tmpfs", flags, fmt.Sprintf("size=%d,mode=0700", bytes))
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %w", ErrNoMount, err)
	case err != nil:
		return fmt.Errorf("mounting a small disk: %w", err)
	}
	return nil
}

// Unmount takes such a disk away again.
func Unmount(dir string) error { return unix.Unmount(dir, unix.MNT_DETACH) }
