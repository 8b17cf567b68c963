//go:build linux

package sandbox

import (
	"errors"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A keeper needs some milliseconds from its birth to its first request: a new
// process of a large program, and its runtime. So one that has no task yet
// stands by for the next Run, born while something else is under way. It has
// an empty environment, no descriptor but its two sockets, and has mounted
// nothing; everything that makes it the keeper of one Run comes with the
// request, and it never serves a second one. Like any keeper it dies with this
// process, and it ends when no Run has used it for a while.

// standbyLife is how long a keeper stands by. Its mount namespace is a copy of
// ours, which keeps alive what is unmounted here in the meantime.
const standbyLife = time.Minute

// standby is the one keeper of this process that stands by.
var standby struct {
	sync.Mutex
	next *standbyKeeper
}

// standbyKeeper is a keeper that may still be starting.
type standbyKeeper struct {
	mounts int // of /proc/self/mountinfo, opened before the keeper's birth
	uid    int
	expiry *time.Timer

	born    chan struct{} // closed when the fields below are set
	session *session
	err     error
}

// startStandby has a keeper started in the background, unless one stands by.
func startStandby() {
	standby.Lock()
	defer standby.Unlock()
	if standby.next != nil {
		return
	}
	mounts, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // without it a change of the mounts would not be seen
	}
	w := &standbyKeeper{mounts: mounts, uid: os.Geteuid(), born: make(chan struct{})}
	w.expiry = time.AfterFunc(standbyLife, w.dismiss)
	standby.next = w
	go func() {
		w.session, w.err = startKeeper(standbyName, true)
		close(w.born)
	}()
}

// obtainKeeper returns a keeper for one Run: the one that stands by, if there is
// one and it still is what a new one would be, or else a new one.
func obtainKeeper(confined bool) (*session, error) {
	if confined {
		if w := claimStandby(nil); w != nil {
			<-w.born
			usable := w.usable()
			_ = unix.Close(w.mounts)
			if usable {
				return w.session, nil
			}
			w.end()
		}
	}
	return startKeeper(keeperName, confined)
}

// claimStandby takes the keeper that stands by, if it is the one meant.
func claimStandby(meant *standbyKeeper) *standbyKeeper {
	standby.Lock()
	defer standby.Unlock()
	w := standby.next
	if w == nil || meant != nil && w != meant {
		return nil
	}
	standby.next = nil
	w.expiry.Stop()
	return w
}

// dismiss ends the keeper if it still stands by.
func (w *standbyKeeper) dismiss() {
	if claimStandby(w) == nil {
		return
	}
	<-w.born
	_ = unix.Close(w.mounts)
	w.end()
}

func (w *standbyKeeper) end() {
	if w.session != nil {
		w.session.end()
	}
}

// usable reports whether the keeper lives, and whether a new one would see the
// same mounts: a copy of our mount namespace that is out of date would show
// another file system than the host's.
func (w *standbyKeeper) usable() bool {
	if w.err != nil || w.uid != os.Geteuid() {
		return false
	}
	dead := true // until the other end of the socket is seen to be open and silent
	raw, err := w.session.control.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { dead = ready(int(fd), unix.POLLIN) })
	}
	// The kernel reports a change of the mounts as an exceptional condition.
	return err == nil && !dead && !ready(w.mounts, unix.POLLPRI)
}

// ready reports whether one of the events, an error or a hang-up is there. It
// says yes when it cannot tell.
func ready(fd int, events int16) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		n, err := unix.Poll(polled, 0)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || n > 0
		}
	}
}

// rename replaces the name of this process in the list of processes, so that a
// keeper at work can be distinguished from one that stands by. The text of an argument
// lies where the kernel put it and looks it up.
func rename(name string) {
	was := os.Args[0]
	if len(name) > len(was) {
		return
	}
	shown := unsafe.Slice(unsafe.StringData(was), len(was))
	clear(shown)
	copy(shown, name)
}
