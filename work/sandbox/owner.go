//go:build linux

package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/form"
)

// What a Run leaves when its process is killed is removed by a later process. The
// name of what it makes says whose it is: remit.PID-START.NAMESPACE-…, where START
// tells two processes with one pid apart and NAMESPACE says whose pids these are.
// Containers may share a cgroup tree or a state directory and not see each other's
// processes: what seems dead there may live.

// groupPrefix is not the "remit-" of earlier versions. These go on removing what has
// that prefix by a rule of their own, and some would take all of ours for left.
const groupPrefix = "remit."

// foreignAge is how old something of another PID namespace is before it is taken
// for left. No Run lasts as long.
const foreignAge = 24 * time.Hour

// ownName begins the names of what this process makes.
func ownName() string {
	return fmt.Sprintf("%s%d-%s.%s-", groupPrefix, os.Getpid(), cmp.Or(startTime(os.Getpid()), "0"), pidNamespace())
}

// pidNamespace is the number of our PID namespace, "0" where /proc does not tell.
var pidNamespace = sync.OnceValue(func() string {
	self, _ := os.Readlink("/proc/self")        // "" is no pid
	link, _ := os.Readlink("/proc/self/ns/pid") // "" has no number
	return namespaceOf(os.Getpid(), self, link)
})

// namespaceOf reads what the links in /proc say of this process. A /proc that has
// another number for it is that of another namespace: it says nothing of our pids.
func namespaceOf(pid int, self, link string) string {
	number := strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]") // pid:[4026531836]
	if _, bad := strconv.ParseUint(number, 10, 64); bad != nil || self != strconv.Itoa(pid) {
		return "0"
	}
	return number
}

// ownedName has the pid, the start time and, of newer versions, the PID namespace.
var ownedName = form.Lazy(`^remit[.-]([0-9]+)-([0-9]+)(?:\.([0-9]+))?-`)

// stale reports whether an entry was left by a process that is dead. What has no
// name of ours is not ours to remove, and where it is not known that the process is
// dead only the age counts.
func stale(e fs.DirEntry, now time.Time) bool {
	m := ownedName().FindStringSubmatch(e.Name())
	if m == nil || !e.IsDir() {
		return false
	}
	if m[2] == "0" || pidNamespace() == "0" || m[3] != "" && m[3] != pidNamespace() {
		info, err := e.Info()
		return err == nil && now.Sub(info.ModTime()) > foreignAge
	}
	pid, err := strconv.Atoi(m[1])
	start := startTime(pid)
	return err == nil && start != "" && start != m[2]
}

// startTime returns the time at which a process began, in ticks since boot:
// with the pid it names a process for good. It is "0" if there is no such process,
// and "" if that cannot be determined, for example because no file can be opened.
func startTime(pid int) string {
	return startOf(os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"))
}

func startOf(stat []byte, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return "0"
	case err != nil:
		return ""
	}
	const field = 22 - 3 // the first field after the name is number 3
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= field {
		return ""
	}
	return string(fields[field])
}
