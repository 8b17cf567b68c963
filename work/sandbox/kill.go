//go:build linux

package sandbox

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

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
