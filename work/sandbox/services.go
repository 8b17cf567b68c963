//go:build linux

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// serviceSetup is a Service as the keeper starts it.
type serviceSetup struct {
	Name    string            `json:"name"`
	Prepare string            `json:"prepare,omitempty"`
	Run     string            `json:"run"`
	Ready   string            `json:"ready"`
	Env     map[string]string `json:"env"`
	Micros  int64             `json:"micros"`
}

// serviceAnswer is what became of one.
type serviceAnswer struct {
	Micros int64 `json:"micros"` // until it was ready
	Ended  bool  `json:"ended,omitempty"`
	Exit   int   `json:"exit,omitempty"`
}

// serviceFailure is why a command was not started.
type serviceFailure struct {
	Index int    `json:"index"`
	Step  string `json:"step"` // see the constants
	Exit  int    `json:"exit"` // of Prepare or Run, with stepPrepare and stepRun
	Late  bool   `json:"late"` // it did not end, or was not ready, in its time
}

// The steps of a service.
const (
	stepPrepare = "prepare"
	stepRun     = "run"
	stepReady   = "ready"
)

func (f *serviceFailure) Error() string { return "service not started: " + f.Step }

// running is a service that was started.
type running struct {
	pid    int
	over   chan status // bwrap's last word, once it is over
	micros int64
}

// The delays between two times that a service is asked whether it is ready. The
// first is short: most services need a tenth of a second.
const (
	firstDelay = 10 * time.Millisecond
	lastDelay  = 500 * time.Millisecond
)

func servicePlace(i int, what string) string {
	return filepath.Join(stageServices, strconv.Itoa(i), what)
}

// startServices starts the services one after the other, each behind the one before
// it is ready. What it started is killed with everything else: by the reaper behind
// the command, or by abandon if there is none.
func (k *keeper) startServices(logs []int, wall <-chan time.Time) ([]*running, error) {
	var started []*running
	k.wards = &wards{map[int]int{}, map[int]int{}}
	if len(k.setup.Services) == 0 {
		return nil, nil
	}
	if err := os.Mkdir(stageServices, 0o755); err != nil {
		return nil, err
	}
	for i, s := range k.setup.Services {
		begun := time.Now()
		if err := errors.Join(os.Mkdir(servicePlace(i, ""), 0o755), k.homeIn(servicePlace(i, "tmp")), k.ownDir(servicePlace(i, "cache"), 0o700)); err != nil {
			return started, err
		}
		w := waiting{k: k, wall: wall, services: started}
		if s.Prepare != "" {
			if err := w.prepare(i, s, logs[i]); err != nil {
				return started, err
			}
		}
		run, err := k.help(i, s.Run, logs[i])
		if err != nil {
			return started, err
		}
		started = append(started, run)
		k.wards.index[run.pid] = i
		w.services = started
		if err := w.ready(i, s, logs[i]); err != nil {
			return started, err
		}
		run.micros = time.Since(begun).Microseconds()
	}
	return started, nil
}

// help starts one command line of a service.
func (k *keeper) help(i int, line string, log int) (*running, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	v := k.view()
	v.Env, v.Tmp, v.GoCache = k.setup.Services[i].Env, servicePlace(i, "tmp"), servicePlace(i, "cache")
	v.Tree, v.TreeReadOnly, v.Binds = stageServed, true, k.served
	limits := k.setup.Rlimits
	limits.Processes = k.setup.Helpers
	pid, statusR, err := k.confine(v, []string{"sh", "-c", "--", line}, []uintptr{null.Fd(), uintptr(log), uintptr(log)}, limits)
	if pid == 0 {
		return nil, err
	}
	c := &command{status: make(chan status, 1), inner: make(chan int, 1)}
	go readStatus(statusR, c)
	return &running{pid: pid, over: c.status}, err
}

// waiting is for something while services run.
type waiting struct {
	k        *keeper
	wall     <-chan time.Time
	services []*running
}

// errLate says that what was waited for did not come in its time.
var errLate = errors.New("not in time")

// until waits for the end of h, or only for the time to be over where it is nil.
func (w waiting) until(h *running, late time.Duration) (status, error) {
	w.k.wards.reapEnded()
	var over, lost chan status
	if h != nil {
		over = h.over
	}
	if n := len(w.services); n > 0 {
		lost = w.services[n-1].over // an earlier one that is over is found behind the command
	}
	failed := func(s status) (status, error) {
		return s, &serviceFailure{Index: len(w.services) - 1, Step: stepRun, Exit: s.code()}
	}
	select { // of several that are ready this one counts
	case s := <-lost:
		return failed(s)
	default:
	}
	timer := time.After(late)
	for {
		select {
		case s := <-over:
			return s, nil
		case s := <-lost:
			return failed(s)
		case <-timer:
			return status{}, errLate
		case <-w.wall:
			return status{}, errTimeOver
		case req := <-w.k.frames:
			if req.Op == opStop {
				return status{}, errStopped
			}
		}
	}
}

