//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeRunUser makes file accesses of this thread those of the run user, so
// that what the keeper writes into the workspace belongs to it and no more can
// be written than it could write itself. The returned function goes back.
func (k *keeper) becomeRunUser() (func() error, error) {
	if !k.setup.Confined || !k.setup.Root {
		return func() error { return nil }, nil
	}
	set := func(uid, gid int) error {
		// The calls report no error; asking with an impossible id tells the
		// current one.
		if uid == 0 {
			_, _ = unix.SetfsuidRetUid(uid)
		}
		_, _ = unix.SetfsgidRetGid(gid)
		_, _ = unix.SetfsuidRetUid(uid)
		if got, _ := unix.SetfsuidRetUid(-1); got != uid {
			return fmt.Errorf("file system uid is %d instead of %d", got, uid)
		}
		return nil
	}
	return func() error { return set(0, 0) }, set(k.setup.RunAs, k.setup.RunAs)
}

// limit sets the resource limits of a process that has not begun yet. As root
// that process has another uid already, and the kernel lets a process without
// CAP_SYS_RESOURCE set the limits of its own real uid only: so this thread
// takes that real uid for the moment and keeps its effective one.
func (k *keeper) limit(pid int, r rlimits) error {
	if !k.setup.Root {
		return setLimits(pid, r)
	}
	if err := setReal(k.setup.RunAs, k.setup.RunAs); err != nil {
		return err
	}
	err := setLimits(pid, r)
	return errors.Join(err, setReal(0, 0))
}

func setLimits(pid int, r rlimits) error {
	for _, l := range []struct {
		name     string
		resource int
		value    int64
	}{
		{"core", unix.RLIMIT_CORE, 0},
		{"nofile", unix.RLIMIT_NOFILE, r.OpenFiles},
		{"fsize", unix.RLIMIT_FSIZE, r.FileBytes},
		{"nproc", unix.RLIMIT_NPROC, r.Processes},
		{"cpu", unix.RLIMIT_CPU, r.CPUSecs},
		{"sigpending", unix.RLIMIT_SIGPENDING, r.Signals},
		{"msgqueue", unix.RLIMIT_MSGQUEUE, r.QueueSize},
		{"memlock", unix.RLIMIT_MEMLOCK, r.Locked},
	} {
		if l.value < 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Prlimit(pid, l.resource, nil, &now); err != nil {
			return fmt.Errorf("prlimit %s: %w", l.name, err)
		}
		value := min(uint64(l.value), now.Max) // no process here may raise one
		both := unix.Rlimit{Cur: value, Max: value}
		if err := unix.Prlimit(pid, l.resource, &both, nil); err != nil {
			return fmt.Errorf("prlimit %s: %w", l.name, err)
		}
	}
	return nil
}

func setReal(uid, gid int) error {
	// Raw calls: they concern this locked thread only, unlike package syscall's.
	const keep = ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(gid), keep, keep); errno != 0 {
		return fmt.Errorf("set real gid: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), keep, keep); errno != 0 {
		return fmt.Errorf("set real uid: %w", errno)
	}
	return nil
}
