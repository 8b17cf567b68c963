//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
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

// newIDMap makes a user namespace with one mapping: started for a process that
// does nothing, opened, and the process ended.
func newIDMap(m idmap) (*os.File, error) {
	hold := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{holderName}, Env: []string{}, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: m.from.uid, HostID: m.to, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: m.from.gid, HostID: m.to, Size: 1}},
		},
	}
	stdin, err := hold.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := hold.Start(); err != nil {
		return nil, fmt.Errorf("make user namespace: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", hold.Process.Pid))
	stdin.Close()
	_ = hold.Wait() // the namespace is open or it is not
	return f, err
}