func (w waiting) prepare(i int, s serviceSetup, log int) error {
	h, err := w.k.help(i, s.Prepare, log)
	if err != nil {
		return err
	}
	w.services = nil // an earlier one is not this one's matter
	how, err := w.until(h, time.Duration(s.Micros)*time.Microsecond)
	switch {
	case errors.Is(err, errLate):
		return &serviceFailure{Index: i, Step: stepPrepare, Late: true}
	case err != nil:
		return err
	case how.code() != 0:
		return &serviceFailure{Index: i, Step: stepPrepare, Exit: how.code()}
	}
	return w.gone(how)
}

// gone waits until nothing is left of a line that has ended: the first process of its
// namespace is killed when bwrap ends, but not at once, and a process that it has left
// in the background could answer in the place of the service.
func (w waiting) gone(how status) error {
	alive := func() bool {
		kill(how.child)
		w.k.wards.reapEnded()
		return unix.Kill(how.child, 0) == nil
	}
	for how.child > 0 && alive() {
		if _, err := w.until(nil, firstDelay); !errors.Is(err, errLate) {
			return err
		}
	}
	return nil
}

// ready asks again and again. An answer counts only while the service itself runs.
func (w waiting) ready(i int, s serviceSetup, log int) error {
	deadline := time.Now().Add(time.Duration(s.Micros) * time.Microsecond)
	for delay := firstDelay; time.Now().Before(deadline); delay = min(2*delay, lastDelay) {
		h, err := w.k.help(i, s.Ready, log)
		if err != nil {
			return err
		}
		how, err := w.until(h, time.Until(deadline))
		if errors.Is(err, errLate) {
			break
		}
		if err != nil {
			return err
		}
		pause := delay
		if how.code() == 0 {
			pause = 0 // long enough to see whether the service is there
		}
		if _, err = w.until(nil, pause); !errors.Is(err, errLate) {
			return err
		}
		if how.code() == 0 {
			return nil
		}
	}
	return &serviceFailure{Index: i, Step: stepReady, Late: true}
}

// wards are the services whose end the keeper has to notice, by pid. The reaper has
// them once a command runs.
type wards struct {
	index map[int]int // pid to place in the list
	ended map[int]int // place to exit code
}

func (w *wards) note(pid int, how syscall.WaitStatus) {
	if i, ok := w.index[pid]; ok {
		w.ended[i] = shellCode(how)
	}
}

// leaveTime is how long a service is waited for whose command has failed.
const leaveTime = 200 * time.Millisecond

// leaving records the services that end after a failed command. The command may have
// failed because they were asked to end and are still stopping.
func (w *wards) leaving() {
	end := time.Now().Add(leaveTime)
	for w.reapEnded(); len(w.ended) < len(w.index) && time.Now().Before(end); w.reapEnded() {
		time.Sleep(time.Millisecond)
	}
}

// reapEnded takes note of what has ended, so that no dead process counts as one.
func (w *wards) reapEnded() {
	for {
		var how syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &how, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		w.note(pid, how)
	}
}

// abandon kills what was started when there is no command whose reaper would.
func (k *keeper) abandon() {
	k.killAll()
	for {
		_, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return // none is left
		}
	}
}

// answers say what became of the services of a command that has ended.
func (k *keeper) answers(started []*running) []serviceAnswer {
	out := make([]serviceAnswer, len(started))
	for i, s := range started {
		out[i].Micros = s.micros
		out[i].Exit, out[i].Ended = k.wards.ended[i]
	}
	return out
}

// mountServed makes the view of the base that services have.
func (k *keeper) mountServed() error {
	if len(k.setup.Services) == 0 {
		return nil
	}
	for i, b := range k.binds { // those of the Spec are the command's
		if i < k.setup.Tools || b.Inside == insideModCache {
			k.served = append(k.served, b)
		}
	}
	if err := os.Mkdir(stageServed, 0o755); err != nil {
		return err
	}
	below := stageLower
	if k.setup.Served != nil {
		below = stageTheirs
	}
	if len(k.setup.Layers) == 0 {
		return unix.Mount(below, stageServed, "", unix.MS_BIND, "")
	}
	options := "lowerdir=" + k.stagedLowers(below)
	if !k.setup.Root {
		options += ",userxattr"
	}
	if err := unix.Mount("overlay", stageServed, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "show the layers to services: %w", err)
	}
	return nil
}

// shareProcesses divides the limit where no control group holds it: the kernel
// counts for each user namespace, and each service has its own, beside one for the
// line at hand that prepares one or asks it.
func (s *setup) shareProcesses() {
	n := int64(len(s.Services))
	if n == 0 || s.Rlimits.Processes < 0 {
		return
	}
	s.Helpers = max(1, s.Rlimits.Processes/2/(n+1))
	s.Rlimits.Processes = max(1, s.Rlimits.Processes/2)
}
