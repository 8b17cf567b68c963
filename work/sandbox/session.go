//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
	"remit/work/tree"
)

// session is the parent's side of a keeper.
type session struct {
	cmd     *exec.Cmd
	control *os.File
	pass    *os.File
	in      *bufio.Reader
	stderr  *head
	writing sync.Mutex    // a stop may cross a request
	over    chan struct{} // closed when the keeper has been waited for
	once    sync.Once
}

// How long the keeper may take for an answer. They only end what is broken:
// the bounds on trees keep an honest keeper far below.
const (
	buildLimit   = 5 * time.Minute  // copying a large tree on a slow disk
	answerGrace  = 30 * time.Second // beyond the time limit of a command
	endGrace     = 300 * time.Millisecond
	collectLeast = 10 * time.Second
	collectMost  = 5 * time.Minute
)

// collectTime is how long reading what the commands left may take: as long as
// they could write it, within bounds. Without it a flood of small files that
// lasted a second would keep the host busy long after.
func collectTime(wall time.Duration) time.Duration { return min(max(wall, collectLeast), collectMost) }

// collectStopped is the same after a command that a limit has stopped. The limit has to
// take effect, and the time that the collection takes does not show whether a flood or
// real work left the files.
func collectStopped(collect time.Duration, ran []CommandResult) time.Duration {
	if n := len(ran); n > 0 && (ran[n-1].TimedOut || ran[n-1].OutputExceeded) {
		return min(collect, collectLeast)
	}
	return collect
}

// collectLate is the error of a collection that did not end in time.
func collectLate(within time.Duration) error {
	return reason.Errorf(reason.ResourceLimit, "reading what the commands left took longer than %s", within).
		WithHint("have them leave fewer files, or raise budget.wall_seconds, which bounds this too")
}

// startKeeper starts our own binary again as a keeper, under one of the names
// for it. A keeper dies with the thread that made it, so a thread that does
// nothing else stays until it has ended.
func startKeeper(name string, confined bool) (s *session, err error) {
	born := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s, err = forkKeeper(name, confined)
		mine := s
		close(born) // s belongs to the caller from here on
		if mine != nil {
			<-mine.over
		}
	}()
	<-born
	return s, err
}

func forkKeeper(name string, confined bool) (*session, error) {
	control, keeperControl, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer keeperControl.Close()
	pass, keeperPass, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		control.Close()
		return nil, err
	}
	defer keeperPass.Close()
	s := &session{
		control: control, pass: pass, in: bufio.NewReaderSize(control, 64<<10),
		stderr: &head{limit: 8 << 10}, over: make(chan struct{}),
	}
	s.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{name}, Env: []string{}, Dir: "/",
		ExtraFiles:  []*os.File{keeperControl, keeperPass},
		Stderr:      s.stderr,
		WaitDelay:   time.Second,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if confined {
		s.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
		if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
			s.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			s.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
			s.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
		}
	}
	if err := s.cmd.Start(); err != nil {
		control.Close()
		pass.Close()
		return nil, err
	}
	return s, nil
}

// socketPair returns our end, with deadlines, and the keeper's.
func socketPair(kind int) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "keeper"), os.NewFile(uintptr(fds[1]), "parent"), nil
}

// end kills the keeper and with it everything that it had. It waits for the end,
// but not for long: the kernel frees each file of the run then, and a command
// that has made a million of them must not delay the caller beyond its limits.
func (s *session) end() {
	s.strike()
	select {
	case <-s.over:
	case <-time.After(endGrace):
	}
	s.control.Close()
	s.pass.Close()
}

// kill ends the keeper, if it has not ended before, and waits for it.
func (s *session) kill() {
	s.strike()
	<-s.over
}

// strike kills the keeper. Nothing can keep it alive; over is closed when it has
// ended.
func (s *session) strike() {
	_ = s.cmd.Process.Kill()
	s.once.Do(func() {
		go func() {
			_ = s.cmd.Wait()
			close(s.over)
		}()
	})
}

func (s *session) send(req request) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeFrame(s.control, req)
}

// receive reads an answer. A keeper that is gone explains itself on stderr.
func (s *session) receive(a *answer, within time.Duration) error {
	err := s.control.SetReadDeadline(time.Now().Add(within))
	if err == nil {
		err = readFrame(s.in, a)
	}
	if err == nil {
		return nil
	}
	return s.lost(err)
}

func (s *session) lost(err error) error {
	s.kill() // after this stderr is complete
	return &reason.Error{
		Code: reason.InfrastructureFault, Err: err,
		Message: fmt.Sprintf("sandbox: the keeper ended unexpectedly (%v, %v): %s", err, s.cmd.ProcessState, s.stderr),
	}
}

// build sends the setup, with the user namespaces that it counts, and the
// changes, and waits for the view.
func (s *session) build(ctx context.Context, conf *setup, userns []*os.File, changes []tree.Change) (answer, error) {
	// A cancelled build has nothing to keep: hang up.
	release := context.AfterFunc(ctx, func() { _ = s.cmd.Process.Kill() })
	defer release()
	var a answer
	err := s.send(request{Op: opSetup, Setup: conf})
	if err == nil && len(userns) > 0 {
		err = passFiles(int(s.pass.Fd()), userns...)
	}
	if err == nil {
		err = s.sendChanges(changes)
	}
	if err == nil || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		err = s.receive(&a, buildLimit) // a keeper that failed early says why
	}
	switch {
	case ctx.Err() != nil:
		return a, context.Cause(ctx)
	case err != nil:
		return a, err
	case a.Failure != nil:
		return a, a.Failure.err("set up the view")
	}
	return a, nil
}

func (s *session) sendChanges(changes []tree.Change) error {
	out := tree.NewEncoder(s.control)
	for _, c := range tree.Sorted(changes) {
		if err := out.Encode(c); err != nil {
			return fmt.Errorf("sandbox: send changes: %w", err)
		}
	}
	return out.Close()
}

// collect receives the changes into spool.
func (s *session) collect(spool *tree.Spool, within time.Duration) ([]tree.Change, error) {
	err := s.control.SetReadDeadline(time.Now().Add(within))
	if err == nil {
		err = s.send(request{Op: opCollect})
	}
	if err != nil {
		return nil, s.lost(err)
	}
	changes, err := spool.ReadInto(s.in)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errors.Join(collectLate(within), err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = s.lost(err)
	}
	return changes, err
}

// head keeps the beginning of what is written to it.
type head struct {
	mu    sync.Mutex
	limit int
	text  []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.add(p)
	return len(p), nil
}

func (h *head) add(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, p[:min(len(p), h.limit-len(h.text))]...)
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.text)
}
