//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Control groups hold a whole process tree, where resource limits hold single
// processes. A Run gets a group of its own below ours in every hierarchy that
// has a controller we need, version 1, version 2 or both.

// cpuPeriod is the scheduler's accounting period in microseconds.
const cpuPeriod = 100_000

// hierarchy is a mounted cgroup tree and our own place in it.
type hierarchy struct {
	dir         string   // directory of our own group
	controllers []string // of cpu, cpuacct, memory, pids
	v2          bool
}

// group is the set of directories of one Run.
type group struct {
	dirs map[string]groupDir // by controller
	made []groupDir
}

type groupDir struct {
	path string
	v2   bool
	own  string // our own group in this hierarchy
}

var groupCount atomic.Int64

// newGroup creates a group with limits. A controller that is missing or not
// ours to write is left out; held says which ones took their limit.
func newGroup(l Limits) (g *group, held map[string]string) {
	g, held = &group{dirs: map[string]groupDir{}}, map[string]string{}
	all, err := hierarchies()
	if err != nil {
		return g, held
	}
	name := ownName() + strconv.FormatInt(groupCount.Add(1), 10)
	for _, h := range all {
		d := groupDir{filepath.Join(h.dir, name), h.v2, h.dir}
		if os.Mkdir(d.path, 0o755) != nil {
			continue
		}
		g.made = append(g.made, d)
		for _, c := range h.controllers {
			g.dirs[c] = d
		}
	}
	for _, c := range []string{"cpu", "memory", "pids"} {
		if d, ok := g.dirs[c]; ok {
			if how := d.limit(c, l); how != "" {
				held[c] = how
			}
		}
	}
	return g, held
}

// limit writes one limit and returns the file that holds it, "" if refused.
func (d groupDir) limit(controller string, l Limits) string {
	quota := max(int64(l.CPUsMilli)*cpuPeriod/1000, 1000) // the kernel's minimum
	memory := strconv.FormatInt(memoryBytes(l), 10)
	var file, value string
	switch {
	case controller == "cpu" && d.v2:
		file, value = "cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod)
	case controller == "cpu":
		if d.write("cpu.cfs_period_us", strconv.Itoa(cpuPeriod)) != nil {
			return ""
		}
		file, value = "cpu.cfs_quota_us", strconv.FormatInt(quota, 10)
	case controller == "memory" && d.v2:
		file, value = "memory.max", memory
		_ = d.write("memory.swap.max", "0") // absent without swap accounting
		_ = d.write("memory.oom.group", "1")
	case controller == "memory":
		file, value = "memory.limit_in_bytes", memory
	default:
		file, value = "pids.max", strconv.Itoa(l.Pids)
	}
	if d.write(file, value) != nil {
		return ""
	}
	if controller == "memory" && !d.v2 {
		_ = d.write("memory.memsw.limit_in_bytes", memory) // absent without swap accounting
	}
	if d.v2 {
		return "cgroup v2 " + file
	}
	return "cgroup v1 " + file
}

// memoryBytes is the limit of the group: a tmpfs is memory, so what may be
// written to disk comes on top of what may be resident.
func memoryBytes(l Limits) int64 { return (int64(l.MemoryMB)+int64(l.DiskMB))<<20 + shmBytes }

func (d groupDir) write(file, value string) error {
	return os.WriteFile(filepath.Join(d.path, file), []byte(value), 0)
}

// joins is how a child gets into the groups at birth. Moving a process that
// lives already takes a lock whose other side is on the path of every fork of
// the machine, which costs milliseconds for each hierarchy. A thread that moves
// itself does not, and its child is born where it is.
type joins struct {
	Enter []string `json:"enter"` // version 1: tasks files of the groups
	Leave []string `json:"leave"` // tasks files of where the keeper was
	Into  string   `json:"into"`  // version 2: directory to clone into
}

func (g *group) joins() (j joins) {
	for _, d := range g.made {
		if d.v2 {
			j.Into = d.path
			continue
		}
		j.Enter = append(j.Enter, filepath.Join(d.path, "tasks"))
		j.Leave = append(j.Leave, filepath.Join(d.own, "tasks"))
	}
	return j
}

