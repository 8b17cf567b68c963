//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// traces are what a Run could leave on the host.
type traces struct{ mounts, groups, files string }

func tracesOf(t testing.TB, pid int) traces {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(fmt.Sprintf("%s/%s%d-*", os.TempDir(), groupPrefix, pid))
	return traces{string(mounts), strings.Join(groupsOf(pid), " "), strings.Join(files, " ")}
}

// groupsOf lists the cgroups that a process made.
func groupsOf(pid int) (found []string) {
	all, _ := hierarchies()
	for _, h := range all {
		dirs, _ := filepath.Glob(fmt.Sprintf("%s/%s%d-*", h.dir, groupPrefix, pid))
		found = append(found, dirs...)
	}
	return found
}

// parent is a process that gets killed while it waits for a command. It starts
// a daemon inside too.
func parent(mark string) int {
	d, err := Open(context.Background(), Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	lower, err := os.MkdirTemp("", "lower-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = d.Run(context.Background(), Spec{Lower: lower, Commands: []Command{
		{Argv: []string{"sh", "-c", "setsid sh -c 'sleep 60; : " + mark + "' & echo begun; sleep 60; : " + mark}, Stdout: os.Stdout},
	}})
	fmt.Println(err)
	return 1
}

// startParent starts one and waits until its command is under way.
func startParent(t *testing.T, mark string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "parent", mark)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "begun\n" {
		t.Fatalf("the parent said %q", line)
	}
	eventually(t, "daemon and command run", func() bool { return len(marked(mark)) >= 3 })
	return cmd
}

// keepersOf lists the keepers that a process has started; other processes of
// this host may have their own.
func keepersOf(parent int) (found []int) {
	for _, dir := range marked(keeperName) {
		var pid int
		fmt.Sscanf(dir, "/proc/%d", &pid)
		if of, state := parentOf(pid); pid > 1 && of == parent && state != 'Z' {
			found = append(found, pid)
		}
	}
	return found
}

// These are not parallel: they look at the whole host.

