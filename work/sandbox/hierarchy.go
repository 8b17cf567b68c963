//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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