// moveThread moves the calling thread, which must be locked.
func moveThread(tasks []string) error {
	for _, file := range tasks {
		if err := os.WriteFile(file, []byte("0"), 0); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	return nil
}

// observed is what the counters said, -1 where there is none.
type observed struct {
	cpuMicros, peakMemory, peakPids, oomKills int64
}

func (g *group) observe() observed {
	o := observed{cpuMicros: -1, peakMemory: -1, peakPids: -1}
	if d, ok := g.dirs["cpuacct"]; ok {
		if n := d.number("cpuacct.usage"); n >= 0 {
			o.cpuMicros = n / 1000
		}
	} else if d, ok := g.dirs["cpu"]; ok && d.v2 {
		o.cpuMicros = d.field("cpu.stat", "usage_usec")
	}
	if d, ok := g.dirs["memory"]; ok {
		if d.v2 {
			o.peakMemory, o.oomKills = d.number("memory.peak"), d.field("memory.events", "oom_kill")
		} else {
			o.peakMemory, o.oomKills = d.number("memory.max_usage_in_bytes"), d.field("memory.oom_control", "oom_kill")
		}
	}
	if d, ok := g.dirs["pids"]; ok {
		o.peakPids = d.number("pids.peak")
	}
	return o
}

func (d groupDir) number(file string) int64 {
	text, err := os.ReadFile(filepath.Join(d.path, file))
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// field reads one line "name value" of a statistics file.
func (d groupDir) field(file, name string) int64 {
	text, err := os.ReadFile(filepath.Join(d.path, file))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key == name {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

// remove deletes the group. The kernel keeps a directory busy for a moment
// after its last process.
func (g *group) remove() error {
	var errs []error
	for _, d := range g.made {
		errs = append(errs, d.remove())
	}
	return errors.Join(errs...)
}

func (d groupDir) remove() error {
	var err error
	for wait := time.Millisecond; wait < 500*time.Millisecond; wait *= 2 {
		if err = unix.Rmdir(d.path); err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		d.kill()
		time.Sleep(wait)
	}
	return fmt.Errorf("remove cgroup %q: %w", d.path, err)
}

// kill ends what is still in the group.
func (d groupDir) kill() {
	if d.v2 && d.write("cgroup.kill", "1") == nil {
		return
	}
	text, err := os.ReadFile(filepath.Join(d.path, "cgroup.procs"))
	if err != nil {
		return
	}
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			kill(pid)
		}
	}
}

var wantedControllers = []string{"cpu", "cpuacct", "memory", "pids"}

// hierarchies finds where we are in each cgroup tree with a controller we use.
func hierarchies() ([]hierarchy, error) {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseHierarchies(string(membership), string(mounts), enableV2), nil
}

// parseHierarchies combines /proc/self/cgroup and /proc/self/mountinfo; v2 is
// asked where below our version 2 group a new one would have which controllers.
func parseHierarchies(membership, mounts string, v2 func(dir string) (string, []string)) []hierarchy {
	var all []hierarchy
	for line := range strings.Lines(membership) {
		// hierarchy-ID:controller,controller:path
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		h := hierarchy{v2: fields[1] == ""}
		for c := range strings.SplitSeq(fields[1], ",") {
			if slices.Contains(wantedControllers, c) {
				h.controllers = append(h.controllers, c)
			}
		}
		if !h.v2 && len(h.controllers) == 0 {
			continue
		}
		if h.dir = mountedAt(mounts, fields[1], fields[2]); h.dir == "" {
			continue
		}
		if h.v2 {
			if h.dir, h.controllers = v2(h.dir); len(h.controllers) == 0 {
				continue
			}
		}
		all = append(all, h)
	}
	return all
}

// mountedAt returns the directory of group path in the hierarchy that has the
// controllers, "" if it is not mounted here.
func mountedAt(mounts, controllers, path string) string {
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(tail) < 3 {
			continue
		}
		root, at := fields[3], fields[4]
		switch {
		case controllers == "" && tail[0] == "cgroup2":
		case controllers != "" && tail[0] == "cgroup" && hasAll(tail[2], controllers):
		default:
			continue
		}
		// A mount may show only a part of the hierarchy.
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return filepath.Join(at, rel)
	}
	return ""
}

func hasAll(options, controllers string) bool {
	have := strings.Split(options, ",")
	for c := range strings.SplitSeq(controllers, ",") {
		if !slices.Contains(have, c) {
			return false
		}
	}
	return true
}

// enableV2 finds a version 2 group whose children have controllers: our own,
// after handing them on as far as allowed, or the one above. A group that has
// processes itself cannot hand on, and ours has at least one unless it is the
// root; the group above, a slice of systemd for example, holds us both.
func enableV2(own string) (dir string, controllers []string) {
	available, err := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	if err != nil {
		return own, nil
	}
	for _, c := range wantedControllers {
		if slices.Contains(strings.Fields(string(available)), c) {
			_ = os.WriteFile(filepath.Join(own, "cgroup.subtree_control"), []byte("+"+c), 0) // the next read tells
		}
	}
	if controllers = handedOn(own); len(controllers) > 0 {
		return own, controllers
	}
	return filepath.Dir(own), handedOn(filepath.Dir(own))
}

func handedOn(dir string) []string {
	enabled, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return nil
	}
	var got []string
	for _, c := range strings.Fields(string(enabled)) {
		if slices.Contains(wantedControllers, c) {
			got = append(got, c)
		}
	}
	return got
}

// removeStaleGroups deletes the groups of processes that were killed before
// they could.
func removeStaleGroups() {
	all, err := hierarchies()
	if err != nil {
		return
	}
	for _, h := range all {
		entries, err := os.ReadDir(h.dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if stale(e, time.Now()) {
				_ = unix.Rmdir(filepath.Join(h.dir, e.Name()))
			}
		}
	}
}
