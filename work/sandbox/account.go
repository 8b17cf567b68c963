//go:build linux

package sandbox

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

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
