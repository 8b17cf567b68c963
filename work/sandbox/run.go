//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// command is one running command as the keeper sees it.
type command struct {
	pid    int
	begun  time.Time
	status chan status // what bwrap said, once its end of the pipe is closed
	inner  chan int    // process 1 of the command's pid namespace, when known
	ended  chan ending // every process of the keeper's namespace is dead
	files  []*os.File  // ours to close after the start
	served []*running  // services that were started for it
}

// status is what bwrap reported as JSON.
type status struct {
	child    int
	exit     int
	executed bool // bwrap writes the exit code only if the program was really executed
}

// code follows the shell: 127 where nothing was executed.
func (s status) code() int {
	if !s.executed {
		return 127
	}
	return s.exit
}

// ending is what wait said about the process that the keeper started.
type ending struct {
	wait  syscall.WaitStatus
	usage syscall.Rusage
}

// killGrace is how long the polite way of killing may take: process 1 of the
// command's namespace goes first, so that bwrap can still report.
const killGrace = 500 * time.Millisecond

// run executes one command and answers when all its processes are dead.
func (k *keeper) run(req request) answer {
	wall := wallOf(req) // also for what the command before left behind
	c, err := k.start(req, wall)
	var service *serviceFailure
	switch {
	case errors.As(err, &service):
		return answer{NotServed: service}
	case errors.Is(err, errMissing):
		return answer{Missing: true}
	case errors.Is(err, errTimeOver), errors.Is(err, errStopped):
		return answer{TimedOut: errors.Is(err, errTimeOver), Exit: 128 + int(syscall.SIGKILL)}
	case err != nil:
		return answer{Failure: failed(err)}
	}
	a := k.await(c, wall)
	a.Micros = time.Since(c.begun).Microseconds()
	a.DiskBytes, a.Services = k.diskUsed(), k.answers(c.served)
	return a
}

// A command can end before it began.
var (
	errTimeOver = errors.New("the time is over")
	errStopped  = errors.New("the parent wants no more")
)

// start begins the command, behind its services. The outputs come over the second
// socket, those of the command first.
func (k *keeper) start(req request, wall <-chan time.Time) (*command, error) {
	n := 2
	if req.Merge {
		n = 1
	}
	fds, err := takeFiles(passFD, n+len(k.setup.Services))
	if err != nil {
		return nil, fmt.Errorf("take outputs: %w", err)
	}
	c := &command{status: make(chan status, 1), inner: make(chan int, 1), ended: make(chan ending, 1)}
	for i, fd := range fds {
		c.files = append(c.files, os.NewFile(uintptr(fd), "output"+strconv.Itoa(i)))
	}
	defer func() {
		for _, f := range c.files {
			f.Close()
		}
	}()
	if k.setup.Confined {
		if err := k.emptyTmp(wall); err != nil {
			return nil, err
		}
		if c.served, err = k.startServices(fds[n:], wall); err != nil {
			k.abandon()
			return nil, err
		}
	}
	c.begun = time.Now()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	c.files = append(c.files, null)
	std := []uintptr{null.Fd(), uintptr(fds[0]), uintptr(fds[n-1])}
	if k.setup.Confined {
		if err = k.startConfined(c, req, std); err != nil && len(c.served) > 0 {
			k.abandon() // the reaper has, if there was one
		}
	} else {
		err = k.startPlain(c, req, std)
	}
	return c, err
}

// view is how a command sees the sandbox.
func (k *keeper) view() view {
	v := view{Env: k.setup.Env, GoCache: k.cache, Binds: k.binds, System: k.system, Links: k.links, Tree: stageWorkspace,
		Image: k.image, As: k.as, KeepNet: k.ownNetwork()}
	if !k.setup.NoMasks {
		v.Masked = slices.DeleteFunc(slices.Clone(masked), func(path string) bool {
			_, err := os.Lstat(path) // a kernel without keys has no list of them
			return err != nil
		})
	}
	return v
}

func (k *keeper) startConfined(c *command, req request, std []uintptr) error {
	tmp, err := k.freshTmp()
	if err != nil {
		return err
	}
	v := k.view()
	v.Dir, v.Tmp = req.Dir, tmp
	pid, statusR, err := k.confine(v, req.Argv, std, k.setup.Rlimits)
	if pid == 0 {
		return err
	}
	c.pid = pid
	go readStatus(statusR, c)
	go reap(c.pid, k.wards, c.ended)
	if err != nil {
		k.killAll()
		<-c.ended
	}
	return err
}

