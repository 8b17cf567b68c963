//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// keptGroups says which groups the commands of an ordinary user keep, "" for
// none. As root they are dropped with the uid. An ordinary user cannot drop one:
// the kernel refuses setgroups in a user namespace that the user made, since a
// group can also take rights away. So what is shown and readable for such a
// group can be read inside, whatever identity a command sees.
func keptGroups() string {
	ids, err := os.Getgroups()
	if err != nil {
		return "groups: cannot tell which groups of yours the commands keep: " + err.Error()
	}
	ids = slices.DeleteFunc(ids, func(id int) bool { return id == os.Getegid() })
	if len(ids) == 0 {
		return ""
	}
	slices.Sort(ids)
	names := make([]string, 0, len(ids))
	for _, id := range slices.Compact(ids) {
		name := strconv.Itoa(id)
		if g, err := user.LookupGroupId(name); err == nil {
			name = fmt.Sprintf("%s (%s)", g.Name, name)
		}
		names = append(names, name)
	}
	return "groups: a command can read what is shown to it and readable for your groups " + strings.Join(names, ", ")
}

// As root each concurrent run has a real uid and gid of its own, which own
// nothing on the host: RLIMIT_NPROC counts by real uid, and no run may signal
// another. Processes start at different places of the range; that two meet is
// unlikely and then only makes them share the limit on processes.
const (
	firstUID  = 64242
	uidRange  = 1024 // ends below nobody, 65534
	uidBlocks = 64
)

var uids struct {
	sync.Mutex
	taken map[int]bool
}

// takeUID returns the lowest free uid of this process, so that runs one after
// the other share one and its id-mapping namespace.
func takeUID() int {
	uids.Lock()
	defer uids.Unlock()
	if uids.taken == nil {
		uids.taken = map[int]bool{}
	}
	base := os.Getpid() % uidBlocks * (uidRange / uidBlocks)
	for i := range uidRange {
		if uid := firstUID + (base+i)%uidRange; !uids.taken[uid] {
			uids.taken[uid] = true
			return uid
		}
	}
	return firstUID + base // a thousand runs at once: shared
}

func giveUID(uid int) {
	uids.Lock()
	defer uids.Unlock()
	delete(uids.taken, uid)
}

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

// Some resources of the kernel are counted for a user, over all of its
// processes: who uses them up takes them from every program of the same login,
// other sandboxes included. As root each Run has a uid of its own, so nothing
// but Runs can suffer. For an ordinary user a Run gets a part of what the login
// has, where the kernel can hold that:
//
//	inotify instances, watches   user.max_inotify_* of the keeper's user namespace
//	pending signals, timers      RLIMIT_SIGPENDING
//	POSIX message queues         RLIMIT_MSGQUEUE
//	locked memory                RLIMIT_MEMLOCK
//	keys, AIO contexts           refused by the filter of system calls
//	pseudo-terminals             an instance of devpts with a maximum
//
// What is left is said in [Description.NotEnforced], see notHeldForLogin.

// The part of a Run. Test suites of ordinary projects need a few of each.
const (
	mostSignals   = 4096
	mostQueueSize = 200 << 10 // bytes; two queues of the default size
	mostLocked    = 2 << 20   // bytes
	mostTerminals = 256
	inotifyPart   = 4 // a Run may have one in so many of what the login may have
)

// notHeldForLogin is what a command can use up for the whole login.
const notHeldForLogin = "login: epoll watches, pipe buffers and descriptors on their way through unix sockets are counted for your login: " +
	"a command can use up what your other programs need"

// limitLogin bounds what is counted in the keeper's user namespace. It returns
// what could not be bounded.
func (k *keeper) limitLogin() (notHeld string) {
	if k.setup.Root || k.setup.NoLoginLimits {
		return ""
	}
	var errs []error
	for _, name := range []string{"instances", "watches"} {
		errs = append(errs, limitInotify(name))
	}
	if err := errors.Join(errs...); err != nil {
		return "inotify: a command can use up what your login has: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return ""
}

// limitInotify gives this user namespace a part of what the host allows a user.
func limitInotify(name string) error {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_" + name)
	if err != nil {
		return err
	}
	host, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("max_user_%s: %w", name, err)
	}
	return os.WriteFile("/proc/sys/user/max_inotify_"+name, []byte(strconv.Itoa(max(1, host/inotifyPart))), 0)
}

// mountTerminals makes the pseudo-terminals of the Run.
func (k *keeper) mountTerminals() error {
	if err := os.Mkdir(stageTerminals, 0o755); err != nil {
		return err
	}
	options := fmt.Sprintf("newinstance,ptmxmode=0666,mode=620,max=%d", mostTerminals)
	if err := unix.Mount("devpts", stageTerminals, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("mount pseudo-terminals: %w", err)
	}
	return nil
}
