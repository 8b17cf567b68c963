//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// owner is who a host file belongs to.
type owner struct{ uid, gid int }

func ownerOf(path string) (owner, error) {
	info, err := os.Stat(path)
	if err != nil {
		return owner{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, fmt.Errorf("no owner of %q", path)
	}
	return owner{int(st.Uid), int(st.Gid)}, nil
}

// idmaps keeps one user namespace for each owner whose files are shown to the
// run user as its own. A namespace is kept alive by its descriptor alone.
type idmaps struct {
	mu   sync.Mutex
	open map[idmap]*os.File // nil value: the host refuses
}

type idmap struct {
	from owner
	to   int // uid and gid
}

// get returns the namespace that shows the files of o as those of to, nil if
// the host makes none.
func (m *idmaps) get(o owner, to int) *os.File {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := idmap{o, to}
	if f, known := m.open[key]; known {
		return f
	}
	f, err := newIDMap(key)
	if err != nil {
		f = nil
	}
	if m.open == nil {
		m.open = map[idmap]*os.File{}
	}
	m.open[key] = f
	return f
}

// newIDMap makes a user namespace with one mapping: a process is born in it,
// and killed as soon as the namespace is open. It is our own program, which
// waits for its end without a thing to do.
func newIDMap(m idmap) (*os.File, error) {
	runtime.LockOSThread() // the process dies with the thread that made it
	defer runtime.UnlockOSThread()
	held, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer held.Close()
	defer hold.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{holderName}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{held.Fd()},
		Sys: &syscall.SysProcAttr{
			Pdeathsig:   syscall.SIGKILL,
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: m.from.uid, HostID: m.to, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: m.from.gid, HostID: m.to, Size: 1}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make user namespace: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	kill(pid)
	for errors.Is(waitFor(pid), syscall.EINTR) {
	}
	return f, err
}

func waitFor(pid int) error {
	_, err := syscall.Wait4(pid, nil, 0, nil)
	return err
}
