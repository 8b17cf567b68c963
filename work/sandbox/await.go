//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

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
	end := func() {
		if force == nil {
			k.kill(inner)
			force = time.After(killGrace)
		}
	}
	for {
		select {
		case inner = <-c.inner:
			if force != nil {
				kill(inner)
			}
		case <-wall:
			a.TimedOut = true
			end()
		case req := <-k.frames:
			if req.Op == opStop {
				end()
			}
		case <-force:
			k.killAll()
		case how := <-c.ended:
			k.account(&a, c, how)
			return a
		}
	}
}

// kill begins to kill a command. Confined and not known yet, it is killed as
// soon as bwrap has reported its pid, or after the grace.
func (k *keeper) kill(inner int) {
	switch {
	case !k.setup.Confined:
		k.killAll()
	case inner > 0:
		kill(inner)
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
func reap(pid int, services *wards, ended chan<- ending) {
	var end ending
	for first := true; ; {
		var w syscall.WaitStatus
		var usage syscall.Rusage
		options := 0
		if !first {
			leftovers()
			if os.Getpid() != 1 {
				// A pass can miss some. One signal to a whole namespace cannot:
				// each of its processes is on its way out.
				options = syscall.WNOHANG
			}
		}
		got, err := syscall.Wait4(-1, &w, options, &usage)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			ended <- end
			return
		case got == pid:
			end, first = ending{w, usage}, false
			if shellCode(w) != 0 {
				services.leaving()
			}
		case first:
			services.note(got, w) // it was over before the command was
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
	return int64(st.Blocks-st.Bfree)*st.Bsize - k.copied
}

// account reads the counters after every process is dead and says for each cap
// what became of it. A cap counts as enforced only if the file or call that
// holds it was really written.
func (r *run) account() {
	seen := r.group.observe()
	wall := time.Since(r.begun)
	cpuMicros, peak := seen.cpuMicros, seen.peakMemory
	if cpuMicros < 0 {
		cpuMicros = r.cpu.Microseconds() // what was waited for; strays are missing
	}
	if peak < 0 {
		peak = r.rss // of the largest process
	}
	r.result.OOMKilled = seen.oomKills > 0
	r.result.Usage = Usage{CPUMillis: cpuMicros / 1000, PeakMemoryBytes: peak, WallMillis: wall.Milliseconds()}
	load := int64(-1)
	if wall > 0 {
		load = cpuMicros * 1000 / max(1, wall.Microseconds())
	}
	l, confined := r.spec.Limits, r.conf.Confined
	r.result.Caps = []Cap{
		r.held1("cpu", int64(l.CPUsMilli), load, "no writable cpu cgroup; RLIMIT_CPU holds single processes only"),
		r.held1("memory", memoryBytes(l), seen.peakMemory, "no writable memory cgroup"),
		r.pids(seen.peakPids),
		whole("disk", r.conf.DiskBytes, confined, "size of one tmpfs for workspace, /tmp and build cache", r.disk),
		whole("open_files", int64(l.OpenFiles), confined, "RLIMIT_NOFILE of each process", -1),
		{"output_bytes", l.OutputBytes, true, "counted by the reader, then killed", r.peakOut},
		{"wall", l.Wall.Milliseconds(), true, "timer, then " + r.killing(), wall.Milliseconds()},
	}
	if r.built.PlainNote != "" {
		r.result.Caps = append(r.result.Caps, Cap{"locks", 0, false, "not enforced: " + r.built.PlainNote, -1})
	}
	if !confined {
		r.result.Caps[3].Observed = -1
	}
}

func (r *run) held1(name string, limit, seen int64, otherwise string) Cap {
	if how, ok := r.held[name]; ok {
		if name == "memory" {
			how += ": memory_mb, disk_mb and /dev/shm together"
		}
		return Cap{name, limit, true, how, seen}
	}
	return Cap{name, limit, false, "not enforced: " + otherwise, seen}
}

// pids is held by a cgroup or, for an ordinary user, by a limit that the
// kernel counts for each user namespace since 5.14.
func (r *run) pids(seen int64) Cap {
	limit := int64(r.spec.Limits.Pids)
	switch {
	case r.held["pids"] != "":
		return Cap{"pids", limit, true, r.held["pids"], seen}
	case r.conf.Confined && r.conf.Rlimits.Processes >= 0 && kernelAtLeast(5, 14):
		return Cap{"pids", limit, true, "RLIMIT_NPROC in a user namespace of its own", -1}
	}
	return Cap{"pids", limit, false, "not enforced: no writable pids cgroup", -1}
}

func whole(name string, limit int64, confined bool, how string, seen int64) Cap {
	if !confined {
		return Cap{name, limit, false, "not enforced by driver none", seen}
	}
	return Cap{name, limit, true, how, seen}
}

func (r *run) killing() string {
	if r.conf.Confined {
		return "SIGKILL to the pid namespace"
	}
	return "SIGKILL to every descendant that is found"
}

func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var have [2]int
	part := 0
	for _, b := range u.Release {
		if b >= '0' && b <= '9' {
			have[part] = have[part]*10 + int(b-'0')
			continue
		}
		if part++; part == len(have) {
			break
		}
	}
	return have[0] > major || have[0] == major && have[1] >= minor
}

// nameOf returns SIGKILL and the like, or SIG and the number.
func nameOf(s unix.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(s))
}

// killAll kills every process of the command.
func (k *keeper) killAll() { leftovers() }

// leftovers kills everything that the keeper has below itself. As process 1 of
// its pid namespace one call reaches all of it. The keeper of driver none is
// an ordinary process: it is a subreaper and looks for its descendants.
func leftovers() {
	if os.Getpid() == 1 {
		kill(-1)
		return
	}
	for range 20 { // a fork bomb can outrun one pass
		pids := descendants(os.Getpid())
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			kill(pid)
		}
	}
}

// kill sends SIGKILL. A process that is gone already is as good.
func kill(pid int) { _ = unix.Kill(pid, unix.SIGKILL) }

// descendants returns the living processes below root.
func descendants(root int) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	children := map[int][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		parent, state := parentOf(pid)
		if parent > 0 && state != 'Z' {
			children[parent] = append(children[parent], pid)
		}
	}
	var found []int
	for queue := children[root]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// parentOf reads /proc/PID/stat. The command name in it is in parentheses and
// may contain anything, a closing parenthesis included.
func parentOf(pid int) (parent int, state byte) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	return parent, fields[0][0]
}
