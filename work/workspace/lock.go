package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how often a lock that another process holds is tried again. Only a build of the same tree is waited for.
const lockWait = 5 * time.Millisecond

var errLocked = errors.New("locked")

// fileLock is an advisory lock on a file of the cache. The kernel drops it when the process ends, however it ends.
type fileLock struct{ f *os.File }

// tryLock takes a lock (unix.LOCK_SH or LOCK_EX) or fails with errLocked.
func tryLock(path string, how int) (*fileLock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("locking the cache: %w", err)
		}
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, errLocked
			}
			return nil, fmt.Errorf("locking the cache: %w", err)
		}
		// A trim removes lock files: a lock on a file that is gone protects nothing.
		mine, err1 := f.Stat()
		now, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, now) {
			return &fileLock{f: f}, nil
		}
		f.Close()
	}
}

// waitLock is tryLock until it succeeds or ctx ends.
func waitLock(ctx context.Context, path string, how int) (*fileLock, error) {
	for {
		l, err := tryLock(path, how)
		if !errors.Is(err, errLocked) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockWait):
		}
	}
}

// touch sets the time of last use.
func (l *fileLock) touch() {
	now := time.Now()
	_ = os.Chtimes(l.f.Name(), now, now) // only the order of trimming depends on it
}

func (l *fileLock) release() { l.f.Close() }
