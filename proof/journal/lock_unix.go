//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package journal

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// lockAttempts and lockPause bound how long a writer waits for the lock: half a
// second. A [Busy] probe holds it for microseconds, and a process that was forked
// while the journal was open holds it until it executes its program, which takes
// up to some hundred milliseconds on a busy machine. Any other holder is a writer.
const (
	lockAttempts = 100
	lockPause    = 5 * time.Millisecond
)

// Busy reports whether a writer holds the journal at path. The answer can be
// out of date when it arrives: only [Continue] decides who writes.
func Busy(path string) (bool, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer func() { _ = lockedFile{f}.Close() }() // nothing was written
	// A shared lock, so that two probes do not take each other for a writer.
	switch err := flock(f, unix.LOCK_SH); {
	case err == nil:
		return false, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	default:
		return false, fmt.Errorf("probe the lock of journal %q: %w", path, err)
	}
}

// lock takes the writer's lock. [unlock] gives it back, and so does the kernel when
// the process dies.
func lock(f *os.File, path string) error {
	for attempt := 1; ; attempt++ {
		err := flock(f, unix.LOCK_EX)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock journal %q: %w", path, err)
		case attempt == lockAttempts:
			return &reason.Error{
				Code: reason.SessionBusy, Message: "another process is writing this journal", File: path,
				Hint: "wait for that run to end, or stop it", Err: err,
			}
		}
		time.Sleep(lockPause)
	}
}

func unlock(f *os.File) error { return flock(f, unix.LOCK_UN) }

// flock tries once and does not wait.
func flock(f *os.File, how int) error {
	return control(f, func(fd int) error {
		for {
			if err := unix.Flock(fd, how|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
}

// setAppend sets O_APPEND on an open file.
func setAppend(f *os.File) error {
	return control(f, func(fd int) error {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return err
		}
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_APPEND)
		return err
	})
}

func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if controlErr := raw.Control(func(fd uintptr) { err = do(int(fd)) }); controlErr != nil {
		return controlErr
	}
	return err
}

// openRegular opens an existing regular file. A journal can come from a
// stranger: it does not follow a symbolic link and does not block on a pipe.
func openRegular(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return regular(f, path)
}