// confine starts a program in a view. With a pid and an error the process is there
// and may not stay.
func (k *keeper) confine(v view, argv []string, std []uintptr, limits rlimits) (pid int, statusR *os.File, err error) {
	var ours []*os.File
	defer func() {
		for _, f := range ours {
			f.Close()
		}
	}()
	argsR, argsW, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	ours = append(ours, argsR, argsW)
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	ours = append(ours, statusW)
	files := append(slices.Clone(std), argsR.Fd(), statusW.Fd())
	v.Status = 4
	if !k.setup.NoFilter {
		filter, err := k.seccompFile()
		if err != nil {
			statusR.Close()
			return 0, nil, err
		}
		if filter != nil {
			ours = append(ours, filter)
			files = append(files, filter.Fd())
			v.Seccomp = 5
		}
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	if k.setup.Root {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(k.setup.RunAs), Gid: uint32(k.setup.RunAs)}
	}
	if pid, err = k.fork(append([]string{"bwrap", "--args", "3", "--"}, argv...), attr); err != nil {
		statusR.Close()
		return 0, nil, fmt.Errorf("start bwrap: %w", err)
	}
	// bwrap does nothing before it has read its options: the time to put it
	// under its limits, before it has a child.
	err = k.limit(pid, limits)
	if err == nil {
		_, err = argsW.Write(nulJoin(bwrapArgs(v)))
	}
	// This process must not stay under limits that a command can exhaust. It
	// leaves while bwrap is busy.
	return pid, statusR, errors.Join(err, moveThread(k.setup.Cgroups.Leave))
}

// fork starts bwrap inside of the run's control groups. Without an error this
// thread is in them, too.
func (k *keeper) fork(argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	groups := k.setup.Cgroups
	if groups.Into != "" {
		dir, err := os.Open(groups.Into)
		if err != nil {
			return 0, err
		}
		defer dir.Close()
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(dir.Fd())
	}
	if err = moveThread(groups.Enter); err == nil {
		pid, err = syscall.ForkExec(k.setup.Bwrap, argv, attr)
	}
	if err != nil {
		return 0, errors.Join(err, moveThread(groups.Leave))
	}
	return pid, nil
}

// emptyTmp removes what the command before, and its services, left in /tmp. It gives up when the time
// of the next one is over, or the parent wants no more: a command can leave more
// files than can be removed by then.
func (k *keeper) emptyTmp(wall <-chan time.Time) error {
	if k.emptied == nil { // else the command before gave up waiting for it
		emptied := make(chan error, 1)
		k.emptied = emptied
		go func() {
			disk, err := os.OpenRoot(stageDisk)
			if err == nil {
				err = errors.Join(disk.RemoveAll("tmp"), disk.RemoveAll(filepath.Base(stageServices)))
				disk.Close()
			}
			emptied <- err
		}()
	}
	for {
		select {
		case err := <-k.emptied:
			k.emptied = nil
			if err != nil {
				return fmt.Errorf("empty /tmp: %w", err)
			}
			return nil
		case <-wall:
			return errTimeOver
		case req := <-k.frames:
			if req.Op == opStop {
				return errStopped
			}
		}
	}
}

// freshTmp makes an empty /tmp.
func (k *keeper) freshTmp() (string, error) {
	tmp := filepath.Join(stageDisk, "tmp")
	return tmp, k.homeIn(tmp)
}

// homeIn makes a directory for /tmp, with the home in it.
func (k *keeper) homeIn(tmp string) error {
	if err := k.ownDir(tmp, 0o777|os.ModeSticky); err != nil {
		return err
	}
	return k.ownDir(filepath.Join(tmp, filepath.Base(insideHome)), 0o755)
}

// seccompFile returns a pipe that holds the filter, nil if there is none here.
func (k *keeper) seccompFile() (*os.File, error) {
	if k.filter == nil {
		return nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.Write(k.filter) // far below the capacity of a pipe
	return r, errors.Join(err, w.Close())
}
