//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loginAttack takes as much as it gets of something that the kernel counts for
// a user, and prints how much that was and what the next one got.
func loginAttack(what string) int {
	n := 0
	take := map[string]func() error{
		"inotify": func() error { _, err := unix.InotifyInit1(unix.IN_CLOEXEC); return err },
		"signals": func() error { return errnoError(pendSignal()) },
		"queues":  func() error { return errnoError(openQueue(n)) },
		"terminals": func() error {
			_, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
			return err
		},
		"memory": func() error { return lockShared(256 << 10) },
	}[what]
	if what == "signals" {
		runtime.LockOSThread()
		var blocked unix.Sigset_t
		blocked.Val[0] = 1 << (heldSignal - 1)
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, nil); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	var err error
	for ; n < 100_000 && err == nil; n++ {
		err = take()
	}
	fmt.Println(n-1, err)
	return 0
}

// heldSignal is a signal of real time, which queues up.
const heldSignal = 40

// pendSignal sends itself a signal that stays pending.
func pendSignal() syscall.Errno {
	info := struct {
		signo, errno, code int32
		rest               [29]int32
	}{signo: heldSignal, code: -1} // SI_QUEUE
	_, _, errno := syscall.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(os.Getpid()), uintptr(unix.Gettid()), heldSignal, uintptr(unsafe.Pointer(&info)), 0, 0)
	return errno
}

// openQueue makes a message queue of the usual size.
func openQueue(n int) syscall.Errno {
	name, err := unix.BytePtrFromString(fmt.Sprintf("remit-%d", n))
	if err != nil {
		return syscall.EINVAL
	}
	_, _, errno := syscall.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	return errno
}

// lockShared locks memory that is counted for the user and not for a process.
func lockShared(bytes int) error {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, bytes, unix.IPC_CREAT|0o600)
	if err != nil {
		return err
	}
	const lock = 11 // SHM_LOCK
	_, err = unix.SysvShmCtl(id, lock, nil)
	return err
}
