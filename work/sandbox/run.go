//go:build linux

package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// command is one running command as the keeper sees it.
type command struct {
	pid    int
	begun  time.Time
	status chan status // what bwrap said, once its end of the pipe is closed
	inner  chan int    // process 1 of the command's pid namespace, when known
	ended  chan ending // every process of the keeper's namespace is dead
	files  []*os.File  // ours to close after the start
}

// status is what bwrap reported as JSON.
type status struct {
	child    int
	exit     int
	executed bool // bwrap writes the exit code only if the program was really executed
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
	c, err := k.start(req)
	if errors.Is(err, errMissing) {
		return answer{Missing: true}
	}
	if err != nil {
		return answer{Failure: failed(err)}
	}
	a := k.await(c, wallOf(req))
	a.Micros = time.Since(c.begun).Microseconds()
	a.DiskBytes = k.diskUsed()
	return a
}

// start begins the command. The outputs come over the second socket.
func (k *keeper) start(req request) (*command, error) {
	n := 2
	if req.Merge {
		n = 1
	}
	fds, err := takeFiles(passFD, n)
	if err != nil {
		return nil, fmt.Errorf("take outputs: %w", err)
	}
	c := &command{status: make(chan status, 1), inner: make(chan int, 1), ended: make(chan ending, 1), begun: time.Now()}
	for i, fd := range fds {
		c.files = append(c.files, os.NewFile(uintptr(fd), "output"+strconv.Itoa(i)))
	}
	defer func() {
		for _, f := range c.files {
			f.Close()
		}
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	c.files = append(c.files, null)
	std := []uintptr{null.Fd(), uintptr(fds[0]), uintptr(fds[n-1])}
	if k.setup.Confined {
		err = k.startConfined(c, req, std)
	} else {
		err = k.startPlain(c, req, std)
	}
	return c, err
}

func (k *keeper) startConfined(c *command, req request, std []uintptr) error {
	tmp, err := k.freshTmp()
	if err != nil {
		return err
	}
	argsR, argsW, err := os.Pipe()
	if err != nil {
		return err
	}
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return err
	}
	c.files = append(c.files, argsR, argsW, statusW)
	files := append(std, argsR.Fd(), statusW.Fd())
	v := view{Dir: req.Dir, Env: k.setup.Env, Tmp: tmp, GoCache: k.cache, Binds: k.binds, Etc: k.etc, Status: 4}
	if !k.setup.NoFilter {
		filter, err := k.seccompFile()
		if err != nil {
			return err
		}
		if filter != nil {
			c.files = append(c.files, filter)
			files = append(files, filter.Fd())
			v.Seccomp = 5
		}
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	if k.setup.Root {
		attr.Sys.Credential = &syscall.Credential{Uid: runUID, Gid: runGID}
	}
	c.pid, err = syscall.ForkExec(k.setup.Bwrap, append([]string{"bwrap", "--args", "3", "--"}, req.Argv...), attr)
	if err != nil {
		statusR.Close()
		return fmt.Errorf("start bwrap: %w", err)
	}
	go readStatus(statusR, c)
	go reap(c.pid, c.ended)
	// bwrap does nothing before it has read its options: the time to put it
	// into its groups and under its limits, before it has any child.
	err = k.confine(c.pid)
	if err == nil {
		_, err = argsW.Write(nulJoin(bwrapArgs(v)))
	}
	if err != nil {
		k.killAll()
		<-c.ended
	}
	return err
}

func (k *keeper) confine(pid int) error {
	for _, procs := range k.setup.Cgroups {
		if err := os.WriteFile(procs, []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	return k.limit(pid)
}

// freshTmp replaces what the command before left in /tmp.
func (k *keeper) freshTmp() (string, error) {
	disk, err := os.OpenRoot(stageDisk)
	if err != nil {
		return "", err
	}
	defer disk.Close()
	if err := disk.RemoveAll("tmp"); err != nil {
		return "", fmt.Errorf("empty /tmp: %w", err)
	}
	tmp := filepath.Join(stageDisk, "tmp")
	if err := k.ownDir(tmp, 0o777|os.ModeSticky); err != nil {
		return "", err
	}
	return tmp, k.ownDir(filepath.Join(tmp, filepath.Base(insideHome)), 0o755)
}

// seccompFile returns a pipe that holds the filter, nil if there is none here.
func (k *keeper) seccompFile() (*os.File, error) {
	if k.filter == nil {
		if k.filter = seccompProgram(); k.filter == nil {
			return nil, nil
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.Write(k.filter) // far below the capacity of a pipe
	return r, errors.Join(err, w.Close())
}

// readStatus reads bwrap's status lines to their end.
func readStatus(r *os.File, c *command) {
	defer r.Close()
	var s status
	lines := bufio.NewScanner(io.LimitReader(r, 64<<10))
	for lines.Scan() {
		var line struct {
			Child *int `json:"child-pid"`
			Exit  *int `json:"exit-code"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		if line.Child != nil {
			s.child = *line.Child
			c.inner <- s.child
		}
		if line.Exit != nil {
			s.exit, s.executed = *line.Exit, true
		}
	}
	c.status <- s
}

// await waits for the end of a command, its time or the parent's wish.
func (k *keeper) await(c *command, wall <-chan time.Time) (a answer) {
	var inner int
	var force <-chan time.Time
	kill := func() {
		if force == nil {
			k.kill(inner)
			force = time.After(killGrace)
		}
	}
	for {
		select {
		case inner = <-c.inner:
			if force != nil {
				unix.Kill(inner, unix.SIGKILL)
			}
		case <-wall:
			a.TimedOut = true
			kill()
		case req := <-k.frames:
			if req.Op == opStop {
				kill()
			}
		case <-force:
			k.killAll()
		case end := <-c.ended:
			k.account(&a, c, end)
			return a
		}
	}
}

// kill begins to kill a command. Confined and not known yet, it is killed as
// soon as bwrap has told its pid, or after the grace.
func (k *keeper) kill(inner int) {
	switch {
	case !k.setup.Confined:
		k.killAll()
	case inner > 0:
		unix.Kill(inner, unix.SIGKILL)
	}
}

func (k *keeper) account(a *answer, c *command, end ending) {
	a.CPUMicros = (time.Duration(end.usage.Utime.Nano()) + time.Duration(end.usage.Stime.Nano())).Microseconds()
	a.MaxRSSBytes = end.usage.Maxrss << 10
	if !k.setup.Confined {
		a.Started = true
		a.Exit = shellCode(end.wait)
		return
	}
	s := <-c.status
	a.Started, a.Exit = s.executed, s.exit
	if !s.executed {
		a.Exit = shellCode(end.wait)
	}
}

func shellCode(w syscall.WaitStatus) int {
	if w.Signaled() {
		return 128 + int(w.Signal())
	}
	return w.ExitStatus()
}

// reap waits until the process has ended, kills what it left, and reports when
// no other one is left in this pid namespace or below this subreaper.
func reap(pid int, ended chan<- ending) {
	var end ending
	for first := true; ; {
		var w syscall.WaitStatus
		var usage syscall.Rusage
		options := 0
		if !first {
			leftovers()
			options = syscall.WNOHANG
		}
		got, err := syscall.Wait4(-1, &w, options, &usage)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			ended <- end
			return
		case got == pid:
			end, first = ending{w, usage}, false
		case got == 0:
			time.Sleep(time.Millisecond)
		}
	}
}

func (k *keeper) diskUsed() int64 {
	var st unix.Statfs_t
	if !k.setup.Confined || unix.Statfs(stageDisk, &st) != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize
}