func TestNothingIsLeft(t *testing.T) {
	d := open1(t)
	seconds := fmt.Sprintf("61.0%d", os.Getpid())
	for name, s := range map[string]Spec{
		"normal end": {Commands: []Command{{Argv: []string{"sh", "-c", "echo x >file"}}}, Capture: true},
		"time limit": {Commands: []Command{{Argv: []string{"sh", "-c", "setsid sleep " + seconds + " & sleep " + seconds}, Wall: 200 * time.Millisecond}}},
		"no command": {},
	} {
		before := tracesOf(t, os.Getpid())
		s.Lower, s.SpoolDir = t.TempDir(), t.TempDir()
		if _, err := d.Run(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		if after := tracesOf(t, os.Getpid()); after != before {
			t.Errorf("%s: left %+v\nbefore %+v", name, after, before)
		}
		if left := marked(seconds); len(left) > 0 {
			t.Errorf("%s: processes left: %q", name, left)
		}
		if left := keepersOf(os.Getpid()); len(left) > 0 {
			t.Errorf("%s: keepers left: %d", name, left)
		}
		if entries, _ := os.ReadDir(s.Lower); len(entries) != 0 {
			t.Errorf("%s: the base tree was written to", name)
		}
	}
}

func TestKillOfTheParent(t *testing.T) {
	e := escape(t, "kill -9 of the parent")
	open1(e)
	before := tracesOf(t, 0)
	mark := markOf("the-killed-parent")
	cmd := startParent(t, mark)
	keepers := keepersOf(cmd.Process.Pid)
	if len(keepers) != 1 {
		t.Fatalf("keepers %d, so the test shows nothing", keepers)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	eventually(t, "every process of a killed parent is gone", func() bool {
		return len(marked(mark)) == 0 && startTime(keepers[0]) == "0"
	})
	if after := tracesOf(t, 0); after != before {
		t.Errorf("left %+v\nbefore %+v", after, before)
	}
	if groups := groupsOf(cmd.Process.Pid); asRoot() && len(groups) == 0 {
		t.Log("no cgroup was left to clean up")
	}
	removeStaleGroups()
	left := groupsOf(cmd.Process.Pid)
	e.Check(len(left) == 0, "cgroups left after the clean-up: %q", left)
}

// A keeper that dies, by the kernel's memory killer for example, is our fault
// and not the command's; nothing survives it either.
func TestKillOfTheKeeper(t *testing.T) {
	e := escape(t, "kill -9 of the keeper")
	d := open1(e)
	mark := markOf("the-killed-keeper")
	out := writer(func(p []byte) (int, error) {
		for _, pid := range keepersOf(os.Getpid()) {
			unix.Kill(pid, unix.SIGKILL)
		}
		return len(p), nil
	})
	_, err := d.Run(context.Background(), Spec{Lower: t.TempDir(), Commands: []Command{
		{Argv: []string{"sh", "-c", "setsid sh -c 'sleep 60; : " + mark + "' & echo begun; sleep 60; : " + mark}, Stdout: out},
	}})
	e.Check(reason.CodeOf(err) == reason.InfrastructureFault && strings.Contains(err.Error(), "keeper"), "error %v", err)
	eventually(t, "every process of a killed keeper is gone", func() bool { return len(marked(mark)) == 0 })
}

// Our pids say nothing of a directory that a process of another PID namespace made. It
// stays until no process can need it.
func TestStaleNames(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	pid, start := os.Getpid(), startTime(os.Getpid())
	for name, want := range map[string]bool{
		ownName() + "1":                              false,
		ownName() + "1-more":                         false,
		fmt.Sprintf("remit-%d-%s-1", pid, start):     false, // of an earlier version
		fmt.Sprintf("remit-%d-1-1", pid):             true,  // the number was given again
		"remit.999999999-5." + pidNamespace() + "-1": true,
		"remit.999999999-5.77-1":                     false, // of another namespace
		"remit-999999999-5-1":                        true,
		"remit-999999999-5." + pidNamespace() + "-1": true,
		"remit-999999999-5.77-1":                     false, // of another namespace
		"remit-999999999-5.0-1":                      false, // its maker did not know its namespace
		"remit-999999999-0." + pidNamespace() + "-1": false, // nor its start
		"remit-99999999999999999999-5-1":             false,
		"remit-notours":                              false, // not ours to remove
		"remit-":                                     false,
	} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		info, err := os.Lstat(filepath.Join(dir, name))
		must(t, err)
		if stale(fs.FileInfoToDirEntry(info), now) != want {
			t.Errorf("%q: %v", name, !want)
		}
		if foreign := strings.Contains(name, ".77-"); foreign && !stale(fs.FileInfoToDirEntry(info), now.Add(foreignAge+time.Minute)) {
			t.Errorf("%q is never removed", name)
		}
	}
}

// The name of a process is hostile text in the middle of /proc/PID/stat.
func TestHostileProcessName(t *testing.T) {
	t.Parallel()
	lower := t.TempDir()
	name := "a) S 1 2 (b)"
	must(t, os.Symlink("/bin/sleep", lower+"/"+name))
	cmd := exec.Command(lower+"/"+name, "60")
	must(t, cmd.Start())
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if parent, state := parentOf(cmd.Process.Pid); parent != os.Getpid() || state == 0 {
		t.Errorf("parent %d, state %c", parent, state)
	}
	if start := startTime(cmd.Process.Pid); len(start) < 2 || start == startTime(1) {
		t.Errorf("start time %q", start)
	}
	if parent, _ := parentOf(1 << 30); parent != 0 || startTime(1<<30) != "0" {
		t.Error("a process that does not exist")
	}
}

// What /proc does not tell is no sign that a process is dead.
func TestWhatProcDoesNotTell(t *testing.T) {
	t.Parallel()
	const stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 742879 9 10"
	for name, tc := range map[string]struct {
		stat, want string
		err        error
	}{
		"alive":             {stat, "742879", nil},
		"no such process":   {"", "0", &fs.PathError{Op: "open", Err: unix.ENOENT}},
		"it ended just now": {"", "0", &fs.PathError{Op: "read", Err: unix.ESRCH}},
		"too many files":    {"", "", &fs.PathError{Op: "open", Err: unix.EMFILE}},
		"not allowed":       {"", "", &fs.PathError{Op: "open", Err: unix.EACCES}},
		"empty":             {"", "", nil},
		"cut off":           {stat[:40], "", nil},
	} {
		if got := startOf([]byte(tc.stat), tc.err); got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, tc := range []struct{ self, link, want string }{
		{"7", "pid:[4026531836]", "4026531836"},
		{"1234", "pid:[4026531836]", "0"}, // /proc of the namespace around ours
		{"", "pid:[4026531836]", "0"},
		{"7", "", "0"},
		{"7", "pid:[x]", "0"},
	} {
		if got := namespaceOf(7, tc.self, tc.link); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

// An earlier version removes what begins with remit- and does not go on with the pid
// and the start time of a process that lives. It may clean up beside this one, also
// between the making of a group and the first process in it.
func TestEarlierVersionsLeaveOursAlone(t *testing.T) {
	t.Parallel()
	if name := ownName(); strings.HasPrefix(name, "remit-") {
		t.Errorf("an earlier version removes %s…", name)
	}
}
